//! OpenAPI schemas of events and decisions, kept here so that the core does not depend on OpenAPI.

use serde_json::{Value, json};
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// One event or a batch.
pub(crate) struct EventsSchema;
/// The response to events: one decision, or one per event.
pub(crate) struct AnswersSchema;
/// A decision.
pub(crate) struct DecisionSchema;

fn schema(value: Value) -> RefOr<Schema> {
    serde_json::from_value::<Schema>(value).unwrap_or_default().into()
}

fn event_schema() -> Value {
    let types: Vec<&str> = event_types().collect();
    json!({
        "type": "object", "description": "An event; docs/events.md lists the fields of each type",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "enum": types},
            "session": {"type": ["string", "null"], "minLength": 1, "maxLength": 512, "default": "default"},
            "id": {"type": ["string", "number", "null"], "minLength": 1, "maxLength": 512,
                "description": "Idempotency id: the same id with the same body returns the same decision"},
            "node": {"type": ["string", "null"], "minLength": 1, "maxLength": 512},
        },
        "example": {"type": "tool.requested", "session": "s1", "id": "c1", "call": "c1", "tool": "bash",
            "args": {"command": "ls"}},
    })
}

/// The event types that clients may send. Operator actions have separate routes.
fn event_types() -> impl Iterator<Item = &'static str> {
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

fn decision_schema() -> Value {
    json!({
        "type": "object", "description": "A decision: docs/events.md",
        "required": ["session", "seq", "decision", "state", "trips", "effects"],
        "properties": {
            "session": {"type": "string"},
            "seq": {"type": "integer", "minimum": 0, "description": "Sequence number of the event in its session"},
            "decision": {"type": "string", "enum": ["allow", "warn", "block", "halt"]},
            "state": {"type": "string", "enum": ["running", "awaiting_confirmation", "blocked", "halted", "ended"]},
            "trips": {"type": "array", "items": {"type": "object"}, "description": "Trips of guards"},
            "feedback": {"type": ["string", "null"], "description": "Feedback for the model"},
            "retry_after_ms": {"type": ["integer", "null"]},
            "effects": {"type": "array", "items": {"type": "object"}, "description": "Effects for the client to apply"},
            "output": {"type": "object", "description": "Reference to a stored large output: ref, preview, bytes, chars, text"},
        },
        "example": {"session": "s1", "seq": 1, "decision": "allow", "state": "running", "trips": [],
            "feedback": null, "retry_after_ms": null, "effects": []},
    })
}

impl PartialSchema for EventsSchema {
    fn schema() -> RefOr<Schema> {
        schema(json!({"anyOf": [event_schema(), {"type": "array", "items": {}, "maxItems": 1000}]}))
    }
}

impl PartialSchema for DecisionSchema {
    fn schema() -> RefOr<Schema> {
        schema(decision_schema())
    }
}

impl PartialSchema for AnswersSchema {
    fn schema() -> RefOr<Schema> {
        let error =
            json!({"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}});
        let each = json!({"anyOf": [decision_schema(), error]});
        schema(json!({"anyOf": [decision_schema(), {"type": "array", "items": each}]}))
    }
}

impl ToSchema for EventsSchema {
    fn name() -> Cow<'static, str> {
        "Events".into()
    }
}

impl ToSchema for DecisionSchema {
    fn name() -> Cow<'static, str> {
        "Decision".into()
    }
}

impl ToSchema for AnswersSchema {
    fn name() -> Cow<'static, str> {
        "Answers".into()
    }
}
