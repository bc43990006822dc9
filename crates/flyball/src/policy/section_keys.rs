//! The keys of every section and their ranges: the single list behind parsing, validation, suggestions and the printed
//! policy.

use super::budgets::{Budgets, LoopBudget, MessageBudget, NodeBudget, SessionBudget, TurnBudget};
use super::guard_policies::{
    ConfirmationPolicy, CyclePeriods, CyclePolicy, DeclaredWorkflowPolicy, DenialPolicy, ErrorStreakPolicy,
    GatePolicy, GuardPolicies, LargeResponsePolicy, MonologuePolicy, OscillationPolicy, QuestionPolicy,
    RecurrencePolicy, RepetitionPolicy, RetryLimits, RetryPolicy, StallPolicy, TransitionCycles,
    TransitionsPolicy, ValidationPolicy, VisitsPolicy,
};
use super::policy_error::PolicyErrorCode;
use super::section_reader::{AMOUNT_RANGE, COUNT_RANGE, PolicySection, SectionReader};
use super::values::StricterDirection;
use super::{EdgePolicy, GuardMode, LabelPolicy, NodePolicy, ReleasePolicy, ToolEffect, ToolPolicy};

/// Consecutive observations, including the first; one alone is never a repeat.
const IN_A_ROW_RANGE: std::ops::RangeInclusive<u64> = 2..=1_000_000;
/// Number of recent calls a guard may consider: as many as it keeps.
const WINDOW_RANGE: std::ops::RangeInclusive<u64> = 2..=64;
/// Length of the longest sequence a cycle detector looks for.
const PERIOD_RANGE: std::ops::RangeInclusive<u64> = 1..=crate::limits::MAX_PERIOD as u64;
/// Repeats of a sequence that count as a cycle.
const PASSES_RANGE: std::ops::RangeInclusive<u64> = 2..=20;
/// Length of an output, in characters.
const CHARACTERS_RANGE: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;
const PERCENT_RANGE: std::ops::RangeInclusive<u64> = 1..=100;

impl PolicySection for Budgets {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("warn_percent", &mut self.warn_percent, PERCENT_RANGE, StricterDirection::Less);
        f.section("session", &mut self.session);
        f.section("turn", &mut self.turn);
        f.section("node", &mut self.node);
        f.section("loop", &mut self.loops);
        f.section("message", &mut self.message);
    }
}

impl PolicySection for SessionBudget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.duration_limit("runtime", &mut self.runtime_ms, StricterDirection::Less);
        f.duration_limit("wall", &mut self.wall_ms, StricterDirection::Less);
        f.limit("turns", &mut self.turns, COUNT_RANGE, StricterDirection::Less);
        f.limit("iterations", &mut self.iterations, COUNT_RANGE, StricterDirection::Less);
        f.limit("tokens", &mut self.tokens, AMOUNT_RANGE, StricterDirection::Less);
        f.cost("cost_usd", &mut self.cost_micro_usd, StricterDirection::Less);
        f.limit("tool_calls", &mut self.tool_calls, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for TurnBudget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.duration_limit("timeout", &mut self.timeout_ms, StricterDirection::Less);
        f.limit("tokens", &mut self.tokens, AMOUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for NodeBudget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("turns", &mut self.turns, COUNT_RANGE, StricterDirection::Less);
        self.turns_set |= f.has("turns") && !f.has("holds_in_loops");
        f.flag("holds_in_loops", &mut self.turns_set, StricterDirection::More);
        f.duration_limit("runtime", &mut self.runtime_ms, StricterDirection::Less);
    }
}

impl PolicySection for LoopBudget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("iterations", &mut self.iterations, COUNT_RANGE, StricterDirection::Less);
        f.duration_limit("runtime", &mut self.runtime_ms, StricterDirection::Less);
        f.cost("cost_usd", &mut self.cost_micro_usd, StricterDirection::Less);
    }
}

