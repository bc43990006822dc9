//! The kit of the guard tests: a builder that writes event lines, and checks that read the decisions.
//!
//! Every case goes the way a user's events go: a line of JSON, `Event::from_json`, `Sessions::step`. A history always
//! begins with `session.started` (event 1), so a call without anything before it is asked for in event 2 and ends in
//! event 3. The end of a call that was refused is not sent, as no host would send it.
#![allow(dead_code, unused_imports, reason = "each test root uses a part of the kit")]
#![allow(clippy::expect_used, clippy::panic, reason = "this is test code; a broken case must stop")]

use flyball::{Decision, Event, PolicySource, Preset, Sessions, Severity, Status, Trip, Verdict};
use serde_json::{Map, Value, json};

#[path = "expect.rs"]
mod expect;

pub(crate) use expect::{
    Case, Expect, case, check, check_all, keep_fixtures, modes, never, quiet, silent, trips,
};
pub(crate) use flyball::Severity::{Block, Halt, Observe, Warn};

/// How a tool call ended.
#[derive(Clone)]
pub(crate) enum Outcome {
    Ok(String),
    Failed(String),
}

/// The call succeeded and printed this.
pub(crate) fn ok(output: impl Into<String>) -> Outcome {
    Outcome::Ok(output.into())
}

/// The call failed with this error.
pub(crate) fn failed(error: impl Into<String>) -> Outcome {
    Outcome::Failed(error.into())
}

/// A policy in which nothing is on but one guard, with these keys.
pub(crate) fn only(guard: &str, mut keys: Value) -> Value {
    if let Some(keys) = keys.as_object_mut() {
        keys.entry("mode").or_insert_with(|| json!("staged"));
    }
    json!({"preset": "off", "guards": {guard: keys}})
}

#[derive(Clone)]
struct Step {
    event: Map<String, Value>,
    /// Sent only if the event before it was not refused.
    if_allowed: bool,
}

/// The events of one session, or of several that take turns.
#[derive(Clone)]
pub(crate) struct History {
    steps: Vec<Step>,
    session: String,
    calls: usize,
    clock: Option<u64>,
    node: Option<String>,
    round: Option<u64>,
}

impl History {
    /// A session under the preset `agent`, with nothing changed.
    pub(crate) fn new() -> Self {
        Self::started(json!({}))
    }

    /// A session that brings its policy along: a preset's name, or the keys of a policy file.
    pub(crate) fn under(policy: impl Into<Value>) -> Self {
        Self::started(json!({"policy": policy.into()}))
    }

    /// A session that begins with these fields of `session.started`.
    pub(crate) fn started(fields: Value) -> Self {
        let empty = History {
            steps: Vec::new(),
            session: "s1".to_owned(),
            calls: 0,
            clock: None,
            node: None,
            round: None,
        };
        empty.event("session.started", fields)
    }

    /// Any event: its type and its own fields. Session, time, node and round are added.
    pub(crate) fn event(mut self, name: &str, fields: Value) -> Self {
        let Value::Object(mut event) = fields else { panic!("the fields of {name} are no object") };
        event.insert("type".into(), json!(name));
        event.entry("session").or_insert_with(|| json!(self.session));
        for (key, value) in
            [("at", json!(self.clock)), ("node", json!(self.node)), ("round", json!(self.round))]
        {
            if !value.is_null() {
                event.entry(key).or_insert(value);
            }
        }
        self.steps.push(Step { event, if_allowed: false });
        self
    }

    /// Adds or replaces fields of the last event.
    pub(crate) fn with(mut self, fields: Value) -> Self {
        if let (Some(last), Value::Object(fields)) = (self.steps.last_mut(), fields) {
            last.event.extend(fields);
        }
        self
    }

    /// What follows belongs to this session (begin it yourself).
    pub(crate) fn session(mut self, name: &str) -> Self {
        self.session = name.to_owned();
        self
    }

    /// What follows happens at this time, in milliseconds.
    pub(crate) fn clock(mut self, at: u64) -> Self {
        self.clock = Some(at);
        self
    }

    /// What follows happens so much later.
    pub(crate) fn later(mut self, ms: u64) -> Self {
        self.clock = Some(self.clock.unwrap_or(0) + ms);
        self
    }

