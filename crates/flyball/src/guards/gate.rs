//! `gate`: completions that the quality gate blocks.
//!
//! A failing check blocks the completion and is reported as the root cause. The Nth blocked attempt halts, and so does
//! the Nth block by one checklist item or the Nth occurrence of the same failure. A skipped check did not pass; if all
//! were skipped, the work is unverified and the policy decides. A block carries the effect `completion.blocked`: what
//! failed and what to do, as data and as text for the agent.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::backpressure::{self, BlockingEvent, TASK_COMPLETE, has_failed, skip_dependents};
use crate::bounded_map::{BoundedMap, push_bounded, truncate_bytes};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::{Check, EventKind, normalize};
use crate::fingerprint::Fingerprint;
use crate::limits::GATE_ITEMS;
use crate::policy::settings::StricterDirection::{Less, More};
use crate::policy::settings::{COUNT_RANGE, Count, Flag, KeyKind, SectionReader, Word, keywords, settings};
use crate::policy::{GuardMode, Limit, PolicyErrorCode};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Completion checks: tests, lint, build, checklist.")
        .table(
            "completions that fail their checks",
            "block with the effect `completion.blocked` ([events.md](events.md#checks)), then halt",
        )
        .reasons(&[
            Reason::exhausted("loop_thrashing", "The work was declared done, but the checks fail."),
            Reason::exhausted("quality_gate_exhausted", "The work was declared done, but the checks fail."),
            Reason::external("quality_gate_blocked", "The work was declared done, but the checks fail."),
        ])
        .scopes::<GatePolicy>(&[Node]);

settings! {
    /// Completion checks.
    pub struct GatePolicy: "GateFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// The Nth failed attempt trips.
        attempts: Limit = Some(5) => Count(COUNT_RANGE, Less);
        /// Blocks by one checklist item that trip the guard.
        item_blocks: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// Consecutive identical failures that trip the guard.
        same_failure: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// Action when every check was skipped.
        unverified: UnverifiedAction = UnverifiedAction::Warn => Word;
        /// Which failed check is reported first.
        order: GateOrder = GateOrder::RootCause => Word;
        /// Whether a failed gate prevents completion.
        backpressure: bool = true => Flag(More);
        /// Dependencies between checks: `lint:build` skips lint if the build failed.
        dependencies: Vec<(String, String)> = Vec::new() => Dependencies;
    }
}

/// Action when every check was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "UnverifiedValue", rename_all = "snake_case")]
pub enum UnverifiedAction {
    /// Completion passes with a warning.
    #[default]
    Warn,
    /// Completion is blocked.
    Block,
    /// Completion passes.
    Allow,
}
keywords! { UnverifiedAction { "warn" = Warn(1), "block" = Block(2), "allow" = Allow(0) } }

/// Which failed check is reported first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "GateOrderValue", rename_all = "snake_case")]
pub enum GateOrder {
    /// Build, then tests, then lint.
    #[default]
    RootCause,
    /// Tests, then lint, then build.
    #[schemars(rename = "seed")]
    TestsFirst,
}
keywords! { GateOrder { "root_cause" = RootCause, "seed" = TestsFirst } }

/// `CHECK:REQUIRED` pairs: a check is skipped if the one it requires failed. Acyclic.
struct Dependencies;

impl KeyKind<Vec<(String, String)>> for Dependencies {
    type Schema = Vec<String>;

    fn read(&self, reader: &mut SectionReader<'_>, key: &'static str, slot: &mut Vec<(String, String)>) {
        let texts = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(check, required)| format!("{check}:{required}")).collect()
        };
        if let Some(written) = reader.list(key, &texts(slot)) {
            match parse_dependencies(&written) {
                Ok(pairs) => *slot = pairs,
                Err((code, what, help)) => reader.report(code, key, what, help),
            }
        }
        reader.emit_list(key, texts(slot));
    }
}