impl PolicySection for MessageBudget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("transitions", &mut self.transitions, COUNT_RANGE, StricterDirection::Less);
        f.limit("tool_calls", &mut self.tool_calls, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for GuardPolicies {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.section("repetition", &mut self.repetition);
        f.section("cycle", &mut self.cycle);
        f.section("recurrence", &mut self.recurrence);
        f.section("workflow", &mut self.workflow);
        f.section("visits", &mut self.visits);
        f.section("transitions", &mut self.transitions);
        f.section("stall", &mut self.stall);
        f.section("oscillation", &mut self.oscillation);
        f.section("error_streak", &mut self.error_streak);
        f.section("validation", &mut self.validation);
        f.section("retry", &mut self.retry);
        f.section("gate", &mut self.gate);
        f.section("confirmation", &mut self.confirmation);
        f.section("question", &mut self.question);
        f.section("denial", &mut self.denial);
        f.section("monologue", &mut self.monologue);
        f.section("large_response", &mut self.large_response);
    }
}

impl PolicySection for RepetitionPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, COUNT_RANGE, StricterDirection::Less);
        f.limit("warn_at", &mut self.warn_at, COUNT_RANGE, StricterDirection::Less);
        f.limit("blocks", &mut self.blocks, COUNT_RANGE, StricterDirection::Less);
        f.flag("result_aware", &mut self.result_aware, StricterDirection::Unknown);
        f.limit("poll_limit", &mut self.poll_limit, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for CyclePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.section("calls", &mut self.calls);
        f.section("transitions", &mut self.transitions);
        f.section("outputs", &mut self.outputs);
        f.limit("blocks", &mut self.blocks, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for CyclePeriods {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("max_period", &mut self.max_period, PERIOD_RANGE, StricterDirection::More);
        f.count("repeats", &mut self.repeats, PASSES_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for TransitionCycles {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit(
            "max_period",
            &mut self.max_period,
            2..=crate::limits::MAX_PERIOD as u64,
            StricterDirection::More,
        );
        f.count("repeats", &mut self.repeats, PASSES_RANGE, StricterDirection::Less);
        f.limit("suffix_length", &mut self.suffix_length, 2..=10, StricterDirection::Unknown);
        f.limit("self_loop", &mut self.self_loop, 2..=1_000, StricterDirection::Less);
        f.count(
            "max_history",
            &mut self.max_history,
            1..=crate::limits::MAX_TRANSITION_HISTORY as u64,
            StricterDirection::Unknown,
        );
        f.flag("declared_loops", &mut self.declared_loops, StricterDirection::More);
    }
}

impl PolicySection for RecurrencePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, 2..=1_000, StricterDirection::Less);
        f.count("window", &mut self.window, WINDOW_RANGE, StricterDirection::More);
        f.limit("stale", &mut self.stale, 2..=1_000, StricterDirection::Less);
        f.limit("drift", &mut self.drift, 2..=1_000, StricterDirection::Less);
        f.limit("blocks", &mut self.blocks, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for DeclaredWorkflowPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("blocks", &mut self.blocks, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for VisitsPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        self.limit_set |= f.has("limit") && !f.has("holds_in_loops");
        f.limit("limit", &mut self.limit, COUNT_RANGE, StricterDirection::Less);
        f.flag("holds_in_loops", &mut self.limit_set, StricterDirection::More);
    }
}

impl PolicySection for TransitionsPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        self.limit_set |= f.has("limit") && !f.has("holds_in_loops");
        f.limit("limit", &mut self.limit, COUNT_RANGE, StricterDirection::Less);
        f.flag("holds_in_loops", &mut self.limit_set, StricterDirection::More);
        f.limit("total", &mut self.total, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for StallPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("output", &mut self.output, IN_A_ROW_RANGE, StricterDirection::Less);
        f.limit("structured", &mut self.structured, IN_A_ROW_RANGE, StricterDirection::Less);
        f.limit("diff", &mut self.diff, IN_A_ROW_RANGE, StricterDirection::Less);
        f.limit("failures", &mut self.failures, IN_A_ROW_RANGE, StricterDirection::Less);
        f.limit("turns", &mut self.turns, IN_A_ROW_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for OscillationPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        // The maximum is the number of states the guard keeps.
        f.limit("repeats", &mut self.repeats, 2..=4, StricterDirection::Less);
    }
}

impl PolicySection for ErrorStreakPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("same_error", &mut self.same_error, COUNT_RANGE, StricterDirection::Less);
        f.limit("warn_at", &mut self.warn_at, COUNT_RANGE, StricterDirection::Less);
        f.limit("any", &mut self.any, COUNT_RANGE, StricterDirection::Less);
        f.count("window", &mut self.window, WINDOW_RANGE, StricterDirection::Unknown);
        f.limit("rate_percent", &mut self.rate_percent, PERCENT_RANGE, StricterDirection::Less);
        f.limit("blocks", &mut self.blocks, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for ValidationPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for RetryPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        self.limits.read_keys(f);
        f.sections("operations", &self.limits, &mut self.operations);
    }
}

impl PolicySection for RetryLimits {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("limit", &mut self.limit, COUNT_RANGE, StricterDirection::Less);
        f.keyword("backoff", &mut self.backoff);
        f.duration("base", &mut self.base_ms, StricterDirection::Unknown);
        f.duration("cap", &mut self.cap_ms, StricterDirection::Unknown);
        f.count("jitter_percent", &mut self.jitter_percent, 0..=100, StricterDirection::Unknown);
        f.duration("cooldown", &mut self.cooldown_ms, StricterDirection::More);
        f.duration("max_cooldown", &mut self.max_cooldown_ms, StricterDirection::More);
        f.duration("probe", &mut self.probe_ms, StricterDirection::Unknown);
        f.limit("trips", &mut self.trips, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for GatePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("attempts", &mut self.attempts, COUNT_RANGE, StricterDirection::Less);
        f.limit("item_blocks", &mut self.item_blocks, COUNT_RANGE, StricterDirection::Less);
        f.limit("same_failure", &mut self.same_failure, COUNT_RANGE, StricterDirection::Less);
        f.keyword("unverified", &mut self.unverified);
        f.keyword("order", &mut self.order);
        f.flag("backpressure", &mut self.backpressure, StricterDirection::More);
        if let Some(texts) = f.list("dependencies", &pairs_text(&self.dependencies)) {
            match parse_dependencies(&texts) {
                Ok(pairs) => self.dependencies = pairs,
                Err((code, what, help)) => f.report(code, "dependencies", what, help),
            }
        }
        f.emit_list("dependencies", pairs_text(&self.dependencies));
    }
}

impl PolicySection for ConfirmationPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("unclear", &mut self.unclear, COUNT_RANGE, StricterDirection::Less);
        f.duration_limit("ttl", &mut self.ttl_ms, StricterDirection::Less);
        f.flag("abort_on_reaching_max", &mut self.abort_on_reaching_max, StricterDirection::More);
        f.limit("aborts", &mut self.aborts, COUNT_RANGE, StricterDirection::Less);
        f.keyword("on_new_request", &mut self.on_new_request);
        f.keyword("language", &mut self.language);
        f.texts("texts", &mut self.texts);
    }
}

