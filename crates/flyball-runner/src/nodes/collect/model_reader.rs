//! Interprets messages with a model. Its answer is validated and requested again up to twice; then a person takes over.
//!
//! Three intents are recognized without the model: cancel, ask for a person, and yes. An unclear answer is never
//! treated as consent.

use super::super::model_call::{self, ModelQuestion, ValidAnswer, json_part};
use super::collect_dialogue::{CollectDialogue, RetryVerdict};
use crate::dialogue::{ExpectedReply, MessageMeaning, SlotEdit, SlotValue, value_text};
use crate::engine::{RecordedEvent, RunStop};
use crate::provider::{ChatMessage, ModelRequest};
use crate::workflow::spec::CollectNode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Description of a valid answer.
const EXPECTED_ANSWER: &str = "the meaning of the message, as JSON";

/// Result of interpreting a message.
pub(super) enum ReadOutcome {
    /// Its meaning.
    Understood(MessageMeaning),
    /// The model was unavailable too often, and a guard gave up.
    GiveUp(Box<RecordedEvent>),
    /// The model gave no valid answer.
    Unreadable,
}

/// Answer of the model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentAnswer {
    intent: MessageIntent,
    #[serde(default)]
    values: Map<String, Value>,
    #[serde(default)]
    slot: Option<String>,
    #[serde(default)]
    topic: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessageIntent {
    Fill,
    Correct,
    Change,
    Yes,
    No,
    Cancel,
    Question,
    Person,
    Unclear,
}

impl CollectDialogue<'_, '_> {
    /// Interprets a message by words and patterns or, if the node has a provider, with a model.
    pub(super) fn read_message(&mut self, text: &str) -> Result<ReadOutcome, RunStop> {
        let plain = self.message_reader.read(text, &self.message_context());
        let Some(provider) = self.spec.provider.clone() else { return Ok(ReadOutcome::Understood(plain)) };
        if matches!(plain, MessageMeaning::Cancel | MessageMeaning::Person | MessageMeaning::Yes) {
            return Ok(ReadOutcome::Understood(plain));
        }
        let provider = self.turn.walk.provider_override.clone().unwrap_or(provider);
        self.model_messages.push(ChatMessage::user(self.request_text(text)));
        let request = ModelRequest {
            node: Some(self.turn.node.name.clone()),
            turn: self.turn.visit(),
            system: Some(self.instructions()),
            messages: std::mem::take(&mut self.model_messages),
            ..ModelRequest::default()
        };
        let mut question =
            ModelQuestion { provider: &provider, request, messages: Vec::new(), is_final: false };
        let (spec, expected) = (self.spec, self.expected);
        let parse = |text: &str| parse_answer(text, spec, expected);
        let answer = model_call::ask_until_valid(self.turn, &mut question, EXPECTED_ANSWER, parse)?;
        self.model_messages = question.request.messages;
        Ok(match answer {
            ValidAnswer::Valid(meaning) => ReadOutcome::Understood(meaning),
            ValidAnswer::Invalid => ReadOutcome::Unreadable,
            ValidAnswer::Unavailable(_) => {
                // Fall back to words and patterns, and count the failure.
                let node = self.turn.node.name.clone();
                match self.record_failure("understanding", &node)? {
                    RetryVerdict::Retry => ReadOutcome::Understood(plain),
                    RetryVerdict::GiveUp(past) => ReadOutcome::GiveUp(past),
                }
            }
        })
    }

    fn instructions(&self) -> String {
        let slots: Vec<Value> = self
            .spec
            .slots
            .iter()
            .map(|slot| json!({"name": slot.name, "kind": slot.kind.as_str(), "values": slot.values, "pattern": slot.pattern}))
            .collect();
        let topics: Vec<&String> = self.spec.answers.keys().collect();
        format!(
            "You interpret one message from a person in a slot-filling conversation. Slots: {}. Topics: {}.\n\
             Answer with JSON only: {{\"intent\": one of fill, correct, change, yes, no, cancel, question, \
             person, unclear, \"values\": {{SLOT: value as the person wrote it}}, \"slot\": the slot to \
             change if no value was given, \"topic\": the topic of a question}}. Dates as 2026-12-09. \
             Do not infer anything that was not said.",
            Value::from(slots),
            json!(topics),
        )
    }

    fn request_text(&self, text: &str) -> String {
        json!({"asked": self.open_question, "known": self.values, "message": text}).to_string()
    }
}

/// Validates an answer: known keys, known slots, scalar values.
fn parse_answer(text: &str, spec: &CollectNode, expected: ExpectedReply) -> Result<MessageMeaning, String> {
    let answer: IntentAnswer = serde_json::from_str(json_part(text)?).map_err(|error| error.to_string())?;
    let place = |name: &str| {
        let names: Vec<&str> = spec.slots.iter().map(|slot| slot.name.as_str()).collect();
        let found = names.iter().position(|known| *known == name);
        found.ok_or_else(|| format!("unknown slot '{name}'; known slots: {}", names.join(", ")))
    };
    let mut found = Vec::new();
    for (name, value) in &answer.values {
        let said = match value {
            Value::Null => continue,
            Value::String(_) | Value::Number(_) | Value::Bool(_) => value_text(value),
            _ => return Err(format!("the value of '{name}' must be a string, number or boolean")),
        };
        found.push(SlotValue { slot: place(name)?, text: said });
    }
    found.sort_by_key(|found| found.slot);
    let slot = answer.slot.as_deref().map(place).transpose()?;
    if let Some(topic) = answer.topic.as_ref().filter(|topic| !spec.answers.contains_key(*topic)) {
        return Err(format!("unknown topic '{topic}'"));
    }
    Ok(to_meaning(answer.intent, found, slot, answer.topic, expected))
}

fn to_meaning(
    intent: MessageIntent,
    found: Vec<SlotValue>,
    slot: Option<usize>,
    topic: Option<String>,
    expected: ExpectedReply,
) -> MessageMeaning {
    let asked = matches!(expected, ExpectedReply::Confirmation | ExpectedReply::Change);
    let act = match intent {
        MessageIntent::Fill => SlotEdit::Fill,
        MessageIntent::Correct => SlotEdit::Correct,
        MessageIntent::Change => SlotEdit::Modify,
        MessageIntent::No if asked && found.is_empty() => return MessageMeaning::No,
        MessageIntent::No if asked => SlotEdit::Correct,
        MessageIntent::Cancel => return MessageMeaning::Cancel,
        MessageIntent::Person => return MessageMeaning::Person,
        MessageIntent::Question => return MessageMeaning::SideQuestion(topic),
        // The model cannot confirm; only the person's own words can.
        MessageIntent::Yes | MessageIntent::No | MessageIntent::Unclear => {
            return MessageMeaning::Unclear;
        }
    };
    if !found.is_empty() {
        return MessageMeaning::Values(act, found);
    }
    if act == SlotEdit::Fill { MessageMeaning::Unclear } else { MessageMeaning::Change(act, slot) }
}
