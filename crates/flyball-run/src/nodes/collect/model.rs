//! Understanding by a model. Its answer is checked against a schema, it is asked again twice, and then a person takes
//! over.
//!
//! Three things are never left to it: to cancel, to call a person, and to say yes. Whatever a model makes of an
//! unclear answer, it is not a yes.

use super::super::model;
use super::course::{Course, Tried};
use crate::dialogue::{Act, Expecting, Found, Heard, show};
use crate::engine::{Past, Stop};
use crate::provider::{Message, Request};
use flyball::Kind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// How often a model is asked again for an answer that can be read.
const RE_ASKS: u32 = 2;
/// How much of an unreadable answer is kept.
const SHOWN: usize = 200;

/// What became of reading a message.
pub(super) enum Read {
    /// What it means.
    Heard(Heard),
    /// The model could not be asked too often, and a guard gave up.
    GivenUp(Box<Past>),
    /// The model gave no answer that can be read.
    Unreadable,
}

/// What a model answers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    intent: Intent,
    #[serde(default)]
    values: Map<String, Value>,
    #[serde(default)]
    slot: Option<String>,
    #[serde(default)]
    topic: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Intent {
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

impl Course<'_, '_> {
    /// What a message means: by words and patterns, or, if the node has a provider, by a model.
    pub(super) fn read(&mut self, text: &str) -> Result<Read, Stop> {
        let plain = self.reader.read(text, &self.known());
        let Some(provider) = self.spec.provider.clone() else { return Ok(Read::Heard(plain)) };
        if matches!(plain, Heard::Cancel | Heard::Person | Heard::Yes) {
            return Ok(Read::Heard(plain));
        }
        let provider = self.turn.walk.provider.clone().unwrap_or(provider);
        self.talk.push(Message::user(self.task(text)));
        let mut failed_before = false;
        for asked in 0..=RE_ASKS {
            let Some(answer) = self.ask_model(&provider)? else {
                // It cannot be asked: the words themselves have to do, and it is counted.
                let node = self.turn.node.name.clone();
                return Ok(match self.failed("understanding", &node)? {
                    Tried::Again => Read::Heard(plain),
                    Tried::GivenUp(past) => Read::GivenUp(past),
                });
            };
            self.talk.push(answer.message());
            match self.heard(&answer.text) {
                Ok(heard) => {
                    if failed_before {
                        let passed = self.turn.event(Kind::ValidationPassed {});
                        self.turn.walk.tell(passed)?;
                    }
                    return Ok(Read::Heard(heard));
                }
                // The last one goes to a person: it is not held against the session.
                Err(_) if asked == RE_ASKS => break,
                Err(error) => {
                    failed_before = true;
                    let words = self.unreadable(&answer.text, error)?;
                    self.talk.push(Message::user(words));
                }
            }
        }
        Ok(Read::Unreadable)
    }

    /// Asks the model; nothing if it could not be asked, now or then.
    fn ask_model(&mut self, provider: &str) -> Result<Option<model::Answer>, Stop> {
        while self.turn.walk.lane.next_name() == Some("api.retry") {
            let retry = self.turn.event(Kind::ApiRetry {});
            self.turn.walk.tell(retry)?;
        }
        if self.turn.walk.lane.next_name() == Some("operation.failed") {
            return Ok(None);
        }
        let request = Request {
            node: Some(self.turn.node.name.clone()),
            turn: self.turn.walk.visits.get(&self.turn.node.name).copied().unwrap_or(1),
            system: Some(self.instructions()),
            messages: self.talk.clone(),
            deadline: self.turn.left(),
            ..Request::default()
        };
        match model::ask_aside(self.turn, provider, &request)? {
            Ok(answer) => Ok(Some(answer)),
            Err(words) => {
                self.turn
                    .walk
                    .world
                    .watcher
                    .note(&format!("the message was read without the model: {words}"));
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
            "You read one message of a person in a conversation that fills slots. Slots: {}. Topics: {}.\n\
             Answer with JSON alone: {{\"intent\": one of fill, correct, change, yes, no, cancel, question, person, \
             unclear, \"values\": {{SLOT: value in the person's words}}, \"slot\": a slot that is to be changed when no \
             value was given, \"topic\": the topic of a question}}. Dates as 2026-12-09. Take nothing that was not said.",
            Value::from(slots),
            json!(topics),
        )
    }

    fn task(&self, text: &str) -> String {
        json!({"asked": self.question, "known": self.values, "message": text}).to_string()
    }

    /// Records that an answer cannot be read; gives the words to ask again with.
    fn unreadable(&mut self, text: &str, error: String) -> Result<String, Stop> {
        let failed = self.turn.event(Kind::ValidationFailed {
            kind: Some("malformed_json".to_owned()),
            expected: Some("what the message means, as JSON".to_owned()),
            received: Some(text.chars().take(SHOWN).collect()),
            error: Some(error.clone()),
        });
        let past = self.turn.walk.ask(&failed)?;
        Ok(past.decision.feedback.unwrap_or(error))
    }

    /// Checks an answer: known words, known slots, plain values.
    fn heard(&self, text: &str) -> Result<Heard, String> {
        let begin = text.find('{').ok_or("there is no JSON in the answer")?;
        let end = text.rfind('}').ok_or("the JSON has no end")?;
        let part = text.get(begin..=end).ok_or("the JSON has no end")?;
        let answer: Answer = serde_json::from_str(part).map_err(|error| error.to_string())?;
        let place = |name: &str| {
            let names: Vec<&str> = self.spec.slots.iter().map(|slot| slot.name.as_str()).collect();
            let found = names.iter().position(|known| *known == name);
            found.ok_or_else(|| format!("there is no slot '{name}'; there are {}", names.join(", ")))
        };
        let mut found = Vec::new();
        for (name, value) in &answer.values {
            let said = match value {
                Value::Null => continue,
                Value::String(_) | Value::Number(_) | Value::Bool(_) => show(value),
                _ => return Err(format!("the value of '{name}' is no plain value")),
            };
            found.push(Found { slot: place(name)?, said });
        }
        found.sort_by_key(|found| found.slot);
        let slot = answer.slot.as_deref().map(place).transpose()?;
        if let Some(topic) = answer.topic.as_ref().filter(|topic| !self.spec.answers.contains_key(*topic)) {
            return Err(format!("there is no topic '{topic}'"));
        }
        Ok(self.meaning(answer.intent, found, slot, answer.topic))
    }

    fn meaning(
        &self,
        intent: Intent,
        found: Vec<Found>,
        slot: Option<usize>,
        topic: Option<String>,
    ) -> Heard {
        let asked = matches!(self.expecting, Expecting::Confirmation | Expecting::Change);
        let act = match intent {
            Intent::Fill => Act::Fill,
            Intent::Correct => Act::Correct,
            Intent::Change => Act::Modify,
            Intent::No if asked && found.is_empty() => return Heard::No,
            Intent::No if asked => Act::Correct,
            Intent::Cancel => return Heard::Cancel,
            Intent::Person => return Heard::Person,
            Intent::Question => return Heard::Side(topic),
            // A yes that the words themselves do not say is none.
            Intent::Yes | Intent::No | Intent::Unclear => return Heard::Unclear,
        };
        if !found.is_empty() {
            return Heard::Values(act, found);
        }
        if act == Act::Fill { Heard::Unclear } else { Heard::Change(act, slot) }
    }
}
