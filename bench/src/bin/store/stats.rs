//! Statistics of measured times.

use std::time::Duration;

/// Rows or events per second.
pub(crate) fn per_second(count: u64, took: Duration) -> u64 {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000_000) / micros
}

/// The given percentile, in thousandths.
pub(crate) fn percentile_permille(times: &mut [Duration], permille: usize) -> Duration {
    times.sort_unstable();
    let at = (times.len() * permille / 1000).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

/// A quotient with two decimals.
pub(crate) fn ratio(own: u64, other: u64) -> String {
    match (own.saturating_mul(100) + other / 2).checked_div(other) {
        Some(hundredths) => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        None => "-".to_owned(),
    }
}
