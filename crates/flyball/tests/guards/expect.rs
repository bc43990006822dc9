//! What a case expects of the decisions, and the files that cases are kept in.

use super::{Block, Halt, History, Observe, Run, Warn};
use flyball::{Decision, Severity, Status, Trip, Verdict};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a case expects of the decisions.
#[derive(Clone)]
pub(crate) struct Expect {
    what: What,
    guard: &'static str,
    reason: &'static str,
    severity: Severity,
    at: Option<usize>,
    count: Option<(u64, u64)>,
    message: Option<String>,
    feedback: Option<String>,
    halt_reason: Option<&'static str>,
    events: Option<Vec<u64>>,
    state: Option<Status>,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Trips,
    Quiet,
    Never,
    Silent,
}

fn expect(what: What, guard: &'static str, reason: &'static str, severity: Severity) -> Expect {
    Expect {
        what,
        guard,
        reason,
        severity,
        at: None,
        count: None,
        message: None,
        feedback: None,
        halt_reason: None,
        events: None,
        state: None,
    }
}

/// The guard trips with this reason and severity. Without `.at` the place of the first such trip does not matter.
pub(crate) fn trips(guard: &'static str, reason: &'static str, severity: Severity) -> Expect {
    expect(What::Trips, guard, reason, severity)
}

/// The guard says nothing at all, not even to an observer.
pub(crate) fn quiet(guard: &'static str) -> Expect {
    expect(What::Quiet, guard, "", Severity::Observe)
}

/// The guard may warn, but never reaches this severity.
pub(crate) fn never(guard: &'static str, severity: Severity) -> Expect {
    expect(What::Never, guard, "", severity)
}

/// No guard says anything: every decision is a plain allow.
pub(crate) fn silent() -> Expect {
    expect(What::Silent, "", "", Severity::Observe)
}

impl Expect {
    /// The first such trip comes with this event, counted from 1.
    pub(crate) fn at(mut self, number: usize) -> Self {
        self.at = Some(number);
        self
    }

    /// What was counted and what it was compared with.
    pub(crate) fn count(mut self, count: u64, limit: u64) -> Self {
        self.count = Some((count, limit));
        self
    }

    /// The sentence for a person, word for word.
    pub(crate) fn message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }

    /// The text for the model, word for word.
    pub(crate) fn feedback(mut self, text: impl Into<String>) -> Self {
        self.feedback = Some(text.into());
        self
    }

    /// The coarse reason of a halt.
    pub(crate) fn because(mut self, halt_reason: &'static str) -> Self {
        self.halt_reason = Some(halt_reason);
        self
    }

    /// The events that the trip rests on.
    pub(crate) fn events(mut self, events: &[u64]) -> Self {
        self.events = Some(events.to_vec());
        self
    }

    /// What the session does from then on.
    pub(crate) fn state(mut self, state: Status) -> Self {
        self.state = Some(state);
        self
    }

    fn holds(&self, name: &str, run: &Run) {
        let seen: Vec<String> = run
            .decisions
            .iter()
            .enumerate()
            .flat_map(|(at, decision)| decision.trips.iter().map(move |trip| (at + 1, trip)))
            .map(|(at, trip)| {
                format!("  {at}: {} {} {:?}: {}", trip.guard, trip.reason, trip.severity, trip.message)
            })
            .collect();
        let seen = format!("{name}\nall trips:\n{}", seen.join("\n"));
        let mine = run.trips_of(self.guard);
        match self.what {
            What::Silent => {
                assert!(run.decisions.iter().all(|decision| decision.trips.is_empty()), "{seen}");
            }
            What::Quiet => assert!(mine.is_empty(), "{} must say nothing: {seen}", self.guard),
            What::Never => {
                let worst = mine.iter().map(|(_, trip)| trip.severity).max().unwrap_or_default();
                assert!(worst < self.severity, "{} must not reach {:?}: {seen}", self.guard, self.severity);
            }
            What::Trips => {
                let found = mine
                    .iter()
                    .find(|(_, trip)| trip.reason == self.reason && trip.severity == self.severity);
                let Some((at, trip)) = found else {
                    panic!("{} {} {:?} is missing: {seen}", self.guard, self.reason, self.severity)
                };
                self.compare(*at, trip, run, &seen);
            }
        }
    }

    fn compare(&self, at: usize, trip: &Trip, run: &Run, seen: &str) {
        let decision = run.at(at);
        assert_eq!(self.at.unwrap_or(at), at, "the number of the event: {seen}");
        if let Some(count) = self.count {
            assert_eq!((trip.count, trip.limit), count, "count and limit: {seen}");
        }
        if let Some(message) = &self.message {
            assert_eq!(&trip.message, message, "{seen}");
        }
        if let Some(feedback) = &self.feedback {
            assert_eq!(decision.feedback.as_ref(), Some(feedback), "{seen}");
        }
        if let Some(reason) = self.halt_reason {
            assert_eq!(trip.halt_reason.map(flyball::HaltReason::as_str), Some(reason), "{seen}");
        }
        if let Some(events) = &self.events {
            assert_eq!(&trip.evidence.events, events, "evidence: {seen}");
        }
        if let Some(state) = self.state {
            assert_eq!(decision.state, state, "{seen}");
        }
    }
}

