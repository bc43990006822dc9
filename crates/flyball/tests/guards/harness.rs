//! Harness of the guard tests: a builder for event lines, and checks of the decisions.
//!
//! Every case takes the same path as a user's events: a line of JSON, `Event::from_json`, `Sessions::step`. A history
//! always starts with `session.started` (event 1), so the first call is requested in event 2 and finishes in event 3.
//! The end of a blocked call is not sent, because no host would send it.
#![allow(dead_code, unused_imports, reason = "each test root uses a part of the harness")]
#![allow(clippy::expect_used, clippy::panic, reason = "test code; a broken case must fail")]

use flyball::{Decision, Event, PolicySource, Preset, SessionPhase, Sessions, Trip, TripSeverity, Verdict};
use serde_json::{Map, Value, json};

#[path = "expectation.rs"]
mod expectation;

pub(crate) use expectation::{
    Expectation, GuardCase, case, check, check_all, check_fixtures, check_modes, never, quiet, silent, trips,
};
pub(crate) use flyball::TripSeverity::{Block, Halt, Observe, Warn};

/// Result of a tool call.
#[derive(Clone)]
pub(crate) enum CallOutcome {
    Ok(String),
    Failed(String),
}

/// The call succeeded with this output.
pub(crate) fn ok(output: impl Into<String>) -> CallOutcome {
    CallOutcome::Ok(output.into())
}

/// The call failed with this error.
pub(crate) fn failed(error: impl Into<String>) -> CallOutcome {
    CallOutcome::Failed(error.into())
}

/// A policy with only one guard enabled, with these keys.
pub(crate) fn only_guard(guard: &str, mut keys: Value) -> Value {
    if let Some(keys) = keys.as_object_mut() {
        keys.entry("mode").or_insert_with(|| json!("staged"));
    }
    json!({"preset": "off", "guards": {guard: keys}})
}

#[derive(Clone)]
struct HistoryStep {
    event: Map<String, Value>,
    /// Sent only if the previous event was not blocked.
    if_allowed: bool,
}

/// The events of one session, or of several interleaved ones.
#[derive(Clone)]
pub(crate) struct EventHistory {
    steps: Vec<HistoryStep>,
    session: String,
    calls: usize,
    clock: Option<u64>,
    node: Option<String>,
    round: Option<u64>,
}

impl EventHistory {
    /// A session under the unmodified preset `agent`.
    pub(crate) fn new() -> Self {
        Self::with_start_fields(json!({}))
    }

    /// A session with an inline policy: a preset name, or the keys of a policy file.
    pub(crate) fn with_policy(policy: impl Into<Value>) -> Self {
        Self::with_start_fields(json!({"policy": policy.into()}))
    }

    /// A session started with these fields of `session.started`.
    pub(crate) fn with_start_fields(fields: Value) -> Self {
        let empty = EventHistory {
            steps: Vec::new(),
            session: "s1".to_owned(),
            calls: 0,
            clock: None,
            node: None,
            round: None,
        };
        empty.event("session.started", fields)
    }

    /// Any event: its type and fields. Session, time, node and round are added.
    pub(crate) fn event(mut self, name: &str, fields: Value) -> Self {
        let Value::Object(mut event) = fields else { panic!("the fields of {name} are not an object") };
        event.insert("type".into(), json!(name));
        event.entry("session").or_insert_with(|| json!(self.session));
        for (key, value) in
            [("at", json!(self.clock)), ("node", json!(self.node)), ("round", json!(self.round))]
        {
            if !value.is_null() {
                event.entry(key).or_insert(value);
            }
        }
        self.steps.push(HistoryStep { event, if_allowed: false });
        self
    }

    /// Adds or replaces fields of the last event.
    pub(crate) fn with_fields(mut self, fields: Value) -> Self {
        if let (Some(last), Value::Object(fields)) = (self.steps.last_mut(), fields) {
            last.event.extend(fields);
        }
        self
    }

    /// Later events belong to this session, which the caller must start.
    pub(crate) fn session(mut self, name: &str) -> Self {
        self.session = name.to_owned();
        self
    }

    /// Later events happen at this time, in milliseconds.
    pub(crate) fn at_time(mut self, at: u64) -> Self {
        self.clock = Some(at);
        self
    }

    /// Later events happen this much later.
    pub(crate) fn after_ms(mut self, ms: u64) -> Self {
        self.clock = Some(self.clock.unwrap_or(0) + ms);
        self
    }

    /// Later events belong to this node.
    pub(crate) fn for_node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Later events belong to this model response.
    pub(crate) fn round(mut self, round: u64) -> Self {
        self.round = Some(round);
        self
    }

    /// Repeats a step; the closure receives the iteration, from 0.
    pub(crate) fn times(self, n: usize, step: impl Fn(Self, usize) -> Self) -> Self {
        (0..n).fold(self, step)
    }

