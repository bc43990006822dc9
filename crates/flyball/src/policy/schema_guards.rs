//! Schema types of the `guards:` section.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::file_cycles::CycleFile;
use super::schema::{DurationValue, LimitValue};

/// Action when the guard trips.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum ModeValue {
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
    Staged,
}

/// A guard: its keys, or only its mode.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum GuardSetting<T> {
    /// The guard's keys.
    Keys(T),
    /// A mode.
    Mode(ModeValue),
    /// `false` means `off`, `true` means `staged`.
    Switch(bool),
    /// An empty value changes nothing.
    Nothing(()),
}

/// The guards. Each takes a map of keys or only a mode.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GuardsFile {
    /// Repeated identical calls.
    pub(super) repetition: Option<GuardSetting<RepetitionFile>>,
    /// A repeating sequence of calls, transitions or outputs.
    pub(super) cycle: Option<GuardSetting<CycleFile>>,
    /// The same call with the same result at irregular intervals.
    pub(super) recurrence: Option<GuardSetting<RecurrenceFile>>,
    /// Transitions that are not part of the declared workflow.
    pub(super) workflow: Option<GuardSetting<DeclaredWorkflowFile>>,
    /// Entries into one node.
    pub(super) visits: Option<GuardSetting<VisitsFile>>,
    /// Uses of one edge.
    pub(super) transitions: Option<GuardSetting<TransitionsFile>>,
    /// No progress: unchanged outputs, diffs or failing tests.
    pub(super) stall: Option<GuardSetting<StallFile>>,
    /// Outputs, diffs or states that alternate: A, B, A, B.
    pub(super) oscillation: Option<GuardSetting<OscillationFile>>,
    /// Consecutive errors: the same one, or any.
    pub(super) error_streak: Option<GuardSetting<ErrorStreakFile>>,
    /// Model responses that fail to parse.
    pub(super) validation: Option<GuardSetting<ValidationFile>>,
    /// Attempts at one operation, with backoff and a circuit breaker.
    pub(super) retry: Option<GuardSetting<RetryFile>>,
    /// Completion checks: tests, lint, build, checklist.
    pub(super) gate: Option<GuardSetting<GateFile>>,
    /// A person's answer to a plan.
    pub(super) confirmation: Option<GuardSetting<ConfirmationFile>>,
    /// The same question asked of a person again.
    pub(super) question: Option<GuardSetting<QuestionFile>>,
    /// Repeated requests for a denied action.
    pub(super) denial: Option<GuardSetting<DenialFile>>,
    /// The same message again, or repetition within one message.
    pub(super) monologue: Option<GuardSetting<MonologueFile>>,
    /// Outputs too large for the context.
    pub(super) large_response: Option<GuardSetting<LargeResponseFile>>,
}

/// Identical consecutive calls.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RepetitionFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Identical consecutive calls allowed; the next one is blocked. Default: 5.
    pub(super) limit: Option<LimitValue>,
    /// Number of identical consecutive calls at which warnings start. Default: 3.
    pub(super) warn_at: Option<LimitValue>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
    /// Whether a call with a changed (normalized) result does not count as a repetition. Default: true.
    pub(super) result_aware: Option<bool>,
    /// Limit for tools with effect `poll`. Default: 20.
    pub(super) poll_limit: Option<LimitValue>,
}

/// A guard with no keys except its mode.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ModeFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
}

/// Transitions that are not part of the declared workflow.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeclaredWorkflowFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// The Nth consecutive refusal escalates to a person; an accepted transition resets the count. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// The same (call, result) pair at irregular intervals.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RecurrenceFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Occurrences of one (call, result) pair allowed without a new write; the next one causes a warning. Default: 6.
    pub(super) limit: Option<LimitValue>,
    /// Number of recent calls considered for `stale`, 2 to 64. Default: 12.
    pub(super) window: Option<u64>,
    /// Calls among the last `window` that return nothing new. Default: 7.
    pub(super) stale: Option<LimitValue>,
    /// Consecutive calls to one tool whose arguments differ only in their numbers. Default: 12.
    pub(super) drift: Option<LimitValue>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Entries into one node.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct VisitsFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Visits allowed; the next one is blocked. Default: 10.
    pub(super) limit: Option<LimitValue>,
    /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
    /// loop budget. Default: true if the limit is set explicitly, otherwise false.
    pub(super) holds_in_loops: Option<bool>,
}

