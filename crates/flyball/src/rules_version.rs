//! Versions of the decision rules.
//!
//! A session pins the version it started under, so its recorded decisions can always be reproduced. Behavior that
//! changes a decision is guarded by a comparison with the session's version.

use serde::{Deserialize, Serialize};

/// A version of the decision rules. New sessions start under [`RulesVersion::LATEST`] unless the policy says otherwise
/// (`rules_version`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RulesVersion {
    /// The first version. Sessions recorded before versions existed are under it.
    V1,
    /// A stop by a person is lifted only by an explicit act, a reused call id is a new request, a number reported as
    /// progress has a stated direction, neither a clock that is set back nor a suspended machine changes how much time
    /// counts, and messages and feedback use plainer wording.
    V2,
}

impl RulesVersion {
    /// The version of new sessions.
    pub const LATEST: RulesVersion = RulesVersion::V2;

    /// The version as policies and reports write it.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            RulesVersion::V1 => 1,
            RulesVersion::V2 => 2,
        }
    }

    /// The version with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<RulesVersion> {
        match number {
            1 => Some(RulesVersion::V1),
            2 => Some(RulesVersion::V2),
            _ => None,
        }
    }

    /// Selects the wording of a text that is stored with decisions. Version 1 sessions keep theirs byte for byte.
    pub(crate) fn wording<T>(self, v1: T, current: T) -> T {
        match self {
            RulesVersion::V1 => v1,
            RulesVersion::V2 => current,
        }
    }
}

impl Default for RulesVersion {
    fn default() -> Self {
        RulesVersion::LATEST
    }
}
