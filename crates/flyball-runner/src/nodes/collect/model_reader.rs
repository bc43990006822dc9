//! Interprets messages with a model. Its answer is validated and requested again up to twice; then a person takes over.
//!
//! Three intents are recognized without the model: cancel, ask for a person, and yes. An unclear answer is never
//! treated as consent.

use super::super::model_call;
use super::collect_dialogue::{CollectDialogue, RetryVerdict};
use crate::dialogue::{ExpectedReply, MessageMeaning, SlotEdit, SlotValue, value_text};
use crate::engine::{RecordedEvent, RunStop};
use crate::provider::{ChatMessage, ModelRequest};
use flyball::EventKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Maximum number of repeated requests for a valid answer.
const MAX_RETRIES: u32 = 2;
/// Maximum length of a quoted invalid answer.
const MAX_QUOTED_CHARS: usize = 200;

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
        let mut failed_before = false;
        for asked in 0..=MAX_RETRIES {
            let Some(answer) = self.ask_model(&provider)? else {
                // The model is unavailable: fall back to words and patterns, and count the failure.
                let node = self.turn.node.name.clone();
                return Ok(match self.record_failure("understanding", &node)? {
                    RetryVerdict::Retry => ReadOutcome::Understood(plain),
                    RetryVerdict::GiveUp(past) => ReadOutcome::GiveUp(past),
                });
            };
            self.model_messages.push(answer.message());
            match self.parse_answer(&answer.text) {
                Ok(meaning) => {
                    if failed_before {
                        let passed = self.turn.event(EventKind::ValidationPassed {});
                        self.turn.walk.record_event(passed)?;
                    }
                    return Ok(ReadOutcome::Understood(meaning));
                }
                // After the last attempt a person takes over, so the failure is not counted.
                Err(_) if asked == MAX_RETRIES => break,
                Err(error) => {
                    failed_before = true;
                    let words = self.record_unreadable(&answer.text, error)?;
                    self.model_messages.push(ChatMessage::user(words));
                }
            }
        }
        Ok(ReadOutcome::Unreadable)
    }

    /// Asks the model; `None` if it is unavailable, now or in the replayed run.
    fn ask_model(&mut self, provider: &str) -> Result<Option<model_call::ModelAnswer>, RunStop> {
        while self.turn.walk.log.next_event_type() == Some("api.retry") {
            let retry = self.turn.event(EventKind::ApiRetry {});
            self.turn.walk.record_event(retry)?;
        }
        if self.turn.walk.log.next_event_type() == Some("operation.failed") {
            return Ok(None);
        }
        let request = ModelRequest {
            node: Some(self.turn.node.name.clone()),
            turn: self.turn.walk.visits.get(&self.turn.node.name).copied().unwrap_or(1),
            system: Some(self.instructions()),
            messages: self.model_messages.clone(),
            deadline: self.turn.left(),
            ..ModelRequest::default()
        };
        match model_call::ask_side_question(self.turn, provider, &request)? {
            Ok(answer) => Ok(Some(answer)),
            Err(words) => {
                self.turn
                    .walk
                    .context
                    .listener
                    .on_note(&format!("interpreted the message without the model: {words}"));
                Ok(None)
            }
        }
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

    /// Records an invalid answer and returns the feedback for the next request.
    fn record_unreadable(&mut self, text: &str, error: String) -> Result<String, RunStop> {
        let failed = self.turn.event(EventKind::ValidationFailed {
            kind: Some("malformed_json".to_owned()),
            expected: Some("the meaning of the message, as JSON".to_owned()),
            received: Some(text.chars().take(MAX_QUOTED_CHARS).collect()),
            error: Some(error.clone()),
        });
        let past = self.turn.walk.request(&failed)?;
        Ok(past.decision.feedback.unwrap_or(error))
    }

    /// Validates an answer: known keys, known slots, scalar values.
    fn parse_answer(&self, text: &str) -> Result<MessageMeaning, String> {
        let begin = text.find('{').ok_or("the answer contains no JSON")?;
        let end = text.rfind('}').ok_or("the JSON is incomplete")?;
        let part = text.get(begin..=end).ok_or("the JSON is incomplete")?;
        let answer: IntentAnswer = serde_json::from_str(part).map_err(|error| error.to_string())?;
        let place = |name: &str| {
            let names: Vec<&str> = self.spec.slots.iter().map(|slot| slot.name.as_str()).collect();
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
        if let Some(topic) = answer.topic.as_ref().filter(|topic| !self.spec.answers.contains_key(*topic)) {
            return Err(format!("unknown topic '{topic}'"));
        }
        Ok(self.to_meaning(answer.intent, found, slot, answer.topic))
    }

    fn to_meaning(
        &self,
        intent: MessageIntent,
        found: Vec<SlotValue>,
        slot: Option<usize>,
        topic: Option<String>,
    ) -> MessageMeaning {
        let asked = matches!(self.expected, ExpectedReply::Confirmation | ExpectedReply::Change);
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
}
