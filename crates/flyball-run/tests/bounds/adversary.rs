//! Plays a workflow inside this process, without a store, and counts what every session of it took.

use flyball::{Kind, PolicySource, Preset, Verdict};
use flyball_run::engine::{Asker, Book, CutOff, Past, Run, Surroundings, Watcher};
use flyball_run::process::Cancel;
use flyball_run::workflow::Plan;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Random numbers from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// What a session took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) transitions: u64,
    pub(crate) turns: u64,
}

/// Counts what is accepted.
#[derive(Default)]
struct Counter(Mutex<BTreeMap<String, Taken>>);

impl Watcher for Counter {
    fn event(&self, past: &Past, _live: bool) {
        if past.decision.decision >= Verdict::Block {
            return;
        }
        let mut all = self.0.lock().unwrap();
        let taken = all.entry(past.event.session.clone()).or_default();
        match past.event.kind {
            Kind::TransitionRequested { .. } => taken.transitions += 1,
            Kind::TurnStarted {} => taken.turns += 1,
            _ => {}
        }
    }

    fn output(&self, _session: &str, _node: &str, _text: &str) {}

    fn note(&self, _text: &str) {}
}

struct Nobody;

impl Asker for Nobody {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        None
    }
}

/// Plays a workflow to whatever end; what each session took.
pub(crate) fn play(plan: Plan, what: &str) -> BTreeMap<String, Taken> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let counter = Arc::new(Counter::default());
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let source = PolicySource::new(layers, Preset::Workflow).unwrap();
    // A clock that goes on by a second with every look: no time budget is near.
    let clock = AtomicU64::new(1_000_000);
    let book = Book::bare(source, Arc::new(move || clock.fetch_add(1_000, Ordering::Relaxed)));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let files =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bounds-{}-{number}", std::process::id()));
    let around = Surroundings {
        book: Arc::new(book),
        watcher: Arc::clone(&counter) as Arc<dyn Watcher>,
        asker: Arc::new(Nobody),
        cancel: Cancel::new(),
        files: files.clone(),
        outputs: files.join("outputs"),
        env: Arc::new(|_| None),
        cut_off: CutOff::Ask,
        origin: None,
    };
    let run = Run::new(plan, "run", around).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    run.go("the adversary").unwrap_or_else(|failure| panic!("{what}: {failure}"));
    drop(run);
    let _ = std::fs::remove_dir_all(&files);
    let taken = counter.0.lock().unwrap().clone();
    assert!(taken.contains_key("run"), "{what}: nothing has happened");
    taken
}
