//! A conversation as all three protocols mean it: who said what, which tools were called, and what they gave back.

use flyball::Fingerprint;
use serde_json::Value;

/// What our own answers begin with, so that they are known again when a client sends them back.
pub(super) const MARK: &str = "[flyball]";

/// A tool call of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The provider's id; empty if it gave none.
    pub(super) id: String,
    /// The tool.
    pub(super) name: String,
    /// The arguments; the text as it came if that is no JSON.
    pub(super) args: Value,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    /// Somebody spoke to the model.
    User {
        /// The words.
        text: String,
        /// They stand in one message with tool results, so a program put them there.
        beside: bool,
    },
    /// The model answered.
    Answer {
        /// What it said.
        text: String,
        /// The tools that it called.
        calls: Vec<Call>,
    },
    /// We answered in the model's place, and the client sends it back. It is nobody's act.
    Own,
    /// A tool gave something back.
    Result {
        /// The id of the call.
        call: String,
        /// Whether it went well, if the protocol says so.
        ok: Option<bool>,
        /// What it gave.
        output: Value,
    },
}

impl Entry {
    /// An answer, if it says something or calls something.
    pub(super) fn answer(text: String, calls: Vec<Call>) -> Option<Self> {
        if !calls.is_empty() {
            return Some(Entry::Answer { text, calls });
        }
        match text.trim() {
            "" => None,
            own if own.starts_with(MARK) => Some(Entry::Own),
            _ => Some(Entry::Answer { text, calls }),
        }
    }

    /// What the entry is known by when a client sends it again. Results are known by their call alone, because clients
    /// shorten old ones; answers with calls by the calls alone, because clients trim what was said beside them.
    pub(super) fn key(&self) -> Fingerprint {
        match self {
            Entry::User { text, .. } => Fingerprint::of_text("user").with(words(text)),
            Entry::Answer { text, calls } if calls.is_empty() => {
                Fingerprint::of_text("answer").with(words(text))
            }
            Entry::Answer { calls, .. } => {
                calls.iter().fold(Fingerprint::of_text("calls"), |sum, call| sum.with(call.key()))
            }
            Entry::Own => Fingerprint::of_text("own"),
            Entry::Result { call, output, .. } if call.is_empty() => {
                Fingerprint::of_text("output").with(Fingerprint::of_text(&output.to_string()))
            }
            Entry::Result { call, .. } => Fingerprint::of_text("result").with(Fingerprint::of_text(call)),
        }
    }

    /// Whether there is no other like it: an answer with calls that have ids.
    pub(super) fn is_alone(&self) -> bool {
        let Entry::Answer { calls, .. } = self else { return false };
        !calls.is_empty() && calls.iter().all(|call| !call.id.is_empty())
    }

    /// Whether the model said it, or we in its place.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, Entry::Answer { .. } | Entry::Own)
    }
}

impl Call {
    fn key(&self) -> Fingerprint {
        let args = Fingerprint::of_text(&flyball::canonical_json(&self.args));
        Fingerprint::of_text(&self.id).with(Fingerprint::of_text(&self.name)).with(args)
    }
}

/// Whether the user entry at a place comes from a person: it opens the conversation, or follows on an answer that
/// called nothing, or on another one that does. What follows on tool results was put there by a program.
pub(super) fn is_human(entries: &[Entry], at: usize) -> bool {
    for entry in entries.iter().take(at + 1).rev() {
        match entry {
            Entry::User { beside: false, .. } => {}
            Entry::Answer { calls, .. } => return calls.is_empty(),
            Entry::Own => return true,
            Entry::User { .. } | Entry::Result { .. } => return false,
        }
    }
    true
}

/// The arguments of a call, from the text that the model wrote.
pub(super) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// The text of a content that is a string, or a list of parts with texts.
pub(super) fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(part_text).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn part_text(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text").and_then(Value::as_str))
}

/// A string of an object; empty if it is not there.
pub(super) fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The output of a tool: its text where there is one, else what there is.
pub(super) fn output(content: Option<&Value>) -> Value {
    let text = text_of(content);
    match content {
        Some(other) if text.is_empty() && !matches!(other, Value::String(_)) => other.clone(),
        _ => Value::from(text),
    }
}

/// Words without the space between them.
fn words(text: &str) -> Fingerprint {
    let mut flat = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        flat.push_str(word);
        flat.push(' ');
    }
    Fingerprint::of_text(&flat)
}
