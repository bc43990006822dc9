//! A node as the file describes it: what is common to all, and its kind.

use super::spec::{
    Agent, Collect, Command, Confirm, Decide, Gate, Human, Join, Next, Retry, Route, Say, Span, Tool,
};
use super::{DONE, FAILED};
use crate::engine::Status;
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
    Collect(Box<Collect>),
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

    /// How a visit may go when the node does not say itself where to go.
    #[must_use]
    pub fn may_end(&self) -> Vec<Status> {
        use Status::{Failure, PartialSuccess, Success, Unclear};
        match self {
            Work::Command(command) => {
                let partial = (!command.partial.is_empty()).then_some(PartialSuccess);
                let unclear = (!command.unclear.is_empty()).then_some(Unclear);
                [Success, Failure].into_iter().chain(partial).chain(unclear).collect()
            }
            Work::Agent(_) | Work::Confirm(_) => vec![Success, Failure, PartialSuccess, Unclear],
            Work::Collect(_) => vec![Success, Failure, Unclear],
            Work::Decide(_) => vec![Failure, Unclear],
            Work::Gate(_) => vec![Success, Failure, Unclear],
            Work::Tool(_) | Work::Human(_) => vec![Success, Failure],
            Work::Join(join) => {
                let late = join.timeout.is_some().then_some(PartialSuccess);
                [Success, Failure].into_iter().chain(late).collect()
            }
            Work::Say(_) => vec![Success],
            Work::Route(_) => Vec::new(),
        }
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
    /// A step that a budget cut short is repeated after a release (`repeat`, the default), or left out (`skip`): the work
    /// continues where it would after a success. If it is written, it also holds for a step that a crash cut off.
    pub on_interrupt: Option<OnInterrupt>,
}

/// What becomes of a step that was cut short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// It is done again.
    #[default]
    Repeat,
    /// It is left out.
    Skip,
}

impl Common {
    /// The keys, as the file writes them.
    pub const KEYS: [&str; 10] = [
        "next",
        "on_success",
        "on_failure",
        "on_partial_success",
        "on_unclear",
        "on_refused",
        "retry",
        "deadline",
        "rerun",
        "on_interrupt",
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
    /// All nodes that the file leads it to, `done` and `failed` included, each once, in the order of the file.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        self.common.ways().flat_map(|(_, next)| next.names()).for_each(|name| add(&mut all, name));
        match &self.work {
            Work::Decide(decide) => decide.allowed_destinations.iter().for_each(|name| add(&mut all, name)),
            Work::Route(route) => {
                route.rules.iter().for_each(|rule| add(&mut all, &rule.to));
                add(&mut all, &route.otherwise);
            }
            _ => {}
        }
        all
    }

    /// All nodes it may lead to, also where the file says nothing: `done` after a success, `failed` after the rest.
    #[must_use]
    pub fn leads_to(&self) -> Vec<String> {
        let mut all = self.targets();
        for status in self.work.may_end() {
            self.way(status).names().into_iter().for_each(|name| add(&mut all, name));
        }
        all
    }

    /// Where an outcome leads.
    #[must_use]
    pub fn way(&self, status: Status) -> Next {
        let common = &self.common;
        if status == Status::Skipped {
            // Without the step the work continues as after a success, where there is such a way.
            let may_succeed = self.work.may_end().contains(&Status::Success);
            return self.way(if may_succeed { Status::Success } else { Status::Unclear });
        }
        let own = match status {
            Status::Success | Status::Skipped => &common.on_success,
            Status::Failure => &common.on_failure,
            Status::PartialSuccess => &common.on_partial_success,
            Status::Unclear => &common.on_unclear,
        };
        // Partial success without a way of its own is a success that needs a look; unclear is none.
        let near = match status {
            Status::PartialSuccess => common.on_success.as_ref(),
            Status::Unclear => common.on_failure.as_ref(),
            Status::Success | Status::Failure | Status::Skipped => None,
        };
        let end = if status == Status::Success { DONE } else { FAILED };
        let found = own.as_ref().or(common.next.as_ref()).or(near);
        found.cloned().unwrap_or_else(|| Next::One(end.to_owned()))
    }

    /// Whether a step that was cut off may be run again.
    #[must_use]
    pub fn may_rerun(&self) -> bool {
        self.common.rerun.unwrap_or_else(|| self.work.may_rerun())
    }
}

fn add(all: &mut Vec<String>, name: &str) {
    if !all.iter().any(|known| known == name) {
        all.push(name.to_owned());
    }
}
