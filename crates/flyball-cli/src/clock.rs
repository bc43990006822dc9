//! Wall clock of the command line, the only place that reads the current time.
//!
//! Time is an input: an event without a time is stamped here once, on arrival.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where an event is stamped with its time of arrival"
)]
pub(crate) fn now() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
