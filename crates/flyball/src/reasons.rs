//! The reasons of trips and endings, with the kind of ending each indicates and what it means.
//!
//! A halt has one of five coarse reasons ([`crate::HaltReason`]) that describe the failure. The reasons here are finer;
//! each guard declares its own.

use crate::guards::guards;
use serde::Serialize;

/// Kind of ending that a reason indicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingKind {
    /// The work is done, or continues elsewhere.
    Success,
    /// A budget or limit is exhausted.
    Exhaustion,
    /// An external decision: by a person, a rule or a check.
    External,
    /// A technical error.
    Error,
}

/// The reason of a trip or an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// Its name in decisions.
    pub name: &'static str,
    /// The kind of ending it indicates.
    pub ending: EndingKind,
    /// Its meaning, for a reader who sees it for the first time.
    pub meaning: Option<&'static str>,
}

impl Reason {
    /// A limit is exhausted.
    pub(crate) const fn exhausted(name: &'static str, meaning: &'static str) -> Reason {
        Reason { name, ending: EndingKind::Exhaustion, meaning: Some(meaning) }
    }

    /// A person, a rule or a check decided.
    pub(crate) const fn external(name: &'static str, meaning: &'static str) -> Reason {
        Reason { name, ending: EndingKind::External, meaning: Some(meaning) }
    }

    /// A reason that its messages explain.
    pub(crate) const fn plain(name: &'static str, ending: EndingKind) -> Reason {
        Reason { name, ending, meaning: None }
    }
}

/// Reasons of no guard. `completed`, `transition` and `error` are set by the sender of the session end.
const SESSION_REASONS: [Reason; 6] = [
    Reason::plain("completed", EndingKind::Success),
    Reason::plain("transition", EndingKind::Success),
    Reason::plain("error", EndingKind::Error),
    Reason::external("user_stop", "An operator stopped the session."),
    Reason::plain("release_refused", EndingKind::External),
    Reason::plain("policy_waits", EndingKind::External),
];

/// All reasons.
pub fn reasons() -> impl Iterator<Item = &'static Reason> {
    SESSION_REASONS.iter().chain(guards().flat_map(|(_, info)| info.reasons))
}

/// The reason with this name.
#[must_use]
pub fn reason(name: &str) -> Option<&'static Reason> {
    reasons().find(|reason| reason.name == name)
}

/// The kind of ending that a reason indicates; `None` for an unknown reason.
#[must_use]
pub fn ending_kind(name: &str) -> Option<EndingKind> {
    reason(name).map(|reason| reason.ending)
}

#[cfg(test)]
mod tests {
    use super::{EndingKind, ending_kind, reasons};
    use std::collections::BTreeSet;

    #[test]
    fn reasons_are_unique_and_cover_every_ending_kind() {
        let names: BTreeSet<&str> = reasons().map(|reason| reason.name).collect();
        assert_eq!(names.len(), reasons().count());
        for (reason, expected) in [
            ("completed", Some(EndingKind::Success)),
            ("max_runtime", Some(EndingKind::Exhaustion)),
            ("repetition_loop", Some(EndingKind::Exhaustion)),
            ("validation_failure", Some(EndingKind::Exhaustion)),
            ("user_stop", Some(EndingKind::External)),
            ("error", Some(EndingKind::Error)),
            ("no such reason", None),
        ] {
            assert_eq!(ending_kind(reason), expected, "{reason}");
        }
    }
}
