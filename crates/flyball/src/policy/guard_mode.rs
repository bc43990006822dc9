//! The reaction of a guard when it trips, and optional limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An optional limit: `None` means off.
pub type Limit = Option<u64>;

/// One minute in milliseconds.
pub(crate) const MINUTE_MS: u64 = 60_000;
/// One hour in milliseconds.
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Action when the guard trips.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ModeValue")]
pub enum GuardMode {
    /// The guard ignores all events.
    Off,
    /// Trips are reported; the verdict stays `allow`.
    Observe,
    /// The strictest verdict is `warn`.
    Warn,
    /// A trip blocks.
    Block,
    /// A trip halts the session.
    Halt,
    /// The guard's own escalation steps, for example warn, block, halt. The default.
    #[default]
    Staged,
}

impl GuardMode {
    /// The name of this mode in a policy file.
    pub fn as_str(self) -> &'static str {
        super::values::keyword_of(self)
    }

    /// Whether the guard evaluates events.
    pub fn is_on(self) -> bool {
        self != GuardMode::Off
    }
}

/// The limit inside a loop that the workflow declares: raised to fit the loop budget, unless it was set explicitly.
pub(crate) fn widen_in_loop(limit: Limit, set: bool, needed: Limit) -> Limit {
    match (limit, needed) {
        (Some(limit), _) if set => Some(limit),
        (Some(limit), Some(needed)) => Some(limit.max(needed)),
        _ => None,
    }
}
