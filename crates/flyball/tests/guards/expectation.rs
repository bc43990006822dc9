//! Expectations on the decisions of a case, and the fixture files of cases.

use super::{Block, EventHistory, Halt, HistoryRun, Observe, Warn};
use flyball::{Decision, SessionPhase, Trip, TripSeverity, Verdict};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Expectations on the decisions of a case.
#[derive(Clone)]
pub(crate) struct Expectation {
    kind: ExpectationKind,
    guard: &'static str,
    reason: &'static str,
    severity: TripSeverity,
    at: Option<usize>,
    count: Option<(u64, u64)>,
    message: Option<String>,
    feedback: Option<String>,
    halt_reason: Option<&'static str>,
    events: Option<Vec<u64>>,
    state: Option<SessionPhase>,
}

#[derive(Clone, Copy, PartialEq)]
enum ExpectationKind {
    Trips,
    Quiet,
    Never,
    Silent,
}

fn expect(
    what: ExpectationKind,
    guard: &'static str,
    reason: &'static str,
    severity: TripSeverity,
) -> Expectation {
    Expectation {
        kind: what,
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

/// The guard trips with this reason and severity. Without `.at`, the position of the first such trip does not matter.
pub(crate) fn trips(guard: &'static str, reason: &'static str, severity: TripSeverity) -> Expectation {
    expect(ExpectationKind::Trips, guard, reason, severity)
}

/// The guard does not trip, not even in observe mode.
pub(crate) fn quiet(guard: &'static str) -> Expectation {
    expect(ExpectationKind::Quiet, guard, "", TripSeverity::Observe)
}

/// The guard may warn, but never reaches this severity.
pub(crate) fn never(guard: &'static str, severity: TripSeverity) -> Expectation {
    expect(ExpectationKind::Never, guard, "", severity)
}

/// No guard trips: every decision is a plain allow.
pub(crate) fn silent() -> Expectation {
    expect(ExpectationKind::Silent, "", "", TripSeverity::Observe)
}

impl Expectation {
    /// The first such trip occurs at this event, counted from 1.
    pub(crate) fn at(mut self, number: usize) -> Self {
        self.at = Some(number);
        self
    }

    /// The counted value and the limit.
    pub(crate) fn count(mut self, count: u64, limit: u64) -> Self {
        self.count = Some((count, limit));
        self
    }

    /// The exact message for a person.
    pub(crate) fn message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }

    /// The exact feedback for the model.
    pub(crate) fn feedback(mut self, text: impl Into<String>) -> Self {
        self.feedback = Some(text.into());
        self
    }

    /// The coarse reason of a halt.
    pub(crate) fn halt_reason(mut self, halt_reason: &'static str) -> Self {
        self.halt_reason = Some(halt_reason);
        self
    }

    /// The evidence events of the trip.
    pub(crate) fn events(mut self, events: &[u64]) -> Self {
        self.events = Some(events.to_vec());
        self
    }

    /// The phase of the session afterwards.
    pub(crate) fn state(mut self, state: SessionPhase) -> Self {
        self.state = Some(state);
        self
    }

    fn assert_holds(&self, name: &str, run: &HistoryRun) {
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
        match self.kind {
            ExpectationKind::Silent => {
                assert!(run.decisions.iter().all(|decision| decision.trips.is_empty()), "{seen}");
            }
            ExpectationKind::Quiet => assert!(mine.is_empty(), "{} must not trip: {seen}", self.guard),
            ExpectationKind::Never => {
                let worst = mine.iter().map(|(_, trip)| trip.severity).max().unwrap_or_default();
                assert!(worst < self.severity, "{} must not reach {:?}: {seen}", self.guard, self.severity);
            }
            ExpectationKind::Trips => {
                let found = mine
                    .iter()
                    .find(|(_, trip)| trip.reason == self.reason && trip.severity == self.severity);
                let Some((at, trip)) = found else {
                    panic!("{} {} {:?} is missing: {seen}", self.guard, self.reason, self.severity)
                };
                self.assert_trip(*at, trip, run, &seen);
            }
        }
    }

    fn assert_trip(&self, at: usize, trip: &Trip, run: &HistoryRun, seen: &str) {
        let decision = run.at(at);
        assert_eq!(self.at.unwrap_or(at), at, "sequence number of the event: {seen}");
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

/// One case: a self-explanatory name, the history, and the expectations.
pub(crate) struct GuardCase {
    pub(crate) name: &'static str,
    pub(crate) history: EventHistory,
    pub(crate) expect: Vec<Expectation>,
}

/// Creates a case.
pub(crate) fn case<const N: usize>(
    name: &'static str,
    history: EventHistory,
    expect: [Expectation; N],
) -> GuardCase {
    GuardCase { name, history, expect: expect.to_vec() }
}

/// Runs a history and checks the decisions.
pub(crate) fn check(name: &str, history: &EventHistory, expect: &[Expectation]) -> HistoryRun {
    let run = history.run();
    for expected in expect {
        expected.assert_holds(name, &run);
    }
    run
}

/// Checks all cases of a table, which must have at least three.
pub(crate) fn check_all(cases: &[GuardCase]) {
    assert!(cases.len() >= 3, "a guard has at least three cases of each kind");
    for case in cases {
        check(case.name, &case.history, &case.expect);
    }
}

/// Runs one history under each mode of a guard and checks the severity of the first trip above a warning.
///
/// `history` receives the keys of the guard: `{"mode": …}`. `at` is the event that the mode `block` must block.
pub(crate) fn check_modes(guard: &'static str, history: impl Fn(Value) -> EventHistory, at: usize) {
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
            decision.state == SessionPhase::Halted,
            verdict == Verdict::Halt,
            "{guard} in mode {mode}: {}",
            decision.to_json()
        );
    }
}

fn fixture_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards")
}

/// Compares the fixture files of a guard with its first case of each kind; `FLYBALL_BLESS=1` rewrites them.
///
/// `<guard>.jsonl` are the events of the case that must trip, `<guard>.decisions.jsonl` its decisions, one per line,
/// `<guard>.quiet.jsonl` the events of the case that must not.
pub(crate) fn check_fixtures(guard: &str, loud: &GuardCase, quiet: &GuardCase) {
    let (loud, quiet) = (loud.history.run(), quiet.history.run());
    let decisions: Vec<String> = loud.decisions.iter().map(Decision::to_json).collect();
    for (suffix, lines) in [("", &loud.lines), (".quiet", &quiet.lines), (".decisions", &decisions)] {
        let path = fixture_dir().join(format!("{guard}{suffix}.jsonl"));
        let text = lines.join("\n") + "\n";
        if std::env::var_os("FLYBALL_BLESS").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(fixture_dir()).expect("cannot create the fixture directory");
            std::fs::write(&path, &text).expect("cannot write a fixture");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{} differs from the events of the case; review the difference, then run with FLYBALL_BLESS=1",
            path.display()
        );
    }
}
