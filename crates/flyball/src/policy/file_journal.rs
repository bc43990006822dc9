//! The `journal:` section as it is written, for the JSON schema.
#![allow(dead_code)] // The schema is made from the types; no value of them is ever built.

use schemars::JsonSchema;

use super::file::{DurationValue, LimitValue};

/// What is kept of a session, for how long, and where its effects go. A session cannot bring it itself.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct JournalFile {
    /// Texts longer than this many bytes (512 or more) are stored as fingerprint, length and preview; off = everything
    /// is kept whole. Default: 16384.
    pub(super) payload: Option<LimitValue>,
    /// Characters of the preview. Default: 1000.
    #[schemars(range(min = 0, max = 100_000))]
    pub(super) preview: Option<u64>,
    /// Whether what looks like a secret is taken out before it is stored or shown. Default: true.
    pub(super) redact: Option<bool>,
    /// More secrets, as regular expressions, each at most 1024 bytes.
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub(super) patterns: Option<Vec<String>>,
    /// What `flyball prune` takes away when it is not told otherwise: finished sessions older than this; off = nothing.
    /// Default: 30d.
    pub(super) retention: Option<DurationValue>,
    /// Where effects go, at least once, each with a key that is the same every time.
    #[schemars(length(max = 100))]
    pub(super) deliver: Option<Vec<DeliveryFile>>,
    /// How the labels of an issue tracker come back: taking the label off there is a release.
    pub(super) labels: Option<LabelSyncFile>,
}

/// How the labels of an issue tracker come back.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LabelSyncFile {
    /// A program that tells which labels the issues of some sessions have. It gets the sessions as JSON on its standard
    /// input and prints one object a line: `{"session": …, "labels": […]}`.
    #[schemars(length(max = 100))]
    pub(super) command: Option<Vec<String>>,
    /// How often a server runs it, 1s to 1d. Default: 30s.
    pub(super) every: Option<DurationValue>,
    /// The name of the session that a webhook is about, with fields of its body in braces. Default: `{session}`.
    pub(super) session: Option<String>,
    /// The environment variable with the secret that webhooks are signed with (`X-Hub-Signature-256`).
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) secret_env: Option<String>,
    /// Accounts of the tracker whose changes do not count: the one that Flyball itself uses.
    #[schemars(length(max = 20))]
    pub(super) own_accounts: Option<Vec<String>>,
    /// What it means when somebody puts the label on in the tracker. Default: ignore.
    pub(super) on_added: Option<OnLabelAddedWord>,
}

/// What it means when somebody puts the label on in the tracker.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnLabelAddedWord {
    /// Nothing: only Flyball calls a person.
    Ignore,
    /// The session is stopped, as by a person; taking the label off does not lift that.
    Stop,
}

/// Where some effects go: to a command, to a webhook, or to people by e-mail.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeliveryFile {
    /// The names of the effects, or `["*"]` for all.
    #[schemars(length(min = 1))]
    pub(super) effects: Vec<EffectName>,
    /// A program with its arguments; the effect comes on its standard input.
    #[schemars(length(min = 1, max = 100))]
    pub(super) command: Option<Vec<String>>,
    /// An http or https address that the effect is posted to.
    #[schemars(regex(pattern = "^https?://"))]
    pub(super) webhook: Option<String>,
    /// How the effect is written for a webhook: the effect itself as JSON, or a message as Slack shows it.
    /// Default: json.
    pub(super) format: Option<WebhookFormatFile>,
    /// The environment variable with the secret that the body is signed with (`Flyball-Signature`).
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) secret_env: Option<String>,
    /// People who are told by e-mail.
    pub(super) email: Option<EmailFile>,
    /// Where the server's pages are, for a link in a message.
    #[schemars(regex(pattern = "^https?://"))]
    pub(super) page: Option<String>,
    /// How often it is tried before it is given up. Default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) attempts: Option<u64>,
    /// How long one attempt may take, at most 1h. Default: 10s.
    pub(super) timeout: Option<DurationValue>,
}

/// How an effect is written for a webhook.
#[derive(JsonSchema)]
pub(super) enum WebhookFormatFile {
    /// The effect itself.
    #[schemars(rename = "json")]
    Json,
    /// A message as Slack, and what is like it, shows it.
    #[schemars(rename = "slack")]
    Slack,
}

/// People who are told by e-mail, through a relay.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EmailFile {
    /// Who gets it.
    #[schemars(length(min = 1, max = 20))]
    pub(super) to: Vec<String>,
    /// Who it comes from.
    pub(super) from: String,
    /// The relay; TLS is used where it is offered, and with smtps from the start.
    #[schemars(regex(pattern = "^smtps?://"))]
    pub(super) relay: String,
    /// Who we are to the relay.
    pub(super) user: Option<String>,
    /// The environment variable with the password.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) password_env: Option<String>,
}

/// The name of an effect.
#[derive(JsonSchema)]
pub(super) enum EffectName {
    /// A halt.
    #[schemars(rename = "loop.halted")]
    LoopHalted,
    /// Words for the person.
    #[schemars(rename = "say")]
    Say,
    /// A plan may run.
    #[schemars(rename = "plan.approved")]
    PlanApproved,
    /// A plan was refused.
    #[schemars(rename = "plan.rejected")]
    PlanRejected,
    /// The answer to a plan came too late.
    #[schemars(rename = "plan.expired")]
    PlanExpired,
    /// A plan was given up.
    #[schemars(rename = "plan.aborted")]
    PlanAborted,
    /// Another plan came in its place.
    #[schemars(rename = "plan.replaced")]
    PlanReplaced,
    /// A person is called.
    #[schemars(rename = "label.added")]
    LabelAdded,
    /// The person is no longer needed.
    #[schemars(rename = "label.removed")]
    LabelRemoved,
    /// Somebody is to be told.
    #[schemars(rename = "notify")]
    Notify,
    /// How a person's message was understood.
    #[schemars(rename = "person.message")]
    PersonMessage,
    /// A completion was refused, with what failed and what to do.
    #[schemars(rename = "completion.blocked")]
    CompletionBlocked,
    /// What a release of a budget has granted.
    #[schemars(rename = "budget.raised")]
    BudgetRaised,
    /// All effects.
    #[schemars(rename = "*")]
    All,
}
