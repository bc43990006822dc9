//! Settings of the guards for work and people: validation, retries, completion gates, confirmations, questions,
//! denials, messages and large outputs.
//!
//! The guards for calls and transitions are in `guard_policies.rs`.

use std::collections::BTreeMap;

use super::guard_policies::{GuardMode, HOUR_MS, Limit, MINUTE_MS};

/// `validation`: consecutive model responses that fail to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// The Nth consecutive failure trips.
    pub limit: Limit,
}

impl Default for ValidationPolicy {
    fn default() -> Self {
        ValidationPolicy { mode: GuardMode::Staged, limit: Some(3) }
    }
}

/// How the delay between retries grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackoffStrategy {
    /// The delay doubles each time: 1, 2, 4, 8.
    #[default]
    Exponential,
    /// The delay grows by the base each time: 1, 2, 3, 4.
    Linear,
    /// The delay stays the same.
    Fixed,
}

/// `retry`: attempts at one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// The limits of operations without an override.
    pub limits: RetryLimits,
    /// The complete limits of operations named in the policy.
    pub operations: BTreeMap<String, RetryLimits>,
}

impl RetryPolicy {
    /// The limits of one operation.
    pub fn operation(&self, name: &str) -> &RetryLimits {
        self.operations.get(name).unwrap_or(&self.limits)
    }
}

/// The retry limits of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Attempts allowed; the next one is blocked.
    pub limit: Limit,
    /// How the delay between attempts grows.
    pub backoff: BackoffStrategy,
    /// Delay before the first retry.
    pub base_ms: u64,
    /// Maximum delay.
    pub cap_ms: u64,
    /// Jitter of the delay in percent, 0 to 100.
    pub jitter_percent: u64,
    /// How long the open circuit breaker blocks.
    pub cooldown_ms: u64,
    /// Maximum cooldown after repeated trips.
    pub max_cooldown_ms: u64,
    /// How long a half-open circuit breaker waits for its probe.
    pub probe_ms: u64,
    /// The Nth trip escalates to a person.
    pub trips: Limit,
}

impl Default for RetryLimits {
    fn default() -> Self {
        RetryLimits {
            limit: Some(3),
            backoff: BackoffStrategy::Exponential,
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

/// Action when every check was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnverifiedAction {
    /// Completion passes with a warning.
    #[default]
    Warn,
    /// Completion is blocked.
    Block,
    /// Completion passes.
    Allow,
}

/// Which failed check is reported as the blocking one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GateOrder {
    /// Build, then tests, then lint: the cause before its consequences.
    #[default]
    RootCause,
    /// Tests, then lint, then build.
    TestsFirst,
}

/// `gate`: completion checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatePolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// The Nth failed attempt trips.
    pub attempts: Limit,
    /// Blocks by one checklist item that trip the guard.
    pub item_blocks: Limit,
    /// Consecutive identical failures that trip the guard.
    pub same_failure: Limit,
    /// Action when every check was skipped.
    pub unverified: UnverifiedAction,
    /// Which failed check is reported first.
    pub order: GateOrder,
    /// Whether a failed gate prevents completion.
    pub backpressure: bool,
    /// `(a, b)`: check a depends on check b and is skipped if b failed. Acyclic.
    pub dependencies: Vec<(String, String)>,
}

impl Default for GatePolicy {
    fn default() -> Self {
        GatePolicy {
            mode: GuardMode::Staged,
            attempts: Some(5),
            item_blocks: Some(3),
            same_failure: Some(3),
            unverified: UnverifiedAction::Warn,
            order: GateOrder::RootCause,
            backpressure: true,
            dependencies: Vec::new(),
        }
    }
}

/// The language of questions to a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LanguageSetting {
    /// Detected from the person's messages.
    #[default]
    Auto,
    /// English.
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}

/// How a pending plan is handled when the person asks for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewRequestAction {
    /// The plan is dropped, and the person is notified.
    #[default]
    Drop,
    /// The plan stays pending, and the person is reminded of it.
    Keep,
}

/// `confirmation`: a person's answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmationPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Unclear answers that are asked again; the next one aborts the plan.
    pub unclear: Limit,
    /// How long to wait for an answer.
    pub ttl_ms: Limit,
    /// Abort on the answer that reaches `unclear` instead of the one after it.
    pub abort_on_reaching_max: bool,
    /// The Nth consecutive abort escalates to a person; a clear answer resets the count.
    pub aborts: Limit,
    /// How a pending plan is handled when the person asks for something else.
    pub on_new_request: NewRequestAction,
    /// Language of the questions.
    pub language: LanguageSetting,
    /// Overrides for the built-in texts, by name.
    pub texts: BTreeMap<String, String>,
}

impl Default for ConfirmationPolicy {
    fn default() -> Self {
        ConfirmationPolicy {
            mode: GuardMode::Staged,
            unclear: Some(3),
            ttl_ms: Some(HOUR_MS),
            abort_on_reaching_max: false,
            aborts: Some(3),
            on_new_request: NewRequestAction::Drop,
            language: LanguageSetting::Auto,
            texts: BTreeMap::new(),
        }
    }
}

/// `question`: consecutive identical questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Consecutive identical questions that trip the guard.
    pub limit: Limit,
}

impl Default for QuestionPolicy {
    fn default() -> Self {
        QuestionPolicy { mode: GuardMode::Staged, limit: Some(3) }
    }
}

/// `denial`: repeated requests for a denied action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialPolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Consecutive requests for the same denied action.
    pub consecutive: Limit,
    /// Number of recent requests for `total`.
    pub of: u64,
    /// Denials among the last `of` requests.
    pub total: Limit,
}

impl Default for DenialPolicy {
    fn default() -> Self {
        DenialPolicy { mode: GuardMode::Staged, consecutive: Some(3), of: 50, total: Some(10) }
    }
}

/// `monologue`: repeated messages that are identical or nearly identical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonologuePolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Consecutive identical or similar messages.
    pub limit: Limit,
    /// Minimum similarity for two messages to count as the same, in percent.
    pub similarity_percent: u64,
    /// Repeats of one passage within one message.
    pub chant: Limit,
}

impl Default for MonologuePolicy {
    fn default() -> Self {
        MonologuePolicy { mode: GuardMode::Staged, limit: Some(3), similarity_percent: 80, chant: Some(4) }
    }
}

/// `large_response`: large outputs, which are written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeResponsePolicy {
    /// Action when the guard trips.
    pub mode: GuardMode,
    /// Longest output passed through, in characters.
    pub threshold: Limit,
    /// Length of the preview, in characters.
    pub preview: u64,
}

impl Default for LargeResponsePolicy {
    fn default() -> Self {
        LargeResponsePolicy { mode: GuardMode::Staged, threshold: Some(200_000), preview: 1_000 }
    }
}
