//! The guards of a policy file as they are written, for the JSON schema.
#![allow(dead_code)] // The schema is made from the types; no value of them is ever built.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::file::{DurationValue, LimitValue};
use super::file_cycles::CycleFile;

/// What a trip leads to.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum ModeWord {
    /// The guard does not look at all.
    Off,
    /// It is reported, and the answer stays `allow`.
    Observe,
    /// The strictest answer is `warn`.
    Warn,
    /// A trip is answered with `block`.
    Block,
    /// A trip is answered with `halt`.
    Halt,
    /// The guard's own ladder: the default.
    Staged,
}

/// A guard: its keys, or a mode alone.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum GuardSetting<T> {
    /// The guard's keys.
    Keys(T),
    /// A mode.
    Mode(ModeWord),
    /// False is `off`, true is `staged`.
    Switch(bool),
    /// Nothing written: no change.
    Nothing(()),
}

/// The guards. Each has a mode and its own keys, or is just a mode.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GuardsFile {
    /// The same call again and again.
    pub(super) repetition: Option<GuardSetting<RepetitionFile>>,
    /// A block of calls, transitions or outputs that repeats.
    pub(super) cycle: Option<GuardSetting<CycleFile>>,
    /// The same call with the same result, without a fixed period.
    pub(super) recurrence: Option<GuardSetting<RecurrenceFile>>,
    /// Transitions that the declared workflow does not have.
    pub(super) workflow: Option<GuardSetting<DeclaredWorkflowFile>>,
    /// Entries into one node.
    pub(super) visits: Option<GuardSetting<VisitsFile>>,
    /// Uses of one edge.
    pub(super) transitions: Option<GuardSetting<TransitionsFile>>,
    /// No progress: outputs, diffs, failing tests stay the same.
    pub(super) stall: Option<GuardSetting<StallFile>>,
    /// A, B, A, B of outputs, diffs or states.
    pub(super) oscillation: Option<GuardSetting<OscillationFile>>,
    /// The same error, or any error, again and again.
    pub(super) error_streak: Option<GuardSetting<ErrorStreakFile>>,
    /// Answers of the model that cannot be read.
    pub(super) validation: Option<GuardSetting<ValidationFile>>,
    /// Attempts of one operation, with backoff and a breaker.
    pub(super) retry: Option<GuardSetting<RetryFile>>,
    /// Completion checks: tests, lint, build, checklist.
    pub(super) gate: Option<GuardSetting<GateFile>>,
    /// A person's answer to a plan.
    pub(super) confirmation: Option<GuardSetting<ConfirmationFile>>,
    /// The same question to a person.
    pub(super) question: Option<GuardSetting<QuestionFile>>,
    /// A refused act asked again.
    pub(super) denial: Option<GuardSetting<DenialFile>>,
    /// The same message, or chanting inside one message.
    pub(super) monologue: Option<GuardSetting<MonologueFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<LargeResponseFile>>,
}

/// Identical consecutive calls.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RepetitionFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Identical consecutive calls that may run. Default: 5.
    pub(super) limit: Option<LimitValue>,
    /// From this count on the answer is `warn`. Default: 3.
    pub(super) warn_at: Option<LimitValue>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
    /// A call whose normalised result changes is not a repetition. Default: true.
    pub(super) result_aware: Option<bool>,
    /// The limit for tools with effect `poll`. Default: 20.
    pub(super) poll_limit: Option<LimitValue>,
}

/// The mode of a guard alone.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ModeFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
}

/// Transitions that the declared workflow does not have.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeclaredWorkflowFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The refusal with this number, with no accepted transition in between, calls a person. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// The same (call, result) again without a fixed period.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RecurrenceFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The same (call, result) inside the window. Default: 6.
    pub(super) limit: Option<LimitValue>,
    /// Calls looked back at, 2 to 64. Default: 12.
    pub(super) window: Option<u64>,
    /// Calls in a row that bring nothing new. Default: 7.
    pub(super) stale: Option<LimitValue>,
    /// Calls in a row of one tool whose arguments only drift. Default: 12.
    pub(super) drift: Option<LimitValue>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Entries into one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct VisitsFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Visits allowed; the next is refused. Default: 10.
    pub(super) limit: Option<LimitValue>,
    /// Whether the limit also holds inside loops that the workflow declares; otherwise it is widened there to what
    /// the loop budget needs. Default: true if somebody wrote the limit, else false.
    pub(super) holds_in_loops: Option<bool>,
}

