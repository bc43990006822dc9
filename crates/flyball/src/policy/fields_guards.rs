//! The keys of every section, with their ranges: the one list that reading, checking,
//! suggestions and the printed policy all come from.

use super::budgets::{Budgets, LoopBudget, MessageBudget, NodeBudget, SessionBudget, TurnBudget};
use super::error::Code;
use super::fields::{AMOUNT, COUNT, Fields, Section};
use super::guards::{
    Confirmation, Cycle, DeclaredWorkflow, Denial, ErrorStreak, Gate, Guards, LargeResponse, Monologue,
    Oscillation, Periods, Question, Recurrence, Repetition, Retry, RetryLimits, Stall, TransitionCycles,
    Transitions, Validation, Visits,
};
use super::values::Stricter;
use super::{EdgePolicy, Effect, Labels, Mode, NodePolicy, Releases, ToolPolicy};

/// Observations in a row, the first included: one alone is never a repeat.
const IN_A_ROW: std::ops::RangeInclusive<u64> = 2..=1_000_000;
/// Calls a guard looks back at: as many as it keeps.
const WINDOW: std::ops::RangeInclusive<u64> = 2..=64;
/// The longest block a cycle detector looks for.
const PERIOD: std::ops::RangeInclusive<u64> = 1..=crate::limits::PERIOD as u64;
/// Passes of a block that make a cycle.
const PASSES: std::ops::RangeInclusive<u64> = 2..=20;
/// Characters of an output.
const CHARACTERS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;
const PERCENT: std::ops::RangeInclusive<u64> = 1..=100;

impl Section for Budgets {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("warn_percent", &mut self.warn_percent, PERCENT, Stricter::Less);
        f.section("session", &mut self.session);
        f.section("turn", &mut self.turn);
        f.section("node", &mut self.node);
        f.section("loop", &mut self.loops);
        f.section("message", &mut self.message);
    }
}

impl Section for SessionBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.duration_limit("runtime", &mut self.runtime_ms, Stricter::Less);
        f.duration_limit("wall", &mut self.wall_ms, Stricter::Less);
        f.limit("turns", &mut self.turns, COUNT, Stricter::Less);
        f.limit("iterations", &mut self.iterations, COUNT, Stricter::Less);
        f.limit("tokens", &mut self.tokens, AMOUNT, Stricter::Less);
        f.cost("cost_usd", &mut self.cost_micro_usd, Stricter::Less);
        f.limit("tool_calls", &mut self.tool_calls, COUNT, Stricter::Less);
    }
}

impl Section for TurnBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.duration_limit("timeout", &mut self.timeout_ms, Stricter::Less);
        f.limit("tokens", &mut self.tokens, AMOUNT, Stricter::Less);
    }
}

impl Section for NodeBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("turns", &mut self.turns, COUNT, Stricter::Less);
        self.turns_set |= f.has("turns") && !f.has("holds_in_loops");
        f.flag("holds_in_loops", &mut self.turns_set, Stricter::More);
        f.duration_limit("runtime", &mut self.runtime_ms, Stricter::Less);
    }
}

impl Section for LoopBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("iterations", &mut self.iterations, COUNT, Stricter::Less);
        f.duration_limit("runtime", &mut self.runtime_ms, Stricter::Less);
        f.cost("cost_usd", &mut self.cost_micro_usd, Stricter::Less);
    }
}

impl Section for MessageBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("transitions", &mut self.transitions, COUNT, Stricter::Less);
        f.limit("tool_calls", &mut self.tool_calls, COUNT, Stricter::Less);
    }
}

impl Section for Guards {
    fn fields(&mut self, f: &mut Fields<'_>) {
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

impl Section for Repetition {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, COUNT, Stricter::Less);
        f.limit("warn_at", &mut self.warn_at, COUNT, Stricter::Less);
        f.limit("blocks", &mut self.blocks, COUNT, Stricter::Less);
        f.flag("result_aware", &mut self.result_aware, Stricter::Unknown);
        f.limit("poll_limit", &mut self.poll_limit, COUNT, Stricter::Less);
    }
}

impl Section for Cycle {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.section("calls", &mut self.calls);
        f.section("transitions", &mut self.transitions);
        f.section("outputs", &mut self.outputs);
        f.limit("blocks", &mut self.blocks, COUNT, Stricter::Less);
    }
}

impl Section for Periods {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("max_period", &mut self.max_period, PERIOD, Stricter::More);
        f.count("repeats", &mut self.repeats, PASSES, Stricter::Less);
    }
}

