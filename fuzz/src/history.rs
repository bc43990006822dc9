//! Interprets bytes as a history: a policy, then up to forty events of a few sessions, reloaded once.
//!
//! Arguments, results and names come from small alphabets, so that the guards see repetitions, cycles and stalls, not
//! only noise. One opcode uses the raw bytes as a line of JSON.

mod decoder;

use decoder::{Decoder, HistoryStep};
use flyball::limits::{FEEDBACK_CHARS, STATE_BYTES};
use flyball::policy::{PolicyFormat, PolicyLayer, ValueOrigin, parse};
use flyball::{
    Decision, Error, Event, EventKind, PolicySource, Preset, Session, SessionPhase, SessionState, Sessions,
    Verdict,
};
use std::sync::OnceLock;

/// Maximum number of events in a history.
const EVENTS: usize = 40;

/// A policy with every limit low, so that short histories trip.
const LOW: &str = r"
preset: strict
budgets:
  session: {runtime: 5m, turns: 6, iterations: 4, tokens: 900, cost_usd: 1}
  turn: {timeout: 30s, tokens: 500}
  node: {turns: 3, runtime: 60s}
  loop: {iterations: 2, runtime: 90s, cost_usd: 1}
  message: {transitions: 4}
nodes: {a: {max_visits: 2}}
edges: {'a->b': {max_transitions: 2}}
tools: {job_output: {effect: poll}, delete_task: {effect: destructive}, bash: {repetition: {limit: 2}}}
releases: {grant: 2, ceiling: 2}
";

/// Non-default modes, and a custom rule.
const RULES: &str = r#"
preset: workflow
guards: {visits: {mode: observe}, cycle: {mode: warn}, repetition: {result_aware: false}}
rules:
  - {name: rule, when: "has(event.args.command) && event.args.command == 'ls' && session.calls > 4", decision: block, message: no}
"#;

fn sources() -> &'static [PolicySource] {
    static SOURCES: OnceLock<Vec<PolicySource>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let mut all: Vec<PolicySource> =
            [Preset::Agent, Preset::Workflow, Preset::Observe].map(PolicySource::preset).into();
        for text in [LOW, RULES] {
            let parsed = parse(text, PolicyFormat::Yaml, "fuzz").expect("our own policy parses");
            // Without key positions, because each run copies it.
            let layer = PolicyLayer::from_value(ValueOrigin::Inline, parsed.tree);
            all.push(PolicySource::new(vec![layer], Preset::Agent).expect("our own policy resolves"));
        }
        all
    })
}

/// A reloaded history gives the same decisions as an uninterrupted one.
pub fn check(bytes: &[u8]) {
    let Some((&[choice, stop], rest)) = bytes.split_first_chunk::<2>() else { return };
    let sources = sources();
    let source = &sources[usize::from(choice) % sources.len()];
    let mut run = Run { whole: Sessions::new(source.clone()), reloaded: None, last: None };
    let mut decoder = Decoder::new(rest);
    for number in 0..EVENTS {
        if number == usize::from(stop) % EVENTS {
            run.reloaded = Some(reload(source, &run.whole));
        }
        match decoder.next() {
            Some(HistoryStep::New(event)) => run.step(event),
            Some(HistoryStep::Again) => run.redeliver(),
            None => break,
        }
    }
    run.finish();
}

/// Encodes and decodes all sessions.
fn reload(source: &PolicySource, sessions: &Sessions) -> Sessions {
    let mut again = Sessions::new(source.clone());
    for (name, session) in sessions.iter() {
        let bytes = session.state().encode().expect("a state can be encoded");
        assert!(bytes.len() <= STATE_BYTES, "the state has {} bytes", bytes.len());
        let state = SessionState::decode(&bytes).expect("an encoded state can be decoded");
        let session = Session::resume(source, state).expect("a session can be resumed");
        again.insert(name, session);
    }
    again
}

struct Run {
    whole: Sessions,
    /// The reloaded sessions.
    reloaded: Option<Sessions>,
    last: Option<(Event, Result<Decision, Error>)>,
}

impl Run {
    fn step(&mut self, event: Event) {
        let before = self.whole.get(&event.session).map(|session| session.state().status());
        let answer = self.whole.step(&event);
        if let Some(reloaded) = &mut self.reloaded {
            // Every other invalid event is withheld from the reloaded run: an error must leave no trace.
            if answer.is_ok() || event.at.is_some_and(|at| at % 2 == 0) {
                assert_eq!(reloaded.step(&event), answer, "after a reload, the answer to {event:?} differs");
            }
        }
        if let Ok(decision) = &answer {
            check_invariants(before, &event, decision);
        }
        self.last = Some((event, answer));
    }

    /// Redelivers the last event; with an id it must get the same answer.
    fn redeliver(&mut self) {
        let Some((event, before)) = self.last.take() else { return };
        let known = event.id.is_some();
        self.step(event);
        if let (true, Ok(before), Some((_, Ok(again)))) = (known, before, &self.last) {
            assert_eq!(again, &before, "the redelivered event got another answer");
        }
    }

    fn finish(self) {
        let Some(reloaded) = &self.reloaded else { return };
        assert_eq!(self.whole.iter().count(), reloaded.iter().count(), "a session is missing");
        for ((name, whole), (_, reloaded)) in self.whole.iter().zip(reloaded.iter()) {
            assert_eq!(whole.state(), reloaded.state(), "after a reload, the state of {name} differs");
            assert_eq!(whole.policy(), reloaded.policy(), "after a reload, the policy of {name} differs");
        }
    }
}

/// Checks the invariants of every decision.
fn check_invariants(before: Option<SessionPhase>, event: &Event, decision: &Decision) {
    if let Some(feedback) = &decision.feedback {
        assert!(feedback.chars().count() <= FEEDBACK_CHARS, "the feedback is too long");
    }
    // A repeated answer may have lost its trips after a long time, so only new answers are checked further.
    if event.id.is_some() || matches!(event.kind, EventKind::ToolRequested { call: Some(_), .. }) {
        return;
    }
    assert!(decision.decision == Verdict::Allow || !decision.trips.is_empty(), "{decision:?} has no reason");
    if before == Some(SessionPhase::Halted) && event.kind.needs_decision() {
        assert_eq!(decision.decision, Verdict::Halt, "a halt is latched; {event:?} got {decision:?}");
    }
}
