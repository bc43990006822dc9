//! Custom rules of the policy, written in CEL, over the event and the session's counters.
//!
//! A rule that holds trips with the severity that the policy gives it. A rule that cannot be evaluated refuses:
//! nobody can say that it did not hold.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::policy::{Facts as RuleFacts, Mode};
use serde::{Deserialize, Serialize};

/// Rules keep nothing; what they look at is kept elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rules {}

impl Rules {
    fn check(cx: &Cx<'_>, trips: &mut Trips) {
        let Some(counters) = cx.counters.filter(|_| !cx.policy.rules.is_empty()) else { return };
        let facts = RuleFacts::new(&cx.event.to_json(), counters);
        for rule in &cx.policy.rules {
            let (severity, message) = match rule.holds(&facts) {
                Ok(false) => continue,
                Ok(true) => (severity(rule.decision()), rule.message().to_owned()),
                Err(error) => {
                    (Severity::Block, format!("the rule '{}' could not be evaluated: {error}", rule.name()))
                }
            };
            let message =
                if message.is_empty() { format!("the rule '{}' holds", rule.name()) } else { message };
            let draft = Draft::new("rule", "rule", severity, message.clone())
                .scope("rule", rule.name())
                .events(vec![cx.seq])
                .actions(&["see_the_policy"])
                .halts_as(HaltReason::UserStop)
                .feedback(message);
            trips.add(Mode::Staged, draft);
        }
    }
}

fn severity(mode: Mode) -> Severity {
    match mode {
        Mode::Off | Mode::Observe => Severity::Observe,
        Mode::Warn => Severity::Warn,
        Mode::Block | Mode::Staged => Severity::Block,
        Mode::Halt => Severity::Halt,
    }
}

impl Guard for Rules {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        Self::check(cx, trips);
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        if !cx.event.kind.is_act() {
            Self::check(cx, trips);
        }
    }
}
