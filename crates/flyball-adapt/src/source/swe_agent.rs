//! Trajectories of SWE-agent (`.traj`) and of mini-swe-agent: one JSON document a run.
//!
//! SWE-agent writes each step as a thought, an action (a command line) and an observation. mini-swe-agent writes
//! messages: a command in a fenced block, and what came of it as the next message of the user.

use super::fields::{Count, Number, Text, moment, or_default};
use super::items::{arguments, words};
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{field, fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use flyball::Origin;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Commands of SWE-agent that are tools of their own; everything else goes to its shell.
const TOOLS: [&str; 18] = [
    "edit",
    "create",
    "open",
    "goto",
    "scroll_up",
    "scroll_down",
    "search_file",
    "search_dir",
    "find_file",
    "submit",
    "insert",
    "append",
    "undo_edit",
    "str_replace_editor",
    "str_replace",
    "view",
    "filemap",
    "exit_forfeit",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Move<'a> {
    #[serde(borrow)]
    action: Text<'a>,
    #[serde(borrow)]
    observation: Text<'a>,
    #[serde(borrow)]
    thought: Text<'a>,
    #[serde(borrow)]
    response: Text<'a>,
    execution_time: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info<'a> {
    #[serde(deserialize_with = "or_default")]
    model_stats: Stats,
    #[serde(borrow, deserialize_with = "or_default")]
    config: Config<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    instance_cost: Number,
    tokens_sent: Count,
    tokens_received: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    model: Model<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Model<'a> {
    #[serde(borrow)]
    model_name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    function: Function<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

struct Run {
    talk: Talk,
    /// A command of mini-swe-agent waits for its observation.
    waiting: bool,
}

/// Reads trajectories.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::SweAgent, sink);
    let (name, mut runs) = (reader.name, 0_u64);
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        runs += 1;
        let name = if runs == 1 { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}#{runs}")) };
        Run { talk: Talk::new(&name), waiting: false }.whole(out, text)
    })?;
    Ok(out.finish())
}

impl Run {
    fn whole(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let value = |key: &str| fields(text).find(|field| field.key == key).map(|field| field.value);
        let info = field(text, "info").and_then(|info| serde_json::from_str::<Info<'_>>(info).ok());
        let info = info.unwrap_or_default();
        self.talk.by(&info.config.model.model_name);
        let (steps, mini) = match (value("trajectory"), value("messages")) {
            (Some(steps), _) => (steps, false),
            (None, Some(messages)) => (messages, true),
            (None, None) => return Step::Nothing,
        };
        for step in items(steps) {
            out.next_entry();
            let step = if mini { self.message(out, step) } else { self.step(out, step) };
            out.count_entry(step);
        }
        let stats = &info.model_stats;
        self.talk.used(
            out,
            Used {
                tokens_in: stats.tokens_sent.0,
                tokens_out: stats.tokens_received.0,
                cost_micro_usd: bounds::micro_dollars(stats.instance_cost.0),
                cached: Cached::default(),
            },
        );
        Step::Took
    }

    fn step(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let Ok(step) = serde_json::from_str::<Move<'_>>(text) else { return Step::Bad };
        self.talk.new_answer();
        let said = if step.thought.trim().is_empty() { step.response } else { step.thought };
        let action = step.action.trim();
        self.talk.says(out, said.0, action.is_empty());
        if action.is_empty() {
            return Step::Took;
        }
        let (tool, args) = command(action);
        self.talk.calls(out, "", tool, args);
        let took = step.execution_time.0;
        let took = (took > 0.0).then(|| bounds::milliseconds(took));
        self.talk.ended_in(out, "", End::Ok(step.observation.0), took);
        Step::Took
    }

    fn message(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let Ok(message) = serde_json::from_str::<Message<'_>>(text) else { return Step::Bad };
        let said = message.content.map_or(Cow::Borrowed(""), |content| words(content.get()));
        self.talk.at = moment(&message.timestamp).or(self.talk.at);
        match &*message.role {
            "user" if self.waiting => {
                self.waiting = false;
                self.talk.ended(out, "", observed(said));
            }
            "user" => self.talk.hears(out, said, Origin::Human),
            "tool" => self.talk.ended(out, &message.tool_call_id, observed(said)),
            "assistant" => {
                self.talk.new_answer();
                let calls = message.tool_calls.unwrap_or_default();
                let fenced = fenced(&said).filter(|_| calls.is_empty()).map(str::to_owned);
                self.talk.says(out, said, calls.is_empty() && fenced.is_none());
                for call in calls {
                    let args = call.function.arguments.map_or(Value::Null, |args| arguments(args.get()));
                    self.talk.calls(out, &call.id, &call.function.name, args);
                }
                if let Some(fenced) = fenced {
                    self.talk.calls(out, "", "bash", json!({"command": bounds::text(fenced.into())}));
                    self.waiting = true;
                }
            }
            _ => return Step::Nothing,
        }
        Step::Took
    }
}

/// An action as a tool and its arguments.
fn command(action: &str) -> (&str, Value) {
    let (first, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
    if !TOOLS.contains(&first) {
        return ("bash", json!({"command": bounds::text(action.into())}));
    }
    let rest = rest.trim();
    if first == "str_replace_editor" {
        let mut parts = rest.splitn(3, char::is_whitespace);
        let mut next = || parts.next().unwrap_or_default();
        let (what, path) = (next(), next());
        return (first, json!({"command": what, "path": path, "rest": bounds::text(next().into())}));
    }
    (first, if rest.is_empty() { json!({}) } else { json!({"args": bounds::text(rest.into())}) })
}

/// The command of a message: its one fenced block.
fn fenced(text: &str) -> Option<&str> {
    let start = ["```bash\n", "```mswea_bash_command\n", "```sh\n"]
        .iter()
        .find_map(|fence| text.find(fence).map(|at| at + fence.len()))?;
    let rest = text.get(start..)?;
    rest.get(..rest.find("```")?).map(str::trim).filter(|command| !command.is_empty())
}

/// What came of a command: its code stands in front of its output.
fn observed(text: Cow<'_, str>) -> End<'_> {
    let code = text.trim_start().strip_prefix("<returncode>").and_then(|rest| rest.split('<').next());
    match code.and_then(|code| code.trim().parse::<i64>().ok()) {
        Some(0) | None => End::Ok(text),
        Some(_) => End::Failed(text),
    }
}