type DependencyError = (PolicyErrorCode, String, &'static str);

/// Parses `["lint:build"]` and rejects a check that depends on itself, directly or through others.
fn parse_dependencies(texts: &[String]) -> Result<Vec<(String, String)>, DependencyError> {
    let mut pairs = Vec::new();
    for text in texts {
        match text.split_once(':').map(|(a, b)| (a.trim(), b.trim())) {
            Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains(':') => {
                pairs.push((a.to_owned(), b.to_owned()));
            }
            _ => {
                let what = format!("invalid dependency '{text}'");
                return Err((PolicyErrorCode::Type, what, "expected CHECK:REQUIRED, for example lint:build"));
            }
        }
    }
    pairs.sort();
    pairs.dedup();
    // Remove checks whose dependencies are all satisfied; the rest is a cycle.
    let mut left = pairs.clone();
    loop {
        let before = left.len();
        let needing: Vec<String> = left.iter().map(|(a, _)| a.clone()).collect();
        left.retain(|(_, b)| needing.contains(b));
        if left.len() == before {
            break;
        }
    }
    match left.first() {
        None => Ok(pairs),
        Some((a, b)) => {
            let what = format!("the checks '{a}' and '{b}' depend on each other");
            Err((PolicyErrorCode::Contradiction, what, "remove one dependency of the cycle"))
        }
    }
}

const MAX_EVENTS: usize = 16;

/// Names of gate checks; any other name is a checklist item.
const GATE_CHECK_NAMES: [&str; 12] = [
    "build",
    "compile",
    "typecheck",
    "types",
    "tests",
    "test",
    "unit",
    "integration",
    "lint",
    "format",
    "fmt",
    "check",
];

/// Blocked attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GateGuard {
    attempts: u32,
    failure: Fingerprint,
    same: u32,
    items: BoundedMap<u32, GATE_ITEMS>,
    events: Vec<u64>,
}

/// The failed check to report under version 1 of the rules: the root cause, or in the order tests, lint, build.
fn blocker_v1<'a>(checks: &'a [Check], limits: &GatePolicy) -> Option<&'a Check> {
    let order: &[&str] = match limits.order {
        GateOrder::RootCause => &["build", "compile", "typecheck", "types", "tests", "test", "lint"],
        GateOrder::TestsFirst => &["tests", "test", "lint", "build"],
    };
    let depends_on_failed = |check: &Check| {
        limits.dependencies.iter().any(|(gate, on)| {
            *gate == check.name && checks.iter().any(|other| other.name == *on && has_failed(other))
        })
    };
    let rank = |check: &Check| order.iter().position(|name| *name == check.name).unwrap_or(order.len());
    checks
        .iter()
        .filter(|check| has_failed(check))
        .min_by_key(|check| (depends_on_failed(check), rank(check)))
}

/// The failed check to report.
fn root_cause<'a>(cx: &GuardContext<'_>, checks: &'a [Check]) -> Option<&'a Check> {
    let limits = &cx.limits.gate;
    match cx.rules {
        RulesVersion::V1 => blocker_v1(checks, limits),
        _ => backpressure::root_cause(checks, limits.order),
    }
}

/// Fingerprint of the failures. Stays the same when lines of code move, so a repeated failure is recognized.
fn failure_fingerprint(cx: &GuardContext<'_>, checks: &[Check]) -> Fingerprint {
    if cx.rules > RulesVersion::V1 {
        return backpressure::failure_fingerprint(checks);
    }
    let mut lines: Vec<String> = Vec::new();
    for check in checks.iter().filter(|check| has_failed(check)) {
        if check.details.is_empty() {
            lines.push(format!("{}\0{}", check.name, normalize(truncate_bytes(&check.output, 64 * 1024))));
        }
        lines.extend(check.details.iter().map(|detail| format!("{}\0{}", check.name, normalize(detail))));
    }
    lines.sort_unstable();
    Fingerprint::of_text(&lines.join("\n"))
}

impl GateGuard {
    fn on_failed_checks(
        &mut self,
        cx: &GuardContext<'_>,
        checks: &[Check],
        request: &str,
        trips: &mut Trips,
    ) {
        let limits = &cx.limits.gate;
        self.attempts = self.attempts.saturating_add(1);
        let failure = failure_fingerprint(cx, checks);
        self.same = if failure == self.failure { self.same.saturating_add(1) } else { 1 };
        self.failure = failure;
        push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
        let worst = self.count_item_blocks(checks);
        let name = root_cause(cx, checks).map_or("unknown", |check| truncate_bytes(&check.name, 48));
        let shown: Vec<String> = checks
            .iter()
            .filter(|check| has_failed(check))
            .take(8)
            .map(|check| truncate_bytes(&check.name, 48).to_owned())
            .collect();
        let draft = self
            .limit_trip(cx, name, worst, request)
            .scope("gate", name)
            .scope("request", truncate_bytes(request, 48))
            .events(self.events.clone())
            .repeating(1, u64::from(self.same), vec![failure])
            .names(shown)
            .actions(&["fix_the_failing_check", "switch_to_interactive", "raise_budget"]);
        trips.add(limits.mode, add_blocking_event(cx, draft, checks, request));
    }