/// One case: a name that a stranger understands, what happens, and what is expected.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) history: History,
    pub(crate) expect: Vec<Expect>,
}

/// A case.
pub(crate) fn case<const N: usize>(name: &'static str, history: History, expect: [Expect; N]) -> Case {
    Case { name, history, expect: expect.to_vec() }
}

/// A history in, the expected decisions out.
pub(crate) fn check(name: &str, history: &History, expect: &[Expect]) -> Run {
    let run = history.run();
    for expected in expect {
        expected.holds(name, &run);
    }
    run
}

/// Checks all cases of a table, and that there are at least three.
pub(crate) fn check_all(cases: &[Case]) {
    assert!(cases.len() >= 3, "a guard has three cases or more each way");
    for case in cases {
        check(case.name, &case.history, &case.expect);
    }
}

/// Runs one history under each mode of a guard and checks the severity of the first trip that is more than a warning.
///
/// `history` is given the keys of the guard: `{"mode": …}`. `at` is the event that a mode `block` must answer.
pub(crate) fn modes(guard: &'static str, history: impl Fn(Value) -> History, at: usize) {
    for (mode, severity, verdict) in [
        ("observe", Some(Observe), Verdict::Allow),
        ("warn", Some(Warn), Verdict::Warn),
        ("block", Some(Block), Verdict::Block),
        ("halt", Some(Halt), Verdict::Halt),
        ("off", None, Verdict::Allow),
    ] {
        let run = history(json!({"mode": mode})).run();
        let decision = run.at(at);
        let found = decision.trips.iter().filter(|trip| trip.guard == guard).map(|trip| trip.severity).max();
        assert_eq!(found, severity, "{guard} in mode {mode}: {}", decision.to_json());
        assert_eq!(decision.decision, verdict, "{guard} in mode {mode}: {}", decision.to_json());
        assert_eq!(
            decision.state == Status::Halted,
            verdict == Verdict::Halt,
            "{guard} in mode {mode}: {}",
            decision.to_json()
        );
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards")
}

/// Keeps the files of a guard in step with its first case each way; `FLYBALL_BLESS=1` writes them anew.
///
/// `<guard>.jsonl` are the events of the case that must trip, `<guard>.decisions.jsonl` its decisions, one a line,
/// `<guard>.quiet.jsonl` the events of the case that must not.
pub(crate) fn keep_fixtures(guard: &str, loud: &Case, quiet: &Case) {
    let (loud, quiet) = (loud.history.run(), quiet.history.run());
    let decisions: Vec<String> = loud.decisions.iter().map(Decision::to_json).collect();
    for (suffix, lines) in [("", &loud.lines), (".quiet", &quiet.lines), (".decisions", &decisions)] {
        let path = fixtures().join(format!("{guard}{suffix}.jsonl"));
        let text = lines.join("\n") + "\n";
        if std::env::var_os("FLYBALL_BLESS").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(fixtures()).expect("the folder of fixtures can be made");
            std::fs::write(&path, &text).expect("a fixture can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{} is not what the case sends; look at the difference, then run with FLYBALL_BLESS=1",
            path.display()
        );
    }
}
