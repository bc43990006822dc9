//! Calls a model and records its reply.

use crate::engine::{Effect, PersonMessage, RunStop, Step, Turn, record_delivered};
use crate::provider::{
    ChatMessage, FinishReason as Ended, MalformedCall, ModelReply, ModelRequest, ModelToolCall,
    ProviderErrorCode, ProviderProgress,
};
use crate::run_error::RunError;
use flyball::{Event, EventKind};
use serde_json::{Value, json};

/// Maximum number of repeated requests for a valid answer.
const MAX_RETRIES: u32 = 2;
/// Maximum length of a quoted invalid answer.
const MAX_QUOTED_CHARS: usize = 200;

/// Reply of a model, as stored.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelAnswer {
    pub(super) text: String,
    pub(super) calls: Vec<ModelToolCall>,
    /// Calls that could not be parsed: tool and error.
    pub(super) malformed: Vec<(String, String)>,
    pub(super) truncated: bool,
}

impl ModelAnswer {
    /// The message for the conversation.
    pub(super) fn message(&self) -> ChatMessage {
        ChatMessage::Assistant { text: self.text.clone(), calls: self.calls.clone() }
    }
}

/// A question to a model.
pub(super) struct ModelQuestion<'q> {
    pub(super) provider: &'q str,
    pub(super) request: ModelRequest,
    /// Messages from people in the request.
    pub(super) messages: Vec<PersonMessage>,
    /// Whether a reply without tool calls is the node's final message.
    pub(super) is_final: bool,
}

/// Asks the model. Returns a provider failure as text.
pub(super) fn ask(
    turn: &mut Turn<'_>,
    question: &ModelQuestion<'_>,
) -> Result<Result<ModelAnswer, String>, RunStop> {
    let mut error = String::new();
    let step =
        Step { kind: "model", result: Some("assistant.message"), report: Some("api.retry"), once: None };
    let past = turn.step(&step, |turn, crashed| {
        match call_provider(turn, question, crashed.reports)? {
            Ok(reply) => return Ok(Effect::Result(reply_event(turn, question, &reply))),
            Err(_) if turn.is_out_of_budget() => return Ok(Effect::OutOfBudget),
            Err(failure) => error = failure,
        }
        if !question.is_final {
            let note = format!("interpreted the message without the model: {error}");
            turn.walk.context.listener.on_note(&note);
        }
        Ok(Effect::NoResult)
    })?;
    let Some(past) = past else { return Ok(Err(error)) };
    turn.walk.log.mark_delivered(&past.event);
    Ok(Ok(stored_answer(&past.event)))
}

fn reply_event(turn: &Turn<'_>, question: &ModelQuestion<'_>, reply: &ModelReply) -> Event {
    let mut event = turn.event(EventKind::AssistantMessage {
        text: reply.text.clone(),
        structured: None,
        is_final: question.is_final && reply.calls.is_empty(),
    });
    event.round = Some(question.request.round() as u64);
    event.usage = crate::engine::event_usage(&reply.usage);
    let malformed: Vec<Value> = reply.malformed.iter().map(malformed_json).collect();
    let kept =
        json!({"calls": reply.calls, "malformed": malformed, "stop": reply.stop, "model": reply.model});
    event.extra.insert("reply".to_owned(), kept);
    record_delivered(&mut event, &question.messages);
    event
}

/// Result of a question whose answer must be valid.
pub(super) enum ValidAnswer<T> {
    Valid(T),
    /// The model gave no valid answer.
    Invalid,
    /// The provider failed.
    Unavailable(String),
}

