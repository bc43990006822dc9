//! What a workflow file may say, kind by kind. Unknown keys are refused.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// A length of time: `90s`, `10m`, `4h`, or milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Span {
    /// Milliseconds.
    Millis(u64),
    /// A number and a unit: `250ms`, `90s`, `10m`, `4h`.
    Text(String),
}

impl Span {
    /// The length in milliseconds; nothing if the text is no length of time.
    #[must_use]
    pub fn millis(&self) -> Option<u64> {
        let text = match self {
            Span::Millis(millis) => return Some(*millis),
            Span::Text(text) => text.trim(),
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim() {
            "ms" | "" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = match Value::deserialize(deserializer)? {
            Value::String(text) => Some(Span::Text(text)),
            Value::Number(number) => number.as_u64().map(Span::Millis),
            _ => None,
        };
        // What is no length of time would be no limit.
        span.filter(|span| span.millis().is_some()).ok_or_else(|| {
            D::Error::custom(
                "this is no length of time: write 250ms, 90s, 10m, 4h or a number of milliseconds",
            )
        })
    }
}

/// A program to run: a list of arguments, or a line for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write a line for the shell, or a list of words")]
pub enum Line {
    /// A line for `sh -c`.
    Shell(String),
    /// The program and its arguments, as they are.
    Words(Vec<String>),
}

/// Where to go: one node, or several at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write the name of a node, `done`, `failed`, or a list of nodes")]
pub enum Next {
    /// One node, or `done`, or `failed`.
    One(String),
    /// Several branches side by side; they meet again at a `join`.
    Many(Vec<String>),
}

impl Next {
    /// All of them.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Next::One(name) => vec![name],
            Next::Many(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// Trying a node again after a failure. Every try is a visit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many tries in all.
    pub attempts: u64,
    /// How the waits grow.
    #[serde(default)]
    pub backoff: Backoff,
    /// The first wait. Default: 5s.
    pub initial: Option<Span>,
    /// The longest wait. Default: 300s.
    pub max: Option<Span>,
}

/// How waits grow from try to try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Twice as long each time.
    #[default]
    Exponential,
    /// Longer by the first wait each time.
    Linear,
    /// The same each time.
    Fixed,
}

/// A program or the command line of a coding agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// What to run, inside the workspace.
    pub run: Line,
    /// Variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the runner's environment that it inherits beside the ordinary ones, for example the key of a coding
    /// agent.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// What it reads on its standard input; a template.
    pub input: Option<String>,
    /// Exit codes that mean partial success.
    #[serde(default)]
    pub partial: Vec<i32>,
    /// Exit codes that mean that the result is unclear.
    #[serde(default)]
    pub unclear: Vec<i32>,
}

/// A model with tools, in a loop, until it says that it is done.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The provider's name.
    pub provider: String,
    /// The instructions; a template.
    pub prompt: String,
    /// What the model is told about itself; a template.
    pub system: Option<String>,
    /// The tools that it may use.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The most answers in one turn. Default: 50.
    pub rounds: Option<u64>,
    /// What the model says when it is done. Default: `TASK_COMPLETE`; an answer without tool calls also ends the turn
    /// when there are no gates.
    pub completion: Option<String>,
    /// Gates that the completion must pass.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Keep the conversation from visit to visit.
    #[serde(default)]
    pub remember: bool,
    /// The most tokens of one answer.
    pub max_tokens: Option<u64>,
}

/// A model that chooses where to go.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The provider's name.
    pub provider: String,
    /// What to decide; a template.
    pub prompt: Option<String>,
    /// Where it may go.
    pub allowed_destinations: Vec<String>,
    /// From which confidence on it is followed, and from which a person is asked.
    #[serde(default)]
    pub confidence: Confidence,
}

/// Confidence in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Confidence {
    /// From here on the answer is followed. Default: 80.
    #[serde(default = "eighty")]
    pub advance: u64,
    /// From here on a person is asked; below, it is refused. Default: 60.
    #[serde(default = "sixty")]
    pub ask: u64,
}

const fn eighty() -> u64 {
    80
}

const fn sixty() -> u64 {
    60
}

impl Default for Confidence {
    fn default() -> Self {
        Confidence { advance: eighty(), ask: sixty() }
    }
}

/// Checks of the work: tests, lint, build.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The gates' names; all that are declared or found if there are none.
    #[serde(default)]
    pub gates: Vec<String>,
}

/// A plan that a person must confirm.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// What would be done: tools and arguments, or a template that gives such a list.
    pub plan: Value,
    /// The question; a template. Made from the plan if there is none.
    pub question: Option<String>,
    /// Who may answer; anybody if nobody is named.
    pub requester: Option<String>,
    /// How long the question stands.
    pub ttl: Option<Span>,
    /// Run the plan's tools once it is approved. Default: true.
    #[serde(default = "yes")]
    pub run: bool,
}

const fn yes() -> bool {
    true
}

