//! Delay requested by a provider: `retry-after-ms`, or `Retry-After` in seconds or as a date.

use jiff::Timestamp;
use jiff::fmt::{rfc2822, strtime};
use std::time::Duration;

/// Obsolete date formats that HTTP still allows.
const OBSOLETE_DATE_FORMATS: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Parses the requested delay from response headers.
pub(super) fn parse_retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    if let Some(ms) = header("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let text = header("retry-after")?.trim();
    if let Some((whole, _)) = text.split_once('.').filter(|(whole, _)| !whole.is_empty()) {
        // Fractions are nonstandard but occur; round up.
        return whole.parse::<u64>().ok().map(|seconds| Duration::from_secs(seconds.saturating_add(1)));
    }
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = parse_http_date(text)?;
    // Use the provider's clock if it sends a date, so that ours may be wrong.
    let now = header("date").and_then(parse_http_date).map_or_else(unix_now, |now| now.as_second());
    Some(Duration::from_secs(u64::try_from(then.as_second().saturating_sub(now)).unwrap_or(0)))
}

fn parse_http_date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(date) = rfc2822::DateTimeParser::new().parse_timestamp(text) {
        return Some(date);
    }
    let old = OBSOLETE_DATE_FORMATS
        .iter()
        .find_map(|format| strtime::parse(format, text).ok()?.to_datetime().ok())?;
    old.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|date| date.timestamp())
}

#[allow(
    clippy::disallowed_methods,
    reason = "compares a header date with the wall clock; no decision depends on it"
)]
fn unix_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "retry_after_tests.rs"]
mod tests;
