//! The HTTP API: events with the key of a host, a person's acts with a person's key on the routes for people. The server is
//! stopped and started again in the middle of every scenario.

use crate::compare::settle;
use crate::kit::folder;
use crate::operator::{answers_in_words, answers_nothing, answers_null, pause};
use crate::pipe;
use crate::rows::{EVERYTHING_IS_DELIVERED, Store};
use crate::server::Server;
use crate::table::{Path, Scenario, Step, carried_by};
use flyball_journal::Address;
use flyball_serve::{KeyRequest, Keys, Role};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORKERS: usize = 4;
/// The label that calls a person.
const LABEL: &str = "flyball-hitl:loop-prevention";

/// Why the HTTP API does not carry a scenario.
pub(crate) fn refuses(scenario: &Scenario) -> Option<&'static str> {
    if scenario.has_any(&["policy.changed"]) {
        return Some("recorded_by_flyball");
    }
    if answers_in_words(scenario) {
        return Some("answers_in_words");
    }
    if answers_null(scenario) {
        return Some("no_classifier");
    }
    answers_nothing(scenario).then_some("nothing_to_answer")
}

/// The keys, which live in the store.
struct KeyRing(BTreeMap<&'static str, String>);

impl KeyRing {
    fn new(store: &str) -> Self {
        let keys = Keys::new(Address::read(store, std::path::Path::new("/")).unwrap().open().unwrap());
        let roles = [
            ("desk", Role::Host),
            ("chat", Role::Channel),
            ("anna", Role::Operator),
            ("berta", Role::Operator),
        ];
        let create = |(name, role): (&'static str, Role)| {
            let wanted =
                KeyRequest { name, role, sessions: None, all_sessions: role < Role::Operator, ttl_ms: None };
            (name, keys.create_requested(wanted).unwrap().secret)
        };
        KeyRing(roles.into_iter().map(create).collect())
    }

    fn of(&self, name: &str) -> &str {
        &self.0[name]
    }
}

struct Client<'a> {
    server: &'a Server,
    keys: &'a KeyRing,
}

impl Client<'_> {
    fn post(&self, key: &str, path: &str, body: &Value) -> Value {
        let (_, answer) = self.server.ask("POST", path, Some(self.keys.of(key)), Some(&body.to_string()));
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }

    /// Sends a step by the route that is there for it.
    fn send(&self, scenario: &Scenario, step: &Step, event: Value) -> Value {
        pause(if scenario.is_timed() { 0 } else { step.wait_ms });
        let session = event["session"].as_str().unwrap().to_owned();
        let by = event["by"].as_str().unwrap_or("anna");
        let route = |name: &str| format!("/v1/sessions/{session}/{name}");
        match step.kind() {
            "human.stopped" => self.post(by, &route("stop"), &json!({"why": event["why"]})),
            "human.released" if step.takes_label_off => {
                let label = json!({"session": session, "label": LABEL, "action": "removed", "by": by, "why": event["why"]});
                let told = self.post(by, "/v1/labels", &label);
                told.get("decision").cloned().unwrap_or(told)
            }
            "human.released" => {
                let mut body = json!({"why": event["why"]});
                for key in ["guard", "mode", "n"] {
                    if let Some(value) = event.get(key) {
                        body[key] = value.clone();
                    }
                }
                self.post(by, &route("releases"), &body)
            }
            "confirmation.answered" => {
                let ticket = self.ticket(by, &session);
                self.post(by, &route("confirmation"), &json!({"answer": event["value"], "ticket": ticket}))
            }
            "person.message" => self.post("chat", "/v1/events", &event),
            // A policy of its own is for a person to bring, and so is a time other than that of arrival.
            "session.started" if event.get("policy").is_some() => self.post("anna", "/v1/events", &event),
            _ => self.post(if scenario.is_timed() { "anna" } else { "desk" }, "/v1/events", &event),
        }
    }

    /// The ticket for the plan that waits, as the inbox gives it out.
    fn ticket(&self, by: &str, session: &str) -> Value {
        let (_, inbox) = self.server.ask("GET", "/v1/inbox", Some(self.keys.of(by)), None);
        let inbox: Value = serde_json::from_str(&inbox).unwrap();
        let waiting = inbox["waiting"].as_array().unwrap().iter().find(|one| one["session"] == session);
        waiting.map_or(Value::Null, |one| one["ticket"].clone())
    }
}

fn events(scenario: &Scenario) -> Vec<Value> {
    let mut events = scenario.events(&scenario.name, scenario.is_timed());
    if !scenario.policy.is_null() {
        events[0]["policy"] = scenario.policy.clone();
    }
    events
}

#[test]
fn http() {
    let scenarios = carried_by(Path::Http);
    let place = folder("conformance-http");
    std::fs::write(place.join("deliver.yaml"), EVERYTHING_IS_DELIVERED).unwrap();
    let store = format!("sqlite:{}", place.join("events.db").display());
    let mut keys = None;
    let answers: Vec<Mutex<Vec<Value>>> = scenarios.iter().map(|_| Mutex::default()).collect();
    for half in [0, 1] {
        let server = Server::on(&place, &store, &["--no-socket", "--policy", "deliver.yaml"]);
        let keys = keys.get_or_insert_with(|| KeyRing::new(&store));
        let client = Client { server: &server, keys };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some((scenario, own)) = {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        scenarios.get(at).zip(answers.get(at))
                    } {
                        let all = events(scenario);
                        let middle = all.len().div_ceil(2);
                        let range = if half == 0 { 0..middle } else { middle..all.len() };
                        for at in range {
                            let answer = client.send(scenario, &scenario.steps[at], all[at].clone());
                            own.lock().unwrap().push(answer);
                        }
                    }
                });
            }
        });
    }
    let rows = Store::open(&store);
    let outcome = |(scenario, answers): (_, Mutex<Vec<Value>>)| {
        let answers = answers.into_inner().unwrap();
        let mut found = pipe::faults(scenario, &answers);
        found.extend(rows.faults(scenario, &scenario.name, &answers));
        (scenario, found)
    };
    settle(Path::Http, scenarios.iter().zip(answers).map(outcome).collect());
}
