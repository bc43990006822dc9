//! Tests of canonical JSON, of parsing and serializing every kind of event, and of every parse error.

use super::types::type_names;
use super::{Event, EventKind, call_identity, canonical_json, value_fingerprint};
use crate::error::ErrorCode;
use crate::limits::{EVENT_BYTES, EVENT_DEPTH, EVENT_ENTRIES, ID_BYTES, NAME_BYTES, PLAN_STEPS};
use serde_json::{Value, json};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn equal_values_have_one_canonical_json() {
    for (left, right, equal) in [
        (r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#, true),
        (r#"{"a":{"x":1,"y":[1,2]}}"#, r#"{"a":{"y":[1,2],"x":1}}"#, true),
        ("1", "1.0", true),
        ("100", "1e2", true),
        ("-0.0", "0", true),
        ("0.5", "5e-1", true),
        ("1.5", "1.50", true),
        ("9007199254740993", "9007199254740992", false),
        ("18446744073709551615", "18446744073709551614", false),
        ("[1,2]", "[2,1]", false),
        (r#""1""#, "1", false),
        ("null", "false", false),
        (r#""\u00e9""#, r#""é""#, true),
        (r#""a\/b""#, r#""a/b""#, true),
        (r#"["a","b"]"#, r#"["a\",\"b"]"#, false),
        (r#"{"a":null}"#, "{}", false),
        (r#""tab\t""#, r#""tab\u0009""#, true),
    ] {
        let (one, two) = (parsed(left), parsed(right));
        assert_eq!(canonical_json(&one) == canonical_json(&two), equal, "{left} and {right}");
        assert_eq!(value_fingerprint(&one) == value_fingerprint(&two), equal, "{left} and {right}");
    }
}

#[test]
fn canonical_json_is_valid_json_and_idempotent() {
    for text in [
        r#"{"z":1,"a":[true,false,null,"x\"y\\z\n\u0001"],"n":1.25,"big":1e300,"e":""}"#,
        "[]",
        "{}",
        r#""\u2028 и é""#,
        "-17",
    ] {
        let canonical = canonical_json(&parsed(text));
        assert_eq!(canonical_json(&parsed(&canonical)), canonical, "{text}");
    }
    assert_eq!(canonical_json(&parsed(r#"{"b":2.0,"a":[1e2]}"#)), r#"{"a":[100],"b":2}"#);
}

#[test]
fn arguments_encoded_as_json_text_equal_the_decoded_value() {
    let call = |args: Value| call_identity("t", &args).call;
    assert_eq!(call(json!("{\"b\": 2, \"a\": 1.0}")), call(json!({"a": 1, "b": 2})));
    assert_eq!(call(json!(" [1, 2] ")), call(json!([1, 2])));
    assert_ne!(call(json!("{broken")), call(json!({})));
    assert_ne!(call(json!("1")), call(json!(1)), "a plain string stays a string");
    assert_ne!(
        call(json!({"a": "{\"b\":1}"})),
        call(json!({"a": {"b": 1}})),
        "only the arguments as a whole"
    );
    assert_ne!(call_identity("t", &json!({})).call, call_identity("u", &json!({})).call);
    assert_ne!(call_identity("ab", &json!("c")).call, call_identity("a", &json!("bc")).call);
}

#[test]
fn skeleton_ignores_only_numbers() {
    let skeleton = |args: Value| call_identity("read", &args).skeleton;
    assert_eq!(skeleton(json!({"path": "a", "from": 1})), skeleton(json!({"path": "a", "from": 2000})));
    assert_eq!(skeleton(json!("page 7 of 9")), skeleton(json!("page 12 of 90")));
    assert_ne!(skeleton(json!({"path": "a", "from": 1})), skeleton(json!({"path": "b", "from": 1})));
    assert_ne!(call_identity("read1", &json!({})).skeleton, call_identity("read2", &json!({})).skeleton);
}

/// A minimal and a full example of every type, in the order of the documentation.
fn examples() -> Vec<(&'static str, Value, Value)> {
    let workflow =
        json!({"nodes": ["a", "b"], "edges": [{"id": "e1", "from": "a", "to": "b"}], "signals": ["diff"]});
    let check = json!({"name": "tests", "kind": "tests", "passed": false, "skipped": true, "skip_reason": "none found", "output": "x", "duration_ms": 5, "details": ["t1"]});
    vec![
        (
            "session.started",
            json!({}),
            json!({"policy": {"preset": "agent"}, "workflow": workflow, "parent": "p", "labels": {"a": 1}, "goal": "g", "reopen": true}),
        ),
        ("user.message", json!({}), json!({"text": "hi", "origin": "schedule"})),
        (
            "person.message",
            json!({"text": "yes"}),
            json!({"text": "yes", "by": "telegram:anna", "digest": "d"}),
        ),
        ("assistant.message", json!({}), json!({"text": "hi", "structured": {"a": 1}, "final": true})),
        ("turn.started", json!({}), json!({"node": "n"})),
        (
            "turn.finished",
            json!({}),
            json!({"node": "n", "output": "x", "structured": [1], "duration_ms": 7}),
        ),
        ("turn.interrupted", json!({}), json!({"step": "command"})),
        ("turn.resumed", json!({}), json!({"step": "command"})),
        (
            "tool.requested",
            json!({"tool": "t"}),
            json!({"call": "c", "tool": "t", "args": {"a": [1, {"b": null}]}}),
        ),
        (
            "tool.finished",
            json!({"call": "c"}),
            json!({"call": "c", "ok": false, "output": {"a": 1}, "error": "e", "duration_ms": 9, "tool": "t", "args": [1]}),
        ),
        (
            "output.received",
            json!({"text": "x"}),
            json!({"call": "c", "tool": "t", "output": {"ref": "r", "preview": "p", "bytes": 9, "chars": 9}}),
        ),
        ("tool.denied", json!({"call": "c"}), json!({"call": "c", "by": "policy", "tool": "t", "args": "x"})),
        (
            "transition.requested",
            json!({"from": "a", "to": "b"}),
            json!({"from": "a", "to": "b", "edge": "e1"}),
        ),
        (
            "progress",
            json!({"signal": "diff"}),
            json!({"signal": "tests", "content": "c", "hash": "h", "value": 1.5, "failing": ["t"], "done": 1, "total": 2, "better": "up"}),
        ),
        (
            "validation.failed",
            json!({}),
            json!({"kind": "truncated", "expected": "a", "received": "b", "error": "c"}),
        ),
        ("validation.passed", json!({}), json!({})),
        ("operation.requested", json!({"operation": "o"}), json!({"operation": "o", "key": "k"})),
        ("operation.failed", json!({"operation": "o"}), json!({"operation": "o", "key": "k"})),
        ("operation.succeeded", json!({"operation": "o"}), json!({"operation": "o", "key": "k"})),
        ("completion.requested", json!({}), json!({"request": "TASK_COMPLETE"})),
        ("gate.checked", json!({}), json!({"request": "r", "checks": [check]})),
        (
            "confirmation.requested",
            json!({}),
            json!({"plan": [{"tool": "t", "args": {"a": 1}}], "question": "q?", "requester": "r", "ttl_ms": 5, "targets": ["x", 1]}),
        ),
        (
            "confirmation.answered",
            json!({"text": "yes"}),
            json!({"text": "yes", "value": "yes", "by": "b", "digest": "d"}),
        ),
        ("question.asked", json!({"text": "q"}), json!({"text": "q"})),
        ("compaction", json!({}), json!({})),
        ("api.retry", json!({}), json!({})),
        (
            "human.released",
            json!({}),
            json!({"guard": "visits", "trip": {"guard": "visits"}, "mode": "reset", "n": 4, "by": "b", "why": "w"}),
        ),
        ("human.stopped", json!({}), json!({"by": "b", "why": "w"})),
        (
            "policy.changed",
            json!({}),
            json!({"tightened": ["guards.visits.limit"], "waiting": ["preset"], "by": "b", "why": "w"}),
        ),
        ("session.ended", json!({}), json!({"outcome": "done"})),
    ]
}

#[test]
fn every_event_type_round_trips_minimal_and_full_examples() {
    let envelope = json!({"session": "s", "id": "e1", "at": 1_700_000_000_000_u64, "node": "n", "round": 3,
        "usage": {"tokens_in": 10, "tokens_out": 5, "cost_usd": 0.25}, "x_unknown": {"kept": [1, 2]}});
    for (name, minimal, full) in examples() {
        let mut small = minimal.clone();
        small["type"] = json!(name);
        let event = Event::from_json(&small.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(event.session, "default", "{name}");
        let back = Event::from_json(&event.to_json().to_string()).unwrap();
        assert_eq!(back, event, "{name}: a minimal event round-trips");

        let mut large = full.clone();
        large["type"] = json!(name);
        for (key, value) in envelope.as_object().unwrap() {
            large.as_object_mut().unwrap().entry(key.clone()).or_insert_with(|| value.clone());
        }
        let event = Event::from_json(&large.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = event.to_json();
        for (key, value) in large.as_object().unwrap() {
            assert_eq!(
                written.get(key).map(canonical_json),
                Some(canonical_json(value)),
                "{name}: {key} is kept"
            );
        }
        let mut back = Event::from_json(&written.to_string()).unwrap();
        back.id = event.id.clone();
        assert_eq!(back, event, "{name}: a full event round-trips");
    }
}

#[test]
fn examples_cover_all_event_types() {
    let known: Vec<&str> = type_names().collect();
    let shown: Vec<&str> = examples().iter().map(|(name, _, _)| *name).collect();
    assert_eq!(shown, known);
}

#[test]
fn requests_and_checks_need_a_decision() {
    let asking = [
        "person.message",
        "assistant.message",
        "turn.started",
        "turn.finished",
        "tool.requested",
        "transition.requested",
        "validation.failed",
        "operation.requested",
        "operation.failed",
        "completion.requested",
        "gate.checked",
        "confirmation.requested",
        "confirmation.answered",
        "question.asked",
        "human.stopped",
    ];
    for (name, mut event, _) in examples() {
        event["type"] = json!(name);
        let kind = Event::from_json(&event.to_string()).unwrap().kind;
        assert_eq!(kind.needs_decision(), asking.contains(&name), "{name}");
        assert!(kind.needs_decision() || !kind.is_request(), "{name}: a request that needs no decision");
    }
}

#[test]
fn time_is_milliseconds_or_rfc_3339() {
    let at = |value: &str| {
        Event::from_json(&format!(r#"{{"type":"compaction","at":{value}}}"#)).map(|event| event.at)
    };
    for (value, wanted) in [
        ("1700000000000", Some(1_700_000_000_000)),
        ("0", Some(0)),
        ("1.7e12", Some(1_700_000_000_000)),
        (r#""2023-11-14T22:13:20Z""#, Some(1_700_000_000_000)),
        (r#""2023-11-14T23:13:20.5+01:00""#, Some(1_700_000_000_500)),
        ("null", None),
    ] {
        assert_eq!(at(value).unwrap(), wanted, "{value}");
    }
    for value in ["-1", r#""yesterday""#, r#""1969-12-31T23:59:59Z""#, "[]", "true"] {
        assert_eq!(at(value).unwrap_err().code, ErrorCode::WrongType, "{value}");
    }
}

#[test]
fn cost_is_parsed_to_whole_micro_dollars() {
    let event = r#"{"type":"compaction","usage":{"cost_usd":0.1}}"#;
    assert_eq!(Event::from_json(event).unwrap().usage.cost_micro_usd, 100_000);
    let event = r#"{"type":"compaction","usage":{"cost_usd":12.345678,"tokens_in":3.0}}"#;
    let usage = Event::from_json(event).unwrap().usage;
    assert_eq!((usage.cost_micro_usd, usage.tokens_in), (12_345_678, 3));
}

fn parse_error(line: &str) -> (ErrorCode, String, String) {
    let error = Event::from_json(line).expect_err(line);
    assert!(!error.message.is_empty() && !error.help.is_empty(), "{line}");
    (error.code, error.message, error.help)
}

#[test]
fn every_parse_error_has_a_code_and_names_the_field() {
    let long = "n".repeat(NAME_BYTES + 1);
    let plan = vec![json!({"tool": "t"}); PLAN_STEPS + 1];
    for (line, code, named) in [
        (String::new(), ErrorCode::InvalidJson, "not JSON"),
        ("{".to_owned(), ErrorCode::InvalidJson, "not JSON"),
        ("[]".to_owned(), ErrorCode::InvalidJson, "not an object"),
        ("42".to_owned(), ErrorCode::InvalidJson, "not an object"),
        (r#"{"type":"compaction"} x"#.to_owned(), ErrorCode::InvalidJson, "trailing"),
        (r#"{"type":"compaction","a":NaN}"#.to_owned(), ErrorCode::InvalidJson, "not JSON"),
        (r#"{"type":"compaction","a":"\ud800"}"#.to_owned(), ErrorCode::InvalidJson, "not JSON"),
        (r#"{"type":"compaction","a":1,"a":2}"#.to_owned(), ErrorCode::DuplicateKey, "`a`"),
        (r#"{"type":"compaction","a":{"b":{"c":1,"c":1}}}"#.to_owned(), ErrorCode::DuplicateKey, "`c`"),
        ("{}".to_owned(), ErrorCode::MissingField, "`type`"),
        (r#"{"type":"tool.requested"}"#.to_owned(), ErrorCode::MissingField, "`tool`"),
        (r#"{"type":"tool.finished"}"#.to_owned(), ErrorCode::MissingField, "`call`"),
        (r#"{"type":"transition.requested","from":"a"}"#.to_owned(), ErrorCode::MissingField, "`to`"),
        (r#"{"type":"operation.failed"}"#.to_owned(), ErrorCode::MissingField, "`operation`"),
        (r#"{"type":"question.asked"}"#.to_owned(), ErrorCode::MissingField, "`text`"),
        (r#"{"type":"progress"}"#.to_owned(), ErrorCode::MissingField, "`signal`"),
        (r#"{"type":"confirmation.answered"}"#.to_owned(), ErrorCode::MissingField, "`text`"),
        (r#"{"type":7}"#.to_owned(), ErrorCode::WrongType, "`type`"),
        (r#"{"type":"user.message","text":7}"#.to_owned(), ErrorCode::WrongType, "`text`"),
        (r#"{"type":"user.message","origin":"alien"}"#.to_owned(), ErrorCode::WrongType, "`origin`"),
        (r#"{"type":"tool.denied","call":"c","by":"nobody"}"#.to_owned(), ErrorCode::WrongType, "`by`"),
        (r#"{"type":"human.released","mode":"always"}"#.to_owned(), ErrorCode::WrongType, "`mode`"),
        (
            r#"{"type":"gate.checked","checks":[{"passed":true}]}"#.to_owned(),
            ErrorCode::MissingField,
            "`name`",
        ),
        (r#"{"type":"compaction","session":""}"#.to_owned(), ErrorCode::WrongType, "`session`"),
        (r#"{"type":"compaction","session":5}"#.to_owned(), ErrorCode::WrongType, "`session`"),
        (r#"{"type":"compaction","id":""}"#.to_owned(), ErrorCode::WrongType, "`id`"),
        (r#"{"type":"compaction","id":[]}"#.to_owned(), ErrorCode::WrongType, "`id`"),
        (r#"{"type":"compaction","round":-1}"#.to_owned(), ErrorCode::WrongType, "`round`"),
        (r#"{"type":"compaction","usage":[]}"#.to_owned(), ErrorCode::WrongType, "`usage`"),
        (
            r#"{"type":"compaction","usage":{"tokens_in":-1}}"#.to_owned(),
            ErrorCode::WrongType,
            "`usage.tokens_in`",
        ),
        (
            r#"{"type":"compaction","usage":{"cost_usd":-0.01}}"#.to_owned(),
            ErrorCode::WrongType,
            "`usage.cost_usd`",
        ),
        (json!({"type": "confirmation.requested", "plan": plan}).to_string(), ErrorCode::WrongType, "`plan`"),
        (json!({"type": "compaction", "session": long}).to_string(), ErrorCode::NameTooLong, "`session`"),
        (json!({"type": "compaction", "node": long}).to_string(), ErrorCode::NameTooLong, "`node`"),
        (json!({"type": "tool.requested", "tool": long}).to_string(), ErrorCode::NameTooLong, "`tool`"),
        (json!({"type": "tool.finished", "call": long}).to_string(), ErrorCode::NameTooLong, "`call`"),
        (
            json!({"type": "compaction", "id": "i".repeat(ID_BYTES + 1)}).to_string(),
            ErrorCode::NameTooLong,
            "`id`",
        ),
    ] {
        let (seen, what, _) = parse_error(&line);
        let shown: String = line.chars().take(80).collect();
        assert_eq!(seen, code, "{shown}: {what}");
        assert!(what.contains(named), "{shown}: {what}");
    }
}

#[test]
fn unknown_event_type_is_rejected_with_a_suggestion() {
    for (name, near) in [
        ("tool.request", Some("tool.requested")),
        ("Tool.Requested", Some("tool.requested")),
        ("tool_finished", Some("tool.finished")),
        ("session.start", Some("session.started")),
        ("transition.requestd", Some("transition.requested")),
        ("banana", None),
    ] {
        let (code, what, advice) = parse_error(&json!({"type": name}).to_string());
        assert_eq!(code, ErrorCode::UnknownEvent);
        assert!(what.contains(name));
        match near {
            Some(near) => assert!(advice.contains(&format!("did you mean `{near}`?")), "{name}: {advice}"),
            None => assert!(!advice.contains("did you mean"), "{name}: {advice}"),
        }
    }
    let (_, what, _) = parse_error(&json!({"type": "x".repeat(10_000)}).to_string());
    assert!(what.len() < 200, "a long name is truncated in the message");
}

#[test]
fn event_depth_and_size_are_bounded() {
    let nested =
        |depth: usize| format!(r#"{{"type":"compaction","a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(Event::from_json(&nested(EVENT_DEPTH - 1)).is_ok());
    assert_eq!(parse_error(&nested(EVENT_DEPTH)).0, ErrorCode::EventTooDeep);
    assert_eq!(Event::from_json(&nested(100_000)).unwrap_err().code, ErrorCode::EventTooDeep);
    let wide = |n: usize| format!(r#"{{"type":"compaction","a":[{}0]}}"#, "0,".repeat(n - 1));
    assert!(Event::from_json(&wide(EVENT_ENTRIES)).is_ok());
    assert!(Event::from_json(&wide(EVENT_ENTRIES + 1)).is_err());
    let large = |n: usize| format!(r#"{{"type":"user.message","text":"{}"}}"#, "x".repeat(n));
    assert_eq!(Event::from_json(&large(EVENT_BYTES)).unwrap_err().code, ErrorCode::EventTooLarge);
    assert!(Event::from_json(&large(EVENT_BYTES - 100)).is_ok());
}

#[test]
fn invalid_utf8_is_reported_with_its_column() {
    let mut line = br#"{"type":"compaction","x":""}"#.to_vec();
    assert!(Event::from_bytes(&line).is_ok());
    line.insert(26, 0xff);
    let error = Event::from_bytes(&line).unwrap_err();
    assert_eq!(error.code, ErrorCode::NotUtf8);
    assert!(error.message.contains("column 27"), "{}", error.message);
}

#[test]
fn body_fingerprint_ignores_time_and_spelling() {
    let body = |line: &str| Event::from_json(line).unwrap().id.unwrap().body;
    let first = body(r#"{"type":"user.message","id":"a","text":"x","at":5,"n":1}"#);
    assert_eq!(first, body(r#"{"n":1.0,"at":6,"text":"x","id":"a","type":"user.message"}"#));
    assert_ne!(first, body(r#"{"type":"user.message","id":"a","text":"y","at":5,"n":1}"#));
    assert_ne!(first, body(r#"{"type":"user.message","id":"a","text":"x","at":5,"n":2}"#));
    assert_eq!(Event::from_json(r#"{"type":"compaction","id":7}"#).unwrap().id.unwrap().id, "7");
    assert_eq!(Event::from_json(r#"{"type":"compaction","id":null}"#).unwrap().id, None);
}

#[test]
fn event_built_in_rust_round_trips_through_json() {
    let kind = EventKind::QuestionAsked { text: "Why?".to_owned() };
    let event = Event::new("s", kind).at(5).node("n").round(2);
    assert_eq!(Event::from_json(&event.to_json().to_string()).unwrap(), event);
}
