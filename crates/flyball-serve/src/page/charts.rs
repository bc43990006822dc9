//! Small drawings, as elements with attributes: how a value went, shares, decisions by minute.

use maud::{Markup, html};

/// How many values a line shows.
const POINTS: usize = 24;
/// The place of a line: 96 by 22.
const WIDTH: i64 = 96;
const HEIGHT: i64 = 22;
const EDGE: i64 = 3;

/// How a value went, as a small line; the newest at the right, with a dot.
pub(super) fn spark(values: &[i64], told: &str) -> Markup {
    let shown = values.get(values.len().saturating_sub(POINTS)..).unwrap_or_default();
    let (low, high) = (shown.iter().min().copied().unwrap_or(0), shown.iter().max().copied().unwrap_or(0));
    let span = i128::from(high).saturating_sub(i128::from(low)).max(1);
    let steps = i64::try_from(shown.len()).unwrap_or(1).saturating_sub(1).max(1);
    let place = |(at, value): (usize, &i64)| {
        let x = EDGE + i64::try_from(at).unwrap_or(0) * (WIDTH - 2 * EDGE) / steps;
        let up = (i128::from(*value) - i128::from(low)) * i128::from(HEIGHT - 2 * EDGE) / span;
        (x, HEIGHT - EDGE - i64::try_from(up).unwrap_or(0))
    };
    let points: Vec<(i64, i64)> = shown.iter().enumerate().map(place).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    html! {
        @if points.len() > 1 {
            svg.spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(told) {
                polyline points=(path.join(" ")) {}
                @if let Some((x, y)) = points.last() { circle cx=(x) cy=(y) r="2.5" {} }
            }
        }
    }
}

/// A share of a whole as a bar; from four fifths on it is near its end.
pub(super) fn bar(used: u64, limit: u64) -> Markup {
    let limit = limit.max(1);
    let permille = u64::try_from(u128::from(used) * 1000 / u128::from(limit)).unwrap_or(1000).min(1000);
    let class = match permille {
        0..800 => "fill",
        800..1000 => "fill near",
        _ => "fill full",
    };
    html! {
        svg.bar viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="1000" height="12" {}
            rect class=(class) width=(permille) height="12" {}
        }
    }
}

/// Decisions by minute as columns, the refused ones on top.
pub(super) fn columns(minutes: &[[u64; 4]], told: &str) -> Markup {
    const STEP: u64 = 10;
    const TALL: u64 = 100;
    let most = minutes.iter().map(|minute| minute.iter().sum::<u64>()).max().unwrap_or(0).max(1);
    let wide = minutes.len() as u64 * STEP;
    html! {
        svg.columns viewBox=(format!("0 0 {wide} {TALL}")) preserveAspectRatio="none" role="img" aria-label=(told) {
            @for (at, minute) in minutes.iter().enumerate() {
                @let x = at as u64 * STEP + 1;
                @let parts = stacked(minute, most, TALL);
                @for (class, y, height) in parts {
                    rect class=(class) x=(x) y=(y) width=(STEP - 2) height=(height) {}
                }
            }
        }
    }
}

/// The parts of a column from the bottom up: class, top and height.
fn stacked(minute: &[u64; 4], most: u64, tall: u64) -> Vec<(&'static str, u64, u64)> {
    let mut bottom = tall;
    let mut parts = Vec::new();
    for (class, count) in ["allow", "warn", "block", "halt"].into_iter().zip(minute) {
        if *count > 0 {
            // Whatever is there is seen, however little it is.
            let height = (count.saturating_mul(tall) / most).max(1).min(bottom);
            bottom -= height;
            parts.push((class, bottom, height));
        }
    }
    parts
}