    /// A tool call with its result.
    pub(crate) fn call(self, tool: &str, args: Value, outcome: CallOutcome) -> Self {
        self.request(tool, args).finish(outcome)
    }

    /// The request of a tool call, with a new call id.
    pub(crate) fn request(mut self, tool: &str, args: Value) -> Self {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        self.event("tool.requested", json!({"call": call, "tool": tool, "args": args}))
    }

    /// The result of the newest call; not sent if it was blocked.
    pub(crate) fn finish(self, outcome: CallOutcome) -> Self {
        let call = self.calls;
        self.finish_call(call, outcome)
    }

    /// The result of the call with this number; not sent if the previous event was blocked.
    pub(crate) fn finish_call(self, call: usize, outcome: CallOutcome) -> Self {
        let mut history = self.finish_call_always(call, outcome);
        if let Some(last) = history.steps.last_mut() {
            last.if_allowed = true;
        }
        history
    }

    /// The result of the call with this number, always sent.
    pub(crate) fn finish_call_always(self, call: usize, outcome: CallOutcome) -> Self {
        let call = format!("c{call}");
        let fields = match outcome {
            CallOutcome::Ok(output) => json!({"call": call, "ok": true, "output": output}),
            CallOutcome::Failed(error) => json!({"call": call, "ok": false, "error": error}),
        };
        self.event("tool.finished", fields)
    }

    /// A denied call.
    pub(crate) fn denied(self, by: &str, tool: &str, args: Value) -> Self {
        let history = self.request(tool, args);
        let call = format!("c{}", history.calls);
        history.event("tool.denied", json!({"call": call, "by": by})).only_if_allowed()
    }

    fn only_if_allowed(mut self) -> Self {
        if let Some(last) = self.steps.last_mut() {
            last.if_allowed = true;
        }
        self
    }

    /// A user message.
    pub(crate) fn user_message(self, text: &str) -> Self {
        self.event("user.message", json!({"text": text}))
    }

    /// An agent message.
    pub(crate) fn assistant_message(self, text: &str) -> Self {
        self.event("assistant.message", json!({"text": text}))
    }

    /// The start of a node's turn.
    pub(crate) fn start_turn(self, node: &str) -> Self {
        self.event("turn.started", json!({"node": node}))
    }

    /// The end of a node's turn with this output.
    pub(crate) fn finish_turn(self, node: &str, output: &str) -> Self {
        self.event("turn.finished", json!({"node": node, "output": output}))
    }

    /// A transition between nodes.
    pub(crate) fn transition(self, from: &str, to: &str) -> Self {
        self.event("transition.requested", json!({"from": from, "to": to}))
    }

    /// Transitions along a chain of nodes: `a>b>c`.
    pub(crate) fn transitions_along(self, chain: &str) -> Self {
        let nodes: Vec<&str> = chain.split('>').map(str::trim).collect();
        nodes.windows(2).fold(self, |history, pair| history.transition(pair[0], pair[1]))
    }

    /// A measured diff.
    pub(crate) fn diff(self, content: &str) -> Self {
        self.event("progress", json!({"signal": "diff", "content": content}))
    }

    /// A test run with these failures.
    pub(crate) fn failing_tests(self, names: &[&str]) -> Self {
        self.event("progress", json!({"signal": "tests", "failing": names}))
    }

    /// An invalid model response.
    pub(crate) fn validation_failed(self, error: &str) -> Self {
        self.event("validation.failed", json!({"kind": "malformed_json", "error": error}))
    }

    /// An operation failed.
    pub(crate) fn operation_failed(self, operation: &str) -> Self {
        self.event("operation.failed", json!({"operation": operation}))
    }

    /// An operation succeeded.
    pub(crate) fn operation_succeeded(self, operation: &str) -> Self {
        self.event("operation.succeeded", json!({"operation": operation}))
    }

    /// A gate run: each check passed, or failed with this output.
    pub(crate) fn gate(self, checks: &[(&str, Option<&str>)]) -> Self {
        let checks: Vec<Value> = checks
            .iter()
            .map(|(name, failure)| match failure {
                None => json!({"name": name, "passed": true}),
                Some(output) => json!({"name": name, "passed": false, "output": output}),
            })
            .collect();
        self.event("gate.checked", json!({"checks": checks}))
    }

    /// A plan to delete some tasks; `alice` is asked.
    pub(crate) fn request_confirmation(self, ids: &[&str]) -> Self {
        let plan: Vec<Value> =
            ids.iter().map(|id| json!({"tool": "delete_task", "args": {"id": id}})).collect();
        let question = format!("Delete {}?", ids.join(", "));
        self.event(
            "confirmation.requested",
            json!({"plan": plan, "question": question, "requester": "alice"}),
        )
    }

    /// An answer by the requester.
    pub(crate) fn answer(self, text: &str) -> Self {
        self.event("confirmation.answered", json!({"text": text, "by": "alice"}))
    }

    /// A question by the agent.
    pub(crate) fn ask_question(self, text: &str) -> Self {
        self.event("question.asked", json!({"text": text}))
    }

