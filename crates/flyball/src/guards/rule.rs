//! Custom rules of the policy, written in CEL, over the event and the session's counters.
//!
//! A rule that matches trips with the severity set in the policy. A rule that cannot be evaluated blocks (fail closed).

use super::info::GuardInfo;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::decision::{HaltReason, TripSeverity};
use crate::policy::{GuardMode, RuleInput as RuleFacts};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard; its settings are the rules of the policy.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Custom rules in CEL.")
    .table("anything, in CEL over `event` and `session`", "the decision of the rule")
    .reasons(&[Reason::external("rule", "A rule in the policy file matched; its message gives the reason.")]);

/// Stateless: the session counters that rules read are kept elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleGuard {}

impl RuleGuard {
    fn evaluate_rules(cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(counters) = cx.counters.filter(|_| !cx.policy.rules.is_empty()) else { return };
        let facts = RuleFacts::new(&cx.event.to_json(), counters);
        for rule in &cx.policy.rules {
            let (severity, message) = match rule.matches(&facts) {
                Ok(false) => continue,
                Ok(true) => (mode_severity(rule.decision()), rule.message().to_owned()),
                Err(error) => (
                    TripSeverity::Block,
                    format!("the rule '{}' could not be evaluated: {error}", rule.name()),
                ),
            };
            let message = if message.is_empty() { rule_matched_text(cx, rule.name()) } else { message };
            let draft = TripBuilder::new("rule", "rule", severity, message.clone())
                .scope("rule", rule.name())
                .events(vec![cx.seq])
                .actions(&["see_the_policy"])
                .halt_reason(HaltReason::UserStop)
                .feedback(message);
            trips.add(GuardMode::Staged, draft);
        }
    }
}

fn rule_matched_text(cx: &GuardContext<'_>, rule: &str) -> String {
    cx.rules.wording(format!("the rule '{rule}' holds"), format!("rule '{rule}' matched"))
}

fn mode_severity(mode: GuardMode) -> TripSeverity {
    match mode {
        GuardMode::Off | GuardMode::Observe => TripSeverity::Observe,
        GuardMode::Warn => TripSeverity::Warn,
        GuardMode::Block | GuardMode::Staged => TripSeverity::Block,
        GuardMode::Halt => TripSeverity::Halt,
    }
}

impl Guard for RuleGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        Self::evaluate_rules(cx, trips);
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        if !cx.event.kind.is_request() {
            Self::evaluate_rules(cx, trips);
        }
    }
}
