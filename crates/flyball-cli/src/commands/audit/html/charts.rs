//! Inline SVG charts. They contain only shapes; labels and numbers are text beside them, readable on a phone, on paper
//! and by a screen reader.

use super::escape::escape_html;

/// One bar: its name, its value, and the text beside it.
pub(super) struct ChartBar {
    pub(super) name: String,
    pub(super) value: u64,
    pub(super) value_text: String,
    pub(super) note: String,
}

/// A horizontal bar chart; the longest bar fills the width.
pub(super) fn bar_chart(bars: &[ChartBar]) -> String {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let rows = bars.iter().map(|bar| {
        // Draw at least a sliver, so that a small value is not mistaken for zero.
        let width = scale(bar.value, most, 1000).max(u64::from(bar.value > 0) * 4);
        format!(
            "<li><span class=\"name\">{}</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"track\" width=\"1000\" height=\"10\" rx=\"2\"/>\
             <rect class=\"fill\" width=\"{width}\" height=\"10\" rx=\"2\"/></svg>\
             <span class=\"value\">{}</span><span class=\"note\">{}</span></li>\n",
            escape_html(&bar.name),
            escape_html(&bar.value_text),
            escape_html(&bar.note),
        )
    });
    format!("<ul class=\"bars\">\n{}</ul>\n", rows.collect::<String>())
}

/// One day: the number of runs, how many looped, and the tooltip.
pub(super) struct DayColumn {
    pub(super) total: u64,
    pub(super) part: u64,
    pub(super) tooltip: String,
}

/// A column chart of a total and a highlighted part.
pub(super) fn column_chart(columns: &[DayColumn], label: &str) -> String {
    const HEIGHT: u64 = 120;
    const COLUMN_WIDTH: u64 = 20;
    let most = columns.iter().map(|column| column.total.max(column.part)).max().unwrap_or(0).max(1);
    let wide = COLUMN_WIDTH * columns.len().max(1) as u64;
    let drawn = columns.iter().enumerate().map(|(at, column)| {
        let x = at as u64 * COLUMN_WIDTH + 2;
        let height = |value: u64| scale(value, most, HEIGHT).max(u64::from(value > 0) * 3);
        let (all, part) = (height(column.total), height(column.part));
        format!(
            "<g><title>{}</title><rect class=\"hit\" x=\"{}\" y=\"0\" width=\"{COLUMN_WIDTH}\" height=\"{HEIGHT}\"/>\
             <rect class=\"whole\" x=\"{x}\" y=\"{}\" width=\"{w}\" height=\"{all}\"/>\
             <rect class=\"fill\" x=\"{x}\" y=\"{}\" width=\"{w}\" height=\"{part}\"/></g>\n",
            escape_html(&column.tooltip),
            x - 2,
            HEIGHT - all,
            HEIGHT - part,
            w = COLUMN_WIDTH - 4,
        )
    });
    format!(
        "<svg class=\"columns\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {wide} {HEIGHT}\" \
         preserveAspectRatio=\"none\">\n{}</svg>\n",
        escape_html(label),
        drawn.collect::<String>()
    )
}

/// A ring filled in proportion to a fraction.
pub(super) fn ring_chart(permille: u64, shown: &str, label: &str) -> String {
    // The circumference of a circle of radius 42 is 264.
    let filled = scale(permille.min(1000), 1000, 264);
    format!(
        "<svg class=\"ring\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 100 100\">\
         <circle class=\"track\" cx=\"50\" cy=\"50\" r=\"42\"/>\
         <circle class=\"fill\" cx=\"50\" cy=\"50\" r=\"42\" stroke-dasharray=\"{filled} 264\" \
         transform=\"rotate(-90 50 50)\"/>\
         <text x=\"50\" y=\"50\">{}</text></svg>",
        escape_html(label),
        escape_html(shown),
    )
}

fn scale(value: u64, most: u64, size: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(size) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(size)
}
