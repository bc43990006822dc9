//! Calls a model and records its reply.

use crate::engine::{PersonMessage, RunStop, Turn, record_delivered};
use crate::provider::{
    ChatMessage, FinishReason as Ended, MalformedCall, ModelReply, ModelRequest, ModelToolCall,
    ProviderErrorCode, ProviderProgress,
};
use crate::run_error::RunError;
use flyball::EventKind;
use serde_json::{Value, json};

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

/// Asks the model, or replays its reply. Returns a provider failure as text. `messages` are those from people in the
/// request.
pub(super) fn ask(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &ModelRequest,
    messages: &[PersonMessage],
) -> Result<Result<ModelAnswer, String>, RunStop> {
    ask_or_replay(turn, provider, request, messages, true)
}

/// Asks the model to interpret a message. Its reply is never the node's final message.
pub(super) fn ask_side_question(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &ModelRequest,
) -> Result<Result<ModelAnswer, String>, RunStop> {
    ask_or_replay(turn, provider, request, &[], false)
}

fn ask_or_replay(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &ModelRequest,
    messages: &[PersonMessage],
    counts: bool,
) -> Result<Result<ModelAnswer, String>, RunStop> {
    let reply = loop {
        let mut recorded = 0;
        while turn.walk.log.next_event_type() == Some("api.retry") {
            let retry = turn.event(EventKind::ApiRetry {});
            turn.walk.record_event(retry)?;
            recorded += 1;
        }
        if turn.was_interrupted() {
            turn.interrupted("model")?;
            continue;
        }
        if turn.walk.log.upcoming_turn_end(&turn.node.name).is_some() {
            // The provider failed permanently; the history has the end of the turn.
            return Ok(Err(String::new()));
        }
        if !turn.walk.log.is_live() {
            break None;
        }
        let request = ModelRequest { deadline: turn.left(), ..request.clone() };
        match call_provider(turn, provider, &request, recorded)? {
            Ok(reply) => break Some(reply),
            Err(_) if turn.is_out_of_budget() => turn.interrupted("model")?,
            Err(words) => return Ok(Err(words)),
        }
    };
    let said = |reply: &ModelReply| EventKind::AssistantMessage {
        text: reply.text.clone(),
        structured: None,
        is_final: counts && reply.calls.is_empty(),
    };
    let nothing = ModelReply::default();
    let reply = reply.as_ref().unwrap_or(&nothing);
    let mut event = turn.event(said(reply));
    event.round = Some(request.round() as u64);
    event.usage = crate::engine::event_usage(&reply.usage);
    let malformed: Vec<Value> = reply.malformed.iter().map(malformed_json).collect();
    let kept =
        json!({"calls": reply.calls, "malformed": malformed, "stop": reply.stop, "model": reply.model});
    event.extra.insert("reply".to_owned(), kept);
    record_delivered(&mut event, messages);
    let past = turn.walk.record_event(event)?;
    turn.walk.log.mark_delivered(&past.event);
    Ok(Ok(stored_answer(&past.event)))
}

fn malformed_json(call: &MalformedCall) -> Value {
    json!({"name": call.name, "error": call.error})
}

/// Calls the provider. A permanent failure ends the run; other failures fail the turn. `recorded` of its retries were
/// stored before the interruption.
fn call_provider(
    turn: &mut Turn<'_>,
    name: &str,
    request: &ModelRequest,
    recorded: u32,
) -> Result<Result<ModelReply, String>, RunStop> {
    let mut retries = 0_u32;
    let answer = {
        let world = &turn.walk.context;
        let (session, node) = (turn.walk.log.session(), &turn.node.name);
        world.provider(name)?.ask_with_progress(request, &turn.walk.cancel, &mut |progress| match progress {
            ProviderProgress::Text(text) => world.listener.on_output(session, node, text),
            ProviderProgress::Retry(retry) => {
                retries += 1;
                world.listener.on_note(&format!("{}: {}; retrying", retry.provider, retry.message));
            }
        })
    };
    for _ in recorded..retries {
        let retry = turn.event(EventKind::ApiRetry {});
        turn.walk.record_event(retry)?;
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

fn stored_answer(event: &flyball::Event) -> ModelAnswer {
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
