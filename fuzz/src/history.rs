//! Bytes as a whole history: a policy, then up to forty events of a few sessions, stopped and taken up again once.
//!
//! Arguments, results and names come from small alphabets, so that the guards see repetitions, cycles and stalls and
//! not only noise. One opcode takes the bytes as they are, as a line of JSON.

mod decoder;

use decoder::{Decoder, Step};
use flyball::limits::{FEEDBACK_CHARS, STATE_BYTES};
use flyball::policy::{Format, Layer, Origin, parse};
use flyball::{
    Decision, Error, Event, Kind, PolicySource, Preset, Session, Sessions, State, Status, Verdict,
};
use std::sync::OnceLock;

/// How many events one history has at most.
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

/// Other modes than the defaults, and a rule.
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
            let parsed = parse(text, Format::Yaml, "fuzz").expect("our own policy parses");
            // Without the places of its keys, because each run copies it.
            let layer = Layer::from_value(Origin::Inline, parsed.tree);
            all.push(PolicySource::new(vec![layer], Preset::Agent).expect("our own policy resolves"));
        }
        all
    })
}

/// A history that is stopped and taken up again gives the same decisions as one that is not.
pub fn check(bytes: &[u8]) {
    let Some((&[choice, stop], rest)) = bytes.split_first_chunk::<2>() else { return };
    let sources = sources();
    let source = &sources[usize::from(choice) % sources.len()];
    let mut run = Run { whole: Sessions::new(source.clone()), broken: None, last: None };
    let mut decoder = Decoder::new(rest);
    for number in 0..EVENTS {
        if number == usize::from(stop) % EVENTS {
            run.broken = Some(taken_up(source, &run.whole));
        }
        match decoder.next() {
            Some(Step::Fresh(event)) => run.step(event),
            Some(Step::Again) => run.again(),
            None => break,
        }
    }
    run.finish();
}

/// All sessions through their encoded form.
fn taken_up(source: &PolicySource, sessions: &Sessions) -> Sessions {
    let mut again = Sessions::new(source.clone());
    for (name, session) in sessions.iter() {
        let bytes = session.state().encode().expect("a state can be encoded");
        assert!(bytes.len() <= STATE_BYTES, "the state has {} bytes", bytes.len());
        let state = State::decode(&bytes).expect("an encoded state can be decoded");
        let session = Session::resume(source, state).expect("a session can be taken up again");
        again.insert(name, session);
    }
    again
}

struct Run {
    whole: Sessions,
    /// The same sessions, once they were stopped and taken up again.
    broken: Option<Sessions>,
    last: Option<(Event, Result<Decision, Error>)>,
}

impl Run {
    fn step(&mut self, event: Event) {
        let before = self.whole.get(&event.session).map(|session| session.state().status());
        let answer = self.whole.step(&event);
        if let Some(broken) = &mut self.broken {
            // Every other event in error is kept from the second run: an error must leave no trace.
            if answer.is_ok() || event.at.is_some_and(|at| at % 2 == 0) {
                assert_eq!(broken.step(&event), answer, "taken up again, the answer to {event:?} differs");
            }
        }
        if let Ok(decision) = &answer {
            promises(before, &event, decision);
        }
        self.last = Some((event, answer));
    }

    /// The last event is delivered once more; with an id it must get the same answer.
    fn again(&mut self) {
        let Some((event, before)) = self.last.take() else { return };
        let known = event.id.is_some();
        self.step(event);
        if let (true, Ok(before), Some((_, Ok(again)))) = (known, before, &self.last) {
            assert_eq!(again, &before, "delivered again, the event got another answer");
        }
    }

    fn finish(self) {
        let Some(broken) = &self.broken else { return };
        assert_eq!(self.whole.iter().count(), broken.iter().count(), "a session is missing");
        for ((name, whole), (_, broken)) in self.whole.iter().zip(broken.iter()) {
            assert_eq!(whole.state(), broken.state(), "taken up again, the state of {name} differs");
            assert_eq!(whole.policy(), broken.policy(), "taken up again, the policy of {name} differs");
        }
    }
}

/// What the contract says about every decision.
fn promises(before: Option<Status>, event: &Event, decision: &Decision) {
    if let Some(feedback) = &decision.feedback {
        assert!(feedback.chars().count() <= FEEDBACK_CHARS, "the feedback is too long");
    }
    // An answer given again after a long time may have lost its trips; only fresh answers are held to the rest.
    if event.id.is_some() || matches!(event.kind, Kind::ToolRequested { call: Some(_), .. }) {
        return;
    }
    assert!(decision.decision == Verdict::Allow || !decision.trips.is_empty(), "{decision:?} has no reason");
    if before == Some(Status::Halted) && event.kind.asks() {
        assert_eq!(decision.decision, Verdict::Halt, "a halt is latched; {event:?} got {decision:?}");
    }
}
