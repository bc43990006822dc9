//! ATIF, the Agent Trajectory Interchange Format (versions 1.0 to 1.7): one JSON document per run with a list of steps.

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{
    LenientCount, LenientFlag, LenientNumber, LenientText, or_default, parse_timestamp,
};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{field, fields, items};
use super::responses_items::text_of;
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::MessageOrigin;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Maximum nesting depth of trajectories.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtifStep<'a> {
    #[serde(borrow)]
    source: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow)]
    model_name: LenientText<'a>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<AtifCall<'a>>>,
    #[serde(borrow)]
    observation: Option<AtifObservation<'a>>,
    metrics: Option<AtifMetrics>,
    is_copied_context: LenientFlag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtifCall<'a> {
    #[serde(borrow)]
    tool_call_id: LenientText<'a>,
    #[serde(borrow)]
    function_name: LenientText<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtifObservation<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    results: Vec<AtifResult<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtifResult<'a> {
    #[serde(borrow)]
    source_call_id: LenientText<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtifMetrics {
    prompt_tokens: LenientCount,
    completion_tokens: LenientCount,
    cached_tokens: LenientCount,
    cost_usd: LenientNumber,
}

/// Reads trajectories.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::Atif, sink);
    let (name, mut runs) = (reader.name, 0_u64);
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        runs += 1;
        let name = if runs == 1 { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}#{runs}")) };
        trajectory(out, text, &name, None, 0)
    })?;
    Ok(out.finish())
}

fn trajectory(
    out: &mut EventEmitter<'_>,
    text: &str,
    name: &str,
    parent: Option<&str>,
    depth: usize,
) -> LineOutcome {
    let own = ["trajectory_id", "session_id"].iter().filter(|key| parent.is_some() || **key == "session_id");
    let own = own.filter_map(|key| field(text, key)).map(text_of).find(|id| !id.is_empty());
    let mut conversation = Conversation::new(own.as_deref().unwrap_or(name));
    if let Some(model) = field(text, "agent").and_then(|agent| field(agent, "model_name")) {
        conversation.set_model(&text_of(model));
    }
    let Some(steps) = fields(text).find(|field| field.key == "steps") else { return LineOutcome::Skipped };
    let mut begun = parent.is_none();
    for entry in items(steps.value) {
        out.next_entry();
        let Ok(entry) = serde_json::from_str::<AtifStep<'_>>(entry) else {
            out.count_entry(LineOutcome::Malformed);
            continue;
        };
        conversation.at = parse_timestamp(&entry.timestamp).or(conversation.at);
        if !begun {
            conversation.session_started(out, parent);
            begun = true;
        }
        let step = emit_step(&mut conversation, out, entry, parent.is_some());
        out.count_entry(step);
    }
    conversation.finish(out);
    if let Some(below) = field(text, "subagent_trajectories").filter(|_| depth < MAX_DEPTH) {
        for (at, below) in items(below).enumerate() {
            let name = format!("{}/{}", conversation.session(), at + 1);
            trajectory(out, below, &name, Some(conversation.session()), depth + 1);
        }
    }
    LineOutcome::Counted
}

fn emit_step(
    conversation: &mut Conversation,
    out: &mut EventEmitter<'_>,
    entry: AtifStep<'_>,
    below: bool,
) -> LineOutcome {
    if entry.is_copied_context.0 {
        // Already recorded from the trajectory that this one continues.
        return LineOutcome::Skipped;
    }
    let text = entry.message.map_or(Cow::Borrowed(""), |raw| text_of(raw.get()));
    let calls = entry.tool_calls.unwrap_or_default();
    match &*entry.source {
        "user" => conversation.user_message(
            out,
            text,
            if below { MessageOrigin::Agent } else { MessageOrigin::Human },
        ),
        "agent" => {
            conversation.set_model(&entry.model_name);
            conversation.new_answer();
            if let Some(metrics) = &entry.metrics {
                conversation.add_usage(metrics.to_usage());
            }
            conversation.assistant_message(out, text, calls.is_empty());
        }
        _ => {}
    }
    for call in &calls {
        let args =
            call.arguments.map_or(Value::Null, |args| super::responses_items::parse_arguments(args.get()));
        conversation.tool_requested(out, &call.tool_call_id, &call.function_name, args);
    }
    let mut unnamed = calls.iter();
    let results = entry.observation.unwrap_or_default().results;
    let any = !calls.is_empty() || !results.is_empty();
    for result in results {
        let call = match result.source_call_id.non_empty() {
            Some(call) => call.to_owned(),
            // Results without a call id are assigned in the order of the calls.
            None => unnamed.next().map(|call| call.tool_call_id.to_string()).unwrap_or_default(),
        };
        let text = result.content.map_or(Cow::Borrowed(""), |raw| text_of(raw.get()));
        conversation.tool_finished(out, &call, CallEnd::Ok(text));
    }
    if any || matches!(&*entry.source, "user" | "agent") {
        LineOutcome::Counted
    } else {
        LineOutcome::Skipped
    }
}

impl AtifMetrics {
    fn to_usage(&self) -> AnswerUsage {
        AnswerUsage {
            tokens_in: self.prompt_tokens.0,
            tokens_out: self.completion_tokens.0,
            cost_micro_usd: bounds::micro_dollars(self.cost_usd.0),
            cached: CachedTokens { read: self.cached_tokens.0.min(self.prompt_tokens.0), written: 0 },
        }
    }
}