/// Uses of one edge.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct TransitionsFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Uses of one edge allowed; the next one is blocked. Default: 5.
    pub(super) limit: Option<LimitValue>,
    /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
    /// loop budget. Default: true if the limit is set explicitly, otherwise false.
    pub(super) holds_in_loops: Option<bool>,
    /// Total transitions across all edges. Default: off.
    pub(super) total: Option<LimitValue>,
}

/// Consecutive identical observations, including the first.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StallFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Consecutive identical outputs that trip the guard. Default: 3.
    pub(super) output: Option<LimitValue>,
    /// Consecutive identical structured outputs that trip the guard. Default: 3.
    pub(super) structured: Option<LimitValue>,
    /// Consecutive identical diffs that trip the guard. Default: 2.
    pub(super) diff: Option<LimitValue>,
    /// Consecutive test runs with the same failures, or without a new minimum, that trip the guard. Default: 3.
    pub(super) failures: Option<LimitValue>,
    /// Conversation turns allowed without any progress. Default: 10.
    pub(super) turns: Option<LimitValue>,
}

/// Outputs, diffs or states that alternate: A, B, A, B.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct OscillationFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Repeats of the pair that count as an oscillation, 2 to 4. Default: 2.
    pub(super) repeats: Option<LimitValue>,
}

/// Consecutive failures, and the failure rate over a window.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ErrorStreakFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Consecutive occurrences of the same (normalized) error that trip the guard. Default: 4.
    pub(super) same_error: Option<LimitValue>,
    /// Consecutive occurrences of the same error that cause a warning. Default: 3.
    pub(super) warn_at: Option<LimitValue>,
    /// Consecutive failures of any kind that trip the guard. Default: 5.
    pub(super) any: Option<LimitValue>,
    /// Number of recent calls for the failure rate, 2 to 64. Default: 20.
    pub(super) window: Option<u64>,
    /// Failure rate within the window that trips the guard, in percent. Default: 80.
    pub(super) rate_percent: Option<LimitValue>,
    /// The Nth block halts the session. Default: 3.
    pub(super) blocks: Option<LimitValue>,
}

/// Consecutive model responses that fail to parse.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ValidationFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// The Nth consecutive failure trips. Default: 3.
    pub(super) limit: Option<LimitValue>,
}

/// Attempts at one operation.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RetryFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Attempts allowed; the next one is blocked. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// How the delay between attempts grows. Default: `exponential`.
    pub(super) backoff: Option<BackoffValue>,
    /// Delay before the first retry. Default: 1s.
    pub(super) base: Option<DurationValue>,
    /// Maximum delay. Default: 60s.
    pub(super) cap: Option<DurationValue>,
    /// Jitter of the delay, in percent. Default: 10.
    pub(super) jitter_percent: Option<u64>,
    /// How long the open circuit breaker blocks. Default: 60s.
    pub(super) cooldown: Option<DurationValue>,
    /// Maximum cooldown after repeated trips. Default: 15m.
    pub(super) max_cooldown: Option<DurationValue>,
    /// How long a half-open circuit breaker waits for its probe. Default: 60s.
    pub(super) probe: Option<DurationValue>,
    /// The Nth trip escalates to a person. Default: 3.
    pub(super) trips: Option<LimitValue>,
    /// Overrides for individual operations, by name.
    pub(super) operations: Option<BTreeMap<String, RetryOperationFile>>,
}

/// Attempts at one named operation; omitted keys come from `retry`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct RetryOperationFile {
    /// Attempts allowed; the next one is blocked. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// How the delay between attempts grows. Default: `exponential`.
    pub(super) backoff: Option<BackoffValue>,
    /// Delay before the first retry. Default: 1s.
    pub(super) base: Option<DurationValue>,
    /// Maximum delay. Default: 60s.
    pub(super) cap: Option<DurationValue>,
    /// Jitter of the delay, in percent. Default: 10.
    pub(super) jitter_percent: Option<u64>,
    /// How long the open circuit breaker blocks. Default: 60s.
    pub(super) cooldown: Option<DurationValue>,
    /// Maximum cooldown after repeated trips. Default: 15m.
    pub(super) max_cooldown: Option<DurationValue>,
    /// How long a half-open circuit breaker waits for its probe. Default: 60s.
    pub(super) probe: Option<DurationValue>,
    /// The Nth trip escalates to a person. Default: 3.
    pub(super) trips: Option<LimitValue>,
}

