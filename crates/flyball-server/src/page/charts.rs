//! Small SVG charts: sparklines, bars and columns.

use maud::{Markup, html};

/// Maximum number of values in a sparkline.
const MAX_POINTS: usize = 24;
/// Size of a sparkline.
const WIDTH: i64 = 96;
const HEIGHT: i64 = 22;
const EDGE: i64 = 3;

/// The history of a value as a sparkline, with a dot on the newest value at the right.
pub(super) fn sparkline(values: &[i64], label: &str) -> Markup {
    let shown = values.get(values.len().saturating_sub(MAX_POINTS)..).unwrap_or_default();
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
            svg.spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
                polyline points=(path.join(" ")) {}
                @if let Some((x, y)) = points.last() { circle cx=(x) cy=(y) r="2.5" {} }
            }
        }
    }
}

/// A share of a limit as a bar; highlighted from 80% on.
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

/// Decisions per minute as stacked columns, with blocks and halts on top.
pub(super) fn column_chart(minutes: &[[u64; 4]], label: &str) -> Markup {
    const STEP: u64 = 10;
    const TALL: u64 = 100;
    let most = minutes.iter().map(|minute| minute.iter().sum::<u64>()).max().unwrap_or(0).max(1);
    let wide = minutes.len() as u64 * STEP;
    html! {
        svg.columns viewBox=(format!("0 0 {wide} {TALL}")) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (at, minute) in minutes.iter().enumerate() {
                @let x = at as u64 * STEP + 1;
                @let parts = stack_parts(minute, most, TALL);
                @for (class, y, height) in parts {
                    rect class=(class) x=(x) y=(y) width=(STEP - 2) height=(height) {}
                }
            }
        }
    }
}

/// The segments of a column from bottom to top: class, top and height.
fn stack_parts(minute: &[u64; 4], most: u64, tall: u64) -> Vec<(&'static str, u64, u64)> {
    let mut bottom = tall;
    let mut parts = Vec::new();
    for (class, count) in ["allow", "warn", "block", "halt"].into_iter().zip(minute) {
        if *count > 0 {
            // Every nonzero count is visible.
            let height = (count.saturating_mul(tall) / most).max(1).min(bottom);
            bottom -= height;
            parts.push((class, bottom, height));
        }
    }
    parts
}
