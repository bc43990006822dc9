//! The keys of every section, with their ranges: the one list that reading, checking,
//! suggestions and the printed policy all come from.

use super::budgets::{Budgets, LoopBudget, MessageBudget, NodeBudget, SessionBudget, TurnBudget};
use super::error::Code;
use super::fields::{AMOUNT, COUNT, Fields, Section};
use super::guards::{
    Backoff, Confirmation, Cycle, Denial, ErrorStreak, Gate, GateOrder, Guards, Language, LargeResponse,
    Mode, Monologue, NewRequest, Oscillation, Periods, Question, Recurrence, Repetition, Retry, RetryLimits,
    Stall, TransitionCycles, Transitions, Unverified, Validation, Visits,
};
use super::presets::Preset;
use super::values::Word;
use super::{EdgePolicy, Effect, Labels, NodePolicy, OnError, OnStall, Releases, ToolPolicy};

/// Observations in a row, the first included: one alone is never a repeat.
const IN_A_ROW: std::ops::RangeInclusive<u64> = 2..=1_000_000;
/// Events a guard keeps to look back at.
const WINDOW: std::ops::RangeInclusive<u64> = 2..=1_000;
/// The longest block a cycle detector looks for.
const PERIOD: std::ops::RangeInclusive<u64> = 1..=crate::limits::PERIOD as u64;
/// Passes of a block that make a cycle.
const PASSES: std::ops::RangeInclusive<u64> = 2..=20;
/// Characters of an output.
const CHARACTERS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;
const PERCENT: std::ops::RangeInclusive<u64> = 1..=100;

impl Word for Mode {
    const WORDS: &'static [(&'static str, Mode)] = &[
        ("off", Mode::Off),
        ("observe", Mode::Observe),
        ("warn", Mode::Warn),
        ("block", Mode::Block),
        ("halt", Mode::Halt),
        ("staged", Mode::Staged),
    ];
}

impl Word for Preset {
    const WORDS: &'static [(&'static str, Preset)] = &[
        ("workflow", Preset::Workflow),
        ("agent", Preset::Agent),
        ("simple", Preset::Simple),
        ("complex", Preset::Complex),
        ("strict", Preset::Strict),
        ("observe", Preset::Observe),
        ("off", Preset::Off),
    ];
}

impl Word for Backoff {
    const WORDS: &'static [(&'static str, Backoff)] =
        &[("exponential", Backoff::Exponential), ("linear", Backoff::Linear), ("fixed", Backoff::Fixed)];
}

impl Word for Unverified {
    const WORDS: &'static [(&'static str, Unverified)] =
        &[("warn", Unverified::Warn), ("block", Unverified::Block), ("allow", Unverified::Allow)];
}

impl Word for GateOrder {
    const WORDS: &'static [(&'static str, GateOrder)] =
        &[("root_cause", GateOrder::RootCause), ("seed", GateOrder::Seed)];
}

impl Word for NewRequest {
    const WORDS: &'static [(&'static str, NewRequest)] =
        &[("drop", NewRequest::Drop), ("keep", NewRequest::Keep)];
}

impl Word for Language {
    const WORDS: &'static [(&'static str, Language)] =
        &[("auto", Language::Auto), ("en", Language::En), ("ru", Language::Ru), ("es", Language::Es)];
}

impl Word for Effect {
    const WORDS: &'static [(&'static str, Effect)] = &[
        ("read", Effect::Read),
        ("write", Effect::Write),
        ("poll", Effect::Poll),
        ("destructive", Effect::Destructive),
    ];
}

impl Word for OnStall {
    const WORDS: &'static [(&'static str, OnStall)] = &[
        ("pause", OnStall::Pause),
        ("switch_to_interactive", OnStall::SwitchToInteractive),
        ("spawn_reviewer", OnStall::SpawnReviewer),
        ("retry_with_new_provider", OnStall::RetryWithNewProvider),
    ];
}

