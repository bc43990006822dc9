//! Agent node: asks a model, validates its reply and calls its tools, until it reports completion and the gates pass.

use super::agent_tools;
use super::model_call::{self, ModelAnswer, ModelQuestion};
use crate::engine::{NodeOutcome, NodeStatus, PersonMessage, RunStop, Turn};
use crate::provider::{ChatMessage, ModelRequest, ModelToolSpec};
use crate::workflow::spec::AgentNode;
use flyball::backpressure::TASK_COMPLETE;
use flyball::completion::{CompletionSignal, find_signal};
use flyball::{EventKind, Verdict};
use serde_json::{Map, Value, json};

/// Default maximum of replies per turn.
const DEFAULT_MAX_ROUNDS: u64 = 50;

/// Runs the agent loop.
pub(super) fn run(turn: &mut Turn<'_>, agent: &AgentNode) -> Result<NodeOutcome, RunStop> {
    let mut conversation = if agent.remember {
        turn.walk.conversations.remove(&turn.node.name).unwrap_or_default()
    } else {
        Vec::new()
    };
    let from = conversation.len();
    let system = agent.system.as_deref().unwrap_or_default();
    let (text, messages) = render_prompt(turn, &agent.prompt, system)?;
    conversation.push(ChatMessage::user(text));
    let outcome = run_rounds(turn, agent, &mut conversation, from, messages)?;
    if agent.remember {
        turn.walk.conversations.insert(turn.node.name.clone(), conversation);
    }
    Ok(outcome)
}

/// Renders the prompt with the stall briefing, messages from people since the last prompt, and the remaining visits.
/// Also returns the messages it contains. Parts that the template includes itself (`{{stall}}`, `{{advice}}`) are not
/// appended again.
pub(super) fn render_prompt(
    turn: &mut Turn<'_>,
    template: &str,
    system: &str,
) -> Result<(String, Vec<PersonMessage>), RunStop> {
    let messages = turn.walk.log.messages_for_prompt();
    let stall = turn.walk.stall_briefing()?;
    turn.walk.last_stall = None;
    if let Some(text) = turn.walk.log.undelivered_text() {
        turn.walk.vars.set("advice", json!(text));
    }
    turn.walk.vars.set("stall", json!(stall));
    let uses = |name: &str| [template, system].into_iter().any(|template| has_placeholder(template, name));
    let mut parts = vec![turn.walk.vars.render(template)];
    parts.extend(stall.filter(|_| !uses("stall")));
    if !uses("advice") {
        parts.extend(messages.iter().map(PersonMessage::paragraph));
    }
    parts.extend(turn.walk.remaining_visits_text(&turn.node.name));
    Ok((parts.join("\n\n"), messages))
}

/// Whether a template contains a placeholder.
fn has_placeholder(template: &str, value: &str) -> bool {
    template.split("{{").skip(1).any(|rest| rest.split("}}").next().is_some_and(|name| name.trim() == value))
}

fn run_rounds(
    turn: &mut Turn<'_>,
    agent: &AgentNode,
    conversation: &mut Vec<ChatMessage>,
    from: usize,
    mut messages: Vec<PersonMessage>,
) -> Result<NodeOutcome, RunStop> {
    let provider = turn.walk.provider_override.clone().unwrap_or_else(|| agent.provider.clone());
    let signal = agent.completion.clone().unwrap_or_else(|| TASK_COMPLETE.to_owned());
    let mut failed_before = false;
    for _ in 0..agent.rounds.unwrap_or(DEFAULT_MAX_ROUNDS) {
        // A message sent during the turn is part of the next request.
        for message in turn.walk.log.messages_for_prompt() {
            if !messages.contains(&message) {
                conversation.push(ChatMessage::user(message.paragraph()));
                messages.push(message);
            }
        }
        let request = build_request(turn, agent, conversation, from);
        let round = request.round() as u64;
        let messages = std::mem::take(&mut messages);
        let question = ModelQuestion { provider: &provider, request, messages, is_final: true };
        let answer = match model_call::ask(turn, &question)? {
            Ok(answer) => answer,
            Err(error) => return Ok(NodeOutcome::failed(error)),
        };
        conversation.push(answer.message());
        let signal_given = find_signal(&answer.text, &signal);
        if let Some(feedback) = validate_answer(turn, agent, &answer, &signal_given)? {
            failed_before = true;
            reject_calls(conversation, &answer, &feedback);
            continue;
        }
        if std::mem::take(&mut failed_before) {
            model_call::record_valid(turn)?;
        }
        if !answer.calls.is_empty() {
            agent_tools::call_all(turn, &answer, round, conversation)?;
            continue;
        }
        let options = match signal_given {
            CompletionSignal::Present(options) => Some(options),
            // Without gates, a reply without tool calls ends the turn.
            _ => (agent.gates.is_empty() && agent.completion.is_none()).then(Map::new),
        };
        match try_complete(turn, agent, &answer, &signal, options)? {
            Ok(outcome) => return Ok(outcome),
            Err(feedback) => conversation.push(ChatMessage::user(feedback)),
        }
    }
    Ok(NodeOutcome::failed("not completed within the allowed number of replies")
        .with_status(NodeStatus::PartialSuccess))
}

