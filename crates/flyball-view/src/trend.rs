//! The trend of a progress signal: `failing tests 7 → 4 → 2`.

use flyball::SessionReport;

/// How many of the newest values are shown.
const MAX_SHOWN_VALUES: usize = 8;

/// One signal with its values, newest last.
pub fn format_trend(signal: &str, values: &[i64]) -> String {
    let name = if signal == "tests" { "failing tests" } else { signal };
    let left_out = values.len().saturating_sub(MAX_SHOWN_VALUES);
    let mut shown: Vec<String> = if left_out > 0 { vec!["…".to_owned()] } else { Vec::new() };
    shown.extend(values.iter().skip(left_out).map(i64::to_string));
    format!("{name} {}", shown.join(" → "))
}

/// All numeric signals; the tests come first because they are the most informative.
pub fn all_trends(report: &SessionReport) -> Vec<String> {
    let mut measured: Vec<_> = report.trends.iter().filter(|(_, values)| !values.is_empty()).collect();
    measured.sort_by_key(|(name, _)| *name != "tests");
    measured.into_iter().map(|(name, values)| format_trend(name, values)).collect()
}

/// The most informative signal.
pub fn main_trend(report: &SessionReport) -> Option<String> {
    all_trends(report).into_iter().next()
}

#[cfg(test)]
mod tests {
    //! Formatting of short and long trends.

    use super::format_trend;

    #[test]
    fn a_long_trend_shows_its_newest_values() {
        assert_eq!(format_trend("tests", &[7, 4, 2]), "failing tests 7 → 4 → 2");
        let long: Vec<i64> = (0..20).collect();
        assert_eq!(format_trend("docs", &long), "docs … → 12 → 13 → 14 → 15 → 16 → 17 → 18 → 19");
    }
}
