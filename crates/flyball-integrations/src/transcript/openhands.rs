//! OpenHands events: a list, JSON lines, or a run with its history, in the older format (`action` and `observation`) or
//! the newer one (`kind`).

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientCount, LenientNumber, LenientText, or_default, parse_timestamp};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{field, fields, items};
use super::responses_items::{parse_arguments, text_of};
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::{DeniedBy, EventKind, MessageOrigin};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Maximum number of actions awaiting an observation.
const MAX_OPEN_ACTIONS: usize = 256;
/// The tool whose only argument is a thought.
const THINK_TOOL: &str = "think";
/// Fields of an action that describe its execution and not its content.
const NON_ARGUMENT_FIELDS: [&str; 14] = [
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
struct OpenHandsEvent<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow)]
    source: LenientText<'a>,
    #[serde(borrow)]
    kind: LenientText<'a>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    observation: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    content: LenientText<'a>,
    #[serde(borrow)]
    cause: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    extras: OpenHandsExtras<'a>,
    success: Option<bool>,
    #[serde(borrow)]
    tool_call_metadata: Option<OpenHandsMetadata<'a>>,
    llm_metrics: Option<OpenHandsMetrics>,
    #[serde(borrow)]
    thought: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: LenientText<'a>,
    #[serde(borrow)]
    tool_call_id: LenientText<'a>,
    #[serde(borrow)]
    tool_call: Option<OpenHandsCall<'a>>,
    #[serde(borrow)]
    llm_response_id: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    llm_message: OpenHandsMessage<'a>,
    #[serde(borrow)]
    error: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsExtras<'a> {
    exit_code: Option<i64>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsMetadata<'a> {
    #[serde(borrow)]
    function_name: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    model_response: OpenHandsResponse<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsResponse<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    model: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsMetrics {
    accumulated_cost: LenientNumber,
    #[serde(deserialize_with = "or_default")]
    accumulated_token_usage: OpenHandsTokens,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsTokens {
    prompt_tokens: LenientCount,
    completion_tokens: LenientCount,
    cache_read_tokens: LenientCount,
    cache_write_tokens: LenientCount,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsCall<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenHandsMessage<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

struct OpenHandsRun {
    conversation: Conversation,
    /// Actions of the older format awaiting an observation.
    open: VecDeque<String>,
    total: AnswerUsage,
}

/// Reads events.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::OpenHands, sink);
    let mut run = OpenHandsRun {
        conversation: Conversation::new(reader.name),
        open: VecDeque::new(),
        total: AnswerUsage::default(),
    };
    each_value(&mut reader, &mut out, &mut |out, text, _| run.handle_value(out, text))?;
    run.conversation.finish(&mut out);
    Ok(out.finish())
}

impl OpenHandsRun {
    fn handle_value(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let list = if text.trim_start().starts_with('[') {
            Some(text)
        } else {
            let list = fields(text).find(|field| matches!(field.key, "history" | "events" | "trajectory"));
            list.map(|field| field.value)
        };
        let Some(list) = list else { return self.handle_event(out, text) };
        for event in items(list) {
            // Some dumps pair each action with its observation.
            let single = if event.starts_with('[') { None } else { Some(event) };
            for event in items(event).chain(single) {
                out.next_entry();
                let step = self.handle_event(out, event);
                out.count_entry(step);
            }
        }
        LineOutcome::Counted
    }

    fn handle_event(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let Ok(event) = serde_json::from_str::<OpenHandsEvent<'_>>(text) else {
            return LineOutcome::Malformed;
        };
        self.conversation.at = parse_timestamp(&event.timestamp).or(self.conversation.at);
        if !event.kind.is_empty() {
            return self.handle_new_event(out, event);
        }
        if event.observation.is_some() {
            return self.handle_observation(out, event);
        }
        if event.action.is_some() { self.handle_action(out, event) } else { LineOutcome::Skipped }
    }

    /// Handles an action of the older format.
    fn handle_action(&mut self, out: &mut EventEmitter<'_>, event: OpenHandsEvent<'_>) -> LineOutcome {
        let action = text_of(event.action.map_or("\"\"", RawValue::get)).into_owned();
        let args = event.args.map_or("{}", RawValue::get);
        let said = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| field(args, key).map(text_of));
            found.unwrap_or_default()
        };
        self.add_metrics(event.llm_metrics.as_ref());
        let user = &*event.source == "user";
        match &*action {
            "message" if user => {
                self.conversation.user_message(out, said(&["content"]), MessageOrigin::Human)
            }
            "message" => {
                self.conversation.new_answer();
                self.conversation.assistant_message(out, said(&["content"]), true);
            }
            "finish" => {
                self.conversation.new_answer();
                self.conversation.assistant_message(
                    out,
                    said(&["final_thought", "message", "thought"]),
                    true,
                );
            }
            "condensation" => self.conversation.push_kind(out, EventKind::Compaction {}),
            "system" | "recall" | "change_agent_state" | "null" | "" | "condensation_request" => {
                return LineOutcome::Skipped;
            }
            _ if user => return LineOutcome::Skipped,
            _ => {
                let metadata = event.tool_call_metadata.unwrap_or_default();
                self.conversation.set_model(&metadata.model_response.model);
                if let Some(id) = metadata.model_response.id.non_empty() {
                    self.conversation.set_answer(id);
                }
                let tool = metadata.function_name.non_empty().unwrap_or(&action);
                if tool != THINK_TOOL {
                    self.conversation.assistant_message(out, said(&["thought"]), false);
                }
                self.conversation.tool_requested(
                    out,
                    &event.id,
                    tool,
                    act_arguments(tool, bounds::args(args)),
                );
                if self.open.len() == MAX_OPEN_ACTIONS {
                    self.open.pop_front();
                }
                self.open.push_back(event.id.to_string());
            }
        }
        LineOutcome::Counted
    }

    /// Handles an observation of the older format; relevant if it ends a call.
    fn handle_observation(&mut self, out: &mut EventEmitter<'_>, event: OpenHandsEvent<'_>) -> LineOutcome {
        let Some(at) = self.open.iter().position(|id| *id == *event.cause) else {
            return LineOutcome::Skipped;
        };
        self.open.remove(at);
        let kind = text_of(event.observation.map_or("\"\"", RawValue::get));
        let inner = event.extras.metadata.and_then(|raw| field(raw.get(), "exit_code"));
        let code = event.extras.exit_code.or_else(|| inner?.parse().ok());
        let failed = &*kind == "error" || event.success == Some(false) || code.is_some_and(|code| code > 0);
        let end = match (&*kind, failed) {
            ("user_rejected", _) => CallEnd::Denied(DeniedBy::Human),
            (_, true) => CallEnd::Failed(event.content.0),
            (_, false) => CallEnd::Ok(event.content.0),
        };
        self.conversation.tool_finished(out, &event.cause, end);
        LineOutcome::Counted
    }

    /// Handles an event of the newer format.
    fn handle_new_event(&mut self, out: &mut EventEmitter<'_>, event: OpenHandsEvent<'_>) -> LineOutcome {
        let call = event.tool_call_id.0;
        match &*event.kind {
            "MessageEvent" => {
                let text = event.llm_message.content.map_or(Cow::Borrowed(""), |raw| text_of(raw.get()));
                if &*event.source == "user" {
                    self.conversation.user_message(out, text, MessageOrigin::Human);
                } else {
                    self.conversation.new_answer();
                    self.conversation.assistant_message(out, text, true);
                }
            }
            "ActionEvent" => {
                if let Some(id) = event.llm_response_id.non_empty() {
                    self.conversation.set_answer(id);
                }
                let thought = event.thought.map_or(Cow::Borrowed(""), |raw| text_of(raw.get()));
                self.conversation.assistant_message(out, thought, false);
                let given = event.tool_call.and_then(|call| call.arguments);
                let args = match (given, event.action) {
                    (Some(given), _) => parse_arguments(given.get()),
                    (None, Some(action)) => bounds::args(action.get()),
                    (None, None) => Value::Null,
                };
                self.conversation.tool_requested(
                    out,
                    &call,
                    &event.tool_name,
                    act_arguments(&event.tool_name, args),
                );
            }
            "ObservationEvent" => {
                let raw = event.observation.map_or("", RawValue::get);
                self.conversation.tool_finished(out, &call, new_event_end(raw));
            }
            "AgentErrorEvent" if !call.is_empty() => {
                self.conversation.tool_finished(out, &call, CallEnd::Failed(event.error.0));
            }
            "UserRejectObservation" => {
                self.conversation.tool_finished(out, &call, CallEnd::Denied(DeniedBy::Human))
            }
            "Condensation" => self.conversation.push_kind(out, EventKind::Compaction {}),
            _ => return LineOutcome::Skipped,
        }
        LineOutcome::Counted
    }

    /// Adds the increase of the running totals to the current event.
    fn add_metrics(&mut self, metrics: Option<&OpenHandsMetrics>) {
        let Some(metrics) = metrics else { return };
        let tokens = &metrics.accumulated_token_usage;
        let total = AnswerUsage {
            tokens_in: tokens.prompt_tokens.0,
            tokens_out: tokens.completion_tokens.0,
            cost_micro_usd: bounds::micro_dollars(metrics.accumulated_cost.0),
            cached: CachedTokens { read: tokens.cache_read_tokens.0, written: tokens.cache_write_tokens.0 },
        };
        self.conversation.add_usage(total.since(&self.total));
        self.total = self.total.max(&total);
    }
}

fn new_event_end(raw: &str) -> CallEnd<'_> {
    let text = field(raw, "content").or_else(|| field(raw, "output")).map_or(Cow::Borrowed(raw), text_of);
    let code = field(raw, "exit_code")
        .or_else(|| field(field(raw, "metadata")?, "exit_code"))
        .and_then(|code| code.parse::<i64>().ok());
    let flagged = field(raw, "is_error") == Some("true") || field(raw, "error") == Some("true");
    let error = field(raw, "error").filter(|error| error.starts_with('"')).map(text_of);
    match error.filter(|error| !error.is_empty()) {
        Some(error) => CallEnd::Failed(error),
        None if flagged || code.is_some_and(|code| code > 0) => CallEnd::Failed(text),
        None => CallEnd::Ok(text),
    }
}

/// The arguments without execution details.
fn act_arguments(tool: &str, args: Value) -> Value {
    let belongs = |key: &str| !NON_ARGUMENT_FIELDS.contains(&key) || key == "thought" && tool == THINK_TOOL;
    match args {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| belongs(key) && !value.is_null());
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other,
    }
}
