//! What each guard is told: its mode and its limits, with the defaults.
//!
//! One struct a guard, plain integers inside, so that a guard reads its limits
//! without parsing anything. The words of the policy file (`5`, `off`, `10m`)
//! are turned into these types once, when the policy is resolved.

pub use super::guards_work::{
    Backoff, Confirmation, Denial, Gate, GateOrder, Language, LargeResponse, Monologue, NewRequest, Question,
    Retry, RetryLimits, Unverified, Validation,
};

use serde::{Deserialize, Serialize};

/// A limit that may be absent: `None` means that the limit is off.
pub type Limit = Option<u64>;

/// One minute in milliseconds.
pub(crate) const MINUTE_MS: u64 = 60_000;
/// One hour in milliseconds.
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;

/// What a trip of a guard leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The guard does not look at all.
    Off,
    /// The guard looks and reports, and the answer stays `allow`.
    Observe,
    /// The strictest answer is `warn`.
    Warn,
    /// A trip is answered with `block`.
    Block,
    /// A trip is answered with `halt`.
    Halt,
    /// The guard's own ladder (for example warn, then block, then halt): the default.
    #[default]
    Staged,
}

impl Mode {
    /// The word for this mode in a policy file.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::Warn => "warn",
            Mode::Block => "block",
            Mode::Halt => "halt",
            Mode::Staged => "staged",
        }
    }

    /// Whether the guard looks at events at all.
    pub fn is_on(self) -> bool {
        self != Mode::Off
    }
}

/// The configuration of every guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// The same call again and again.
    pub repetition: Repetition,
    /// A block of calls, transitions or outputs that repeats.
    pub cycle: Cycle,
    /// The same call with the same result, without a fixed period.
    pub recurrence: Recurrence,
    /// Transitions that the declared workflow does not have.
    pub workflow: DeclaredWorkflow,
    /// Entries into one node.
    pub visits: Visits,
    /// Uses of one edge.
    pub transitions: Transitions,
    /// No progress: outputs, diffs, failing tests stay the same.
    pub stall: Stall,
    /// A, B, A, B of outputs, diffs or states.
    pub oscillation: Oscillation,
    /// The same error, or any error, again and again.
    pub error_streak: ErrorStreak,
    /// Answers of the model that cannot be read.
    pub validation: Validation,
    /// Attempts of one operation, with backoff and a breaker.
    pub retry: Retry,
    /// Completion checks: tests, lint, build, checklist.
    pub gate: Gate,
    /// A person's answer to a plan.
    pub confirmation: Confirmation,
    /// The same question to a person.
    pub question: Question,
    /// A refused act asked again.
    pub denial: Denial,
    /// The same message, or chanting inside one message.
    pub monologue: Monologue,
    /// Outputs too large for the context.
    pub large_response: LargeResponse,
}

impl Guards {
    /// The names of all guards, as written under `guards:`, in a fixed order.
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

    /// The modes of all guards in the order of [`Guards::NAMES`].
    pub fn modes(&self) -> [Mode; 17] {
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
    pub fn set_all(&mut self, mode: Mode) {
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

/// `repetition`: identical consecutive calls. `limit` calls run, the next is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// What a trip leads to.
    pub mode: Mode,
    /// Identical consecutive calls that may run.
    pub limit: Limit,
    /// From this count on the answer is `warn`.
    pub warn_at: Limit,
    /// The block with this number is a halt.
    pub blocks: Limit,
    /// A call whose normalised result changes is not a repetition.
    pub result_aware: bool,
    /// The limit for tools with effect `poll`.
    pub poll_limit: Limit,
}

impl Default for Repetition {
    fn default() -> Self {
        Repetition {
            mode: Mode::Staged,
            limit: Some(5),
            warn_at: Some(3),
            blocks: Some(3),
            result_aware: true,
            poll_limit: Some(20),
        }
    }
}

/// `cycle`: one block of acts that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// What a trip leads to.
    pub mode: Mode,
    /// Cycles of (call, result) pairs.
    pub calls: Periods,
    /// Cycles of transitions between nodes.
    pub transitions: TransitionCycles,
    /// Cycles of output fingerprints.
    pub outputs: Periods,
    /// The block with this number is a halt.
    pub blocks: Limit,
}

impl Default for Cycle {
    fn default() -> Self {
        Cycle {
            mode: Mode::Staged,
            calls: Periods::default(),
            transitions: TransitionCycles::default(),
            outputs: Periods::default(),
            blocks: Some(3),
        }
    }
}

/// Which periods a cycle detector looks for, and how many passes make a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods {
    /// The longest block looked for; `None` = this detector is off.
    pub max_period: Limit,
    /// Passes of the block that make a cycle.
    pub repeats: u64,
}

impl Default for Periods {
    fn default() -> Self {
        Periods { max_period: Some(64), repeats: 3 }
    }
}

/// Cycles of transitions: periodic blocks, recurring suffixes, self-loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionCycles {
    /// The longest block looked for; `None` = the periodic rule is off.
    pub max_period: Limit,
    /// Passes of the block that make a cycle.
    pub repeats: u64,
    /// Length of the recurring-suffix rule, 2 to 10; `None` = off.
    pub suffix_length: Limit,
    /// Self-transitions in a row that may run; `None` = they are no class of their own, and the other rules see them
    /// like any transition.
    pub self_loop: Limit,
    /// Transitions shown in reports. The detector keeps as many as its periods need.
    pub max_history: u64,
    /// Also look inside loops that the workflow declares. They have a budget and progress signals of their own.
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