impl Word for OnError {
    const WORDS: &'static [(&'static str, OnError)] =
        &[("allow", OnError::Allow), ("reads", OnError::Reads), ("block", OnError::Block)];
}

impl Section for Budgets {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("warn_percent", &mut self.warn_percent, PERCENT);
        f.section("session", &mut self.session);
        f.section("turn", &mut self.turn);
        f.section("node", &mut self.node);
        f.section("loop", &mut self.loops);
        f.section("message", &mut self.message);
    }
}

impl Section for SessionBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.duration_limit("runtime", &mut self.runtime_ms);
        f.duration_limit("wall", &mut self.wall_ms);
        f.limit("turns", &mut self.turns, COUNT);
        f.limit("iterations", &mut self.iterations, COUNT);
        f.limit("tokens", &mut self.tokens, AMOUNT);
        f.cost("cost_usd", &mut self.cost_micro_usd);
        f.limit("tool_calls", &mut self.tool_calls, COUNT);
    }
}

impl Section for TurnBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.duration_limit("timeout", &mut self.timeout_ms);
        f.limit("tokens", &mut self.tokens, AMOUNT);
    }
}

impl Section for NodeBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("turns", &mut self.turns, COUNT);
        self.turns_set |= f.has("turns");
        f.flag("holds_in_loops", &mut self.turns_set);
        f.duration_limit("runtime", &mut self.runtime_ms);
    }
}

impl Section for LoopBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("iterations", &mut self.iterations, COUNT);
        f.duration_limit("runtime", &mut self.runtime_ms);
        f.cost("cost_usd", &mut self.cost_micro_usd);
    }
}

impl Section for MessageBudget {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("transitions", &mut self.transitions, COUNT);
        f.limit("tool_calls", &mut self.tool_calls, COUNT);
    }
}

impl Section for Guards {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.section("repetition", &mut self.repetition);
        f.section("cycle", &mut self.cycle);
        f.section("recurrence", &mut self.recurrence);
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
        f.limit("limit", &mut self.limit, COUNT);
        f.limit("warn_at", &mut self.warn_at, COUNT);
        f.limit("blocks", &mut self.blocks, COUNT);
        f.flag("result_aware", &mut self.result_aware);
        f.limit("poll_limit", &mut self.poll_limit, COUNT);
    }
}

impl Section for Cycle {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.section("calls", &mut self.calls);
        f.section("transitions", &mut self.transitions);
        f.section("outputs", &mut self.outputs);
        f.limit("blocks", &mut self.blocks, COUNT);
    }
}

impl Section for Periods {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("max_period", &mut self.max_period, PERIOD);
        f.count("repeats", &mut self.repeats, PASSES);
    }
}

impl Section for TransitionCycles {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("max_period", &mut self.max_period, 2..=crate::limits::PERIOD as u64);
        f.count("repeats", &mut self.repeats, PASSES);
        f.limit("suffix_length", &mut self.suffix_length, 2..=10);
        f.limit("self_loop", &mut self.self_loop, 2..=1_000);
        f.count("max_history", &mut self.max_history, 1..=1_000);
        f.flag("declared_loops", &mut self.declared_loops);
    }
}

impl Section for Recurrence {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, 2..=1_000);
        f.count("window", &mut self.window, WINDOW);
        f.limit("stale", &mut self.stale, 2..=1_000);
        f.limit("drift", &mut self.drift, 2..=1_000);
        f.limit("blocks", &mut self.blocks, COUNT);
    }
}

impl Section for Visits {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        self.limit_set |= f.has("limit");
        f.limit("limit", &mut self.limit, COUNT);
        f.flag("holds_in_loops", &mut self.limit_set);
    }
}

impl Section for Transitions {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        self.limit_set |= f.has("limit");
        f.limit("limit", &mut self.limit, COUNT);
        f.flag("holds_in_loops", &mut self.limit_set);
        f.limit("total", &mut self.total, COUNT);
    }
}