/// Asks the model until its answer is valid, at most [`MAX_RETRIES`] times again. The request collects the conversation.
pub(super) fn ask_until_valid<T>(
    turn: &mut Turn<'_>,
    question: &mut ModelQuestion<'_>,
    expected: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<ValidAnswer<T>, RunStop> {
    for asked in 0..=MAX_RETRIES {
        let answer = match ask(turn, question)? {
            Ok(answer) => answer,
            Err(error) => return Ok(ValidAnswer::Unavailable(error)),
        };
        question.messages.clear();
        question.request.messages.push(answer.message());
        match parse(&answer.text) {
            Ok(valid) => {
                if asked > 0 {
                    record_valid(turn)?;
                }
                return Ok(ValidAnswer::Valid(valid));
            }
            // After the last attempt a person takes over, so the failure is not counted.
            Err(_) if asked == MAX_RETRIES => break,
            Err(error) => {
                let feedback = record_invalid(turn, "malformed_json", expected, &answer.text, &error)?;
                question.request.messages.push(ChatMessage::user(feedback.unwrap_or(error)));
            }
        }
    }
    Ok(ValidAnswer::Invalid)
}

/// Records an invalid answer; the governor counts them. Returns its feedback for the model.
pub(super) fn record_invalid(
    turn: &mut Turn<'_>,
    kind: &str,
    expected: &str,
    received: &str,
    error: &str,
) -> Result<Option<String>, RunStop> {
    let past = turn.request(EventKind::ValidationFailed {
        kind: Some(kind.to_owned()),
        expected: Some(expected.to_owned()),
        received: Some(received.chars().take(MAX_QUOTED_CHARS).collect()),
        error: Some(error.to_owned()),
    })?;
    Ok(past.decision.feedback)
}

/// Records a valid answer after invalid ones, which resets their count.
pub(super) fn record_valid(turn: &mut Turn<'_>) -> Result<(), RunStop> {
    turn.record(EventKind::ValidationPassed {}).map(drop)
}

/// The JSON object in an answer.
pub(super) fn json_part(text: &str) -> Result<&str, String> {
    let begin = text.find('{').ok_or("the answer contains no JSON")?;
    let end = text.rfind('}').ok_or("the JSON is incomplete")?;
    text.get(begin..=end).ok_or_else(|| "the JSON is incomplete".to_owned())
}

fn malformed_json(call: &MalformedCall) -> Value {
    json!({"name": call.name, "error": call.error})
}

/// Calls the provider. A permanent failure ends the run; other failures are returned as text. `recorded` of its retries
/// were stored before a crash.
fn call_provider(
    turn: &mut Turn<'_>,
    question: &ModelQuestion<'_>,
    recorded: u32,
) -> Result<Result<ModelReply, String>, RunStop> {
    let request = ModelRequest { deadline: turn.left(), ..question.request.clone() };
    let mut retries = 0_u32;
    let answer = {
        let context = &turn.walk.context;
        let (session, node) = (turn.walk.log.session(), &turn.node.name);
        let provider = context.provider(question.provider)?;
        provider.ask_with_progress(&request, &turn.walk.cancel, &mut |progress| match progress {
            ProviderProgress::Text(text) => context.listener.on_output(session, node, text),
            ProviderProgress::Retry(retry) => {
                retries += 1;
                context.listener.on_note(&format!("{}: {}; retrying", retry.provider, retry.message));
            }
        })
    };
    for _ in recorded..retries {
        turn.record(EventKind::ApiRetry {})?;
    }
    match answer {
        Ok(reply) => Ok(Ok(reply)),
        Err(error) => match error.code {
            ProviderErrorCode::Cancelled => Err(RunStop::Interrupted),
            ProviderErrorCode::Timeout
            | ProviderErrorCode::Overloaded
            | ProviderErrorCode::RateLimited
            | ProviderErrorCode::Truncated
            | ProviderErrorCode::Malformed
            | ProviderErrorCode::Unreachable => Ok(Err(format!("{} ({})", error.message, error.code()))),
            _ => Err(RunError::from(error).into()),
        },
    }
}

fn stored_answer(event: &Event) -> ModelAnswer {
    let EventKind::AssistantMessage { text, .. } = &event.kind else { return ModelAnswer::default() };
    let reply = event.extra.get("reply").cloned().unwrap_or_default();
    let calls = reply.get("calls").cloned().unwrap_or_default();
    let broken = reply.get("malformed").and_then(Value::as_array).cloned().unwrap_or_default();
    let text_of =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    ModelAnswer {
        text: text.clone(),
        calls: serde_json::from_value(calls).unwrap_or_default(),
        malformed: broken.iter().map(|call| (text_of(call, "name"), text_of(call, "error"))).collect(),
        truncated: text_of(&reply, "stop") == Ended::MaxTokens.as_str(),
    }
}
