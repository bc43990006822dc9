//! What events and decisions look like in the document of the interface; the core knows nothing of such documents.

use serde_json::{Value, json};
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An event, or many.
pub(crate) struct EventBody;
/// The answers to events: a decision, or one for each.
pub(crate) struct Answers;
/// A decision.
pub(crate) struct Decided;

fn schema(value: Value) -> RefOr<Schema> {
    serde_json::from_value::<Schema>(value).unwrap_or_default().into()
}

fn event() -> Value {
    let types: Vec<&str> = flyball_types().collect();
    json!({
        "type": "object", "description": "An event: docs/events.md has the fields of each type",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "enum": types},
            "session": {"type": ["string", "null"], "minLength": 1, "maxLength": 512, "default": "default"},
            "id": {"type": ["string", "number", "null"], "minLength": 1, "maxLength": 512,
                "description": "The same id with the same body gets the same answer again"},
            "node": {"type": ["string", "null"], "minLength": 1, "maxLength": 512},
        },
        "example": {"type": "tool.requested", "session": "s1", "id": "c1", "call": "c1", "tool": "bash",
            "args": {"command": "ls"}},
    })
}

/// The types that an event sent here may have: what people do has routes of its own.
fn flyball_types() -> impl Iterator<Item = &'static str> {
    [
        "session.started",
        "user.message",
        "person.message",
        "assistant.message",
        "turn.started",
        "turn.finished",
        "turn.interrupted",
        "turn.resumed",
        "tool.requested",
        "tool.finished",
        "output.received",
        "tool.denied",
        "transition.requested",
        "progress",
        "validation.failed",
        "validation.passed",
        "operation.requested",
        "operation.failed",
        "operation.succeeded",
        "completion.requested",
        "gate.checked",
        "confirmation.requested",
        "question.asked",
        "compaction",
        "api.retry",
        "session.ended",
    ]
    .into_iter()
}

fn decision() -> Value {
    json!({
        "type": "object", "description": "A decision: docs/events.md",
        "required": ["session", "seq", "decision", "state", "trips", "effects"],
        "properties": {
            "session": {"type": "string"},
            "seq": {"type": "integer", "minimum": 0, "description": "The number of the event in its session"},
            "decision": {"type": "string", "enum": ["allow", "warn", "block", "halt"]},
            "state": {"type": "string", "enum": ["running", "awaiting_confirmation", "blocked", "halted", "ended"]},
            "trips": {"type": "array", "items": {"type": "object"}, "description": "What guards found"},
            "feedback": {"type": ["string", "null"], "description": "Words for the model"},
            "retry_after_ms": {"type": ["integer", "null"]},
            "effects": {"type": "array", "items": {"type": "object"}, "description": "What is to be done now"},
            "output": {"type": "object", "description": "A large output that was stored: ref, preview, bytes, chars, text"},
        },
        "example": {"session": "s1", "seq": 1, "decision": "allow", "state": "running", "trips": [],
            "feedback": null, "retry_after_ms": null, "effects": []},
    })
}

impl PartialSchema for EventBody {
    fn schema() -> RefOr<Schema> {
        schema(json!({"anyOf": [event(), {"type": "array", "items": {}, "maxItems": 1000}]}))
    }
}

impl PartialSchema for Decided {
    fn schema() -> RefOr<Schema> {
        schema(decision())
    }
}

impl PartialSchema for Answers {
    fn schema() -> RefOr<Schema> {
        let error =
            json!({"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}});
        let each = json!({"anyOf": [decision(), error]});
        schema(json!({"anyOf": [decision(), {"type": "array", "items": each}]}))
    }
}

impl ToSchema for EventBody {
    fn name() -> Cow<'static, str> {
        "Events".into()
    }
}

impl ToSchema for Decided {
    fn name() -> Cow<'static, str> {
        "Decision".into()
    }
}

impl ToSchema for Answers {
    fn name() -> Cow<'static, str> {
        "Answers".into()
    }
}
