//! Settings of each guard: mode, limits and defaults.
//!
//! Each guard has a struct of plain integers, so it reads its limits without parsing. The values of the policy file
//! (`5`, `off`, `10m`) are converted once, when the policy is resolved.

pub use super::interaction_guards::{
    BackoffStrategy, ConfirmationPolicy, DenialPolicy, GateOrder, GatePolicy, LanguageSetting,
    LargeResponsePolicy, MonologuePolicy, NewRequestAction, QuestionPolicy, RetryLimits, RetryPolicy,
    UnverifiedAction, ValidationPolicy,
};

use serde::{Deserialize, Serialize};

/// An optional limit: `None` means off.
pub type Limit = Option<u64>;

/// One minute in milliseconds.
pub(crate) const MINUTE_MS: u64 = 60_000;
/// One hour in milliseconds.
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Action when a guard trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
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
    #[default]
    Staged,
}

impl GuardMode {
    /// The name of this mode in a policy file.
    pub fn as_str(self) -> &'static str {
        match self {
            GuardMode::Off => "off",
            GuardMode::Observe => "observe",
            GuardMode::Warn => "warn",
            GuardMode::Block => "block",
            GuardMode::Halt => "halt",
            GuardMode::Staged => "staged",
        }
    }

    /// Whether the guard evaluates events.
    pub fn is_on(self) -> bool {
        self != GuardMode::Off
    }
}

/// The settings of every guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardPolicies {
    /// Repeated identical calls.
    pub repetition: RepetitionPolicy,
    /// A repeating sequence of calls, transitions or outputs.
    pub cycle: CyclePolicy,
    /// The same call with the same result at irregular intervals.
    pub recurrence: RecurrencePolicy,
    /// Transitions that are not part of the declared workflow.
    pub workflow: DeclaredWorkflowPolicy,
    /// Entries into one node.
    pub visits: VisitsPolicy,
    /// Uses of one edge.
    pub transitions: TransitionsPolicy,
    /// No progress: unchanged outputs, diffs or failing tests.
    pub stall: StallPolicy,
    /// Outputs, diffs or states that alternate: A, B, A, B.
    pub oscillation: OscillationPolicy,
    /// Consecutive errors: the same one, or any.
    pub error_streak: ErrorStreakPolicy,
    /// Model responses that fail to parse.
    pub validation: ValidationPolicy,
    /// Attempts at one operation, with backoff and a circuit breaker.
    pub retry: RetryPolicy,
    /// Completion checks: tests, lint, build, checklist.
    pub gate: GatePolicy,
    /// A person's answer to a plan.
    pub confirmation: ConfirmationPolicy,
    /// The same question asked of a person again.
    pub question: QuestionPolicy,
    /// Repeated requests for a denied action.
    pub denial: DenialPolicy,
    /// The same message again, or repetition within one message.
    pub monologue: MonologuePolicy,
    /// Outputs too large for the context.
    pub large_response: LargeResponsePolicy,
}

impl GuardPolicies {
    /// The names of all guards under `guards:`, in a fixed order.
    pub const NAMES: [&'static str; 17] = [
        "repetition",
        "cycle",
        "recurrence",
        "workflow",
        "visits",
        "transitions",
        "stall",
        "oscillation",
        "error_streak",
        "validation",
        "retry",
        "gate",
        "confirmation",
        "question",
        "denial",
        "monologue",
        "large_response",
    ];

    /// The modes of all guards in the order of [`GuardPolicies::NAMES`].
    pub fn modes(&self) -> [GuardMode; 17] {
        [
            self.repetition.mode,
            self.cycle.mode,
            self.recurrence.mode,
            self.workflow.mode,
            self.visits.mode,
            self.transitions.mode,
            self.stall.mode,
            self.oscillation.mode,
            self.error_streak.mode,
            self.validation.mode,
            self.retry.mode,
            self.gate.mode,
            self.confirmation.mode,
            self.question.mode,
            self.denial.mode,
            self.monologue.mode,
            self.large_response.mode,
        ]
    }

