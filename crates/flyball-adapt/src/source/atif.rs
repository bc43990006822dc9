//! ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.7): one JSON document a run, a list of steps.

use super::fields::{Count, Flag, Number, Text, moment, or_default};
use super::items::words;
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{field, fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use flyball::Origin;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Trajectories inside trajectories: how deep they are followed.
const DEPTH: usize = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry<'a> {
    #[serde(borrow)]
    source: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    model_name: Text<'a>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    observation: Option<Observation<'a>>,
    metrics: Option<Metrics>,
    is_copied_context: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    function_name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Observation<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    results: Vec<Outcome<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outcome<'a> {
    #[serde(borrow)]
    source_call_id: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metrics {
    prompt_tokens: Count,
    completion_tokens: Count,
    cached_tokens: Count,
    cost_usd: Number,
}

/// Reads trajectories.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::Atif, sink);
    let (name, mut runs) = (reader.name, 0_u64);
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        runs += 1;
        let name = if runs == 1 { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}#{runs}")) };
        trajectory(out, text, &name, None, 0)
    })?;
    Ok(out.finish())
}

fn trajectory(out: &mut Outbox<'_>, text: &str, name: &str, parent: Option<&str>, depth: usize) -> Step {
    let own = ["trajectory_id", "session_id"].iter().filter(|key| parent.is_some() || **key == "session_id");
    let own = own.filter_map(|key| field(text, key)).map(words).find(|id| !id.is_empty());
    let mut talk = Talk::new(own.as_deref().unwrap_or(name));
    if let Some(model) = field(text, "agent").and_then(|agent| field(agent, "model_name")) {
        talk.by(&words(model));
    }
    let Some(steps) = fields(text).find(|field| field.key == "steps") else { return Step::Nothing };
    let mut begun = parent.is_none();
    for entry in items(steps.value) {
        out.next_entry();
        let Ok(entry) = serde_json::from_str::<Entry<'_>>(entry) else {
            out.count_entry(Step::Bad);
            continue;
        };
        talk.at = moment(&entry.timestamp).or(talk.at);
        if !begun {
            talk.starts(out, parent);
            begun = true;
        }
        let step = tell(&mut talk, out, entry, parent.is_some());
        out.count_entry(step);
    }
    talk.closes(out);
    if let Some(below) = field(text, "subagent_trajectories").filter(|_| depth < DEPTH) {
        for (at, below) in items(below).enumerate() {
            let name = format!("{}/{}", talk.session(), at + 1);
            trajectory(out, below, &name, Some(talk.session()), depth + 1);
        }
    }
    Step::Took
}

fn tell(talk: &mut Talk, out: &mut Outbox<'_>, entry: Entry<'_>, below: bool) -> Step {
    if entry.is_copied_context.0 {
        // It was told by the trajectory that this one goes on from.
        return Step::Nothing;
    }
    let text = entry.message.map_or(Cow::Borrowed(""), |raw| words(raw.get()));
    let calls = entry.tool_calls.unwrap_or_default();
    match &*entry.source {
        "user" => talk.hears(out, text, if below { Origin::Agent } else { Origin::Human }),
        "agent" => {
            talk.by(&entry.model_name);
            talk.new_answer();
            if let Some(metrics) = &entry.metrics {
                talk.uses(metrics.used());
            }
            talk.says(out, text, calls.is_empty());
        }
        _ => {}
    }
    for call in &calls {
        let args = call.arguments.map_or(Value::Null, |args| super::items::arguments(args.get()));
        talk.calls(out, &call.tool_call_id, &call.function_name, args);
    }
    let mut unnamed = calls.iter();
    let results = entry.observation.unwrap_or_default().results;
    let any = !calls.is_empty() || !results.is_empty();
    for result in results {
        let call = match result.source_call_id.some() {
            Some(call) => call.to_owned(),
            // In the order of the calls, if a result does not say whose it is.
            None => unnamed.next().map(|call| call.tool_call_id.to_string()).unwrap_or_default(),
        };
        let text = result.content.map_or(Cow::Borrowed(""), |raw| words(raw.get()));
        talk.ended(out, &call, End::Ok(text));
    }
    if any || matches!(&*entry.source, "user" | "agent") { Step::Took } else { Step::Nothing }
}

impl Metrics {
    fn used(&self) -> Used {
        Used {
            tokens_in: self.prompt_tokens.0,
            tokens_out: self.completion_tokens.0,
            cost_micro_usd: bounds::micro_dollars(self.cost_usd.0),
            cached: Cached { read: self.cached_tokens.0.min(self.prompt_tokens.0), written: 0 },
        }
    }
}
