//! The event types and their fields.

/// All event types with their fields; other fields of an event are kept as extra.
const TYPES: [(&str, &[&str]); 30] = [
    ("session.started", &["policy", "workflow", "parent", "labels", "goal", "reopen"]),
    ("user.message", &["text", "origin"]),
    ("person.message", &["text", "by", "digest"]),
    ("assistant.message", &["text", "structured", "final"]),
    ("turn.started", &[]),
    ("turn.finished", &["output", "structured", "duration_ms"]),
    ("turn.interrupted", &["step"]),
    ("turn.resumed", &["step"]),
    ("tool.requested", &["call", "tool", "args"]),
    ("tool.finished", &["call", "ok", "output", "error", "duration_ms", "tool", "args"]),
    ("output.received", &["call", "tool", "text", "output"]),
    ("tool.denied", &["call", "by", "tool", "args"]),
    ("transition.requested", &["from", "to", "edge"]),
    ("progress", &["signal", "content", "hash", "value", "failing", "done", "total", "better"]),
    ("validation.failed", &["kind", "expected", "received", "error"]),
    ("validation.passed", &[]),
    ("operation.requested", &["operation", "key"]),
    ("operation.failed", &["operation", "key"]),
    ("operation.succeeded", &["operation", "key"]),
    ("completion.requested", &["request"]),
    ("gate.checked", &["request", "checks"]),
    ("confirmation.requested", &["plan", "question", "requester", "ttl_ms", "targets"]),
    ("confirmation.answered", &["text", "value", "by", "digest"]),
    ("question.asked", &["text"]),
    ("compaction", &[]),
    ("api.retry", &[]),
    ("human.released", &["guard", "trip", "mode", "n", "by", "why"]),
    ("human.stopped", &["by", "why"]),
    ("policy.changed", &["tightened", "waiting", "by", "why"]),
    ("session.ended", &["outcome"]),
];

/// The fields of an event type, or `None` for an unknown type.
pub(crate) fn fields_of(name: &str) -> Option<&'static [&'static str]> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, fields)| *fields)
}

/// The names of all event types, in the order of the documentation.
pub fn type_names() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(name, _)| *name)
}
