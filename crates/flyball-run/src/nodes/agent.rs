//! A model with tools in a loop: ask, check the answer, call its tools, until it says that it is done and the gates
//! agree.

use super::agent_tools;
use super::model::{self, Answer};
use crate::engine::{Outcome, PersonMessage, Status, Stop, Turn};
use crate::provider::{Message, Request, ToolSpec};
use crate::workflow::spec::Agent;
use flyball::backpressure::TASK_COMPLETE;
use flyball::completion::{Signal, find_signal};
use flyball::{Kind, Verdict};
use serde_json::{Map, Value, json};

/// The most answers in one turn, unless the file says otherwise.
const ROUNDS: u64 = 50;

/// Runs the loop.
pub(super) fn run(turn: &mut Turn<'_>, agent: &Agent) -> Result<Outcome, Stop> {
    let mut talk =
        if agent.remember { turn.walk.talks.remove(&turn.node.name).unwrap_or_default() } else { Vec::new() };
    let from = talk.len();
    let system = agent.system.as_deref().unwrap_or_default();
    let (text, messages) = prompt(turn, &agent.prompt, system)?;
    talk.push(Message::user(text));
    let outcome = rounds(turn, agent, &mut talk, from, messages)?;
    if agent.remember {
        turn.walk.talks.insert(turn.node.name.clone(), talk);
    }
    Ok(outcome)
}

/// The instructions, with a stall that the run went on from, what people wrote since the last prompt, and what the model
/// may still do. Also gives the messages from people that they contain. What a template has a place for (`{{stall}}`,
/// `{{advice}}`) is not repeated below it.
pub(super) fn prompt(
    turn: &mut Turn<'_>,
    template: &str,
    system: &str,
) -> Result<(String, Vec<PersonMessage>), Stop> {
    let messages = turn.walk.lane.for_prompt();
    let stall = turn.walk.stall_briefing()?;
    turn.walk.stalled = None;
    if let Some(text) = turn.walk.lane.undelivered_text() {
        turn.walk.vars.set("advice", json!(text));
    }
    turn.walk.vars.set("stall", json!(stall));
    let uses = |name: &str| [template, system].into_iter().any(|template| names(template, name));
    let mut parts = vec![turn.walk.vars.fill(template)];
    parts.extend(stall.filter(|_| !uses("stall")));
    if !uses("advice") {
        parts.extend(messages.iter().map(PersonMessage::paragraph));
    }
    parts.extend(turn.walk.allowance(&turn.node.name));
    Ok((parts.join("\n\n"), messages))
}

/// Whether a template has a place for a value.
fn names(template: &str, value: &str) -> bool {
    template.split("{{").skip(1).any(|rest| rest.split("}}").next().is_some_and(|name| name.trim() == value))
}

fn rounds(
    turn: &mut Turn<'_>,
    agent: &Agent,
    talk: &mut Vec<Message>,
    from: usize,
    mut messages: Vec<PersonMessage>,
) -> Result<Outcome, Stop> {
    let provider = turn.walk.provider.clone().unwrap_or_else(|| agent.provider.clone());
    let signal = agent.completion.clone().unwrap_or_else(|| TASK_COMPLETE.to_owned());
    let mut failed_before = false;
    for _ in 0..agent.rounds.unwrap_or(ROUNDS) {
        if turn.walk.lane.upcoming(&turn.node.name).is_some() {
            // The turn is over in the history: what it gave is there.
            return Ok(Outcome::success(""));
        }
        // What a person wrote while the turn went on is in the next request.
        for message in turn.walk.lane.for_prompt() {
            if !messages.contains(&message) {
                talk.push(Message::user(message.paragraph()));
                messages.push(message);
            }
        }
        let request = request(turn, agent, talk, from);
        let answer = match model::ask(turn, &provider, &request, &messages)? {
            Ok(answer) => answer,
            Err(words) => return Ok(Outcome::failure(words)),
        };
        messages.clear();
        talk.push(answer.message());
        let signal_given = find_signal(&answer.text, &signal);
        if let Some(words) = invalid(turn, agent, &answer, &signal_given)? {
            failed_before = true;
            refuse_all(talk, &answer, &words);
            continue;
        }
        if std::mem::take(&mut failed_before) {
            let passed = turn.event(Kind::ValidationPassed {});
            turn.walk.tell(passed)?;
        }
        if !answer.calls.is_empty() {
            agent_tools::call_all(turn, &answer, request.round() as u64, talk)?;
            continue;
        }
        let options = match signal_given {
            Signal::Given(options) => Some(options),
            // Without a signal to wait for, an answer without calls is the last one.
            _ => (agent.gates.is_empty() && agent.completion.is_none()).then(Map::new),
        };
        match finish(turn, agent, &answer, &signal, options)? {
            Ok(outcome) => return Ok(outcome),
            Err(words) => talk.push(Message::user(words)),
        }
    }
    Ok(Outcome::failure("it did not come to an end in the answers that it may give")
        .with_status(Status::PartialSuccess))
}

