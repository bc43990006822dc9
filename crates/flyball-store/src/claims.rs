//! Claims: event fields that the sender cannot prove, and the facts stored in their place.
//!
//! An agent may say who spoke, when something happened and who denied a call. None of this is a fact unless the
//! program that talks to the user confirms it. The stored event keeps a claim under a separate name
//! (`claimed_origin`, `claimed_by`, `claimed_at`, `claimed_idle`, `claimed_suspended_ms`), and no decision depends on
//! it.

use flyball::{DeniedBy, Error, ErrorCode, Event, EventKind, MessageOrigin};
use serde_json::{Map, Value, json};

/// Field names reserved for stored claims and their senders. Incoming events must not use them.
const RESERVED_FIELDS: [&str; 7] = [
    flyball::APPROVED_BY,
    "claimed_at",
    "claimed_by",
    "claimed_idle",
    "claimed_origin",
    "claimed_suspended_ms",
    "relayed_by",
];

/// How far the sender of an event is trusted.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flyball_store::{ClaimPolicy, RedactingParser};
///
/// let line = r#"{"type":"user.message","origin":"human","text":"continue","at":5}"#.to_owned();
/// let event = RedactingParser::default().parse_untrusted(line, Some(1_000), &ClaimPolicy::for_agent())?;
/// assert_eq!(event.event.at, Some(1_000));
/// assert!(event.text.contains(r#""claimed_origin":"human""#) && event.text.contains(r#""origin":"agent""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPolicy<'a> {
    /// Key name of the program that relays user input.
    relay_key: Option<&'a str>,
    keeps_sender_time: bool,
}

impl<'a> ClaimPolicy<'a> {
    /// The sender is an agent: it speaks only for itself, and the receiver sets the time.
    #[must_use]
    pub const fn for_agent() -> Self {
        ClaimPolicy { relay_key: None, keeps_sender_time: false }
    }

    /// The sender relays user input to an agent and authenticates with the named key. The receiver sets the time.
    #[must_use]
    pub const fn for_relay(key: &'a str) -> Self {
        ClaimPolicy { relay_key: Some(key), keeps_sender_time: false }
    }

    /// Also accepts the time that the sender reports.
    #[must_use]
    pub const fn with_sender_time(self) -> Self {
        ClaimPolicy { keeps_sender_time: true, ..self }
    }

    /// Whether an event that has not been stamped yet contains a claim.
    pub(crate) fn has_claims(&self, event: &Event) -> bool {
        let said = match &event.kind {
            EventKind::UserMessage { origin, .. } => match self.relay_key {
                Some(_) => *origin == MessageOrigin::Human,
                None => *origin != MessageOrigin::Agent,
            },
            EventKind::ToolDenied { by, .. } => *by == DeniedBy::Human,
            EventKind::PersonMessage { .. } => true,
            _ => false,
        };
        let extra = &event.extra;
        let timed = event.at.is_some() || extra.contains_key("suspended_ms");
        said || (timed && !self.keeps_sender_time)
            || (!extra.is_empty()
                && (["origin", "by", "idle"].iter().chain(&RESERVED_FIELDS))
                    .any(|name| extra.contains_key(*name)))
    }

    /// Returns the event with its claims replaced by facts.
    ///
    /// # Errors
    /// If it uses a name that is reserved.
    pub(crate) fn replace_claims(&self, text: &str) -> Result<String, Error> {
        let read = serde_json::from_str::<Map<String, Value>>(text);
        let mut fields = read.map_err(|error| {
            Error::new(ErrorCode::InvalidJson, error.to_string(), "write one complete JSON object per line")
        })?;
        if let Some(name) = RESERVED_FIELDS.iter().find(|name| fields.contains_key(**name)) {
            let what = format!("`{name}` is reserved: only Flyball may set it");
            return Err(Error::new(ErrorCode::WrongType, what, format!("remove `{name}`")));
        }
        self.replace_claims_in(&mut fields);
        Ok(Value::Object(fields).to_string())
    }

    /// Replaces the claims among an event's fields with facts.
    pub fn replace_claims_in(&self, fields: &mut Map<String, Value>) {
        if !self.keeps_sender_time {
            keep_as_claim(fields, "at", "claimed_at");
            keep_as_claim(fields, "suspended_ms", "claimed_suspended_ms");
        }
        keep_as_claim(fields, "idle", "claimed_idle");
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.replace_origin(&kind, fields);
        self.replace_speaker(&kind, fields);
    }

