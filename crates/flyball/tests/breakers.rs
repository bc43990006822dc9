//! Retry breakers: an operation asks before it runs, and the report lists counters and breakers by name.

#![allow(clippy::unwrap_used, reason = "a test may panic on missing data")]

use flyball::policy::{PolicyFormat, parse};
use flyball::{BreakerStatus, Decision, Event, PolicySource, Preset, SessionReport, Sessions, Verdict};
use serde_json::{Value, json};

struct BreakerClient {
    sessions: Sessions,
    at: u64,
}

impl BreakerClient {
    fn new(policy: &str) -> Self {
        let source =
            PolicySource::new(vec![parse(policy, PolicyFormat::Yaml, "test").unwrap()], Preset::Agent);
        BreakerClient { sessions: Sessions::new(source.unwrap()), at: 1_760_000_000_000 }
    }

    fn send(&mut self, kind: &str, mut fields: Value) -> Decision {
        fields["type"] = json!(kind);
        fields["at"] = json!(self.at);
        self.sessions.step(&Event::from_json(&fields.to_string()).unwrap()).unwrap()
    }

    fn request(&mut self, operation: &str) -> Decision {
        self.send("operation.requested", json!({"operation": operation}))
    }

    fn failed(&mut self, operation: &str) -> Decision {
        self.send("operation.failed", json!({"operation": operation}))
    }

    fn report(&self) -> SessionReport {
        let session = self.sessions.get("default").unwrap();
        session.state().report_at(session.policy(), self.at)
    }
}

#[test]
fn three_attempts_may_run_and_the_fourth_request_opens_the_breaker() {
    let mut soni = BreakerClient::new("guards: {retry: {cooldown: 60s}}");
    for attempt in 1..=3 {
        assert_eq!(soni.request("correction").decision, Verdict::Allow, "{attempt}");
        soni.failed("correction");
        assert_eq!(soni.report().counters, [("_correction_retries".to_owned(), attempt)].into());
    }
    let refused = soni.request("correction");
    assert_eq!((refused.decision, refused.retry_after_ms), (Verdict::Block, Some(60_000)));
    assert_eq!(refused.trips[0].message, "Max retries for correction exceeded");
    assert_eq!(refused.trips[0].scope["breaker"], "opened");
    assert_eq!(refused.effects[0].fields["text"], "I'm having trouble processing this. Let's start over.");
    // The counter is cleared, the breaker is open, and the remaining time is reported.
    soni.at += 10_000;
    let report = soni.report();
    assert_eq!(report.counters, [].into());
    let breaker = &report.breakers[0];
    assert_eq!(
        (breaker.state, breaker.trips, breaker.cooldown_left_ms),
        (BreakerStatus::Open, 1, Some(50_000))
    );
    let open = soni.request("correction");
    assert_eq!((open.decision, open.retry_after_ms), (Verdict::Block, Some(50_000)));
    assert_eq!(open.effects, [], "the person was notified once");
    // Other operations are allowed.
    assert_eq!(soni.request("modification").decision, Verdict::Allow);
}

#[test]
fn after_the_cooldown_one_probe_may_run() {
    let mut client = BreakerClient::new("guards: {retry: {cooldown: 60s, probe: 30s, max_cooldown: 10m}}");
    for _ in 0..4 {
        client.failed("fetch");
    }
    client.at += 60_000;
    assert_eq!(client.report().breakers[0].state, BreakerStatus::HalfOpen);
    let probe = client.request("fetch");
    assert_eq!((probe.decision, probe.retry_after_ms), (Verdict::Warn, None));
    let second = client.request("fetch");
    assert_eq!((second.decision, second.retry_after_ms), (Verdict::Block, Some(30_000)));
    // The probe fails: open again, for longer.
    assert_eq!(client.failed("fetch").retry_after_ms, Some(120_000));
    assert_eq!(client.report().breakers[0].trips, 2);
    client.at += 120_000;
    assert_eq!(client.request("fetch").decision, Verdict::Warn);
    // The probe is lost: after it expires another one may run, and its success closes the breaker.
    client.at += 30_000;
    assert_eq!(client.request("fetch").decision, Verdict::Warn);
    client.send("operation.succeeded", json!({"operation": "fetch"}));
    assert_eq!((client.report().breakers, client.request("fetch").decision), (Vec::new(), Verdict::Allow));
}

#[test]
fn client_that_only_reports_failures_is_stopped_after_the_limit() {
    let mut client = BreakerClient::new("preset: agent");
    let verdicts: Vec<Verdict> = (0..4).map(|_| client.failed("modification").decision).collect();
    assert_eq!(verdicts, [Verdict::Warn, Verdict::Warn, Verdict::Warn, Verdict::Block]);
    assert_eq!(client.request("modification").decision, Verdict::Block);
}

#[test]
fn counters_have_their_documented_names() {
    let mut client = BreakerClient::new("preset: agent");
    for operation in
        ["confirmation", "correction", "modification", "collect_next_slot", "validation", "ship_it"]
    {
        client.failed(operation);
    }
    client.send("operation.failed", json!({"operation": "correction", "key": "seats"}));
    let names: Vec<String> = client.report().counters.into_keys().collect();
    assert_eq!(
        names,
        [
            "_collect_next_slot_retries",
            "_confirmation_attempts",
            "_correction_retries",
            "_correction_retries:seats",
            "_modification_retries",
            "_ship_it_retries",
            "_validation_attempts",
        ]
    );
    let shown = serde_json::to_value(client.report()).unwrap();
    let breaker = json!({"operation": "correction", "key": "seats", "counter": "_correction_retries", "attempts": 1,
        "limit": 3, "state": "closed", "trips": 0, "cooldown_left_ms": null});
    assert!(shown["breakers"].as_array().unwrap().contains(&breaker), "{shown}");
}

#[test]
fn unclear_answers_to_a_plan_use_the_same_counter_name() {
    let mut client = BreakerClient::new("preset: agent");
    client.send(
        "confirmation.requested",
        json!({"plan": [{"tool": "book", "args": {}}], "question": "Book it?"}),
    );
    for (value, attempt) in [(Value::Null, 1), (json!("hm"), 2), (Value::Null, 3)] {
        let unclear = client.send("confirmation.answered", json!({ "value": value }));
        assert_eq!(unclear.trips[0].message, format!("the answer was not understood (attempt {attempt}/3)"));
        assert_eq!(client.report().counters["_confirmation_attempts"], attempt);
    }
    let yes = client.send("confirmation.answered", json!({"value": true}));
    assert_eq!((yes.decision, client.report().counters.len()), (Verdict::Allow, 0));
}

#[test]
fn attempt_without_a_limit_is_reported_without_one() {
    let mut client = BreakerClient::new("guards: {confirmation: {unclear: off}}");
    client.send("confirmation.requested", json!({"plan": [{"tool": "book", "args": {}}]}));
    let unclear = client.send("confirmation.answered", json!({"text": "hm"}));
    assert_eq!(unclear.trips[0].message, "the answer was not understood (attempt 1)");
}

#[test]
fn quiet_sender_gets_no_person_message() {
    let mut client = BreakerClient::new("preset: agent");
    let quiet = json!({"operation": "confirmation", "quiet": true});
    for _ in 0..4 {
        assert_eq!(client.send("operation.failed", quiet.clone()).effects, []);
    }
}