fn build_request(
    turn: &Turn<'_>,
    agent: &AgentNode,
    conversation: &[ChatMessage],
    from: usize,
) -> ModelRequest {
    let specs = turn.walk.context.toolbox.specs();
    let offered = specs.into_iter().filter(|spec| agent.tools.contains(&spec.name));
    ModelRequest {
        node: Some(turn.node.name.clone()),
        turn: turn.number(),
        turn_from: from,
        system: agent.system.as_ref().map(|system| turn.walk.vars.render(system)),
        messages: conversation.to_vec(),
        tools: offered
            .map(|spec| ModelToolSpec { name: spec.name, description: spec.description, schema: spec.schema })
            .collect(),
        max_tokens: agent.max_tokens,
        deadline: None,
    }
}

/// Validates a reply. Returns feedback for the model if it is invalid; the governor counts failures.
fn validate_answer(
    turn: &mut Turn<'_>,
    agent: &AgentNode,
    answer: &ModelAnswer,
    signal: &CompletionSignal,
) -> Result<Option<String>, RunStop> {
    let unknown = answer.calls.iter().find(|call| !agent.tools.contains(&call.name));
    let unfit = answer.calls.iter().find_map(|call| {
        turn.walk
            .context
            .toolbox
            .validate_call(&call.name, &call.args)
            .err()
            .map(|error| (call.name.clone(), error))
    });
    let (kind, expected, error) = if let Some((tool, error)) = answer.malformed.first() {
        ("malformed_json", format!("arguments of '{tool}' as a JSON object"), error.clone())
    } else if answer.truncated && (!answer.calls.is_empty() || answer.text.is_empty()) {
        ("truncated", "a complete answer".to_owned(), "the answer was truncated".to_owned())
    } else if let Some(call) = unknown {
        let known = agent.tools.join(", ");
        ("unknown_tool", format!("one of {known}"), format!("tool '{}' is not available here", call.name))
    } else if let Some((tool, error)) = unfit {
        let kind = if error.code == "missing_field" { "missing_field" } else { "wrong_type" };
        (kind, format!("arguments that match the schema of '{tool}'"), error.message)
    } else if let (CompletionSignal::Garbled(error), true) = (signal, answer.calls.is_empty()) {
        ("bad_completion", "a completion signal".to_owned(), error.clone())
    } else {
        return Ok(None);
    };
    let feedback = model_call::record_invalid(turn, kind, &expected, &answer.text, &error)?;
    let usual = || format!("Failed to parse your response: {error}. Please try again with valid JSON.");
    Ok(Some(feedback.unwrap_or_else(usual)))
}

/// Rejects a reply: every tool call needs a result in the protocols; without calls the feedback is a message.
fn reject_calls(conversation: &mut Vec<ChatMessage>, answer: &ModelAnswer, feedback: &str) {
    if answer.calls.is_empty() {
        conversation.push(ChatMessage::user(feedback));
    }
    for call in &answer.calls {
        conversation.push(ChatMessage::result(call.id.clone(), false, feedback));
    }
}

/// Gates that an agent asks to skip: `{"skip": ["lint"]}` or `{"skip_lint": true}`.
fn requested_skips(options: &Map<String, Value>) -> Vec<String> {
    let listed = options.get("skip").and_then(Value::as_array).into_iter().flatten();
    let listed = listed.filter_map(Value::as_str).map(str::to_owned);
    let named = options.iter().filter(|(_, value)| **value == Value::Bool(true));
    let named = named.filter_map(|(key, _)| key.strip_prefix("skip_").map(str::to_owned));
    listed.chain(named).collect()
}

/// Handles a reply without tool calls: ends the turn, or returns feedback to continue with.
fn try_complete(
    turn: &mut Turn<'_>,
    agent: &AgentNode,
    answer: &ModelAnswer,
    signal: &str,
    options: Option<Map<String, Value>>,
) -> Result<Result<NodeOutcome, String>, RunStop> {
    let Some(options) = options else {
        return Ok(Err(format!("Continue. When everything is done, say {signal}.")));
    };
    let past = turn.request(EventKind::CompletionRequested { request: Some(signal.to_owned()) })?;
    if past.decision.decision >= Verdict::Block {
        return Ok(Err(past.decision.feedback.unwrap_or_else(|| "The completion was denied.".to_owned())));
    }
    if agent.gates.is_empty() {
        return Ok(Ok(NodeOutcome::success(answer.text.clone())));
    }
    let checked = super::gate_node::check_gates(turn, &agent.gates, signal, &requested_skips(&options))?;
    Ok(match checked.status {
        NodeStatus::Failure => Err(checked.output),
        _ => Ok(NodeOutcome::success(answer.text.clone()).with_status(checked.status)),
    })
}
