//! Decide node: a model chooses the next node. Its answer is validated, and the guards still check the transition.

use super::agent::render_prompt;
use super::human_io;
use super::model_call::{self, ModelQuestion, ValidAnswer, json_part};
use crate::engine::{NodeOutcome, NodeStatus, PersonMessage, RunStop, Turn};
use crate::provider::{ChatMessage, ModelRequest};
use crate::workflow::spec::DecideNode;
use flyball::confirm::{ConfirmationAnswer, classify_answer};
use serde_json::{Value, json};

/// Decision of a model.
struct ModelDecision {
    to: String,
    /// In percent.
    confidence: u64,
    why: String,
}

/// Asks the model, and a person if the model is not confident.
pub(super) fn run(turn: &mut Turn<'_>, decide: &DecideNode) -> Result<NodeOutcome, RunStop> {
    let refused: Vec<String> = turn
        .walk
        .vars
        .get("refused")
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default();
    let targets: Vec<String> =
        decide.allowed_destinations.iter().filter(|target| !refused.contains(target)).cloned().collect();
    if targets.is_empty() {
        return Ok(NodeOutcome::failed("all destinations were denied").with_status(NodeStatus::Unclear));
    }
    let (prompt, messages) = build_prompt(turn, decide, &targets)?;
    let provider = turn.walk.provider_override.clone().unwrap_or_else(|| decide.provider.clone());
    let request = ModelRequest {
        node: Some(turn.node.name.clone()),
        turn: turn.number(),
        messages: vec![ChatMessage::user(prompt)],
        ..ModelRequest::default()
    };
    let mut question = ModelQuestion { provider: &provider, request, messages, is_final: true };
    let expected = format!("a decision for one of {}", targets.join(", "));
    let parse = |text: &str| parse_decision(text, &targets);
    match model_call::ask_until_valid(turn, &mut question, &expected, parse)? {
        ValidAnswer::Valid(decided) => apply_decision(turn, decide, decided),
        ValidAnswer::Unavailable(error) => Ok(NodeOutcome::failed(error)),
        ValidAnswer::Invalid => {
            // The count of invalid answers starts again, because a person decides now.
            model_call::record_valid(turn)?;
            ask_person(turn, &targets, "the model gave no valid answer")
        }
    }
}

fn build_prompt(
    turn: &mut Turn<'_>,
    decide: &DecideNode,
    targets: &[String],
) -> Result<(String, Vec<PersonMessage>), RunStop> {
    let template = decide.prompt.as_deref().unwrap_or("Decide where the work continues.\n\n{{last}}");
    let (prompt, messages) = render_prompt(turn, template, "")?;
    let question = format!(
        "{prompt}\n\nAnswer with JSON only: {{\"decision\": one of {}, \"confidence\": 0 to 1, \"reasoning\": \"…\"}}",
        targets.join(", ")
    );
    Ok((question, messages))
}

/// Parses an answer: a target name, `advance_to_X`, `jump_to_X`, or `require_approval`.
fn parse_decision(text: &str, targets: &[String]) -> Result<ModelDecision, String> {
    let value: Value = serde_json::from_str(json_part(text)?).map_err(|error| error.to_string())?;
    let word = value.get("decision").and_then(Value::as_str).ok_or("`decision` is missing")?;
    let why = value.get("reasoning").and_then(Value::as_str).unwrap_or_default().to_owned();
    if word == "require_approval" {
        return Ok(ModelDecision { to: String::new(), confidence: 0, why });
    }
    let name = word.strip_prefix("advance_to_").or_else(|| word.strip_prefix("jump_to_")).unwrap_or(word);
    let to = [word, name].into_iter().find(|name| targets.iter().any(|target| target == name));
    let to = to.ok_or_else(|| format!("'{word}' is not allowed; choose one of {}", targets.join(", ")))?;
    let confidence = value.get("confidence").ok_or("`confidence` is missing")?;
    let confidence = parse_percent(confidence).ok_or("`confidence` must be a number from 0 to 1")?;
    Ok(ModelDecision { to: to.to_owned(), confidence, why })
}

/// Converts a number from 0 to 1 to percent by its digits, without float arithmetic.
fn parse_percent(value: &Value) -> Option<u64> {
    let text = value.as_number()?.to_string();
    let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
    let whole: u64 = whole.parse().ok()?;
    let digits: String = digits.chars().chain("00".chars()).take(2).collect();
    let cents: u64 = digits.parse().ok()?;
    let all = whole * 100 + cents;
    (all <= 100).then_some(all)
}

fn apply_decision(
    turn: &mut Turn<'_>,
    decide: &DecideNode,
    decided: ModelDecision,
) -> Result<NodeOutcome, RunStop> {
    let ModelDecision { to, confidence, why } = decided;
    let about = json!({"decision": to, "confidence_percent": confidence, "reasoning": why});
    if !to.is_empty() && confidence >= decide.confidence.advance {
        return Ok(NodeOutcome { to: Some(to), ..NodeOutcome::success(why).with_structured(about) });
    }
    if confidence >= decide.confidence.ask || to.is_empty() {
        let targets = if to.is_empty() { decide.allowed_destinations.clone() } else { vec![to] };
        return ask_person(turn, &targets, &why);
    }
    Ok(NodeOutcome::failed(why).with_structured(about).with_status(NodeStatus::Unclear))
}

/// Asks a person to approve the only target, or to name one of several.
fn ask_person(turn: &mut Turn<'_>, targets: &[String], why: &str) -> Result<NodeOutcome, RunStop> {
    let question = match targets {
        [one] => format!("Continue at '{one}'? ({why}) (yes/no)"),
        many => format!("Choose where the work continues: {} ({why})", many.join(", ")),
    };
    let answer = human_io::ask(turn, &question)?;
    let named = targets.iter().find(|target| answer.trim() == target.as_str()).cloned();
    let to = match (named, targets) {
        (Some(target), _) => Some(target),
        (None, [one]) if classify_answer(&answer) == ConfirmationAnswer::Yes => Some(one.clone()),
        _ => None,
    };
    let about = json!({"decision": to, "by": "person"});
    Ok(match to {
        Some(to) => NodeOutcome { to: Some(to), ..NodeOutcome::success(answer).with_structured(about) },
        None => NodeOutcome::failed(answer).with_structured(about).with_status(NodeStatus::Unclear),
    })
}