    fn replace_origin(&self, kind: &str, fields: &mut Map<String, Value>) {
        if kind != "user.message" {
            return keep_as_claim(fields, "origin", "claimed_origin");
        }
        let origin = fields.get("origin").filter(|origin| !origin.is_null()).cloned();
        match (self.relay_key, &origin) {
            (_, Some(origin)) if *origin == json!("agent") => {}
            (Some(_), Some(origin)) if *origin != json!("human") => {}
            (Some(key), _) => {
                fields.insert("relayed_by".to_owned(), json!(key));
            }
            (None, _) => {
                keep_as_claim(fields, "origin", "claimed_origin");
                fields.insert("origin".to_owned(), json!("agent"));
            }
        }
    }

    /// Sets who denied a call or spoke. A chat user is identified by the chat's key and the chat's name for the user.
    fn replace_speaker(&self, kind: &str, fields: &mut Map<String, Value>) {
        match (kind, self.relay_key) {
            ("person.message", Some(key)) => {
                let by = fields.get("by").and_then(Value::as_str).unwrap_or_default();
                fields.insert("by".to_owned(), json!(format!("{key}:{by}")));
            }
            ("tool.denied", _) => {
                if fields.get("by").is_none_or(|by| *by == json!("human") || by.is_null()) {
                    keep_as_claim(fields, "by", "claimed_by");
                    fields.insert("by".to_owned(), json!("policy"));
                }
            }
            _ => keep_as_claim(fields, "by", "claimed_by"),
        }
    }
}

/// Renames a field to its claimed form, if present.
fn keep_as_claim(fields: &mut Map<String, Value>, name: &str, claimed: &str) {
    if let Some(value) = fields.remove(name).filter(|value| !value.is_null()) {
        fields.insert(claimed.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::RedactingParser;

    fn parse_and_store(claims: &ClaimPolicy<'_>, event: &Value) -> Value {
        let read = RedactingParser::default().parse_untrusted(event.to_string(), Some(1_000), claims);
        read.map_or_else(
            |error| json!(error.message),
            |read| {
                let mut whole: Value = serde_json::from_str(&read.text).unwrap_or_default();
                whole["stamped"] = json!(read.event.at);
                whole
            },
        )
    }

    #[test]
    fn agent_claims_are_stored_as_claims() {
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
            assert_eq!(parse_and_store(&ClaimPolicy::for_agent(), &event), expected);
        }
    }

    #[test]
    fn relay_may_pass_on_only_typed_messages() {
        let relay = ClaimPolicy::for_relay("desk");
        for (event, origin, relayed) in [
            (json!({"type": "user.message", "text": "x"}), Value::Null, json!("desk")),
            (json!({"type": "user.message", "origin": "human"}), json!("human"), json!("desk")),
            (json!({"type": "user.message", "origin": "agent"}), json!("agent"), Value::Null),
            (json!({"type": "user.message", "origin": "schedule"}), json!("schedule"), Value::Null),
        ] {
            let stored = parse_and_store(&relay, &event);
            assert_eq!((&stored["origin"], &stored["relayed_by"]), (&origin, &relayed), "{stored}");
        }
        let denied = parse_and_store(&relay, &json!({"type": "tool.denied", "call": "c", "by": "human"}));
        assert_eq!((&denied["by"], &denied["claimed_by"]), (&json!("policy"), &json!("human")));
    }

    #[test]
    fn event_without_claims_is_stored_unchanged() {
        let line = r#"{"type":"tool.requested",  "tool":"bash","args":{"by":"anna","at":1}}"#;
        let read =
            RedactingParser::default().parse_untrusted(line.to_owned(), Some(7), &ClaimPolicy::for_agent());
        assert_eq!(read.map(|read| (read.text, read.event.at)), Ok((line.to_owned(), Some(7))));
    }

    #[test]
    fn reserved_field_names_are_rejected() {
        for name in RESERVED_FIELDS {
            let mut event = json!({"type": "turn.started"});
            event[name] = json!("anna");
            let told = parse_and_store(&ClaimPolicy::for_agent(), &event);
            assert!(told.as_str().is_some_and(|what| what.contains(name)), "{told}");
        }
    }

    #[test]
    fn redelivery_with_another_claimed_time_is_the_same_event() {
        let body = |at: u64| {
            let line = json!({"type": "turn.started", "id": "e1", "at": at}).to_string();
            let read = RedactingParser::default().parse_untrusted(line, Some(at), &ClaimPolicy::for_agent());
            read.ok().and_then(|read| read.event.id).map(|id| id.body)
        };
        assert_eq!(body(1), body(2));
        assert!(body(1).is_some());
    }
}