    /// Sets every guard to one mode.
    pub fn set_all(&mut self, mode: GuardMode) {
        for slot in [
            &mut self.repetition.mode,
            &mut self.cycle.mode,
            &mut self.recurrence.mode,
            &mut self.workflow.mode,
            &mut self.visits.mode,
            &mut self.transitions.mode,
            &mut self.stall.mode,
            &mut self.oscillation.mode,
            &mut self.error_streak.mode,
            &mut self.validation.mode,
            &mut self.retry.mode,
            &mut self.gate.mode,
            &mut self.confirmation.mode,
            &mut self.question.mode,
            &mut self.denial.mode,
            &mut self.monologue.mode,
            &mut self.large_response.mode,
        ] {
            *slot = mode;
        }
    }
}

/// `repetition`: identical consecutive calls. `limit` calls are allowed; the next one is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepetitionPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Identical consecutive calls allowed; the next one is blocked.
    pub limit: Limit,
    /// Number of identical consecutive calls at which warnings start.
    pub warn_at: Limit,
    /// The Nth block halts the session.
    pub blocks: Limit,
    /// Whether a call with a changed (normalized) result does not count as a repetition.
    pub result_aware: bool,
    /// Limit for tools with effect `poll`.
    pub poll_limit: Limit,
}

impl Default for RepetitionPolicy {
    fn default() -> Self {
        RepetitionPolicy {
            mode: GuardMode::Staged,
            limit: Some(5),
            warn_at: Some(3),
            blocks: Some(3),
            result_aware: true,
            poll_limit: Some(20),
        }
    }
}

/// `cycle`: a repeating sequence of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclePolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Cycles of (call, result) pairs.
    pub calls: CyclePeriods,
    /// Cycles of transitions between nodes.
    pub transitions: TransitionCycles,
    /// Cycles of output fingerprints.
    pub outputs: CyclePeriods,
    /// The Nth block halts the session.
    pub blocks: Limit,
}

impl Default for CyclePolicy {
    fn default() -> Self {
        CyclePolicy {
            mode: GuardMode::Staged,
            calls: CyclePeriods::default(),
            transitions: TransitionCycles::default(),
            outputs: CyclePeriods::default(),
            blocks: Some(3),
        }
    }
}

/// The periods a cycle detector looks for, and the number of repeats that count as a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclePeriods {
    /// Longest sequence to look for; `None` = this detector is off.
    pub max_period: Limit,
    /// Repeats of the sequence that count as a cycle.
    pub repeats: u64,
}

impl Default for CyclePeriods {
    fn default() -> Self {
        CyclePeriods { max_period: Some(64), repeats: 3 }
    }
}

/// Transition cycles: periodic sequences, recurring suffixes, self-loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionCycles {
    /// Longest sequence to look for; `None` = the periodic rule is off.
    pub max_period: Limit,
    /// Repeats of the sequence that count as a cycle.
    pub repeats: u64,
    /// Length of the recurring suffix, 2 to 10; `None` = off.
    pub suffix_length: Limit,
    /// Consecutive self-transitions allowed; `None` = self-transitions count like any other transition.
    pub self_loop: Limit,
    /// Transitions shown in reports. The detector keeps as many as its periods need.
    pub max_history: u64,
    /// Whether to also look inside loops that the workflow declares, which have their own budget and progress signals.
    pub declared_loops: bool,
}

impl Default for TransitionCycles {
    fn default() -> Self {
        TransitionCycles {
            max_period: Some(10),
            repeats: 3,
            suffix_length: Some(3),
            self_loop: Some(5),
            max_history: 10,
            declared_loops: false,
        }
    }
}

/// The limit inside a loop that the workflow declares: raised to fit the loop budget, unless it was set explicitly.
fn widen_in_loop(limit: Limit, set: bool, needed: Limit) -> Limit {
    match (limit, needed) {
        (Some(limit), _) if set => Some(limit),
        (Some(limit), Some(needed)) => Some(limit.max(needed)),
        _ => None,
    }
}

impl VisitsPolicy {
    /// Visits allowed inside a declared loop of this many iterations: at least `iterations + 2`.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        widen_in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(2)))
    }
}

impl TransitionsPolicy {
    /// Uses of an edge inside a declared loop of this many iterations.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        widen_in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(1)))
    }
}