/// How the delay between attempts grows.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum BackoffValue {
    /// The delay doubles each time.
    Exponential,
    /// The delay grows by `base` each time.
    Linear,
    /// The delay stays the same.
    Fixed,
}

/// Completion checks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GateFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// The Nth failed attempt trips. Default: 5.
    pub(super) attempts: Option<LimitValue>,
    /// Blocks by one checklist item that trip the guard. Default: 3.
    pub(super) item_blocks: Option<LimitValue>,
    /// Consecutive identical failures that trip the guard. Default: 3.
    pub(super) same_failure: Option<LimitValue>,
    /// Action when every check was skipped. Default: `warn`.
    pub(super) unverified: Option<UnverifiedValue>,
    /// Which failed check is reported first. Default: `root_cause`.
    pub(super) order: Option<GateOrderValue>,
    /// Whether a failed gate prevents completion. Default: true.
    pub(super) backpressure: Option<bool>,
    /// Dependencies between checks: `lint:build` skips lint if the build failed.
    pub(super) dependencies: Option<Vec<String>>,
}

/// Action when every check was skipped.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum UnverifiedValue {
    /// Completion passes with a warning.
    Warn,
    /// Completion is blocked.
    Block,
    /// Completion passes.
    Allow,
}

/// Which failed check is reported first.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum GateOrderValue {
    /// Build, then tests, then lint.
    RootCause,
    /// Tests, then lint, then build.
    Seed,
}

/// A person's answer to a plan.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ConfirmationFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Unclear answers that are asked again; the next one aborts the plan. Default: 3.
    pub(super) unclear: Option<LimitValue>,
    /// How long to wait for an answer. Default: 1h.
    pub(super) ttl: Option<DurationValue>,
    /// Whether to abort on the answer that reaches `unclear` instead of the one after it. Default: false.
    pub(super) abort_on_reaching_max: Option<bool>,
    /// The Nth consecutive abort escalates to a person; a clear answer resets the count. Default: 3.
    pub(super) aborts: Option<LimitValue>,
    /// How a pending plan is handled when the person asks for something else. Default: `drop`.
    pub(super) on_new_request: Option<NewRequestValue>,
    /// Language of the questions. Default: `auto`.
    pub(super) language: Option<LanguageValue>,
    /// Overrides for the built-in texts, by name.
    pub(super) texts: Option<BTreeMap<String, String>>,
}

/// How a pending plan is handled when the person asks for something else.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum NewRequestValue {
    /// The plan is dropped, and the person is notified.
    Drop,
    /// The plan stays pending, and the person is reminded of it.
    Keep,
}

/// The language of questions to a person.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum LanguageValue {
    /// Detected from the person's messages.
    Auto,
    /// English.
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}

/// Consecutive identical questions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct QuestionFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Consecutive identical questions that trip the guard. Default: 3.
    pub(super) limit: Option<LimitValue>,
}

/// Repeated requests for a denied action.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DenialFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Consecutive requests for the same denied action. Default: 3.
    pub(super) consecutive: Option<LimitValue>,
    /// Number of recent requests for `total`, 1 to 64. Default: 50.
    pub(super) of: Option<u64>,
    /// Denials among the last `of` requests. Default: 10.
    pub(super) total: Option<LimitValue>,
}

/// Repeated messages that are identical or nearly identical.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MonologueFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Consecutive identical or similar messages. Default: 3.
    pub(super) limit: Option<LimitValue>,
    /// Minimum similarity for two messages to count as the same, in percent. Default: 80.
    pub(super) similarity: Option<u64>,
    /// Repeats of one passage within one message. Default: 4.
    pub(super) chant: Option<LimitValue>,
}

/// Large outputs, which are written to a file.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LargeResponseFile {
    /// Action when the guard trips. Default: `staged`.
    pub(super) mode: Option<ModeValue>,
    /// Longest output passed through, in characters. Default: 200000.
    pub(super) threshold: Option<LimitValue>,
    /// Length of the preview, in characters. Default: 1000.
    pub(super) preview: Option<u64>,
}