/// The limit inside a loop that the workflow declares: wide enough for the loop's own budget, unless somebody
/// wrote the limit down.
fn in_loop(limit: Limit, set: bool, needed: Limit) -> Limit {
    match (limit, needed) {
        (Some(limit), _) if set => Some(limit),
        (Some(limit), Some(needed)) => Some(limit.max(needed)),
        _ => None,
    }
}

impl Visits {
    /// Visits of a node inside a declared loop of so many iterations: one more than it is come back to.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(2)))
    }
}

impl Transitions {
    /// Uses of an edge inside a declared loop of so many iterations.
    #[must_use]
    pub fn limit_in_loop(&self, iterations: Limit) -> Limit {
        in_loop(self.limit, self.limit_set, iterations.map(|iterations| iterations.saturating_add(1)))
    }
}

impl TransitionCycles {
    /// Transitions the detector must keep: enough for every rule that is on, and never
    /// fewer than `max_history`.
    pub fn history_needed(&self) -> u64 {
        let periodic = self.max_period.unwrap_or(0).saturating_mul(self.repeats);
        let suffix = self.suffix_length.map_or(0, |length| length.saturating_mul(3).max(10));
        self.max_history.max(periodic).max(suffix).max(self.self_loop.unwrap_or(0))
    }
}

/// `recurrence`: the same (call, result) again without a fixed period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// What a trip leads to.
    pub mode: Mode,
    /// The same (call, result) inside the window.
    pub limit: Limit,
    /// Calls looked back at.
    pub window: u64,
    /// Calls in a row that bring nothing new.
    pub stale: Limit,
    /// Calls in a row of one tool whose arguments only drift.
    pub drift: Limit,
    /// The block with this number is a halt.
    pub blocks: Limit,
}

impl Default for Recurrence {
    fn default() -> Self {
        Recurrence {
            mode: Mode::Staged,
            limit: Some(6),
            window: 12,
            stale: Some(7),
            drift: Some(12),
            blocks: Some(3),
        }
    }
}

/// `workflow`: transitions that the declared workflow does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredWorkflow {
    /// What a trip leads to.
    pub mode: Mode,
    /// The refusal with this number, with no accepted transition in between, calls a person.
    pub blocks: Limit,
}

impl Default for DeclaredWorkflow {
    fn default() -> Self {
        DeclaredWorkflow { mode: Mode::Staged, blocks: Some(3) }
    }
}

/// `visits`: entries into one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visits {
    /// What a trip leads to.
    pub mode: Mode,
    /// Visits allowed; the next is refused.
    pub limit: Limit,
    /// The limit was written by somebody, so it holds inside declared loops as well.
    pub limit_set: bool,
}

impl Default for Visits {
    fn default() -> Self {
        Visits { mode: Mode::Staged, limit: Some(10), limit_set: false }
    }
}

/// `transitions`: uses of one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transitions {
    /// What a trip leads to.
    pub mode: Mode,
    /// Uses of one edge allowed; the next is refused.
    pub limit: Limit,
    /// The limit was written by somebody, so it holds inside declared loops as well.
    pub limit_set: bool,
    /// Transitions of all edges together.
    pub total: Limit,
}

impl Default for Transitions {
    fn default() -> Self {
        Transitions { mode: Mode::Staged, limit: Some(5), limit_set: false, total: None }
    }
}

/// `stall`: equal observations in a row, counted including the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What a trip leads to.
    pub mode: Mode,
    /// The same output.
    pub output: Limit,
    /// The same structured output.
    pub structured: Limit,
    /// An unchanged diff.
    pub diff: Limit,
    /// The same failing set, or no new minimum of failures.
    pub failures: Limit,
    /// Turns without any progress.
    pub turns: Limit,
}

impl Default for Stall {
    fn default() -> Self {
        Stall {
            mode: Mode::Staged,
            output: Some(3),
            structured: Some(3),
            diff: Some(2),
            failures: Some(3),
            turns: Some(10),
        }
    }
}

/// `oscillation`: A, B, A, B of outputs, diffs or states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oscillation {
    /// What a trip leads to.
    pub mode: Mode,
    /// Passes of the pair that make an oscillation.
    pub repeats: Limit,
}

impl Default for Oscillation {
    fn default() -> Self {
        Oscillation { mode: Mode::Staged, repeats: Some(2) }
    }
}

/// `error_streak`: failures in a row, and the failure rate over a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorStreak {
    /// What a trip leads to.
    pub mode: Mode,
    /// The same normalised error in a row.
    pub same_error: Limit,
    /// The same error in a row that is answered with `warn`.
    pub warn_at: Limit,
    /// Failures of any kind in a row.
    pub any: Limit,
    /// Calls over which the failure rate is taken.
    pub window: u64,
    /// Failures in percent of the window.
    pub rate_percent: Limit,
    /// The block with this number is a halt.
    pub blocks: Limit,
}

impl Default for ErrorStreak {
    fn default() -> Self {
        ErrorStreak {
            mode: Mode::Staged,
            same_error: Some(4),
            warn_at: Some(3),
            any: Some(5),
            window: 20,
            rate_percent: Some(80),
            blocks: Some(3),
        }
    }
}
