//! Schema types of the `journal:` section.
#![allow(dead_code)] // Only the schema is derived from these types; they are never constructed.

use schemars::JsonSchema;

use super::schema_values::{DurationValue, LimitValue};

/// Storage, redaction and retention of sessions, and delivery of effects. An inline session policy cannot
/// set it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct JournalFile {
    /// Texts longer than this many bytes (at least 512) are stored as a fingerprint, a length and a preview; off stores
    /// every text in full. Default: 16384.
    pub(super) payload: Option<LimitValue>,
    /// Length of the preview, in characters. Default: 1000.
    #[schemars(range(min = 0, max = 100_000))]
    pub(super) preview: Option<u64>,
    /// Whether secrets are redacted before storage and display. Default: true.
    pub(super) redact: Option<bool>,
    /// Additional secrets to redact, as regular expressions of at most 1024 bytes each.
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub(super) patterns: Option<Vec<String>>,
    /// Age from which `flyball prune` deletes finished sessions by default; off deletes none. Default: 30d.
    pub(super) retention: Option<DurationValue>,
    /// Delivery targets of effects. Delivery is at least once, with an idempotency key.
    #[schemars(length(max = 100))]
    pub(super) deliver: Option<Vec<DeliveryFile>>,
    /// How label changes in an issue tracker are read back: removing the label there releases the session.
    pub(super) labels: Option<LabelSyncFile>,
}

/// How label changes in an issue tracker are read back.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LabelSyncFile {
    /// A program that reports the issue labels of some sessions. It reads the sessions as JSON from standard input and
    /// prints one object per line: `{"session": …, "labels": […]}`.
    #[schemars(length(max = 100))]
    pub(super) command: Option<Vec<String>>,
    /// How often the server runs it, 1s to 1d. Default: 30s.
    pub(super) every: Option<DurationValue>,
    /// Template for the session name of a webhook, with fields of its body in braces. Default: `{session}`.
    pub(super) session: Option<String>,
    /// Environment variable that holds the secret for verifying webhook signatures (`X-Hub-Signature-256`).
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) secret_env: Option<String>,
    /// Tracker accounts whose changes are ignored, such as the one Flyball uses.
    #[schemars(length(max = 20))]
    pub(super) own_accounts: Option<Vec<String>>,
    /// Action when the label is added in the tracker. Default: ignore.
    pub(super) on_added: Option<OnLabelAddedFile>,
}

/// Action when the label is added in the tracker.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(super) enum OnLabelAddedFile {
    /// Nothing happens.
    Ignore,
    /// The session is stopped, as by an operator; removing the label does not undo that.
    Stop,
}

/// A delivery of some effects to a command, a webhook or e-mail recipients.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeliveryFile {
    /// Names of the effects, or `["*"]` for all.
    #[schemars(length(min = 1))]
    pub(super) effects: Vec<EffectName>,
    /// A program with its arguments. It reads the effect from standard input.
    #[schemars(length(min = 1, max = 100))]
    pub(super) command: Option<Vec<String>>,
    /// An http or https URL that the effect is posted to.
    #[schemars(regex(pattern = "^https?://"))]
    pub(super) webhook: Option<String>,
    /// Format of the webhook's request body: the effect as JSON, or a Slack message. Default: json.
    pub(super) format: Option<WebhookFormatFile>,
    /// Environment variable that holds the secret for signing the body (`Flyball-Signature`).
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) secret_env: Option<String>,
    /// E-mail recipients and the relay that delivers to them.
    pub(super) email: Option<EmailFile>,
    /// Base URL of the server's pages, for links in messages.
    #[schemars(regex(pattern = "^https?://"))]
    pub(super) page: Option<String>,
    /// Attempts before the delivery is given up. Default: 8.
    #[schemars(range(min = 1, max = 100))]
    pub(super) attempts: Option<u64>,
    /// Timeout of one attempt, at most 1h. Default: 10s.
    pub(super) timeout: Option<DurationValue>,
}

/// Format of a webhook's request body.
#[derive(JsonSchema)]
pub(super) enum WebhookFormatFile {
    /// The effect as JSON.
    #[schemars(rename = "json")]
    Json,
    /// A message in Slack's format.
    #[schemars(rename = "slack")]
    Slack,
}

/// E-mail recipients and the relay that delivers to them.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EmailFile {
    /// Recipient addresses.
    #[schemars(length(min = 1, max = 20))]
    pub(super) to: Vec<String>,
    /// Sender address.
    pub(super) from: String,
    /// URL of the relay. `smtp` uses TLS if the relay offers it; `smtps` uses TLS from the start.
    #[schemars(regex(pattern = "^smtps?://"))]
    pub(super) relay: String,
    /// User name for the relay.
    pub(super) user: Option<String>,
    /// Environment variable that holds the password.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(super) password_env: Option<String>,
}

/// The name of an effect.
#[derive(JsonSchema)]
pub(super) enum EffectName {
    /// A session was halted.
    #[schemars(rename = "loop.halted")]
    LoopHalted,
    /// A message for the person.
    #[schemars(rename = "say")]
    Say,
    /// A plan was approved.
    #[schemars(rename = "plan.approved")]
    PlanApproved,
    /// A plan was rejected.
    #[schemars(rename = "plan.rejected")]
    PlanRejected,
    /// The answer to a plan came too late.
    #[schemars(rename = "plan.expired")]
    PlanExpired,
    /// A plan was aborted.
    #[schemars(rename = "plan.aborted")]
    PlanAborted,
    /// A plan was replaced by another one.
    #[schemars(rename = "plan.replaced")]
    PlanReplaced,
    /// A person is needed.
    #[schemars(rename = "label.added")]
    LabelAdded,
    /// A person is no longer needed.
    #[schemars(rename = "label.removed")]
    LabelRemoved,
    /// A notification is due.
    #[schemars(rename = "notify")]
    Notify,
    /// How a person's message was interpreted.
    #[schemars(rename = "person.message")]
    PersonMessage,
    /// A completion was blocked, with the failed checks and what to do next.
    #[schemars(rename = "completion.blocked")]
    CompletionBlocked,
    /// A release raised a budget.
    #[schemars(rename = "budget.raised")]
    BudgetRaised,
    /// All effects.
    #[schemars(rename = "*")]
    All,
}