impl Section for TransitionCycles {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("max_period", &mut self.max_period, 2..=crate::limits::PERIOD as u64, Stricter::More);
        f.count("repeats", &mut self.repeats, PASSES, Stricter::Less);
        f.limit("suffix_length", &mut self.suffix_length, 2..=10, Stricter::Unknown);
        f.limit("self_loop", &mut self.self_loop, 2..=1_000, Stricter::Less);
        f.count("max_history", &mut self.max_history, 1..=crate::limits::HISTORY as u64, Stricter::Unknown);
        f.flag("declared_loops", &mut self.declared_loops, Stricter::More);
    }
}

impl Section for Recurrence {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, 2..=1_000, Stricter::Less);
        f.count("window", &mut self.window, WINDOW, Stricter::More);
        f.limit("stale", &mut self.stale, 2..=1_000, Stricter::Less);
        f.limit("drift", &mut self.drift, 2..=1_000, Stricter::Less);
        f.limit("blocks", &mut self.blocks, COUNT, Stricter::Less);
    }
}

impl Section for DeclaredWorkflow {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("blocks", &mut self.blocks, COUNT, Stricter::Less);
    }
}

impl Section for Visits {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        self.limit_set |= f.has("limit") && !f.has("holds_in_loops");
        f.limit("limit", &mut self.limit, COUNT, Stricter::Less);
        f.flag("holds_in_loops", &mut self.limit_set, Stricter::More);
    }
}

impl Section for Transitions {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        self.limit_set |= f.has("limit") && !f.has("holds_in_loops");
        f.limit("limit", &mut self.limit, COUNT, Stricter::Less);
        f.flag("holds_in_loops", &mut self.limit_set, Stricter::More);
        f.limit("total", &mut self.total, COUNT, Stricter::Less);
    }
}

impl Section for Stall {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("output", &mut self.output, IN_A_ROW, Stricter::Less);
        f.limit("structured", &mut self.structured, IN_A_ROW, Stricter::Less);
        f.limit("diff", &mut self.diff, IN_A_ROW, Stricter::Less);
        f.limit("failures", &mut self.failures, IN_A_ROW, Stricter::Less);
        f.limit("turns", &mut self.turns, IN_A_ROW, Stricter::Less);
    }
}

impl Section for Oscillation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        // As many passes as it keeps states of.
        f.limit("repeats", &mut self.repeats, 2..=4, Stricter::Less);
    }
}

impl Section for ErrorStreak {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("same_error", &mut self.same_error, COUNT, Stricter::Less);
        f.limit("warn_at", &mut self.warn_at, COUNT, Stricter::Less);
        f.limit("any", &mut self.any, COUNT, Stricter::Less);
        f.count("window", &mut self.window, WINDOW, Stricter::Unknown);
        f.limit("rate_percent", &mut self.rate_percent, PERCENT, Stricter::Less);
        f.limit("blocks", &mut self.blocks, COUNT, Stricter::Less);
    }
}

impl Section for Validation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, COUNT, Stricter::Less);
    }
}

impl Section for Retry {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        self.limits.fields(f);
        f.sections("operations", &self.limits, &mut self.operations);
    }
}

impl Section for RetryLimits {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("limit", &mut self.limit, COUNT, Stricter::Less);
        f.word("backoff", &mut self.backoff);
        f.duration("base", &mut self.base_ms, Stricter::Unknown);
        f.duration("cap", &mut self.cap_ms, Stricter::Unknown);
        f.count("jitter_percent", &mut self.jitter_percent, 0..=100, Stricter::Unknown);
        f.duration("cooldown", &mut self.cooldown_ms, Stricter::More);
        f.duration("max_cooldown", &mut self.max_cooldown_ms, Stricter::More);
        f.duration("probe", &mut self.probe_ms, Stricter::Unknown);
        f.limit("trips", &mut self.trips, COUNT, Stricter::Less);
    }
}

impl Section for Gate {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("attempts", &mut self.attempts, COUNT, Stricter::Less);
        f.limit("item_blocks", &mut self.item_blocks, COUNT, Stricter::Less);
        f.limit("same_failure", &mut self.same_failure, COUNT, Stricter::Less);
        f.word("unverified", &mut self.unverified);
        f.word("order", &mut self.order);
        f.flag("backpressure", &mut self.backpressure, Stricter::More);
        if let Some(texts) = f.list("dependencies", &pairs_text(&self.dependencies)) {
            match dependencies(&texts) {
                Ok(pairs) => self.dependencies = pairs,
                Err((code, what, help)) => f.refuse(code, "dependencies", what, help),
            }
        }
        f.put_list("dependencies", pairs_text(&self.dependencies));
    }
}

impl Section for Confirmation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("unclear", &mut self.unclear, COUNT, Stricter::Less);
        f.duration_limit("ttl", &mut self.ttl_ms, Stricter::Less);
        f.flag("abort_on_reaching_max", &mut self.abort_on_reaching_max, Stricter::More);
        f.limit("aborts", &mut self.aborts, COUNT, Stricter::Less);
        f.word("on_new_request", &mut self.on_new_request);
        f.word("language", &mut self.language);
        f.texts("texts", &mut self.texts);
    }
}