    /// What follows is done by this node.
    pub(crate) fn by(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// What follows belongs to this answer of the model.
    pub(crate) fn round(mut self, round: u64) -> Self {
        self.round = Some(round);
        self
    }

    /// Does the same so many times; the closure is told which time it is, from 0.
    pub(crate) fn times(self, n: usize, step: impl Fn(Self, usize) -> Self) -> Self {
        (0..n).fold(self, step)
    }

    /// A tool call with its end.
    pub(crate) fn call(self, tool: &str, args: Value, outcome: Outcome) -> Self {
        self.ask(tool, args).finish(outcome)
    }

    /// The request of a tool call, with a call id of its own.
    pub(crate) fn ask(mut self, tool: &str, args: Value) -> Self {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        self.event("tool.requested", json!({"call": call, "tool": tool, "args": args}))
    }

    /// The end of the newest call; not sent if it was refused.
    pub(crate) fn finish(self, outcome: Outcome) -> Self {
        let call = self.calls;
        self.finish_of(call, outcome)
    }

    /// The end of the call with this number; not sent if the event before it was refused.
    pub(crate) fn finish_of(self, call: usize, outcome: Outcome) -> Self {
        let mut history = self.echo_of(call, outcome);
        if let Some(last) = history.steps.last_mut() {
            last.if_allowed = true;
        }
        history
    }

    /// The end of the call with this number, sent in any case.
    pub(crate) fn echo_of(self, call: usize, outcome: Outcome) -> Self {
        let call = format!("c{call}");
        let fields = match outcome {
            Outcome::Ok(output) => json!({"call": call, "ok": true, "output": output}),
            Outcome::Failed(error) => json!({"call": call, "ok": false, "error": error}),
        };
        self.event("tool.finished", fields)
    }

    /// A call that somebody refused.
    pub(crate) fn denied(self, by: &str, tool: &str, args: Value) -> Self {
        let history = self.ask(tool, args);
        let call = format!("c{}", history.calls);
        history.event("tool.denied", json!({"call": call, "by": by})).only_if_allowed()
    }

    fn only_if_allowed(mut self) -> Self {
        if let Some(last) = self.steps.last_mut() {
            last.if_allowed = true;
        }
        self
    }

    /// A person speaks.
    pub(crate) fn human(self, text: &str) -> Self {
        self.event("user.message", json!({"text": text}))
    }

    /// The agent speaks.
    pub(crate) fn says(self, text: &str) -> Self {
        self.event("assistant.message", json!({"text": text}))
    }

    /// A turn of a node begins.
    pub(crate) fn begins(self, node: &str) -> Self {
        self.event("turn.started", json!({"node": node}))
    }

    /// A turn of a node ends with this output.
    pub(crate) fn ends(self, node: &str, output: &str) -> Self {
        self.event("turn.finished", json!({"node": node, "output": output}))
    }

    /// The work goes from node to node.
    pub(crate) fn go(self, from: &str, to: &str) -> Self {
        self.event("transition.requested", json!({"from": from, "to": to}))
    }

    /// The work goes along a chain of nodes: `a>b>c`.
    pub(crate) fn walk(self, chain: &str) -> Self {
        let nodes: Vec<&str> = chain.split('>').map(str::trim).collect();
        nodes.windows(2).fold(self, |history, pair| history.go(pair[0], pair[1]))
    }

    /// A diff was measured.
    pub(crate) fn diff(self, content: &str) -> Self {
        self.event("progress", json!({"signal": "diff", "content": content}))
    }

    /// The tests were run; these failed.
    pub(crate) fn failing(self, names: &[&str]) -> Self {
        self.event("progress", json!({"signal": "tests", "failing": names}))
    }

    /// The model's answer could not be read.
    pub(crate) fn invalid(self, error: &str) -> Self {
        self.event("validation.failed", json!({"kind": "malformed_json", "error": error}))
    }

    /// An operation failed.
    pub(crate) fn attempt(self, operation: &str) -> Self {
        self.event("operation.failed", json!({"operation": operation}))
    }

    /// An operation succeeded.
    pub(crate) fn success(self, operation: &str) -> Self {
        self.event("operation.succeeded", json!({"operation": operation}))
    }

    /// The gate was run: each check passed, or failed with this output.
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

    /// A plan to delete some tasks is put to `alice`.
    pub(crate) fn plan(self, ids: &[&str]) -> Self {
        let plan: Vec<Value> =
            ids.iter().map(|id| json!({"tool": "delete_task", "args": {"id": id}})).collect();
        let question = format!("Delete {}?", ids.join(", "));
        self.event(
            "confirmation.requested",
            json!({"plan": plan, "question": question, "requester": "alice"}),
        )
    }

    /// The one who was asked answers.
    pub(crate) fn answer(self, text: &str) -> Self {
        self.event("confirmation.answered", json!({"text": text, "by": "alice"}))
    }

    /// The agent asks a person something.
    pub(crate) fn question(self, text: &str) -> Self {
        self.event("question.asked", json!({"text": text}))
    }

    /// A person releases a guard.
    pub(crate) fn release(self, guard: &str, mode: &str) -> Self {
        self.event("human.released", json!({"guard": guard, "mode": mode, "by": "alice", "why": "I looked"}))
    }

    /// The number of events so far, the session's beginning included.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Runs the history from the start.
    pub(crate) fn run(&self) -> Run {
        let mut run = Run { sessions: fresh_sessions(), lines: Vec::new(), decisions: Vec::new() };
        for step in &self.steps {
            let refused = run.decisions.last().is_some_and(|last| last.decision >= Verdict::Block);
            if !(step.if_allowed && refused) {
                run.step(&Value::Object(step.event.clone()));
            }
        }
        run.sound();
        run
    }
}

/// No sessions yet, under the preset that hooks, transcripts and bindings use.
pub(crate) fn fresh_sessions() -> Sessions {
    Sessions::new(PolicySource::preset(Preset::Agent))
}

/// What came of a history.
pub(crate) struct Run {
    pub(crate) sessions: Sessions,
    /// The lines that were sent.
    pub(crate) lines: Vec<String>,
    /// One decision a line.
    pub(crate) decisions: Vec<Decision>,
}

impl Run {
    /// Sends one more event; it must be accepted.
    pub(crate) fn step(&mut self, event: &Value) -> Decision {
        match self.try_step(event) {
            Ok(decision) => decision,
            Err(error) => panic!("event {} cannot be used: {error}: {event}", self.lines.len() + 1),
        }
    }

