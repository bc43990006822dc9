//! Types of the workflow file format. Unknown keys are rejected.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// A duration: `250ms`, `90s`, `10m`, `4h`, or a number of milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum WorkflowDuration {
    /// Milliseconds.
    Millis(u64),
    /// A number and a unit: `250ms`, `90s`, `10m`, `4h`.
    Text(String),
}

impl WorkflowDuration {
    /// Milliseconds; `None` if the text is not a duration.
    #[must_use]
    pub fn millis(&self) -> Option<u64> {
        match self {
            WorkflowDuration::Millis(millis) => Some(*millis),
            WorkflowDuration::Text(text) => flyball::units::parse_duration_ms(text),
        }
    }
}

impl<'de> Deserialize<'de> for WorkflowDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = match Value::deserialize(deserializer)? {
            Value::String(text) => Some(WorkflowDuration::Text(text)),
            Value::Number(number) => number.as_u64().map(WorkflowDuration::Millis),
            _ => None,
        };
        // An invalid duration must not mean "no limit".
        span.filter(|span| span.millis().is_some()).ok_or_else(|| {
            D::Error::custom(
                "invalid duration: expected e.g. 250ms, 90s, 10m, 4h or a number of milliseconds",
            )
        })
    }
}

/// A program to run: an argument list, or a shell command line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a shell command line or a list of arguments")]
pub enum CommandLine {
    /// A command line for `sh -c`.
    Shell(String),
    /// The program and its arguments, passed without a shell.
    Argv(Vec<String>),
}

/// Next node, or several parallel branches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a node name, `done`, `failed`, or a list of nodes")]
pub enum NextNodes {
    /// One node, `done` or `failed`.
    One(String),
    /// Parallel branches, which must end at the same `join`.
    Many(Vec<String>),
}

impl NextNodes {
    /// All node names.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            NextNodes::One(name) => vec![name],
            NextNodes::Many(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// Retries after a failure. Every attempt counts as a visit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRetry {
    /// Total number of attempts.
    pub attempts: u64,
    /// How the delay grows.
    #[serde(default)]
    pub backoff: RetryBackoff,
    /// First delay. Default: 5s.
    pub initial: Option<WorkflowDuration>,
    /// Longest delay. Default: 300s.
    pub max: Option<WorkflowDuration>,
}

/// Growth of the delay between attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryBackoff {
    /// Doubles each time.
    #[default]
    Exponential,
    /// Grows by the first delay each time.
    Linear,
    /// Stays the same.
    Fixed,
}

/// A program, such as the command line of a coding agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandNode {
    /// The command, run in the workspace.
    pub run: CommandLine,
    /// Additional environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables of the runner to inherit in addition to the default set, for example the API key of a
    /// coding agent.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Standard input; a template.
    pub input: Option<String>,
    /// Exit codes that mean partial success.
    #[serde(default)]
    pub partial: Vec<i32>,
    /// Exit codes that mean an unclear result.
    #[serde(default)]
    pub unclear: Vec<i32>,
}

/// A model that uses tools in a loop until it reports completion.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentNode {
    /// Provider name.
    pub provider: String,
    /// Instructions; a template.
    pub prompt: String,
    /// System prompt; a template.
    pub system: Option<String>,
    /// Tools it may use.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Maximum number of model replies per turn. Default: 50.
    pub rounds: Option<u64>,
    /// Text with which the model reports completion. Default: `TASK_COMPLETE`. If there are no gates, a reply without
    /// tool calls also ends the turn.
    pub completion: Option<String>,
    /// Gates that must pass on completion.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Whether to keep the conversation between visits.
    #[serde(default)]
    pub remember: bool,
    /// Maximum tokens per reply.
    pub max_tokens: Option<u64>,
}

/// A model that chooses the next node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideNode {
    /// Provider name.
    pub provider: String,
    /// The question to decide; a template.
    pub prompt: Option<String>,
    /// Nodes it may choose.
    pub allowed_destinations: Vec<String>,
    /// Confidence required to follow the choice, or to ask a person about it.
    #[serde(default)]
    pub confidence: ConfidenceThresholds,
}

