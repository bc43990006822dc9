//! Limits of the guards that watch work and people: unreadable answers, retries,
//! completion gates, confirmations, questions, refusals, messages, large outputs.
//!
//! The guards that watch calls and transitions have theirs in `guards.rs`.

use std::collections::BTreeMap;

use super::guards::{HOUR_MS, Limit, MINUTE_MS, Mode};

/// `validation`: unreadable answers of the model in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// What a trip leads to.
    pub mode: Mode,
    /// The failure with this number trips.
    pub limit: Limit,
}

impl Default for Validation {
    fn default() -> Self {
        Validation { mode: Mode::Staged, limit: Some(3) }
    }
}

/// How the pause between retries grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Doubles each time: 1, 2, 4, 8.
    #[default]
    Exponential,
    /// Grows by the base each time: 1, 2, 3, 4.
    Linear,
    /// Stays the same.
    Fixed,
}

/// `retry`: attempts of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// What a trip leads to.
    pub mode: Mode,
    /// The limits of every operation that has none of its own.
    pub limits: RetryLimits,
    /// The full limits of operations named in the policy.
    pub operations: BTreeMap<String, RetryLimits>,
}

impl Retry {
    /// The limits of one operation.
    pub fn operation(&self, name: &str) -> &RetryLimits {
        self.operations.get(name).unwrap_or(&self.limits)
    }
}

/// The retry limits of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Attempts allowed; the next is refused.
    pub limit: Limit,
    /// How the pause between attempts grows.
    pub backoff: Backoff,
    /// The first pause.
    pub base_ms: u64,
    /// The longest pause.
    pub cap_ms: u64,
    /// Spread of the pause in percent, 0 to 100.
    pub jitter_percent: u64,
    /// How long the open breaker refuses.
    pub cooldown_ms: u64,
    /// The longest cooldown after repeated trips.
    pub max_cooldown_ms: u64,
    /// How long a half-open breaker waits for its probe.
    pub probe_ms: u64,
    /// The trip with this number goes to a person.
    pub trips: Limit,
}

impl Default for RetryLimits {
    fn default() -> Self {
        RetryLimits {
            limit: Some(3),
            backoff: Backoff::Exponential,
            base_ms: 1_000,
            cap_ms: MINUTE_MS,
            jitter_percent: 10,
            cooldown_ms: MINUTE_MS,
            max_cooldown_ms: 15 * MINUTE_MS,
            probe_ms: MINUTE_MS,
            trips: Some(3),
        }
    }
}

/// What a gate says when every check was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unverified {
    /// Completion passes with a warning.
    #[default]
    Warn,
    /// Completion is refused.
    Block,
    /// Completion passes.
    Allow,
}

/// Which failed check is named as the one that blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GateOrder {
    /// Build, then tests, then lint: the cause before its consequences.
    #[default]
    RootCause,
    /// Tests, then lint, then build.
    Seed,
}

/// `gate`: completion checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What a trip leads to.
    pub mode: Mode,
    /// The failed attempt with this number trips.
    pub attempts: Limit,
    /// Blocks of one checklist item.
    pub item_blocks: Limit,
    /// The same failure in a row.
    pub same_failure: Limit,
    /// What happens when every check was skipped.
    pub unverified: Unverified,
    /// Which failed check is named first.
    pub order: GateOrder,
    /// Whether a failed gate holds completion back.
    pub backpressure: bool,
    /// `(a, b)`: check a depends on check b and is skipped when b failed. Free of cycles.
    pub dependencies: Vec<(String, String)>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate {
            mode: Mode::Staged,
            attempts: Some(5),
            item_blocks: Some(3),
            same_failure: Some(3),
            unverified: Unverified::Warn,
            order: GateOrder::RootCause,
            backpressure: true,
            dependencies: Vec::new(),
        }
    }
}

/// The language of questions to a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// Taken from the person's own words.
    #[default]
    Auto,
    /// English.
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}

/// What becomes of a plan that waits when the person asks for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewRequest {
    /// The plan is dropped, and the person is told.
    #[default]
    Drop,
    /// The plan waits on, and the person is reminded of it.
    Keep,
}

/// `confirmation`: a person's answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// What a trip leads to.
    pub mode: Mode,
    /// Unclear answers that are asked again; the next aborts.
    pub unclear: Limit,
    /// How long an answer is waited for.
    pub ttl_ms: Limit,
    /// Abort on the answer that reaches `unclear` instead of the one after it.
    pub abort_on_reaching_max: bool,
    /// The abort with this number, without a clear answer between, calls a person.
    pub aborts: Limit,
    /// What becomes of a plan that waits when the person asks for something else.
    pub on_new_request: NewRequest,
    /// The language of the questions.
    pub language: Language,
    /// Texts that replace the built-in ones, by name.
    pub texts: BTreeMap<String, String>,
}

impl Default for Confirmation {
    fn default() -> Self {
        Confirmation {
            mode: Mode::Staged,
            unclear: Some(3),
            ttl_ms: Some(HOUR_MS),
            abort_on_reaching_max: false,
            aborts: Some(3),
            on_new_request: NewRequest::Drop,
            language: Language::Auto,
            texts: BTreeMap::new(),
        }
    }
}

/// `question`: the same question in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What a trip leads to.
    pub mode: Mode,
    /// The same question in a row.
    pub limit: Limit,
}

impl Default for Question {
    fn default() -> Self {
        Question { mode: Mode::Staged, limit: Some(3) }
    }
}

/// `denial`: a refused act asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What a trip leads to.
    pub mode: Mode,
    /// The same refused act in a row.
    pub consecutive: Limit,
    /// Requests over which `total` is counted.
    pub of: u64,
    /// Refusals among the last `of` requests.
    pub total: Limit,
}

impl Default for Denial {
    fn default() -> Self {
        Denial { mode: Mode::Staged, consecutive: Some(3), of: 50, total: Some(10) }
    }
}

/// `monologue`: the same or nearly the same message again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monologue {
    /// What a trip leads to.
    pub mode: Mode,
    /// Equal or similar messages in a row.
    pub limit: Limit,
    /// From this similarity on two messages count as the same, in percent.
    pub similarity_percent: u64,
    /// Repeats of one passage inside one message.
    pub chant: Limit,
}

impl Default for Monologue {
    fn default() -> Self {
        Monologue { mode: Mode::Staged, limit: Some(3), similarity_percent: 80, chant: Some(4) }
    }
}

/// `large_response`: outputs that go to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeResponse {
    /// What a trip leads to.
    pub mode: Mode,
    /// Characters up to which an output is passed through.
    pub threshold: Limit,
    /// Characters of the preview.
    pub preview: u64,
}

impl Default for LargeResponse {
    fn default() -> Self {
        LargeResponse { mode: Mode::Staged, threshold: Some(200_000), preview: 1_000 }
    }
}
