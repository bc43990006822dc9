//! A model that chooses where to go. Its answer is checked, and every way still passes the guards.

use super::agent::prompt;
use super::model;
use super::talk;
use crate::engine::{Outcome, PersonMessage, Status, Stop, Turn};
use crate::provider::{Message, Request};
use crate::workflow::spec::Decide;
use flyball::Kind;
use flyball::confirm::{Answer, understand};
use serde_json::{Value, json};

/// How often a model is asked again for an answer that can be read.
const RE_ASKS: u32 = 2;

/// What a model decided.
struct Decided {
    to: String,
    /// In per cent.
    confidence: u64,
    why: String,
}

/// Asks the model, and a person if the model is not sure.
pub(super) fn run(turn: &mut Turn<'_>, decide: &Decide) -> Result<Outcome, Stop> {
    let refused: Vec<String> = turn
        .walk
        .vars
        .get("refused")
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default();
    let ways: Vec<String> =
        decide.allowed_destinations.iter().filter(|way| !refused.contains(way)).cloned().collect();
    if ways.is_empty() {
        return Ok(Outcome::failure("every way is closed").with_status(Status::Unclear));
    }
    let (question, mut messages) = question(turn, decide, &ways)?;
    let mut talk = vec![Message::user(question)];
    let provider = turn.walk.provider.clone().unwrap_or_else(|| decide.provider.clone());
    let mut failed_before = false;
    for asked in 0..=RE_ASKS {
        if turn.walk.lane.upcoming(&turn.node.name).is_some() {
            return Ok(Outcome::success(""));
        }
        let request = Request {
            node: Some(turn.node.name.clone()),
            turn: turn.number(),
            messages: talk.clone(),
            deadline: turn.left(),
            ..Request::default()
        };
        let answer = match model::ask(turn, &provider, &request, &std::mem::take(&mut messages))? {
            Ok(answer) => answer,
            Err(words) => return Ok(Outcome::failure(words)),
        };
        talk.push(answer.message());
        match read(&answer.text, &ways) {
            Ok(decided) => {
                settled(turn, failed_before)?;
                return follow(turn, decide, decided);
            }
            // The last one goes to a person: it is not held against the session.
            Err(_) if asked == RE_ASKS => break,
            Err(error) => {
                let failed = turn.event(Kind::ValidationFailed {
                    kind: Some("malformed_json".to_owned()),
                    expected: Some(format!("a decision for one of {}", ways.join(", "))),
                    received: Some(answer.text.chars().take(200).collect()),
                    error: Some(error.clone()),
                });
                let past = turn.walk.ask(&failed)?;
                failed_before = true;
                talk.push(Message::user(past.decision.feedback.unwrap_or(error)));
            }
        }
    }
    settled(turn, failed_before)?;
    by_person(turn, &ways, "the model gave no answer that can be read")
}

/// An answer that could be read, or a person's in its place, ends the count of those that could not.
fn settled(turn: &mut Turn<'_>, failed_before: bool) -> Result<(), Stop> {
    if failed_before {
        let passed = turn.event(Kind::ValidationPassed {});
        turn.walk.tell(passed)?;
    }
    Ok(())
}

fn question(
    turn: &mut Turn<'_>,
    decide: &Decide,
    ways: &[String],
) -> Result<(String, Vec<PersonMessage>), Stop> {
    let template = decide.prompt.as_deref().unwrap_or("Decide where the work goes on.\n\n{{last}}");
    let (words, messages) = prompt(turn, template, "")?;
    let question = format!(
        "{words}\n\nAnswer with JSON alone: {{\"decision\": one of {}, \"confidence\": 0 to 1, \"reasoning\": \"…\"}}",
        ways.join(", ")
    );
    Ok((question, messages))
}

/// Reads an answer: the name of a way, also as `advance_to_X`, `jump_to_X`, or `require_approval`.
fn read(text: &str, ways: &[String]) -> Result<Decided, String> {
    let begin = text.find('{').ok_or("there is no JSON in the answer")?;
    let end = text.rfind('}').ok_or("the JSON has no end")?;
    let part = text.get(begin..=end).ok_or("the JSON has no end")?;
    let value: Value = serde_json::from_str(part).map_err(|error| error.to_string())?;
    let word = value.get("decision").and_then(Value::as_str).ok_or("`decision` is missing")?;
    let why = value.get("reasoning").and_then(Value::as_str).unwrap_or_default().to_owned();
    if word == "require_approval" {
        return Ok(Decided { to: String::new(), confidence: 0, why });
    }
    let name = word.strip_prefix("advance_to_").or_else(|| word.strip_prefix("jump_to_")).unwrap_or(word);
    let to = [word, name].into_iter().find(|name| ways.iter().any(|way| way == name));
    let to = to.ok_or_else(|| format!("'{word}' is not allowed; the ways are {}", ways.join(", ")))?;
    let confidence = value.get("confidence").ok_or("`confidence` is missing")?;
    let confidence = per_cent(confidence).ok_or("`confidence` is no number from 0 to 1")?;
    Ok(Decided { to: to.to_owned(), confidence, why })
}

/// 0 to 1 as per cent, without arithmetic on floats: the digits after the point.
fn per_cent(value: &Value) -> Option<u64> {
    let text = value.as_number()?.to_string();
    let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
    let whole: u64 = whole.parse().ok()?;
    let digits: String = digits.chars().chain("00".chars()).take(2).collect();
    let cents: u64 = digits.parse().ok()?;
    let all = whole * 100 + cents;
    (all <= 100).then_some(all)
}

fn follow(turn: &mut Turn<'_>, decide: &Decide, decided: Decided) -> Result<Outcome, Stop> {
    let Decided { to, confidence, why } = decided;
    let about = json!({"decision": to, "confidence_percent": confidence, "reasoning": why});
    if !to.is_empty() && confidence >= decide.confidence.advance {
        return Ok(Outcome { to: Some(to), ..Outcome::success(why).with(about) });
    }
    if confidence >= decide.confidence.ask || to.is_empty() {
        let ways = if to.is_empty() { decide.allowed_destinations.clone() } else { vec![to] };
        return by_person(turn, &ways, &why);
    }
    Ok(Outcome::failure(why).with(about).with_status(Status::Unclear))
}

/// A person says yes to the one way, or names one of several.
fn by_person(turn: &mut Turn<'_>, ways: &[String], why: &str) -> Result<Outcome, Stop> {
    let question = match ways {
        [one] => format!("Shall the work go on at '{one}'? ({why}) (yes/no)"),
        many => format!("Where shall the work go on: {}? ({why})", many.join(", ")),
    };
    let asked = turn.event(Kind::QuestionAsked { text: question.clone() });
    turn.walk.ask(&asked)?;
    let answer = talk::listen(turn, &question)?;
    let named = ways.iter().find(|way| answer.trim() == way.as_str()).cloned();
    let to = match (named, ways) {
        (Some(way), _) => Some(way),
        (None, [one]) if understand(&answer) == Answer::Yes => Some(one.clone()),
        _ => None,
    };
    let about = json!({"decision": to, "by": "person"});
    Ok(match to {
        Some(to) => Outcome { to: Some(to), ..Outcome::success(answer).with(about) },
        None => Outcome::failure(answer).with(about).with_status(Status::Unclear),
    })
}
