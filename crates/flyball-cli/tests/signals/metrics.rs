//! Metrics: the documented names, in a text that a strict parser accepts, without session names.

use crate::live_events::tool_call;
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::RECEIVE_TIMEOUT;
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// One sample: name, labels, value.
type MetricSample = (String, BTreeMap<String, String>, String);

fn is_metric_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses labels, `a="b",c="d"}`, and returns the rest.
fn parse_labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let (mut all, mut rest) = (BTreeMap::new(), text);
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return (all, behind);
        }
        let (key, behind) = rest.split_once("=\"").expect("a label has a value");
        assert!(is_metric_name(key), "{key:?}");
        let (mut value, mut letters) = (String::new(), behind.char_indices());
        let end = loop {
            match letters.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => match letters.next().expect("an escaped character").1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    c => panic!("\\{c} is not a valid escape"),
                },
                (_, c) => value.push(c),
            }
        };
        assert!(all.insert(key.to_owned(), value).is_none(), "duplicate label {key}");
        rest = &behind[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// A strict parser for the text format: every family is contiguous, with help, type and matching samples.
fn parse_metrics(text: &str) -> Vec<MetricSample> {
    assert!(text.ends_with('\n'));
    let (mut samples, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut family, mut kind, mut helped) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(is_metric_name(name) && name.starts_with("flyball_") && !words.is_empty(), "{line}");
            assert!(seen.insert(name.to_owned()), "duplicate family {name}");
            helped = name.to_owned();
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, word) = typed.split_once(' ').unwrap();
            assert_eq!(name, helped, "HELP precedes TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&word), "{line}");
            assert_eq!(word == "counter", name.ends_with("_total"), "{line}");
            (family, kind) = (name.to_owned(), word.to_owned());
        } else {
            let at = line.find(['{', ' ']).unwrap();
            let (name, rest) = line.split_at(at);
            let suffix = name.strip_prefix(family.as_str()).expect("the samples of a family are contiguous");
            let fits = if kind == "histogram" {
                ["_bucket", "_sum", "_count"].contains(&suffix)
            } else {
                suffix.is_empty()
            };
            assert!(fits, "{line}");
            let (labels, rest) = rest.strip_prefix('{').map_or((BTreeMap::new(), rest), parse_labels);
            let value = rest.strip_prefix(' ').unwrap();
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
            samples.push((name.to_owned(), labels, value.to_owned()));
        }
    }
    let unique: BTreeSet<_> = samples.iter().map(|(name, labels, _)| (name, labels)).collect();
    assert_eq!(unique.len(), samples.len(), "duplicate sample");
    samples
}

fn metric_value(samples: &[MetricSample], name: &str, label: Option<(&str, &str)>) -> u64 {
    let fits = |labels: &BTreeMap<String, String>| {
        label.is_none_or(|(key, value)| labels.get(key).is_some_and(|own| own == value))
    };
    let found = samples.iter().filter(|(own, labels, _)| own == name && fits(labels));
    let found: Vec<u64> = found.map(|(.., value)| value.parse().unwrap()).collect();
    assert!(!found.is_empty(), "{name} {label:?} is missing");
    found.iter().sum()
}

/// The metrics, once they include `events` events.
fn metrics_after(server: &TestServer, key: &str, events: u64) -> (String, Vec<MetricSample>) {
    let began = Instant::now();
    loop {
        let (status, text) = server.request("GET", "/metrics", Some(key), None);
        assert_eq!(status, 200, "{text}");
        let samples = parse_metrics(&text);
        let all = metric_value(&samples, "flyball_history_counted", None) == 1;
        if all && metric_value(&samples, "flyball_events_total", None) == events {
            return (text, samples);
        }
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "{text}");
    }
}

/// A session that increments every counter: visits, transitions, cycles, a call to a person, and repeated calls.
fn session_with_every_trip(server: &TestServer, key: &str) -> u64 {
    let start = json!({"type": "session.started", "session": "wf \"secret-name\"",
        "policy": {"preset": "simple", "nodes": {"fix": {"max_visits": 2}}}});
    // Only a person may set a session's policy.
    server.submit_event(&server.create_key("person", AuthRole::Operator), &start);
    let mut events = Vec::new();
    for _ in 0..6 {
        for (from, to) in [("fix", "test"), ("test", "fix")] {
            events.push(json!({"type": "transition.requested", "session": "wf \"secret-name\"", "from": from, "to": to}));
        }
    }
    for _ in 0..6 {
        events.push(json!({"type": "tool.requested", "session": "s", "tool": "ls", "args": {"arg": "secret-argument"}}));
    }
    events.iter().for_each(|event| drop(server.submit_event(key, event)));
    events.len() as u64 + 1
}

