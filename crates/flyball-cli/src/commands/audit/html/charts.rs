//! Charts as inline SVG. Only shapes are drawn; words and numbers stand beside them as text, so that they stay
//! readable on a phone, on paper and to a screen reader.

use super::escape::escaped;

/// One bar: its name, its length, and the number beside it.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: u64,
    pub(super) shown: String,
    pub(super) note: String,
}

/// Bars one below the other, the longest as wide as there is room.
pub(super) fn bars(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let rows = bars.iter().map(|bar| {
        // At least a sliver, so that something small is not taken for nothing.
        let width = scaled(bar.value, most, 1000).max(u64::from(bar.value > 0) * 4);
        format!(
            "<li><span class=\"name\">{}</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"track\" width=\"1000\" height=\"10\" rx=\"2\"/>\
             <rect class=\"fill\" width=\"{width}\" height=\"10\" rx=\"2\"/></svg>\
             <span class=\"value\">{}</span><span class=\"note\">{}</span></li>\n",
            escaped(&bar.name),
            escaped(&bar.shown),
            escaped(&bar.note),
        )
    });
    format!("<ul class=\"bars\">\n{}</ul>\n", rows.collect::<String>())
}

/// One day: how many runs there were, how many looped, and what is shown when the pointer is on it.
pub(super) struct Column {
    pub(super) all: u64,
    pub(super) part: u64,
    pub(super) told: String,
}

/// Columns side by side: the whole, and the part of it that matters.
pub(super) fn columns(columns: &[Column], label: &str) -> String {
    const HEIGHT: u64 = 120;
    const STEP: u64 = 20;
    let most = columns.iter().map(|column| column.all.max(column.part)).max().unwrap_or(0).max(1);
    let wide = STEP * columns.len().max(1) as u64;
    let drawn = columns.iter().enumerate().map(|(at, column)| {
        let x = at as u64 * STEP + 2;
        let height = |value: u64| scaled(value, most, HEIGHT).max(u64::from(value > 0) * 3);
        let (all, part) = (height(column.all), height(column.part));
        format!(
            "<g><title>{}</title><rect class=\"hit\" x=\"{}\" y=\"0\" width=\"{STEP}\" height=\"{HEIGHT}\"/>\
             <rect class=\"whole\" x=\"{x}\" y=\"{}\" width=\"{w}\" height=\"{all}\"/>\
             <rect class=\"fill\" x=\"{x}\" y=\"{}\" width=\"{w}\" height=\"{part}\"/></g>\n",
            escaped(&column.told),
            x - 2,
            HEIGHT - all,
            HEIGHT - part,
            w = STEP - 4,
        )
    });
    format!(
        "<svg class=\"columns\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {wide} {HEIGHT}\" \
         preserveAspectRatio=\"none\">\n{}</svg>\n",
        escaped(label),
        drawn.collect::<String>()
    )
}

/// A ring that is filled as far as a part is of the whole.
pub(super) fn ring(permille: u64, shown: &str, label: &str) -> String {
    // The way round a circle of radius 42 is 264 long.
    let filled = scaled(permille.min(1000), 1000, 264);
    format!(
        "<svg class=\"ring\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 100 100\">\
         <circle class=\"track\" cx=\"50\" cy=\"50\" r=\"42\"/>\
         <circle class=\"fill\" cx=\"50\" cy=\"50\" r=\"42\" stroke-dasharray=\"{filled} 264\" \
         transform=\"rotate(-90 50 50)\"/>\
         <text x=\"50\" y=\"50\">{}</text></svg>",
        escaped(label),
        escaped(shown),
    )
}

fn scaled(value: u64, most: u64, size: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(size) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(size)
}
