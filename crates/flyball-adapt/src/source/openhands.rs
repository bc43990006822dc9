//! Events of OpenHands: a list, one a line, or a run with its history; of the older kind (`action` and `observation`)
//! and of the newer one (`kind`).

use super::fields::{Count, Number, Text, moment, or_default};
use super::items::{arguments, words};
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{field, fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use flyball::{Denier, Kind, Origin};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;

/// How many actions may wait for their observation.
const OPEN: usize = 256;
/// The tool whose only argument is a thought.
const THINK: &str = "think";
/// Fields of an action that say how it is carried out, not what it is.
const MANNERS: [&str; 14] = [
    "thought",
    "blocking",
    "hidden",
    "confirmation_state",
    "security_risk",
    "is_confirmed",
    "keep_prompt",
    "kind",
    "summary",
    "include_extra",
    "impl_source",
    "is_input",
    "is_static",
    "kernel_init_code",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    source: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    observation: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    cause: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    extras: Extras<'a>,
    success: Option<bool>,
    #[serde(borrow)]
    tool_call_metadata: Option<Metadata<'a>>,
    llm_metrics: Option<Metrics>,
    #[serde(borrow)]
    thought: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    tool_call: Option<Call<'a>>,
    #[serde(borrow)]
    llm_response_id: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    llm_message: Message<'a>,
    #[serde(borrow)]
    error: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extras<'a> {
    exit_code: Option<i64>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow)]
    function_name: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    model_response: Response<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metrics {
    accumulated_cost: Number,
    #[serde(deserialize_with = "or_default")]
    accumulated_token_usage: Tokens,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    prompt_tokens: Count,
    completion_tokens: Count,
    cache_read_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

struct Run {
    talk: Talk,
    /// Actions of the older kind that wait for their observation.
    open: VecDeque<String>,
    total: Used,
}

/// Reads events.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::OpenHands, sink);
    let mut run = Run { talk: Talk::new(reader.name), open: VecDeque::new(), total: Used::default() };
    each_value(&mut reader, &mut out, &mut |out, text, _| run.value(out, text))?;
    run.talk.closes(&mut out);
    Ok(out.finish())
}

impl Run {
    fn value(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let list = if text.trim_start().starts_with('[') {
            Some(text)
        } else {
            let list = fields(text).find(|field| matches!(field.key, "history" | "events" | "trajectory"));
            list.map(|field| field.value)
        };
        let Some(list) = list else { return self.event(out, text) };
        for event in items(list) {
            // Some dumps pair each action with its observation.
            let single = if event.starts_with('[') { None } else { Some(event) };
            for event in items(event).chain(single) {
                out.next_entry();
                let step = self.event(out, event);
                out.count_entry(step);
            }
        }
        Step::Took
    }

    fn event(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let Ok(event) = serde_json::from_str::<Event<'_>>(text) else { return Step::Bad };
        self.talk.at = moment(&event.timestamp).or(self.talk.at);
        if !event.kind.is_empty() {
            return self.newer(out, event);
        }
        if event.observation.is_some() {
            return self.observed(out, event);
        }
        if event.action.is_some() { self.acted(out, event) } else { Step::Nothing }
    }

