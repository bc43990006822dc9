//! Messages from people that no agent has received yet. They go into the next prompt, whatever its template says, and
//! the answer to that prompt records which messages it contained: a resumed run neither loses nor repeats one.

use super::book::Past;
use flyball::{Event, Kind, Origin, is_blank};
use serde_json::{Value, json};

/// The field of an `assistant.message` that lists the messages from people in its prompt.
const DELIVERED: &str = "delivered";
/// The author of releases that the policy makes itself; their reasons are not a person's words.
const BY_POLICY: &str = "policy:";

/// A message from a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PersonMessage {
    /// The session and the number of its event.
    id: String,
    /// How the message is introduced to a model.
    intro: &'static str,
    text: String,
}

impl PersonMessage {
    /// The message of a stored event; nothing if the event is not a person's, or says nothing.
    pub(crate) fn of(past: &Past) -> Option<Self> {
        let (intro, text) = match &past.event.kind {
            Kind::UserMessage { text, origin: Origin::Human } | Kind::PersonMessage { text, .. } => {
                ("A person wrote:", text)
            }
            Kind::HumanReleased { why: Some(why), by, .. }
                if !by.as_deref().is_some_and(|by| by.starts_with(BY_POLICY)) =>
            {
                ("A person released the session and wrote:", why)
            }
            _ => return None,
        };
        let id = format!("{}:{}", past.event.session, past.decision.seq);
        (!is_blank(text)).then(|| PersonMessage { id, intro, text: text.clone() })
    }

    /// The message as a paragraph of a prompt.
    pub(crate) fn paragraph(&self) -> String {
        format!("{}\n{}", self.intro, self.text)
    }
}

/// Messages from people in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PersonMessages {
    waiting: Vec<PersonMessage>,
    /// The ids of those that an agent has received.
    delivered: Vec<String>,
}

impl PersonMessages {
    /// Adds a message, once.
    pub(crate) fn add(&mut self, message: PersonMessage) {
        let known = |id: &String| *id == message.id;
        if !self.delivered.iter().any(known) && !self.waiting.iter().any(|other| known(&other.id)) {
            self.waiting.push(message);
        }
    }

    /// Takes a message out that answers something else.
    pub(crate) fn withdraw(&mut self, past: &Past) {
        let answer = PersonMessage::of(past);
        self.waiting.retain(|message| Some(&message.id) != answer.as_ref().map(|answer| &answer.id));
    }

    /// Those that no agent has received yet.
    pub(crate) fn waiting(&self) -> &[PersonMessage] {
        &self.waiting
    }

    /// The text of those that no agent has received yet, for templates.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.waiting.iter().map(|message| message.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Those of them that the prompt behind a stored answer contained.
    pub(crate) fn in_prompt_of(&self, answer: &Event) -> Vec<PersonMessage> {
        let ids = delivered_in(answer);
        self.waiting.iter().filter(|message| ids.contains(&message.id.as_str())).cloned().collect()
    }

    /// Takes note of what the prompt behind an answer contained.
    pub(crate) fn note_delivered(&mut self, answer: &Event) {
        let ids: Vec<String> = delivered_in(answer).into_iter().map(str::to_owned).collect();
        self.drop_delivered(&ids);
    }

    /// Takes over what a branch has delivered.
    pub(crate) fn merge(&mut self, branch: &PersonMessages) {
        self.drop_delivered(&branch.delivered.clone());
    }

    fn drop_delivered(&mut self, ids: &[String]) {
        self.waiting.retain(|message| !ids.contains(&message.id));
        self.delivered
            .extend(ids.iter().filter(|id| !self.delivered.contains(id)).cloned().collect::<Vec<_>>());
    }
}

/// Whether an event that was sent to a session is a person's answer: nothing else is taken for one.
pub(crate) fn is_answer(event: &Event) -> bool {
    match &event.kind {
        // A prompt that a host relays resets what a prompt resets; it answers nothing.
        Kind::UserMessage { text, origin } => {
            *origin == Origin::Human && !event.extra.contains_key("relayed_by") && !is_blank(text)
        }
        Kind::PersonMessage { text, .. } => !is_blank(text),
        Kind::ConfirmationAnswered { text, value, .. } => {
            value.is_some() || text.as_deref().is_some_and(|text| !is_blank(text))
        }
        _ => false,
    }
}

/// Records in an answer which messages its prompt contained.
pub(crate) fn record_delivered(answer: &mut Event, messages: &[PersonMessage]) {
    if !messages.is_empty() {
        let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        answer.extra.insert(DELIVERED.to_owned(), json!(ids));
    }
}

fn delivered_in(answer: &Event) -> Vec<&str> {
    let ids = answer.extra.get(DELIVERED).and_then(Value::as_array);
    ids.map(|ids| ids.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}