    /// A release of a guard by a person.
    pub(crate) fn release(self, guard: &str, mode: &str) -> Self {
        self.event("human.released", json!({"guard": guard, "mode": mode, "by": "alice", "why": "I looked"}))
    }

    /// The number of events so far, including the session start.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Runs the history from the start.
    pub(crate) fn run(&self) -> HistoryRun {
        let mut run = HistoryRun { sessions: new_sessions(), lines: Vec::new(), decisions: Vec::new() };
        for step in &self.steps {
            let refused = run.decisions.last().is_some_and(|last| last.decision >= Verdict::Block);
            if !(step.if_allowed && refused) {
                run.step(&Value::Object(step.event.clone()));
            }
        }
        run.assert_invariants();
        run
    }
}

/// No sessions yet, under the preset that hooks, transcripts and bindings use.
pub(crate) fn new_sessions() -> Sessions {
    Sessions::new(PolicySource::preset(Preset::Agent))
}

/// The result of a history.
pub(crate) struct HistoryRun {
    pub(crate) sessions: Sessions,
    /// The lines that were sent.
    pub(crate) lines: Vec<String>,
    /// One decision per line.
    pub(crate) decisions: Vec<Decision>,
}

impl HistoryRun {
    /// Sends another event, which must be accepted.
    pub(crate) fn step(&mut self, event: &Value) -> Decision {
        match self.try_step(event) {
            Ok(decision) => decision,
            Err(error) => panic!("event {} is invalid: {error}: {event}", self.lines.len() + 1),
        }
    }

    /// Sends another event.
    pub(crate) fn try_step(&mut self, event: &Value) -> Result<Decision, flyball::Error> {
        let line = event.to_string();
        let event = Event::from_json(&line)?;
        let decision = self.sessions.step(&event)?;
        self.lines.push(line);
        self.decisions.push(decision.clone());
        Ok(decision)
    }

    /// The last decision.
    pub(crate) fn last(&self) -> &Decision {
        self.decisions.last().expect("a history has events")
    }

    /// The decision of the event with this number, from 1, across all sessions.
    pub(crate) fn at(&self, number: usize) -> &Decision {
        &self.decisions[number - 1]
    }

    /// The digest of a session's state.
    pub(crate) fn digest(&self, session: &str) -> String {
        let session = self.sessions.get(session).expect("the session is known");
        session.state().digest().expect("a state can be encoded")
    }

    /// All trips of a guard, with their event numbers.
    pub(crate) fn trips_of(&self, guard: &str) -> Vec<(usize, &Trip)> {
        let numbered = self.decisions.iter().enumerate();
        numbered
            .flat_map(|(at, decision)| decision.trips.iter().map(move |trip| (at + 1, trip)))
            .filter(|(_, trip)| trip.guard == guard)
            .collect()
    }

    /// The effect names of one decision.
    pub(crate) fn effects(&self, number: usize) -> Vec<&str> {
        self.at(number).effects.iter().map(|effect| effect.effect.as_str()).collect()
    }

    /// The messages to the person in one decision.
    pub(crate) fn messages(&self, number: usize) -> Vec<String> {
        let effects = self.at(number).effects.iter().filter(|effect| effect.effect == "say");
        effects.map(|effect| effect.fields["text"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Invariants of every decision.
    fn assert_invariants(&self) {
        let mut halted: Vec<&str> = Vec::new();
        for (at, decision) in self.decisions.iter().enumerate() {
            let place = format!("event {}: {}", at + 1, decision.to_json());
            let gravest = decision.trips.iter().map(|trip| trip.severity.verdict()).max().unwrap_or_default();
            assert_eq!(decision.decision, gravest, "the strictest trip wins; {place}");
            if let Some(text) = &decision.feedback {
                assert!(text.chars().count() <= 600, "feedback is too long; {place}");
            }
            for trip in &decision.trips {
                assert_eq!(trip.halt_reason.is_some(), trip.severity == TripSeverity::Halt, "{place}");
                assert!(
                    flyball::ending_kind(&trip.reason).is_some(),
                    "no guard declares the reason {}; {place}",
                    trip.reason
                );
                assert!(trip.evidence.events.is_sorted(), "evidence is oldest first; {place}");
                assert!(!trip.message.is_empty(), "{place}");
            }
            let halt_effects =
                decision.effects.iter().filter(|effect| effect.effect == "loop.halted").count();
            let known = halted.contains(&decision.session.as_str());
            let halts = decision.state == SessionPhase::Halted;
            // A released guard may halt again at the same event.
            let released = self.lines[at].contains("\"human.released\"");
            let expected = usize::from(halts && (!known || (released && halt_effects > 0)));
            assert_eq!(halt_effects, expected, "loop.halted is emitted once per halt; {place}");
            halted.retain(|session| *session != decision.session);
            if halts {
                halted.push(&decision.session);
            }
        }
    }
}