    /// An action of the older kind.
    fn acted(&mut self, out: &mut Outbox<'_>, event: Event<'_>) -> Step {
        let action = words(event.action.map_or("\"\"", RawValue::get)).into_owned();
        let args = event.args.map_or("{}", RawValue::get);
        let said = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| field(args, key).map(words));
            found.unwrap_or_default()
        };
        self.count(event.llm_metrics.as_ref());
        let user = &*event.source == "user";
        match &*action {
            "message" if user => self.talk.hears(out, said(&["content"]), Origin::Human),
            "message" => {
                self.talk.new_answer();
                self.talk.says(out, said(&["content"]), true);
            }
            "finish" => {
                self.talk.new_answer();
                self.talk.says(out, said(&["final_thought", "message", "thought"]), true);
            }
            "condensation" => self.talk.notes(out, Kind::Compaction {}),
            "system" | "recall" | "change_agent_state" | "null" | "" | "condensation_request" => {
                return Step::Nothing;
            }
            _ if user => return Step::Nothing,
            _ => {
                let metadata = event.tool_call_metadata.unwrap_or_default();
                self.talk.by(&metadata.model_response.model);
                if let Some(id) = metadata.model_response.id.some() {
                    self.talk.answers(id);
                }
                let tool = metadata.function_name.some().unwrap_or(&action);
                if tool != THINK {
                    self.talk.says(out, said(&["thought"]), false);
                }
                self.talk.calls(out, &event.id, tool, plain(tool, bounds::args(args)));
                if self.open.len() == OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(event.id.to_string());
            }
        }
        Step::Took
    }

    /// An observation of the older kind; of interest if it is the end of a call.
    fn observed(&mut self, out: &mut Outbox<'_>, event: Event<'_>) -> Step {
        let Some(at) = self.open.iter().position(|id| *id == *event.cause) else { return Step::Nothing };
        self.open.remove(at);
        let kind = words(event.observation.map_or("\"\"", RawValue::get));
        let inner = event.extras.metadata.and_then(|raw| field(raw.get(), "exit_code"));
        let code = event.extras.exit_code.or_else(|| inner?.parse().ok());
        let failed = &*kind == "error" || event.success == Some(false) || code.is_some_and(|code| code > 0);
        let end = match (&*kind, failed) {
            ("user_rejected", _) => End::Denied(Denier::Human),
            (_, true) => End::Failed(event.content.0),
            (_, false) => End::Ok(event.content.0),
        };
        self.talk.ended(out, &event.cause, end);
        Step::Took
    }

    /// An event of the newer kind.
    fn newer(&mut self, out: &mut Outbox<'_>, event: Event<'_>) -> Step {
        let call = event.tool_call_id.0;
        match &*event.kind {
            "MessageEvent" => {
                let text = event.llm_message.content.map_or(Cow::Borrowed(""), |raw| words(raw.get()));
                if &*event.source == "user" {
                    self.talk.hears(out, text, Origin::Human);
                } else {
                    self.talk.new_answer();
                    self.talk.says(out, text, true);
                }
            }
            "ActionEvent" => {
                if let Some(id) = event.llm_response_id.some() {
                    self.talk.answers(id);
                }
                let thought = event.thought.map_or(Cow::Borrowed(""), |raw| words(raw.get()));
                self.talk.says(out, thought, false);
                let given = event.tool_call.and_then(|call| call.arguments);
                let args = match (given, event.action) {
                    (Some(given), _) => arguments(given.get()),
                    (None, Some(action)) => bounds::args(action.get()),
                    (None, None) => Value::Null,
                };
                self.talk.calls(out, &call, &event.tool_name, plain(&event.tool_name, args));
            }
            "ObservationEvent" => {
                let raw = event.observation.map_or("", RawValue::get);
                self.talk.ended(out, &call, newer_end(raw));
            }
            "AgentErrorEvent" if !call.is_empty() => {
                self.talk.ended(out, &call, End::Failed(event.error.0));
            }
            "UserRejectObservation" => self.talk.ended(out, &call, End::Denied(Denier::Human)),
            "Condensation" => self.talk.notes(out, Kind::Compaction {}),
            _ => return Step::Nothing,
        }
        Step::Took
    }

    /// Running totals stand on actions; the difference to the last ones goes with this one.
    fn count(&mut self, metrics: Option<&Metrics>) {
        let Some(metrics) = metrics else { return };
        let tokens = &metrics.accumulated_token_usage;
        let total = Used {
            tokens_in: tokens.prompt_tokens.0,
            tokens_out: tokens.completion_tokens.0,
            cost_micro_usd: bounds::micro_dollars(metrics.accumulated_cost.0),
            cached: Cached { read: tokens.cache_read_tokens.0, written: tokens.cache_write_tokens.0 },
        };
        self.talk.uses(total.beyond(&self.total));
        self.total = self.total.most(&total);
    }
}

fn newer_end(raw: &str) -> End<'_> {
    let text = field(raw, "content").or_else(|| field(raw, "output")).map_or(Cow::Borrowed(raw), words);
    let code = field(raw, "exit_code")
        .or_else(|| field(field(raw, "metadata")?, "exit_code"))
        .and_then(|code| code.parse::<i64>().ok());
    let flagged = field(raw, "is_error") == Some("true") || field(raw, "error") == Some("true");
    let error = field(raw, "error").filter(|error| error.starts_with('"')).map(words);
    match error.filter(|error| !error.is_empty()) {
        Some(error) => End::Failed(error),
        None if flagged || code.is_some_and(|code| code > 0) => End::Failed(text),
        None => End::Ok(text),
    }
}

/// Arguments without what does not belong to the act itself.
fn plain(tool: &str, args: Value) -> Value {
    let belongs = |key: &str| !MANNERS.contains(&key) || key == "thought" && tool == THINK;
    match args {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| belongs(key) && !value.is_null());
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other,
    }
}
