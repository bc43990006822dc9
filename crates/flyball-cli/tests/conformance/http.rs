//! The HTTP API: events are sent with a host's key, operator actions with a person's key on the operator routes. The
//! server is restarted in the middle of every scenario.

use crate::command_harness::test_dir;
use crate::compare::assert_no_errors;
use crate::operator::{answers_in_words, answers_null, answers_without_a_plan, pause};
use crate::pipe;
use crate::scenario_table::{ConformancePath, Scenario, ScenarioStep, supported_scenarios};
use crate::server_harness::TestServer;
use crate::store_rows::{DELIVERY_POLICY, StoreRows};
use flyball_server::{ApiKeyRequest, ApiKeyStore, AuthRole};
use flyball_store::StoreAddress;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const PARALLEL_SCENARIOS: usize = 4;
/// The label that calls a person.
const LABEL: &str = "flyball-hitl:loop-prevention";

/// The reason why the HTTP API does not support a scenario.
pub(crate) fn unsupported_reason(scenario: &Scenario) -> Option<&'static str> {
    if scenario.has_any(&["policy.changed"]) {
        return Some("recorded_by_flyball");
    }
    if answers_in_words(scenario) {
        return Some("answers_in_words");
    }
    if answers_null(scenario) {
        return Some("no_classifier");
    }
    answers_without_a_plan(scenario).then_some("nothing_to_answer")
}

/// The keys, which are stored in the store.
struct RoleKeys(BTreeMap<&'static str, String>);

impl RoleKeys {
    fn new(store: &str) -> Self {
        let keys =
            ApiKeyStore::new(StoreAddress::parse(store, std::path::Path::new("/")).unwrap().open().unwrap());
        let roles = [
            ("desk", AuthRole::Host),
            ("chat", AuthRole::Channel),
            ("anna", AuthRole::Operator),
            ("berta", AuthRole::Operator),
        ];
        let create = |(name, role): (&'static str, AuthRole)| {
            let wanted = ApiKeyRequest {
                name,
                role,
                sessions: None,
                all_sessions: role < AuthRole::Operator,
                ttl_ms: None,
            };
            (name, keys.create_requested(wanted).unwrap().secret)
        };
        RoleKeys(roles.into_iter().map(create).collect())
    }

    fn key(&self, name: &str) -> &str {
        &self.0[name]
    }
}

struct ScenarioClient<'a> {
    server: &'a TestServer,
    keys: &'a RoleKeys,
}

impl ScenarioClient<'_> {
    fn post(&self, key: &str, path: &str, body: &Value) -> Value {
        let (_, answer) =
            self.server.request("POST", path, Some(self.keys.key(key)), Some(&body.to_string()));
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }

    /// Sends a step through its route.
    fn send(&self, scenario: &Scenario, step: &ScenarioStep, event: Value) -> Value {
        pause(if scenario.is_timed() { 0 } else { step.wait_ms });
        let session = event["session"].as_str().unwrap().to_owned();
        let by = event["by"].as_str().unwrap_or("anna");
        let route = |name: &str| format!("/v1/sessions/{session}/{name}");
        match step.kind() {
            "human.stopped" => self.post(by, &route("stop"), &json!({"why": event["why"]})),
            "human.released" if step.takes_label_off => {
                let label = json!({"session": session, "label": LABEL, "action": "removed", "by": by, "why": event["why"]});
                let reply = self.post(by, "/v1/labels", &label);
                reply.get("decision").cloned().unwrap_or(reply)
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
            // Only a person may set a policy or a time other than the time of arrival.
            "session.started" if event.get("policy").is_some() => self.post("anna", "/v1/events", &event),
            _ => self.post(if scenario.is_timed() { "anna" } else { "desk" }, "/v1/events", &event),
        }
    }

    /// The ticket of the pending plan, from the inbox.
    fn ticket(&self, by: &str, session: &str) -> Value {
        let (_, inbox) = self.server.request("GET", "/v1/inbox", Some(self.keys.key(by)), None);
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
    let scenarios = supported_scenarios(ConformancePath::Http);
    let place = test_dir("conformance-http");
    std::fs::write(place.join("deliver.yaml"), DELIVERY_POLICY).unwrap();
    let store = format!("sqlite:{}", place.join("events.db").display());
    let mut keys = None;
    let answers: Vec<Mutex<Vec<Value>>> = scenarios.iter().map(|_| Mutex::default()).collect();
    for half in [0, 1] {
        let server = TestServer::start_on(&place, &store, &["--no-socket", "--policy", "deliver.yaml"]);
        let keys = keys.get_or_insert_with(|| RoleKeys::new(&store));
        let client = ScenarioClient { server: &server, keys };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..PARALLEL_SCENARIOS {
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
    let rows = StoreRows::open(&store);
    let outcome = |(scenario, answers): (_, Mutex<Vec<Value>>)| {
        let answers = answers.into_inner().unwrap();
        let mut found = pipe::scenario_errors(scenario, &answers);
        found.extend(rows.row_errors(scenario, &scenario.name, &answers));
        (scenario, found)
    };
    assert_no_errors(ConformancePath::Http, scenarios.iter().zip(answers).map(outcome).collect());
}