/// Things to find out from a person in a conversation, and what is done with them.
///
/// It ends as a success when everything is there (and right, and done); as a failure when the person cancels or the
/// action fails; as unclear when a person has to take over. `{{slots.NAME}}` is known from then on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collect {
    /// What is wanted, in the order in which it is asked for.
    pub slots: Vec<Slot>,
    /// A provider that reads the messages; without one, words and patterns do.
    pub provider: Option<String>,
    /// What was said already, as the first message; a template.
    pub from: Option<String>,
    /// What is asked first, before the first slot; a template. The answer may fill any slot.
    pub opening: Option<Words>,
    /// Ask whether everything is right before going on.
    #[serde(default)]
    pub confirm: bool,
    /// The question at the end; a template. Made from the slots if there is none.
    pub question: Option<Words>,
    /// Answers to questions on the side, by a word or phrase that occurs in them; a word that ends in `*` stands for
    /// all that begin with it.
    #[serde(default)]
    pub answers: BTreeMap<String, Words>,
    /// What is done when everything is there and right: one call of a tool.
    pub action: Option<Tool>,
    /// What is said at the end; a template.
    pub response: Option<Words>,
    /// How often it may be given up and started over before a person takes over. Default: 3.
    pub max_aborts: Option<u64>,
    /// How many messages in a row may bring nothing before a person takes over. Default: what the policy says
    /// (`guards.stall.turns`), and then the run waits for a release.
    pub max_turns_without_progress: Option<u64>,
    /// How often a value that was there may be changed before a person takes over. Default: no limit.
    pub max_changes: Option<u64>,
}

/// Words for a person: the same for everybody, or by language.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Words {
    /// For everybody.
    Same(String),
    /// By language; the first that is there stands in for one that is missing.
    ByLanguage(ByLanguage),
}

/// Words in the languages that are understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByLanguage {
    /// English.
    pub en: Option<String>,
    /// Russian.
    pub ru: Option<String>,
    /// Spanish.
    pub es: Option<String>,
}

impl Words {
    /// The words in a language.
    #[must_use]
    pub fn in_language(&self, language: flyball::confirm::Language) -> &str {
        use flyball::confirm::Language;
        let by = match self {
            Words::Same(text) => return text,
            Words::ByLanguage(by) => by,
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

/// One thing to find out.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// The question for it; a template.
    pub ask: Words,
    /// What it must look like.
    #[serde(default)]
    pub kind: SlotKind,
    /// A pattern that the whole of it must match.
    pub pattern: Option<String>,
    /// The only values that it may have.
    #[serde(default)]
    pub values: Vec<String>,
    /// What is said when it does not fit; a template, in which `{{value}}` is what was said.
    pub invalid: Option<Words>,
    /// What it is called when it is spoken of. Default: its name.
    pub label: Option<Words>,
    /// Other words for its name, by which people speak of it: "change the *day* to …".
    #[serde(default)]
    pub also: Vec<String>,
    /// Words that stand before its value in a sentence: "*from* Madrid *to* Lisbon".
    #[serde(default)]
    pub after: Vec<String>,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// Any words.
    #[default]
    Text,
    /// A whole number.
    Number,
    /// A day, as `2026-12-09`.
    Date,
    /// Yes or no.
    YesNo,
}

impl SlotKind {
    /// The word for it.
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

/// Words for the person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// The words; a template.
    pub text: String,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub tool: String,
    /// Its arguments; texts in it are templates.
    #[serde(default)]
    pub args: Value,
}

/// A person who is asked and whose words are the node's output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Human {
    /// The question; a template.
    pub ask: String,
}

/// Where branches meet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Whom to wait for.
    #[serde(default)]
    pub wait: Wait,
    /// How many, for `quorum`.
    pub count: Option<u64>,
    /// The longest wait; what has arrived by then goes on, as partial success.
    pub timeout: Option<Span>,
}

/// Whom a join waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// All branches.
    #[default]
    All,
    /// The first that succeeds.
    Any,
    /// A number of them.
    Quorum,
}

/// Rules in order; the first that holds says where to go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The rules.
    pub rules: Vec<RouteRule>,
    /// Where to go if none holds.
    pub otherwise: String,
}

/// One rule of a router.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRule {
    /// A condition in CEL over `event`: `outcome`, `output`, `structured`, `vars`, `visits`, `from`.
    pub when: String,
    /// Where to go.
    pub to: String,
}

/// How progress is measured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Its name: `diff`, `tests`, `checklist`, `docs`, or any other.
    pub name: String,
    /// The node after whose turns it is measured.
    pub after: Option<String>,
    /// A program that prints a number.
    pub command: Option<Line>,
    /// A file with a list of `- [ ]` and `- [x]`, or a document.
    pub file: Option<String>,
    /// In which direction a number gets better: `up` or `down`. Known for the built-in signals; without it, a number
    /// of any other signal counts as progress whenever it changes.
    #[serde(default)]
    #[schemars(with = "Option<BetterWord>")]
    pub better: Option<flyball::Better>,
}

impl Signal {
    /// Whether it yields a number of which neither the file nor its name says in which direction it gets better.
    #[must_use]
    pub fn lacks_direction(&self) -> bool {
        self.command.is_some() && self.better.is_none() && flyball::Better::of_builtin(&self.name).is_none()
    }
}

/// A direction.
#[derive(JsonSchema)]
#[schemars(rename = "Better", rename_all = "snake_case")]
#[expect(dead_code, reason = "the schema of a type of another crate")]
enum BetterWord {
    /// Higher is better.
    Up,
    /// Lower is better.
    Down,
}

/// The workspace: a folder, or a copy of one for each run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "write a folder, or {copy: a folder}")]
pub enum Workspace {
    /// A folder, seen from the workflow file.
    Folder(String),
    /// A copy of a folder, made for the run.
    Copy {
        /// The folder.
        copy: String,
    },
}