/// Uses of one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct TransitionsFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Uses of one edge allowed; the next is refused. Default: 5.
    pub(super) limit: Option<LimitValue>,
    /// Whether the limit also holds inside loops that the workflow declares; otherwise it is widened there to what
    /// the loop budget needs. Default: true if somebody wrote the limit, else false.
    pub(super) holds_in_loops: Option<bool>,
    /// Transitions of all edges together. Default: off.
    pub(super) total: Option<LimitValue>,
}

/// Equal observations in a row, the first included.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StallFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The same output. Default: 3.
    pub(super) output: Option<LimitValue>,
    /// The same structured output. Default: 3.
    pub(super) structured: Option<LimitValue>,
    /// An unchanged diff. Default: 2.
    pub(super) diff: Option<LimitValue>,
    /// The same failing set, or no new minimum of failures. Default: 3.
    pub(super) failures: Option<LimitValue>,
    /// Turns without any progress. Default: 10.
    pub(super) turns: Option<LimitValue>,
}

/// A, B, A, B of outputs, diffs or states.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct OscillationFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Passes of the pair that make an oscillation, 2 to 4. Default: 2.
    pub(super) repeats: Option<LimitValue>,
}

/// Failures in a row, and the failure rate over a window.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorStreakFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The same normalised error in a row. Default: 4.
    pub(super) same_error: Option<LimitValue>,
    /// The same error in a row that is answered with `warn`. Default: 3.
    pub(super) warn_at: Option<LimitValue>,
    /// Failures of any kind in a row. Default: 5.
    pub(super) any: Option<LimitValue>,
    /// Calls over which the failure rate is taken, 2 to 64. Default: 20.
    pub(super) window: Option<u64>,
    /// Failures in percent of the window. Default: 80.
    pub(super) rate_percent: Option<LimitValue>,
    /// The block with this number is a halt. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Unreadable answers of the model in a row.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ValidationFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The failure with this number trips. Default: 3.
    pub(super) limit: Option<LimitValue>,
}

/// Attempts of one operation.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RetryFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Attempts allowed; the next is refused. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// How the pause between attempts grows. Default: `exponential`.
    pub(super) backoff: Option<BackoffWord>,
    /// The first pause. Default: 1s.
    pub(super) base: Option<DurationValue>,
    /// The longest pause. Default: 60s.
    pub(super) cap: Option<DurationValue>,
    /// Spread of the pause in percent. Default: 10.
    pub(super) jitter_percent: Option<u64>,
    /// How long the open breaker refuses. Default: 60s.
    pub(super) cooldown: Option<DurationValue>,
    /// The longest cooldown after repeated trips. Default: 15m.
    pub(super) max_cooldown: Option<DurationValue>,
    /// How long a half-open breaker waits for its probe. Default: 60s.
    pub(super) probe: Option<DurationValue>,
    /// The trip with this number goes to a person. Default: 3.
    pub(super) trips: Option<LimitValue>,
    /// Limits of single operations, by name.
    pub(super) operations: Option<BTreeMap<String, RetryOperationFile>>,
}

/// Attempts of one named operation; what is not written is taken from `retry`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RetryOperationFile {
    /// Attempts allowed; the next is refused. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// How the pause between attempts grows. Default: `exponential`.
    pub(super) backoff: Option<BackoffWord>,
    /// The first pause. Default: 1s.
    pub(super) base: Option<DurationValue>,
    /// The longest pause. Default: 60s.
    pub(super) cap: Option<DurationValue>,
    /// Spread of the pause in percent. Default: 10.
    pub(super) jitter_percent: Option<u64>,
    /// How long the open breaker refuses. Default: 60s.
    pub(super) cooldown: Option<DurationValue>,
    /// The longest cooldown after repeated trips. Default: 15m.
    pub(super) max_cooldown: Option<DurationValue>,
    /// How long a half-open breaker waits for its probe. Default: 60s.
    pub(super) probe: Option<DurationValue>,
    /// The trip with this number goes to a person. Default: 3.
    pub(super) trips: Option<LimitValue>,
}