impl Section for Stall {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("output", &mut self.output, IN_A_ROW);
        f.limit("structured", &mut self.structured, IN_A_ROW);
        f.limit("diff", &mut self.diff, IN_A_ROW);
        f.limit("failures", &mut self.failures, IN_A_ROW);
        f.limit("turns", &mut self.turns, IN_A_ROW);
    }
}

impl Section for Oscillation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("repeats", &mut self.repeats, PASSES);
    }
}

impl Section for ErrorStreak {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("same_error", &mut self.same_error, COUNT);
        f.limit("warn_at", &mut self.warn_at, COUNT);
        f.limit("any", &mut self.any, COUNT);
        f.count("window", &mut self.window, WINDOW);
        f.limit("rate_percent", &mut self.rate_percent, PERCENT);
        f.limit("blocks", &mut self.blocks, COUNT);
    }
}

impl Section for Validation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, COUNT);
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
        f.limit("limit", &mut self.limit, COUNT);
        f.word("backoff", &mut self.backoff);
        f.duration("base", &mut self.base_ms);
        f.duration("cap", &mut self.cap_ms);
        f.count("jitter_percent", &mut self.jitter_percent, 0..=100);
        f.duration("cooldown", &mut self.cooldown_ms);
        f.duration("max_cooldown", &mut self.max_cooldown_ms);
        f.duration("probe", &mut self.probe_ms);
        f.limit("trips", &mut self.trips, COUNT);
    }
}

impl Section for Gate {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("attempts", &mut self.attempts, COUNT);
        f.limit("item_blocks", &mut self.item_blocks, COUNT);
        f.limit("same_failure", &mut self.same_failure, COUNT);
        f.word("unverified", &mut self.unverified);
        f.word("order", &mut self.order);
        f.flag("backpressure", &mut self.backpressure);
        if let Some(texts) = f.list("dependencies") {
            match dependencies(&texts) {
                Ok(pairs) => self.dependencies = pairs,
                Err((code, what, help)) => f.refuse(code, "dependencies", what, help),
            }
        }
        let texts = self.dependencies.iter().map(|(a, b)| format!("{a}:{b}"));
        f.put_list("dependencies", texts.collect());
    }
}

impl Section for Confirmation {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("unclear", &mut self.unclear, COUNT);
        f.duration_limit("ttl", &mut self.ttl_ms);
        f.flag("abort_on_reaching_max", &mut self.abort_on_reaching_max);
        f.limit("aborts", &mut self.aborts, COUNT);
        f.word("on_new_request", &mut self.on_new_request);
        f.word("language", &mut self.language);
        f.texts("texts", &mut self.texts);
    }
}

impl Section for Question {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW);
    }
}

impl Section for Denial {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("consecutive", &mut self.consecutive, COUNT);
        f.count("of", &mut self.of, 1..=1_000);
        f.limit("total", &mut self.total, COUNT);
    }
}

impl Section for Monologue {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("limit", &mut self.limit, IN_A_ROW);
        f.count("similarity", &mut self.similarity_percent, PERCENT);
        f.limit("chant", &mut self.chant, IN_A_ROW);
    }
}

impl Section for LargeResponse {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.word("mode", &mut self.mode);
        f.limit("threshold", &mut self.threshold, CHARACTERS);
        f.count("preview", &mut self.preview, 0..=100_000);
    }
}

impl Section for NodePolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        self.budget.fields(f);
        f.flag("allow_cycles", &mut self.allow_cycles);
        self.guards.fields(f);
    }
}

impl Section for EdgePolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        self.guards.fields(f);
    }
}

impl Section for ToolPolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.optional_word("effect", &mut self.effect);
        self.guards.fields(f);
    }
}

impl Section for Releases {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.count("grant", &mut self.grant, 1..=1_000);
        f.count("ceiling", &mut self.ceiling, 0..=1_000);
    }
}

impl Section for Labels {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.text("prefix", &mut self.prefix);
    }
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