    /// Sends one more event.
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

    /// The decision of the event with this number, from 1, over all sessions.
    pub(crate) fn at(&self, number: usize) -> &Decision {
        &self.decisions[number - 1]
    }

    /// The state's digest of a session.
    pub(crate) fn digest(&self, session: &str) -> String {
        let session = self.sessions.get(session).expect("the session is known");
        session.state().digest().expect("a state can be encoded")
    }

    /// All trips of a guard, with the number of the event.
    pub(crate) fn trips_of(&self, guard: &str) -> Vec<(usize, &Trip)> {
        let numbered = self.decisions.iter().enumerate();
        numbered
            .flat_map(|(at, decision)| decision.trips.iter().map(move |trip| (at + 1, trip)))
            .filter(|(_, trip)| trip.guard == guard)
            .collect()
    }

    /// The names of the effects of one decision.
    pub(crate) fn effects(&self, number: usize) -> Vec<&str> {
        self.at(number).effects.iter().map(|effect| effect.effect.as_str()).collect()
    }

    /// The words said to the person in one decision.
    pub(crate) fn said(&self, number: usize) -> Vec<String> {
        let effects = self.at(number).effects.iter().filter(|effect| effect.effect == "say");
        effects.map(|effect| effect.fields["text"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What holds for every decision whatever the guard.
    fn sound(&self) {
        let mut halted: Vec<&str> = Vec::new();
        for (at, decision) in self.decisions.iter().enumerate() {
            let place = format!("event {}: {}", at + 1, decision.to_json());
            let gravest = decision.trips.iter().map(|trip| trip.severity.verdict()).max().unwrap_or_default();
            assert_eq!(decision.decision, gravest, "the strictest trip wins; {place}");
            if let Some(text) = &decision.feedback {
                assert!(text.chars().count() <= 600, "feedback is too long; {place}");
            }
            for trip in &decision.trips {
                assert_eq!(trip.halt_reason.is_some(), trip.severity == Severity::Halt, "{place}");
                assert!(REASONS.contains(&trip.reason.as_str()), "unknown reason {}; {place}", trip.reason);
                assert!(
                    flyball::ending(&trip.reason).is_some(),
                    "no kind of end for {}; {place}",
                    trip.reason
                );
                assert!(trip.evidence.events.is_sorted(), "evidence is oldest first; {place}");
                assert!(!trip.message.is_empty(), "{place}");
            }
            let told = decision.effects.iter().filter(|effect| effect.effect == "loop.halted").count();
            let known = halted.contains(&decision.session.as_str());
            let halts = decision.state == Status::Halted;
            // What a person released may halt again with the same event.
            let released = self.lines[at].contains("\"human.released\"");
            let expected = usize::from(halts && (!known || (released && told > 0)));
            assert_eq!(told, expected, "loop.halted comes once for each halt; {place}");
            halted.retain(|session| *session != decision.session);
            if halts {
                halted.push(&decision.session);
            }
        }
    }
}

/// The reasons of the contract, and those that the core says besides.
const REASONS: [&str; 36] = [
    "max_runtime",
    "max_turns",
    "max_iterations",
    "max_tokens",
    "max_cost",
    "max_steps",
    "turn_timeout",
    "node_budget",
    "max_cycle_iterations",
    "visit_limit",
    "transition_limit",
    "cycle_detected",
    "repetition_loop",
    "recurrence",
    "stalled",
    "oscillating",
    "repeated_error",
    "consecutive_failures",
    "error_rate",
    "validation_failure",
    "retries_exhausted",
    "loop_thrashing",
    "quality_gate_exhausted",
    "confirmation_aborted",
    "confirmation_expired",
    "repeated_question",
    "repeated_denial",
    "monologue",
    "no_progress",
    "user_stop",
    // Not in section 5 of the contract.
    "quality_gate_blocked",
    "confirmation_unclear",
    "confirmation_refused",
    "rule",
    "release_refused",
    "transition_not_allowed",
];
