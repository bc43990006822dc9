//! Claims: fields of an event that its sender cannot prove, and the facts that are stored instead.
//!
//! An agent says who spoke, when something happened and who refused a call. None of that is a fact until the program
//! that talks to the person says so. A claim stays in the stored event under a name of its own (`claimed_origin`,
//! `claimed_by`, `claimed_at`, `claimed_idle`, `claimed_suspended_ms`), and no decision depends on it.

use flyball::{Code, Denier, Error, Event, Kind, Origin};
use serde_json::{Map, Value, json};

/// Names under which claims and their senders are stored. A sender may not use them.
const RESERVED: [&str; 7] = [
    flyball::APPROVED_BY,
    "claimed_at",
    "claimed_by",
    "claimed_idle",
    "claimed_origin",
    "claimed_suspended_ms",
    "relayed_by",
];

/// How far the sender of an event is believed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flyball_journal::{Claims, Door};
///
/// let line = r#"{"type":"user.message","origin":"human","text":"go on","at":5}"#.to_owned();
/// let event = Door::default().read_claims(line, Some(1_000), &Claims::of_agent())?;
/// assert_eq!(event.event.at, Some(1_000));
/// assert!(event.text.contains(r#""claimed_origin":"human""#) && event.text.contains(r#""origin":"agent""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims<'a> {
    /// The key of a program that passes on what people type.
    relay: Option<&'a str>,
    keeps_time: bool,
}

impl<'a> Claims<'a> {
    /// The sender is an agent: it speaks for itself, and the time is the receiver's.
    #[must_use]
    pub const fn of_agent() -> Self {
        Claims { relay: None, keeps_time: false }
    }

    /// The sender is a program between people and an agent, with the name of its key. It may relay what people type;
    /// the time is the receiver's.
    #[must_use]
    pub const fn of_relay(key: &'a str) -> Self {
        Claims { relay: Some(key), keeps_time: false }
    }

    /// The same, and the sender's time is taken as it is.
    #[must_use]
    pub const fn with_time(self) -> Self {
        Claims { keeps_time: true, ..self }
    }

    /// Whether an event that was not stamped yet makes a claim.
    pub(crate) fn are_in(&self, event: &Event) -> bool {
        let said = match &event.kind {
            Kind::UserMessage { origin, .. } => match self.relay {
                Some(_) => *origin == Origin::Human,
                None => *origin != Origin::Agent,
            },
            Kind::ToolDenied { by, .. } => *by == Denier::Human,
            Kind::PersonMessage { .. } => true,
            _ => false,
        };
        let extra = &event.extra;
        let timed = event.at.is_some() || extra.contains_key("suspended_ms");
        said || (timed && !self.keeps_time)
            || (!extra.is_empty()
                && (["origin", "by", "idle"].iter().chain(&RESERVED)).any(|name| extra.contains_key(*name)))
    }

    /// The event with facts in place of its claims.
    ///
    /// # Errors
    /// If it uses a name that is reserved.
    pub(crate) fn settle(&self, text: &str) -> Result<String, Error> {
        let read = serde_json::from_str::<Map<String, Value>>(text);
        let mut fields = read.map_err(|error| {
            Error::new(Code::BrokenLine, error.to_string(), "write one complete JSON object a line")
        })?;
        if let Some(name) = RESERVED.iter().find(|name| fields.contains_key(**name)) {
            let what = format!("`{name}` cannot be sent: Flyball writes it");
            return Err(Error::new(Code::WrongType, what, format!("leave `{name}` out")));
        }
        self.settle_fields(&mut fields);
        Ok(Value::Object(fields).to_string())
    }

    /// Puts facts in place of the claims among the fields of an event.
    pub fn settle_fields(&self, fields: &mut Map<String, Value>) {
        if !self.keeps_time {
            claim(fields, "at", "claimed_at");
            claim(fields, "suspended_ms", "claimed_suspended_ms");
        }
        claim(fields, "idle", "claimed_idle");
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.settle_origin(&kind, fields);
        self.settle_speaker(&kind, fields);
    }

    fn settle_origin(&self, kind: &str, fields: &mut Map<String, Value>) {
        if kind != "user.message" {
            return claim(fields, "origin", "claimed_origin");
        }
        let origin = fields.get("origin").filter(|origin| !origin.is_null()).cloned();
        match (self.relay, &origin) {
            (_, Some(origin)) if *origin == json!("agent") => {}
            (Some(_), Some(origin)) if *origin != json!("human") => {}
            (Some(key), _) => {
                fields.insert("relayed_by".to_owned(), json!(key));
            }
            (None, _) => {
                claim(fields, "origin", "claimed_origin");
                fields.insert("origin".to_owned(), json!("agent"));
            }
        }
    }

