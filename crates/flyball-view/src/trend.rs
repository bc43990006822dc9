//! How a signal of progress went, in the words of the badge: `failing tests 7 → 4 → 2`.

use flyball::Report;

/// How many of the newest values are shown.
const SHOWN: usize = 8;

/// One signal with its values, the newest last.
pub fn told(signal: &str, values: &[i64]) -> String {
    let name = if signal == "tests" { "failing tests" } else { signal };
    let left_out = values.len().saturating_sub(SHOWN);
    let mut shown: Vec<String> = if left_out > 0 { vec!["…".to_owned()] } else { Vec::new() };
    shown.extend(values.iter().skip(left_out).map(i64::to_string));
    format!("{name} {}", shown.join(" → "))
}

/// All signals that were measured as numbers; the tests come first, because they say most.
pub fn all(report: &Report) -> Vec<String> {
    let mut measured: Vec<_> = report.trends.iter().filter(|(_, values)| !values.is_empty()).collect();
    measured.sort_by_key(|(name, _)| *name != "tests");
    measured.into_iter().map(|(name, values)| told(name, values)).collect()
}

/// The signal that says most.
pub fn first(report: &Report) -> Option<String> {
    all(report).into_iter().next()
}

#[cfg(test)]
mod tests {
    //! The words of a trend, short and long.

    use super::told;

    #[test]
    fn a_long_trend_shows_its_newest_values() {
        assert_eq!(told("tests", &[7, 4, 2]), "failing tests 7 → 4 → 2");
        let long: Vec<i64> = (0..20).collect();
        assert_eq!(told("docs", &long), "docs … → 12 → 13 → 14 → 15 → 16 → 17 → 18 → 19");
    }
}
