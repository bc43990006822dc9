//! The door's clock: the only place of the command that asks what time it is.
//!
//! Time is an input. An event that names no time is stamped here, once, when it arrives.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the door: the one place where an event is stamped with the time of arrival"
)]
pub(crate) fn now() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