#[test]
fn metrics_have_documented_names_and_no_session_labels() {
    let server = TestServer::start(&test_dir("metrics"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let events = session_with_every_trip(&server, &agent);
    server.request("GET", "/v1/live?after=x", Some(&agent), None);
    server.request("GET", "/v1/secret-path", Some(&agent), None);
    let (text, samples) = metrics_after(&server, &agent, events);
    for name in ["phase_visits_blocked", "transitions_blocked", "cycles_detected", "hitl_triggered"] {
        metric_value(&samples, &format!("flyball_{name}_total"), None);
    }
    assert!(metric_value(&samples, "flyball_phase_visits_blocked_total", None) > 0, "{text}");
    assert!(metric_value(&samples, "flyball_hitl_triggered_total", None) > 0, "{text}");
    assert_eq!(metric_value(&samples, "flyball_repetitions_blocked_total", None), 1);
    assert_eq!(
        metric_value(&samples, "flyball_trips_total", Some(("reason", "repetition_loop"))),
        4,
        "warned and blocked"
    );
    let states = ["running", "awaiting_confirmation", "blocked", "halted"];
    let sessions: u64 = states
        .iter()
        .map(|state| metric_value(&samples, "flyball_session_states", Some(("state", state))))
        .sum();
    assert_eq!(sessions, 2);
    assert_eq!(metric_value(&samples, "flyball_http_requests_total", Some(("route", "/v1/events"))), events);
    assert_eq!(metric_value(&samples, "flyball_http_requests_total", Some(("status", "422"))), 1);
    assert_eq!(metric_value(&samples, "flyball_http_requests_total", Some(("route", "other"))), 1);
    assert_eq!(metric_value(&samples, "flyball_decision_duration_seconds_count", None), events);
    assert_eq!(
        metric_value(&samples, "flyball_decision_duration_seconds_bucket", Some(("le", "+Inf"))),
        events
    );
    let buckets = samples.iter().filter(|(name, ..)| name == "flyball_decision_duration_seconds_bucket");
    let buckets: Vec<u64> = buckets.map(|(.., value)| value.parse().unwrap()).collect();
    assert!(buckets.is_sorted() && buckets.len() > 10);
    for name in [
        "events_waiting",
        "events_waiting_limit",
        "overload_refusals_total",
        "live_listeners",
        "outbox_waiting",
        "outbox_dead",
        "build_info",
        "otlp_spans_total",
        "deliveries_total",
        "log_lines_dropped_total",
    ] {
        metric_value(&samples, &format!("flyball_{name}"), None);
    }
    for secret in ["secret", "wf", agent.as_str()] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
    assert_eq!(server.request("GET", "/metrics", None, None).0, 401);
    let (_, body) = server.request("GET", "/v1/metrics", Some(&agent), None);
    let all: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&all["events"], &all["repetitions_blocked"]), (&json!(events), &json!(1)));
    assert_eq!(all["server"]["decision_duration"]["count"], json!(events));
    assert!(!body.contains("secret"), "{body}");
}

#[test]
fn metrics_include_earlier_and_external_events() {
    let folder = test_dir("metrics-history");
    let first = TestServer::start(&folder, &["--no-socket"]);
    let agent = first.create_key("bot", AuthRole::Agent);
    (1..=40).for_each(|n| drop(first.submit_event(&agent, &tool_call("s", n))));
    let second = TestServer::start(&folder, &["--no-socket"]);
    (41..=50).for_each(|n| drop(first.submit_event(&agent, &tool_call("s", n))));
    let (_, samples) = metrics_after(&second, &agent, 50);
    assert_eq!(metric_value(&samples, "flyball_decisions_total", Some(("decision", "allow"))), 50);
    assert_eq!(
        metric_value(&samples, "flyball_decision_duration_seconds_count", None),
        0,
        "this server evaluated nothing itself"
    );
}