/// Confidence thresholds in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceThresholds {
    /// Minimum confidence to follow the choice. Default: 80.
    #[serde(default = "eighty")]
    pub advance: u64,
    /// Minimum confidence to ask a person; below it the choice is rejected. Default: 60.
    #[serde(default = "sixty")]
    pub ask: u64,
}

const fn eighty() -> u64 {
    80
}

const fn sixty() -> u64 {
    60
}

impl Default for ConfidenceThresholds {
    fn default() -> Self {
        ConfidenceThresholds { advance: eighty(), ask: sixty() }
    }
}

/// Quality gates: tests, lint, build.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateNode {
    /// Gate names. Default: all declared or detected gates.
    #[serde(default)]
    pub gates: Vec<String>,
}

/// A plan that a person must approve.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmNode {
    /// The planned tool calls: a list of tools and arguments, or a template that yields one.
    pub plan: Value,
    /// Question to ask; a template. Default: generated from the plan.
    pub question: Option<String>,
    /// The only person who may answer. Default: anyone.
    pub requester: Option<String>,
    /// How long the question stays open.
    pub ttl: Option<WorkflowDuration>,
    /// Whether to run the plan's tools after approval. Default: true.
    #[serde(default = "yes")]
    pub run: bool,
}

const fn yes() -> bool {
    true
}

/// Collects values from a person in a conversation, then optionally acts on them.
///
/// Succeeds when all slots are filled (and confirmed, and the action succeeded). Fails when the person cancels or the
/// action fails. Is unclear when a person has to take over. Later nodes read the values as `{{slots.NAME}}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectNode {
    /// Values to collect, in the order in which they are requested.
    pub slots: Vec<SlotSpec>,
    /// Provider that interprets messages. Default: word and pattern matching.
    pub provider: Option<String>,
    /// First message, if something was said already; a template.
    pub from: Option<String>,
    /// Opening question, asked before the first slot; a template. The reply may fill any slot.
    pub opening: Option<LocalizedText>,
    /// Whether to ask for confirmation of all values at the end.
    #[serde(default)]
    pub confirm: bool,
    /// Confirmation question; a template. Default: generated from the slots.
    pub question: Option<LocalizedText>,
    /// Answers to side questions, by a word or phrase in the question. A trailing `*` matches any ending.
    #[serde(default)]
    pub answers: BTreeMap<String, LocalizedText>,
    /// Tool call to make once all values are collected and confirmed.
    pub action: Option<ToolNode>,
    /// Final message; a template.
    pub response: Option<LocalizedText>,
    /// How often the conversation may be aborted and restarted before a person takes over. Default: 3.
    pub max_aborts: Option<u64>,
    /// Consecutive messages without progress before a person takes over. Default: the policy's `guards.stall.turns`,
    /// after which the run waits for a release.
    pub max_turns_without_progress: Option<u64>,
    /// How often a filled value may be changed before a person takes over. Default: no limit.
    pub max_changes: Option<u64>,
}

/// Text for a person: one for all languages, or one per language.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LocalizedText {
    /// One text for all languages.
    Single(String),
    /// Text per language; a missing language falls back to the first one given.
    ByLanguage(TextByLanguage),
}

/// Text in each supported language.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextByLanguage {
    /// English.
    pub en: Option<String>,
    /// Russian.
    pub ru: Option<String>,
    /// Spanish.
    pub es: Option<String>,
}

impl LocalizedText {
    /// Text in a language.
    #[must_use]
    pub fn in_language(&self, language: flyball::confirm::Language) -> &str {
        use flyball::confirm::Language;
        let by = match self {
            LocalizedText::Single(text) => return text,
            LocalizedText::ByLanguage(by) => by,
        };
        let own = match language {
            Language::En => &by.en,
            Language::Ru => &by.ru,
            Language::Es => &by.es,
        };
        let any = own.as_deref().or(by.en.as_deref()).or(by.ru.as_deref()).or(by.es.as_deref());
        any.unwrap_or_default()
    }
}