impl PolicySection for QuestionPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for DenialPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("consecutive", &mut self.consecutive, COUNT_RANGE, StricterDirection::Less);
        f.count("of", &mut self.of, 1..=*WINDOW_RANGE.end(), StricterDirection::Unknown);
        f.limit("total", &mut self.total, COUNT_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for MonologuePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW_RANGE, StricterDirection::Less);
        f.count("similarity", &mut self.similarity_percent, PERCENT_RANGE, StricterDirection::Less);
        f.limit("chant", &mut self.chant, IN_A_ROW_RANGE, StricterDirection::Less);
    }
}

impl PolicySection for LargeResponsePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.mode);
        f.limit("threshold", &mut self.threshold, CHARACTERS_RANGE, StricterDirection::Less);
        f.count("preview", &mut self.preview, 0..=100_000, StricterDirection::Unknown);
    }
}

/// The parts of the cycle guard that apply to one node, edge or tool.
struct ScopedCyclePolicy<'a> {
    cycle: &'a mut CyclePolicy,
    calls: bool,
    transitions: bool,
    outputs: bool,
}

impl PolicySection for ScopedCyclePolicy<'_> {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", &mut self.cycle.mode);
        if self.calls {
            f.section("calls", &mut self.cycle.calls);
            f.limit("blocks", &mut self.cycle.blocks, COUNT_RANGE, StricterDirection::Less);
        }
        if self.transitions {
            f.section("transitions", &mut self.cycle.transitions);
        }
        if self.outputs {
            f.section("outputs", &mut self.cycle.outputs);
        }
    }
}