fn request(turn: &Turn<'_>, agent: &Agent, talk: &[Message], from: usize) -> Request {
    let specs = turn.walk.world.toolbox.specs();
    let offered = specs.into_iter().filter(|spec| agent.tools.contains(&spec.name));
    Request {
        node: Some(turn.node.name.clone()),
        turn: turn.number(),
        turn_from: from,
        system: agent.system.as_ref().map(|system| turn.walk.vars.fill(system)),
        messages: talk.to_vec(),
        tools: offered
            .map(|spec| ToolSpec { name: spec.name, description: spec.description, schema: spec.schema })
            .collect(),
        max_tokens: agent.max_tokens,
        deadline: turn.left(),
    }
}

/// What is wrong with an answer, in words for the model; the governor counts it.
fn invalid(
    turn: &mut Turn<'_>,
    agent: &Agent,
    answer: &Answer,
    signal: &Signal,
) -> Result<Option<String>, Stop> {
    let unknown = answer.calls.iter().find(|call| !agent.tools.contains(&call.name));
    let unfit = answer.calls.iter().find_map(|call| {
        turn.walk.world.toolbox.check(&call.name, &call.args).err().map(|error| (call.name.clone(), error))
    });
    let (kind, expected, error) = if let Some((tool, error)) = answer.malformed.first() {
        ("malformed_json", format!("arguments of '{tool}' as a JSON object"), error.clone())
    } else if answer.cut_short && (!answer.calls.is_empty() || answer.text.is_empty()) {
        ("truncated", "a whole answer".to_owned(), "the answer was cut short".to_owned())
    } else if let Some(call) = unknown {
        let known = agent.tools.join(", ");
        ("unknown_tool", format!("one of {known}"), format!("there is no tool '{}' here", call.name))
    } else if let Some((tool, error)) = unfit {
        let kind = if error.code == "missing_field" { "missing_field" } else { "wrong_type" };
        (kind, format!("arguments that fit '{tool}'"), error.what)
    } else if let (Signal::Garbled(error), true) = (signal, answer.calls.is_empty()) {
        ("bad_completion", "a completion signal".to_owned(), error.clone())
    } else {
        return Ok(None);
    };
    let received: String = answer.text.chars().take(200).collect();
    let failed = turn.event(Kind::ValidationFailed {
        kind: Some(kind.to_owned()),
        expected: Some(expected),
        received: Some(received),
        error: Some(error.clone()),
    });
    let past = turn.walk.ask(&failed)?;
    let usual = || format!("Failed to parse your response: {error}. Please try again with valid JSON.");
    Ok(Some(past.decision.feedback.unwrap_or_else(usual)))
}

/// Every call keeps its result, as the protocols demand; without calls it is a message.
fn refuse_all(talk: &mut Vec<Message>, answer: &Answer, words: &str) {
    if answer.calls.is_empty() {
        talk.push(Message::user(words));
    }
    for call in &answer.calls {
        talk.push(Message::result(call.id.clone(), false, words));
    }
}

/// The gates that an agent asks to leave out: `{"skip": ["lint"]}`, or `{"skip_lint": true}`.
fn asked_to_skip(options: &Map<String, Value>) -> Vec<String> {
    let listed = options.get("skip").and_then(Value::as_array).into_iter().flatten();
    let listed = listed.filter_map(Value::as_str).map(str::to_owned);
    let named = options.iter().filter(|(_, value)| **value == Value::Bool(true));
    let named = named.filter_map(|(key, _)| key.strip_prefix("skip_").map(str::to_owned));
    listed.chain(named).collect()
}

/// The model says that it is done, or says nothing that moves the work: the end of the turn, or words to go on with.
fn finish(
    turn: &mut Turn<'_>,
    agent: &Agent,
    answer: &Answer,
    signal: &str,
    options: Option<Map<String, Value>>,
) -> Result<Result<Outcome, String>, Stop> {
    let Some(options) = options else {
        return Ok(Err(format!("Go on. When everything is done, say {signal}.")));
    };
    let asked = turn.event(Kind::CompletionRequested { request: Some(signal.to_owned()) });
    let past = turn.walk.ask(&asked)?;
    if past.decision.decision >= Verdict::Block {
        return Ok(Err(past.decision.feedback.unwrap_or_else(|| "The completion was refused.".to_owned())));
    }
    if agent.gates.is_empty() {
        return Ok(Ok(Outcome::success(answer.text.clone())));
    }
    let checked = super::gate::check(turn, &agent.gates, signal, &asked_to_skip(&options))?;
    Ok(match checked.status {
        Status::Failure => Err(checked.output),
        _ => Ok(Outcome::success(answer.text.clone()).with_status(checked.status)),
    })
}