/// How the pause between attempts grows.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum BackoffWord {
    /// Doubles each time.
    Exponential,
    /// Grows by the base each time.
    Linear,
    /// Stays the same.
    Fixed,
}

/// Completion checks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GateFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The failed attempt with this number trips. Default: 5.
    pub(super) attempts: Option<LimitValue>,
    /// Blocks of one checklist item. Default: 3.
    pub(super) item_blocks: Option<LimitValue>,
    /// The same failure in a row. Default: 3.
    pub(super) same_failure: Option<LimitValue>,
    /// What happens when every check was skipped. Default: `warn`.
    pub(super) unverified: Option<UnverifiedWord>,
    /// Which failed check is named first. Default: `root_cause`.
    pub(super) order: Option<OrderWord>,
    /// Whether a failed gate holds completion back. Default: true.
    pub(super) backpressure: Option<bool>,
    /// `lint:build`: lint is skipped when build failed.
    pub(super) dependencies: Option<Vec<String>>,
}

/// What happens when every check was skipped.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum UnverifiedWord {
    /// Completion passes with a warning.
    Warn,
    /// Completion is refused.
    Block,
    /// Completion passes.
    Allow,
}

/// Which failed check is named first.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OrderWord {
    /// Build, then tests, then lint.
    RootCause,
    /// Tests, then lint, then build.
    Seed,
}

/// A person's answer to a plan.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ConfirmationFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Unclear answers that are asked again; the next aborts. Default: 3.
    pub(super) unclear: Option<LimitValue>,
    /// How long an answer is waited for. Default: 1h.
    pub(super) ttl: Option<DurationValue>,
    /// Abort on the answer that reaches `unclear`. Default: false.
    pub(super) abort_on_reaching_max: Option<bool>,
    /// The abort with this number, without a clear answer between, calls a person. Default: 3.
    pub(super) aborts: Option<LimitValue>,
    /// What becomes of a plan that waits when the person asks for something else. Default: `drop`.
    pub(super) on_new_request: Option<NewRequestWord>,
    /// The language of the questions. Default: `auto`.
    pub(super) language: Option<LanguageWord>,
    /// Texts that replace the built-in ones, by name.
    pub(super) texts: Option<BTreeMap<String, String>>,
}

/// What becomes of a plan that waits when the person asks for something else.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum NewRequestWord {
    /// The plan is dropped, and the person is told.
    Drop,
    /// The plan waits on, and the person is reminded of it.
    Keep,
}

/// The language of questions to a person.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum LanguageWord {
    /// Taken from the person's own words.
    Auto,
    /// English.
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}

/// The same question in a row.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct QuestionFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The same question in a row. Default: 3.
    pub(super) limit: Option<LimitValue>,
}

/// A refused act asked again.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DenialFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// The same refused act in a row. Default: 3.
    pub(super) consecutive: Option<LimitValue>,
    /// Requests over which `total` is counted, 1 to 64. Default: 50.
    pub(super) of: Option<u64>,
    /// Refusals among the last `of` requests. Default: 10.
    pub(super) total: Option<LimitValue>,
}

/// The same or nearly the same message again.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MonologueFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Equal or similar messages in a row. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// From this similarity on two messages count as the same, in percent. Default: 80.
    pub(super) similarity: Option<u64>,
    /// Repeats of one passage inside one message. Default: 4.
    pub(super) chant: Option<LimitValue>,
}

/// Outputs that go to a file.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LargeResponseFile {
    /// What a trip leads to. Default: `staged`.
    pub(super) mode: Option<ModeWord>,
    /// Characters up to which an output is passed through. Default: 200000.
    pub(super) threshold: Option<LimitValue>,
    /// Characters of the preview. Default: 1000.
    pub(super) preview: Option<u64>,
}
