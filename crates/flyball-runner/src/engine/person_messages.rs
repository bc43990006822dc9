//! Messages from people that no agent has received yet. They are added to the next prompt even if its template does not
//! mention them, and the reply records which messages its prompt contained, so a resumed run neither loses nor repeats
//! one.

use super::event_sink::RecordedEvent;
use flyball::{Event, EventKind, MessageOrigin, is_blank};
use serde_json::{Value, json};

/// Field of an `assistant.message` that lists the messages from people in its prompt.
const DELIVERED_FIELD: &str = "delivered";
/// Author prefix of releases made by the policy; their reasons are not messages from a person.
const POLICY_AUTHOR_PREFIX: &str = "policy:";

/// A message from a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PersonMessage {
    /// Session and sequence number of its event.
    id: String,
    /// Introduction shown to the model.
    intro: &'static str,
    text: String,
}

impl PersonMessage {
    /// The message in a stored event; `None` if it is not from a person or is blank.
    pub(crate) fn from_event(past: &RecordedEvent) -> Option<Self> {
        let (intro, text) = match &past.event.kind {
            EventKind::UserMessage { text, origin: MessageOrigin::Human }
            | EventKind::PersonMessage { text, .. } => ("A person wrote:", text),
            EventKind::HumanReleased { why: Some(why), by, .. }
                if !by.as_deref().is_some_and(|by| by.starts_with(POLICY_AUTHOR_PREFIX)) =>
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

/// Messages from people, in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PersonMessages {
    pending: Vec<PersonMessage>,
    /// IDs of messages that an agent has received.
    delivered: Vec<String>,
}

impl PersonMessages {
    /// Adds a message unless it is known.
    pub(crate) fn add(&mut self, message: PersonMessage) {
        let known = |id: &String| *id == message.id;
        if !self.delivered.iter().any(known) && !self.pending.iter().any(|other| known(&other.id)) {
            self.pending.push(message);
        }
    }

    /// Removes a message that answers something else.
    pub(crate) fn remove(&mut self, past: &RecordedEvent) {
        let answer = PersonMessage::from_event(past);
        self.pending.retain(|message| Some(&message.id) != answer.as_ref().map(|answer| &answer.id));
    }

    /// Messages that no agent has received yet.
    pub(crate) fn pending(&self) -> &[PersonMessage] {
        &self.pending
    }

    /// Text of the undelivered messages, for templates.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.pending.iter().map(|message| message.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Pending messages that were in the prompt of a stored reply.
    pub(crate) fn pending_in_prompt_of(&self, answer: &Event) -> Vec<PersonMessage> {
        let ids = delivered_ids(answer);
        self.pending.iter().filter(|message| ids.contains(&message.id.as_str())).cloned().collect()
    }

    /// Marks the messages in the prompt of a reply as delivered.
    pub(crate) fn mark_delivered(&mut self, answer: &Event) {
        let ids: Vec<String> = delivered_ids(answer).into_iter().map(str::to_owned).collect();
        self.drop_delivered(&ids);
    }

    /// Merges the deliveries of a branch.
    pub(crate) fn merge(&mut self, branch: &PersonMessages) {
        self.drop_delivered(&branch.delivered.clone());
    }

    fn drop_delivered(&mut self, ids: &[String]) {
        self.pending.retain(|message| !ids.contains(&message.id));
        self.delivered
            .extend(ids.iter().filter(|id| !self.delivered.contains(id)).cloned().collect::<Vec<_>>());
    }
}

/// Whether an event sent to a session counts as a person's answer.
pub(crate) fn is_answer(event: &Event) -> bool {
    match &event.kind {
        // A prompt relayed by a host resets the same counters, but answers nothing.
        EventKind::UserMessage { text, origin } => {
            *origin == MessageOrigin::Human && !event.extra.contains_key("relayed_by") && !is_blank(text)
        }
        EventKind::PersonMessage { text, .. } => !is_blank(text),
        EventKind::ConfirmationAnswered { text, value, .. } => {
            value.is_some() || text.as_deref().is_some_and(|text| !is_blank(text))
        }
        _ => false,
    }
}

/// Records in a reply which messages its prompt contained.
pub(crate) fn record_delivered(answer: &mut Event, messages: &[PersonMessage]) {
    if !messages.is_empty() {
        let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        answer.extra.insert(DELIVERED_FIELD.to_owned(), json!(ids));
    }
}

fn delivered_ids(answer: &Event) -> Vec<&str> {
    let ids = answer.extra.get(DELIVERED_FIELD).and_then(Value::as_array);
    ids.map(|ids| ids.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}