    /// The trip for the first limit that is reached. If none is, the completion is blocked and may be retried.
    fn limit_trip(
        &self,
        cx: &GuardContext<'_>,
        name: &str,
        worst: Option<(&str, u64)>,
        request: &str,
    ) -> TripBuilder {
        let limits = &cx.limits.gate;
        let (attempts, same) = (u64::from(self.attempts), u64::from(self.same));
        let halt =
            |reason: &str, message: String| TripBuilder::new("gate", reason, TripSeverity::Halt, message);
        if let Some(((item, blocks), limit)) =
            worst.zip(limits.item_blocks).filter(|((_, blocks), most)| blocks >= most)
        {
            let item = truncate_bytes(item, 48);
            return halt("loop_thrashing", format!("'{item}' blocked the completion {blocks} times"))
                .count(blocks, limit)
                .scope("item", item)
                .halt_reason(HaltReason::Stalled);
        }
        if let Some(limit) = limits.same_failure.filter(|limit| same >= *limit) {
            let message = format!("the same failure of '{name}' blocked the completion {same} times");
            return halt("repeated_error", message).count(same, limit).halt_reason(HaltReason::RepeatedError);
        }
        if let Some(limit) = limits.attempts.filter(|limit| attempts >= *limit) {
            let message = format!("the completion was blocked {attempts} times");
            return halt("quality_gate_exhausted", message)
                .count(attempts, limit)
                .halt_reason(HaltReason::RepeatedError);
        }
        let limit = limits.attempts.unwrap_or(0);
        let message = format!("completion blocked by {name}");
        let draft = TripBuilder::new("gate", "quality_gate_blocked", TripSeverity::Block, message)
            .count(attempts, limit);
        // Without backpressure the completion is still blocked, but the model gets no explanation.
        if !limits.backpressure {
            return draft;
        }
        let (request, left) =
            (super::validation::strip_control_chars(request, 60), limit.saturating_sub(attempts));
        let (request, name) = (cx.safe_title(&request), cx.safe_title(name));
        let attempts_left = match (limits.attempts, left) {
            (None, _) => ".".to_owned(),
            (Some(_), 1) => "; 1 attempt is left.".to_owned(),
            (Some(_), left) => format!("; {left} attempts are left."),
        };
        let attempts_left = cx.rules.wording(format!("; {left} attempts are left."), attempts_left);
        draft.feedback(format!(
            "Your `{request}` request was blocked: {name} failed. Fix that first{attempts_left}"
        ))
    }

    /// Counts a block for each failed checklist item and returns the item with the most blocks.
    fn count_item_blocks<'a>(&mut self, checks: &'a [Check]) -> Option<(&'a str, u64)> {
        let mut worst: Option<(&str, u64)> = None;
        for check in checks
            .iter()
            .filter(|check| has_failed(check) && !GATE_CHECK_NAMES.contains(&check.name.as_str()))
        {
            let blocks = self.items.entry(Fingerprint::of_text(&check.name));
            *blocks = blocks.saturating_add(1);
            if worst.is_none_or(|(_, most)| u64::from(*blocks) > most) {
                worst = Some((&check.name, u64::from(*blocks)));
            }
        }
        worst
    }

    fn on_unverified(&self, cx: &GuardContext<'_>, checks: &[Check], request: &str, trips: &mut Trips) {
        let limits = &cx.limits.gate;
        let severity = match limits.unverified {
            UnverifiedAction::Allow => return,
            UnverifiedAction::Warn => TripSeverity::Warn,
            UnverifiedAction::Block => TripSeverity::Block,
        };
        let draft = TripBuilder::new(
            "gate",
            "quality_gate_blocked",
            severity,
            "no check ran, so the work is unverified",
        )
        .events(vec![cx.seq])
        .actions(&["configure_a_check"])
        .feedback(cx.rules.wording(
            "No check ran: nothing shows that the work is right.",
            "No check ran, so nothing shows that the work is correct.",
        ));
        trips.add(limits.mode, add_blocking_event(cx, draft, checks, request));
    }
}

/// Attaches `completion.blocked` with the failures and suggestions to a trip.
fn add_blocking_event(
    cx: &GuardContext<'_>,
    draft: TripBuilder,
    checks: &[Check],
    request: &str,
) -> TripBuilder {
    let blocking =
        (cx.rules > RulesVersion::V1).then(|| BlockingEvent::from_checks(checks, request, &cx.limits.gate));
    match blocking.flatten() {
        Some(blocking) => draft.add_refusal_effect("completion.blocked", blocking.fields()),
        None => draft,
    }
}

impl Guard for GateGuard {
    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let EventKind::GateChecked { request, checks } = &cx.event.kind else { return };
        let limits = &cx.limits.gate;
        if !limits.mode.is_on() {
            return;
        }
        let request = request.as_deref().unwrap_or(TASK_COMPLETE);
        // The result of a check that depends on a failed one is meaningless.
        let related = (cx.rules > RulesVersion::V1).then(|| skip_dependents(checks, &limits.dependencies));
        let checks = related.as_deref().unwrap_or(checks);
        if checks.iter().any(has_failed) {
            self.on_failed_checks(cx, checks, request, trips);
        } else if checks.iter().all(|check| check.skipped) {
            self.on_unverified(cx, checks, request, trips);
        } else {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = GateGuard::default();
    }
}