/// A guard with no keys except its mode.
struct ModeOnlyPolicy<'a>(&'a mut super::GuardMode);

impl PolicySection for ModeOnlyPolicy<'_> {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.keyword("mode", self.0);
    }
}

/// The guards that apply to the actions of one node. Transitions belong to edges.
impl PolicySection for NodePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        self.budget.read_keys(f);
        f.flag("allow_cycles", &mut self.allow_cycles, StricterDirection::Less);
        f.names("allowed_destinations", &mut self.allowed_destinations);
        let guards = &mut self.guards;
        f.section("repetition", &mut guards.repetition);
        let cycle = &mut guards.cycle;
        f.section("cycle", &mut ScopedCyclePolicy { cycle, calls: true, transitions: false, outputs: true });
        f.section("recurrence", &mut guards.recurrence);
        f.section("visits", &mut guards.visits);
        f.section("stall", &mut guards.stall);
        f.section("oscillation", &mut guards.oscillation);
        f.section("error_streak", &mut guards.error_streak);
        f.section("validation", &mut guards.validation);
        f.section("retry", &mut guards.retry);
        f.section("gate", &mut guards.gate);
        f.section("confirmation", &mut guards.confirmation);
        f.section("question", &mut guards.question);
        f.section("denial", &mut guards.denial);
        f.section("monologue", &mut guards.monologue);
        f.section("large_response", &mut guards.large_response);
    }
}

/// The guards that apply to one edge.
impl PolicySection for EdgePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        let cycle = &mut self.guards.cycle;
        f.section("cycle", &mut ScopedCyclePolicy { cycle, calls: false, transitions: true, outputs: false });
        f.section("workflow", &mut self.guards.workflow);
        f.section("transitions", &mut self.guards.transitions);
    }
}

/// The guards that apply to calls of one tool.
impl PolicySection for ToolPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        // A destructive call needs approval, so declaring the effect tightens the policy if approvals are required at
        // all.
        let approvals =
            matches!(self.guards.confirmation.mode, GuardMode::Staged | GuardMode::Block | GuardMode::Halt);
        f.optional_keyword("effect", &mut self.effect, approvals.then_some(ToolEffect::Destructive));
        let guards = &mut self.guards;
        f.section("repetition", &mut guards.repetition);
        let cycle = &mut guards.cycle;
        f.section("cycle", &mut ScopedCyclePolicy { cycle, calls: true, transitions: false, outputs: false });
        f.section("recurrence", &mut guards.recurrence);
        f.section("error_streak", &mut guards.error_streak);
        f.section("confirmation", &mut ModeOnlyPolicy(&mut guards.confirmation.mode));
        f.section("denial", &mut guards.denial);
        f.section("large_response", &mut guards.large_response);
    }
}

impl PolicySection for ReleasePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.count("grant", &mut self.grant, 1..=1_000, StricterDirection::Less);
        f.count("ceiling", &mut self.ceiling, 0..=1_000, StricterDirection::Less);
    }
}

impl PolicySection for LabelPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.text("prefix", &mut self.prefix);
    }
}

fn pairs_text(pairs: &[(String, String)]) -> Vec<String> {
    pairs.iter().map(|(a, b)| format!("{a}:{b}")).collect()
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