    /// Who refused a call or spoke. The people of a chat are known by the chat's key and its name for them.
    fn settle_speaker(&self, kind: &str, fields: &mut Map<String, Value>) {
        match (kind, self.relay) {
            ("person.message", Some(key)) => {
                let by = fields.get("by").and_then(Value::as_str).unwrap_or_default();
                fields.insert("by".to_owned(), json!(format!("{key}:{by}")));
            }
            ("tool.denied", _) => {
                if fields.get("by").is_none_or(|by| *by == json!("human") || by.is_null()) {
                    claim(fields, "by", "claimed_by");
                    fields.insert("by".to_owned(), json!("policy"));
                }
            }
            _ => claim(fields, "by", "claimed_by"),
        }
    }
}

/// Keeps a field as a claim, if it is there.
fn claim(fields: &mut Map<String, Value>, name: &str, claimed: &str) {
    if let Some(value) = fields.remove(name).filter(|value| !value.is_null()) {
        fields.insert(claimed.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Door;

    fn stored(claims: &Claims<'_>, event: &Value) -> Value {
        let read = Door::default().read_claims(event.to_string(), Some(1_000), claims);
        read.map_or_else(
            |error| json!(error.what),
            |read| {
                let mut whole: Value = serde_json::from_str(&read.text).unwrap_or_default();
                whole["stamped"] = json!(read.event.at);
                whole
            },
        )
    }

    #[test]
    fn claims_of_an_agent_are_kept_as_claims() {
        let cases = [
            (json!({"type": "user.message", "text": "x"}), json!({"text": "x", "origin": "agent"})),
            (
                json!({"type": "user.message", "origin": "schedule", "by": "anna", "idle": true}),
                json!({"origin": "agent", "claimed_origin": "schedule", "claimed_by": "anna", "claimed_idle": true}),
            ),
            (
                json!({"type": "tool.denied", "call": "c", "by": "human"}),
                json!({"call": "c", "by": "policy", "claimed_by": "human"}),
            ),
            (json!({"type": "tool.denied", "call": "c"}), json!({"call": "c", "by": "policy"})),
            (json!({"type": "tool.denied", "call": "c", "by": "guard"}), json!({"call": "c", "by": "guard"})),
            (json!({"type": "turn.started", "at": 5}), json!({"claimed_at": 5})),
            (
                json!({"type": "turn.started", "at": "2026-11-15T12:00:00Z", "origin": "human"}),
                json!({"claimed_at": "2026-11-15T12:00:00Z", "claimed_origin": "human"}),
            ),
        ];
        for (event, expected) in cases {
            let mut expected = expected;
            expected["type"] = event["type"].clone();
            expected["stamped"] = json!(1_000);
            assert_eq!(stored(&Claims::of_agent(), &event), expected);
        }
    }

    #[test]
    fn a_relay_passes_on_what_a_person_typed_and_nothing_else() {
        let relay = Claims::of_relay("desk");
        for (event, origin, relayed) in [
            (json!({"type": "user.message", "text": "x"}), Value::Null, json!("desk")),
            (json!({"type": "user.message", "origin": "human"}), json!("human"), json!("desk")),
            (json!({"type": "user.message", "origin": "agent"}), json!("agent"), Value::Null),
            (json!({"type": "user.message", "origin": "schedule"}), json!("schedule"), Value::Null),
        ] {
            let stored = stored(&relay, &event);
            assert_eq!((&stored["origin"], &stored["relayed_by"]), (&origin, &relayed), "{stored}");
        }
        let denied = stored(&relay, &json!({"type": "tool.denied", "call": "c", "by": "human"}));
        assert_eq!((&denied["by"], &denied["claimed_by"]), (&json!("policy"), &json!("human")));
    }

    #[test]
    fn an_event_without_claims_is_stored_as_it_came() {
        let line = r#"{"type":"tool.requested",  "tool":"bash","args":{"by":"anna","at":1}}"#;
        let read = Door::default().read_claims(line.to_owned(), Some(7), &Claims::of_agent());
        assert_eq!(read.map(|read| (read.text, read.event.at)), Ok((line.to_owned(), Some(7))));
    }

    #[test]
    fn reserved_names_are_refused() {
        for name in RESERVED {
            let mut event = json!({"type": "turn.started"});
            event[name] = json!("anna");
            let told = stored(&Claims::of_agent(), &event);
            assert!(told.as_str().is_some_and(|what| what.contains(name)), "{told}");
        }
    }

    #[test]
    fn a_redelivery_under_another_claimed_time_is_the_same_event() {
        let body = |at: u64| {
            let line = json!({"type": "turn.started", "id": "e1", "at": at}).to_string();
            let read = Door::default().read_claims(line, Some(at), &Claims::of_agent());
            read.ok().and_then(|read| read.event.id).map(|id| id.body)
        };
        assert_eq!(body(1), body(2));
        assert!(body(1).is_some());
    }
}