impl Section for Question {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW, Stricter::Less);
    }
}

impl Section for Denial {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("consecutive", &mut self.consecutive, COUNT, Stricter::Less);
        f.count("of", &mut self.of, 1..=*WINDOW.end(), Stricter::Unknown);
        f.limit("total", &mut self.total, COUNT, Stricter::Less);
    }
}

impl Section for Monologue {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW, Stricter::Less);
        f.count("similarity", &mut self.similarity_percent, PERCENT, Stricter::Less);
        f.limit("chant", &mut self.chant, IN_A_ROW, Stricter::Less);
    }
}

impl Section for LargeResponse {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("threshold", &mut self.threshold, CHARACTERS, Stricter::Less);
        f.count("preview", &mut self.preview, 0..=100_000, Stricter::Unknown);
    }
}

/// The parts of the cycle guard that look at one node, edge or tool.
struct CycleParts<'a> {
    cycle: &'a mut Cycle,
    calls: bool,
    transitions: bool,
    outputs: bool,
}

impl Section for CycleParts<'_> {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.cycle.mode);
        if self.calls {
            f.section("calls", &mut self.cycle.calls);
            f.limit("blocks", &mut self.cycle.blocks, COUNT, Stricter::Less);
        }
        if self.transitions {
            f.section("transitions", &mut self.cycle.transitions);
        }
        if self.outputs {
            f.section("outputs", &mut self.cycle.outputs);
        }
    }
}

/// The mode of a guard alone.
struct ModeAlone<'a>(&'a mut super::Mode);

impl Section for ModeAlone<'_> {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", self.0);
    }
}

/// The guards that look at what one node does. Transitions belong to edges.
impl Section for NodePolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        self.budget.fields(f);
        f.flag("allow_cycles", &mut self.allow_cycles, Stricter::Less);
        f.names("allowed_destinations", &mut self.allowed_destinations);
        let guards = &mut self.guards;
        f.section("repetition", &mut guards.repetition);
        let cycle = &mut guards.cycle;
        f.section("cycle", &mut CycleParts { cycle, calls: true, transitions: false, outputs: true });
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

/// The guards that look at one edge.
impl Section for EdgePolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        let cycle = &mut self.guards.cycle;
        f.section("cycle", &mut CycleParts { cycle, calls: false, transitions: true, outputs: false });
        f.section("workflow", &mut self.guards.workflow);
        f.section("transitions", &mut self.guards.transitions);
    }
}

/// The guards that look at calls of one tool.
impl Section for ToolPolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        // A call of a destructive tool needs an approval, so declaring one tightens, where approvals are required at all.
        let approvals = matches!(self.guards.confirmation.mode, Mode::Staged | Mode::Block | Mode::Halt);
        f.optional_word("effect", &mut self.effect, approvals.then_some(Effect::Destructive));
        let guards = &mut self.guards;
        f.section("repetition", &mut guards.repetition);
        let cycle = &mut guards.cycle;
        f.section("cycle", &mut CycleParts { cycle, calls: true, transitions: false, outputs: false });
        f.section("recurrence", &mut guards.recurrence);
        f.section("error_streak", &mut guards.error_streak);
        f.section("confirmation", &mut ModeAlone(&mut guards.confirmation.mode));
        f.section("denial", &mut guards.denial);
        f.section("large_response", &mut guards.large_response);
    }
}

impl Section for Releases {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.count("grant", &mut self.grant, 1..=1_000, Stricter::Less);
        f.count("ceiling", &mut self.ceiling, 0..=1_000, Stricter::Less);
    }
}

impl Section for Labels {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.text("prefix", &mut self.prefix);
    }
}

fn pairs_text(pairs: &[(String, String)]) -> Vec<String> {
    pairs.iter().map(|(a, b)| format!("{a}:{b}")).collect()
}

type Refusal = (Code, String, &'static str);

/// Reads `["lint:build"]` and refuses a check that depends on itself, directly or round a circle.
fn dependencies(texts: &[String]) -> Result<Vec<(String, String)>, Refusal> {
    let mut pairs = Vec::new();
    for text in texts {
        match text.split_once(':').map(|(a, b)| (a.trim(), b.trim())) {
            Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains(':') => {
                pairs.push((a.to_owned(), b.to_owned()));
            }
            _ => {
                let what = format!("'{text}' is not a dependency of one check on another");
                return Err((Code::Type, what, "write check:needs, for example lint:build"));
            }
        }
    }
    pairs.sort();
    pairs.dedup();
    // Take away checks that need nothing that is left; what remains is a circle.
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
            Err((Code::Contradiction, what, "remove one dependency of the circle"))
        }
    }
}