impl TransitionCycles {
    /// Transitions the detector must keep: enough for every enabled rule, and at least `max_history`.
    pub fn history_needed(&self) -> u64 {
        let periodic = self.max_period.unwrap_or(0).saturating_mul(self.repeats);
        let suffix = self.suffix_length.map_or(0, |length| length.saturating_mul(3).max(10));
        self.max_history.max(periodic).max(suffix).max(self.self_loop.unwrap_or(0))
    }
}

/// `recurrence`: the same (call, result) pair at irregular intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurrencePolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Occurrences of one (call, result) pair allowed without a new write; the next one causes a warning.
    pub limit: Limit,
    /// Number of recent calls considered for `stale`.
    pub window: u64,
    /// Calls among the last `window` that return nothing new.
    pub stale: Limit,
    /// Consecutive calls to one tool whose arguments differ only in their numbers.
    pub drift: Limit,
    /// The Nth block halts the session.
    pub blocks: Limit,
}

impl Default for RecurrencePolicy {
    fn default() -> Self {
        RecurrencePolicy {
            mode: GuardMode::Staged,
            limit: Some(6),
            window: 12,
            stale: Some(7),
            drift: Some(12),
            blocks: Some(3),
        }
    }
}

/// `workflow`: transitions that are not part of the declared workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredWorkflowPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// The Nth consecutive refusal escalates to a person; an accepted transition resets the count.
    pub blocks: Limit,
}

impl Default for DeclaredWorkflowPolicy {
    fn default() -> Self {
        DeclaredWorkflowPolicy { mode: GuardMode::Staged, blocks: Some(3) }
    }
}

/// `visits`: entries into one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitsPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Visits allowed; the next one is blocked.
    pub limit: Limit,
    /// Whether the limit was set explicitly; if so, it also applies inside declared loops.
    pub limit_set: bool,
}

impl Default for VisitsPolicy {
    fn default() -> Self {
        VisitsPolicy { mode: GuardMode::Staged, limit: Some(10), limit_set: false }
    }
}

/// `transitions`: uses of one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionsPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Uses of one edge allowed; the next one is blocked.
    pub limit: Limit,
    /// Whether the limit was set explicitly; if so, it also applies inside declared loops.
    pub limit_set: bool,
    /// Total transitions across all edges.
    pub total: Limit,
}

impl Default for TransitionsPolicy {
    fn default() -> Self {
        TransitionsPolicy { mode: GuardMode::Staged, limit: Some(5), limit_set: false, total: None }
    }
}

/// `stall`: consecutive identical observations, including the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Consecutive identical outputs that trip the guard.
    pub output: Limit,
    /// Consecutive identical structured outputs that trip the guard.
    pub structured: Limit,
    /// Consecutive identical diffs that trip the guard.
    pub diff: Limit,
    /// Consecutive test runs with the same failures, or without a new minimum, that trip the guard.
    pub failures: Limit,
    /// Conversation turns allowed without any progress.
    pub turns: Limit,
}

impl Default for StallPolicy {
    fn default() -> Self {
        StallPolicy {
            mode: GuardMode::Staged,
            output: Some(3),
            structured: Some(3),
            diff: Some(2),
            failures: Some(3),
            turns: Some(10),
        }
    }
}

/// `oscillation`: outputs, diffs or states that alternate: A, B, A, B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OscillationPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Repeats of the pair that count as an oscillation.
    pub repeats: Limit,
}

impl Default for OscillationPolicy {
    fn default() -> Self {
        OscillationPolicy { mode: GuardMode::Staged, repeats: Some(2) }
    }
}

/// `error_streak`: consecutive failures, and the failure rate over a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorStreakPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Consecutive occurrences of the same (normalized) error that trip the guard.
    pub same_error: Limit,
    /// Consecutive occurrences of the same error that cause a warning.
    pub warn_at: Limit,
    /// Consecutive failures of any kind that trip the guard.
    pub any: Limit,
    /// Number of recent calls for the failure rate.
    pub window: u64,
    /// Failure rate within the window that trips the guard, in percent.
    pub rate_percent: Limit,
    /// The Nth block halts the session.
    pub blocks: Limit,
}

impl Default for ErrorStreakPolicy {
    fn default() -> Self {
        ErrorStreakPolicy {
            mode: GuardMode::Staged,
            same_error: Some(4),
            warn_at: Some(3),
            any: Some(5),
            window: 20,
            rate_percent: Some(80),
            blocks: Some(3),
        }
    }
}
