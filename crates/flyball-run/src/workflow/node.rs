//! A node as the file describes it: what is common to all, and its kind.

use super::spec::{
    Agent, Collect, Command, Confirm, Decide, Gate, Human, Join, Next, Retry, Route, Say, Span, Tool,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// What a node does.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A program.
    Command(Command),
    /// A model with tools.
    Agent(Agent),
    /// A model that chooses where to go.
    Decide(Decide),
    /// Checks of the work.
    Gate(Gate),
    /// A plan that a person must confirm.
    Confirm(Confirm),
    /// Things to find out from a person.
    Collect(Collect),
    /// Words for the person.
    Say(Say),
    /// One call of a tool.
    Tool(Tool),
    /// A person.
    Human(Human),
    /// Where branches meet.
    Join(Join),
    /// Rules in order.
    Route(Route),
}

impl Work {
    /// The kinds, as the file writes them.
    pub const KINDS: [&str; 11] =
        ["command", "agent", "decide", "gate", "confirm", "collect", "say", "tool", "human", "join", "route"];

    /// The kind's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Work::Command(_) => "command",
            Work::Agent(_) => "agent",
            Work::Decide(_) => "decide",
            Work::Gate(_) => "gate",
            Work::Confirm(_) => "confirm",
            Work::Collect(_) => "collect",
            Work::Say(_) => "say",
            Work::Tool(_) => "tool",
            Work::Human(_) => "human",
            Work::Join(_) => "join",
            Work::Route(_) => "route",
        }
    }

    /// Whether a visit is a turn of its own: something that takes time and may fail.
    #[must_use]
    pub const fn takes_turns(&self) -> bool {
        !matches!(self, Work::Route(_) | Work::Say(_) | Work::Join(_))
    }

    /// Whether a step that was cut off may be run again without asking, unless the file says otherwise.
    #[must_use]
    pub const fn may_rerun(&self) -> bool {
        !matches!(self, Work::Command(_) | Work::Tool(_))
    }
}

/// What all nodes have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Where to go, however it ended.
    pub next: Option<Next>,
    /// Where to go after a success.
    pub on_success: Option<Next>,
    /// Where to go after a failure.
    pub on_failure: Option<Next>,
    /// Where to go after a partial success.
    pub on_partial_success: Option<Next>,
    /// Where to go if the result is unclear.
    pub on_unclear: Option<Next>,
    /// Where to go if the way that was chosen is refused and the session may still go on.
    pub on_refused: Option<Next>,
    /// Trying again after a failure.
    pub retry: Option<Retry>,
    /// The longest turn.
    pub deadline: Option<Span>,
    /// Whether a step that was cut off may be run again.
    pub rerun: Option<bool>,
}

impl Common {
    /// The keys, as the file writes them.
    pub const KEYS: [&str; 9] = [
        "next",
        "on_success",
        "on_failure",
        "on_partial_success",
        "on_unclear",
        "on_refused",
        "retry",
        "deadline",
        "rerun",
    ];

    /// All ways out, with the name of the key.
    pub fn ways(&self) -> impl Iterator<Item = (&'static str, &Next)> {
        let all = [
            ("next", &self.next),
            ("on_success", &self.on_success),
            ("on_failure", &self.on_failure),
            ("on_partial_success", &self.on_partial_success),
            ("on_unclear", &self.on_unclear),
            ("on_refused", &self.on_refused),
        ];
        all.into_iter().filter_map(|(key, next)| Some((key, next.as_ref()?)))
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it does.
    pub work: Work,
    /// Where it leads, and how it is tried.
    pub common: Common,
}

impl Node {
    /// All nodes it may lead to, `done` and `failed` included, each once, in the order of the file.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        };
        self.common.ways().flat_map(|(_, next)| next.names()).for_each(&mut add);
        match &self.work {
            Work::Decide(decide) => decide.allowed_destinations.iter().for_each(|name| add(name)),
            Work::Route(route) => {
                route.rules.iter().for_each(|rule| add(&rule.to));
                add(&route.otherwise);
            }
            _ => {}
        }
        all
    }

    /// Whether a step that was cut off may be run again.
    #[must_use]
    pub fn may_rerun(&self) -> bool {
        self.common.rerun.unwrap_or_else(|| self.work.may_rerun())
    }
}