/// A value to collect.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotSpec {
    /// Slot name.
    pub name: String,
    /// Question that asks for it; a template.
    pub ask: LocalizedText,
    /// Type of the value.
    #[serde(default)]
    pub kind: SlotKind,
    /// Regular expression that the whole value must match.
    pub pattern: Option<String>,
    /// The only allowed values.
    #[serde(default)]
    pub values: Vec<String>,
    /// Reply to an invalid value; a template in which `{{value}}` is the rejected value.
    pub invalid: Option<LocalizedText>,
    /// Label used in messages. Default: the slot name.
    pub label: Option<LocalizedText>,
    /// Synonyms of the slot name that people may use: "change the *day* to …".
    #[serde(default)]
    pub also: Vec<String>,
    /// Words that precede the value in a sentence: "*from* Madrid *to* Lisbon".
    #[serde(default)]
    pub after: Vec<String>,
}

/// Type of a slot's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// Any text.
    #[default]
    Text,
    /// An integer.
    Number,
    /// A date such as `2026-12-09`.
    Date,
    /// Yes or no.
    YesNo,
}

impl SlotKind {
    /// Name as written in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SlotKind::Text => "text",
            SlotKind::Number => "number",
            SlotKind::Date => "date",
            SlotKind::YesNo => "yes_no",
        }
    }
}

/// A message to the person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SayNode {
    /// Text of the message; a template.
    pub text: String,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolNode {
    /// Tool name.
    pub tool: String,
    /// Arguments; strings in them are templates.
    #[serde(default)]
    pub args: Value,
}

/// A question to a person; the answer is the node's output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HumanNode {
    /// Question; a template.
    pub ask: String,
}

/// The point where parallel branches meet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinNode {
    /// Which branches to wait for.
    #[serde(default)]
    pub wait: JoinWait,
    /// Number of branches, for `quorum`.
    pub count: Option<u64>,
    /// Longest wait. After it, the run continues with the branches that arrived, as partial success.
    pub timeout: Option<WorkflowDuration>,
}

/// Branches that a join waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinWait {
    /// All branches.
    #[default]
    All,
    /// The first branch that succeeds.
    Any,
    /// The number of branches given by `count`.
    Quorum,
}

/// Rules in order; the first match determines the next node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteNode {
    /// Rules in order.
    pub rules: Vec<RouteRule>,
    /// Next node if no rule matches.
    pub otherwise: String,
}

/// A routing rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRule {
    /// CEL condition over `event`: `outcome`, `output`, `structured`, `vars`, `visits`, `from`.
    pub when: String,
    /// Next node.
    pub to: String,
}

/// A progress signal and how to measure it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalSpec {
    /// Signal name: `diff`, `tests`, `checklist`, `docs`, or any other.
    pub name: String,
    /// Node after whose turns it is measured.
    pub after: Option<String>,
    /// Program that prints a number.
    pub command: Option<CommandLine>,
    /// A checklist file with `- [ ]` and `- [x]` items, or a document.
    pub file: Option<String>,
    /// Direction in which the number improves: `up` or `down`. Built-in signals know theirs. For any other signal
    /// without it, every change of the number counts as progress.
    #[serde(default)]
    #[schemars(with = "Option<BetterSchema>")]
    pub better: Option<flyball::BetterDirection>,
}

impl SignalSpec {
    /// Whether it yields a number whose direction neither the file nor a built-in name determines.
    #[must_use]
    pub fn lacks_direction(&self) -> bool {
        self.command.is_some()
            && self.better.is_none()
            && flyball::BetterDirection::for_builtin_signal(&self.name).is_none()
    }
}

/// Direction of improvement.
#[derive(JsonSchema)]
#[schemars(rename = "Better", rename_all = "snake_case")]
#[expect(dead_code, reason = "mirrors a type of another crate for the schema")]
enum BetterSchema {
    /// Higher is better.
    Up,
    /// Lower is better.
    Down,
}

/// Working directory: a folder, or a copy of one for each run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "expected a folder or {copy: a folder}")]
pub enum WorkspaceSpec {
    /// A folder, relative to the workflow file.
    Folder(String),
    /// A copy of a folder, made for each run.
    Copy {
        /// The folder to copy.
        copy: String,
    },
}
