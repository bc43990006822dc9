//! Asking a model, and keeping what it answered.

use crate::engine::{PersonMessage, Stop, Turn, record_delivered};
use crate::fail::Failure;
use crate::provider::{Call, Code, MalformedCall, Message, Progress, Reply, Request, Stop as Ended};
use flyball::Kind;
use serde_json::{Value, json};

/// What a model answered, as it is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    /// Calls that could not be read: the tool, and what is wrong.
    pub(super) malformed: Vec<(String, String)>,
    pub(super) cut_short: bool,
}

impl Answer {
    /// The message to keep in the conversation.
    pub(super) fn message(&self) -> Message {
        Message::Assistant { text: self.text.clone(), calls: self.calls.clone() }
    }
}

/// Asks, or takes the answer from the history. A failure of the provider is given back in words. `messages` are those
/// from people that the request contains.
pub(super) fn ask(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &Request,
    messages: &[PersonMessage],
) -> Result<Result<Answer, String>, Stop> {
    put(turn, provider, request, messages, true)
}

/// The same for a question about somebody's words: its answer is not the last word of the node, however often it comes.
pub(super) fn ask_aside(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &Request,
) -> Result<Result<Answer, String>, Stop> {
    put(turn, provider, request, &[], false)
}

fn put(
    turn: &mut Turn<'_>,
    provider: &str,
    request: &Request,
    messages: &[PersonMessage],
    counts: bool,
) -> Result<Result<Answer, String>, Stop> {
    let reply = loop {
        let mut told = 0;
        while turn.walk.lane.next_name() == Some("api.retry") {
            let retry = turn.event(Kind::ApiRetry {});
            turn.walk.tell(retry)?;
            told += 1;
        }
        if turn.was_interrupted() {
            turn.interrupted("model")?;
            continue;
        }
        if turn.walk.lane.upcoming(&turn.node.name).is_some() {
            // The provider failed for good then: how the turn ended is in the history.
            return Ok(Err(String::new()));
        }
        if !turn.walk.lane.is_live() {
            break None;
        }
        let request = Request { deadline: turn.left(), ..request.clone() };
        match live(turn, provider, &request, told)? {
            Ok(reply) => break Some(reply),
            Err(_) if turn.is_out_of_budget() => turn.interrupted("model")?,
            Err(words) => return Ok(Err(words)),
        }
    };
    let said = |reply: &Reply| Kind::AssistantMessage {
        text: reply.text.clone(),
        structured: None,
        is_final: counts && reply.calls.is_empty(),
    };
    let nothing = Reply::default();
    let reply = reply.as_ref().unwrap_or(&nothing);
    let mut event = turn.event(said(reply));
    event.round = Some(request.round() as u64);
    event.usage = crate::engine::usage(&reply.usage);
    let malformed: Vec<Value> = reply.malformed.iter().map(malformed).collect();
    let kept =
        json!({"calls": reply.calls, "malformed": malformed, "stop": reply.stop, "model": reply.model});
    event.extra.insert("reply".to_owned(), kept);
    record_delivered(&mut event, messages);
    let past = turn.walk.tell(event)?;
    turn.walk.lane.delivered(&past.event);
    Ok(Ok(stored(&past.event)))
}

fn malformed(call: &MalformedCall) -> Value {
    json!({"name": call.name, "error": call.error})
}

/// Asks the provider. What no second try can mend ends the run; the rest is a failure of the turn. `told` of its retries
/// were stored before the run was cut off.
fn live(
    turn: &mut Turn<'_>,
    name: &str,
    request: &Request,
    told: u32,
) -> Result<Result<Reply, String>, Stop> {
    let mut retries = 0_u32;
    let answer = {
        let world = &turn.walk.world;
        let (session, node) = (turn.walk.lane.session(), &turn.node.name);
        world.provider(name)?.ask_watched(request, &turn.walk.cancel, &mut |progress| match progress {
            Progress::Text(text) => world.watcher.output(session, node, text),
            Progress::Retry(retry) => {
                retries += 1;
                world.watcher.note(&format!("{}: {}; trying again", retry.provider, retry.what));
            }
        })
    };
    for _ in told..retries {
        let retry = turn.event(Kind::ApiRetry {});
        turn.walk.tell(retry)?;
    }
    match answer {
        Ok(reply) => Ok(Ok(reply)),
        Err(error) => match error.code {
            Code::Cancelled => Err(Stop::Interrupted),
            Code::Timeout
            | Code::Overloaded
            | Code::RateLimited
            | Code::Truncated
            | Code::Malformed
            | Code::Unreachable => Ok(Err(format!("{} ({})", error.what, error.code()))),
            _ => Err(Failure::from(error).into()),
        },
    }
}

fn stored(event: &flyball::Event) -> Answer {
    let Kind::AssistantMessage { text, .. } = &event.kind else { return Answer::default() };
    let reply = event.extra.get("reply").cloned().unwrap_or_default();
    let calls = reply.get("calls").cloned().unwrap_or_default();
    let broken = reply.get("malformed").and_then(Value::as_array).cloned().unwrap_or_default();
    let word =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Answer {
        text: text.clone(),
        calls: serde_json::from_value(calls).unwrap_or_default(),
        malformed: broken.iter().map(|call| (word(call, "name"), word(call, "error"))).collect(),
        cut_short: word(&reply, "stop") == Ended::MaxTokens.as_str(),
    }
}
