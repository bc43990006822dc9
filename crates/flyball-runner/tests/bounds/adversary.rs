//! Runs a workflow in process, without a store, and counts the events of every session.

use flyball::{EventKind, PolicySource, Preset, Verdict};
use flyball_runner::engine::{
    EventSink, HumanInput, InterruptedStepPolicy, RecordedEvent, RunListener, RunOptions, WorkflowRun,
};
use flyball_runner::process::CancelToken;
use flyball_runner::workflow::WorkflowPlan;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Random numbers from a seed (SplitMix64).
pub(crate) struct AdversaryRng(pub(crate) u64);

impl AdversaryRng {
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

/// Counts of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionCounts {
    pub(crate) transitions: u64,
    pub(crate) turns: u64,
}

/// Counts accepted events.
#[derive(Default)]
struct CountingListener(Mutex<BTreeMap<String, SessionCounts>>);

impl RunListener for CountingListener {
    fn on_event(&self, past: &RecordedEvent, _live: bool) {
        if past.decision.decision >= Verdict::Block {
            return;
        }
        let mut all = self.0.lock().unwrap();
        let taken = all.entry(past.event.session.clone()).or_default();
        match past.event.kind {
            EventKind::TransitionRequested { .. } => taken.transitions += 1,
            EventKind::TurnStarted {} => taken.turns += 1,
            _ => {}
        }
    }

    fn on_output(&self, _session: &str, _node: &str, _text: &str) {}

    fn on_note(&self, _text: &str) {}
}

struct NoHumanInput;

impl HumanInput for NoHumanInput {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        None
    }
}

/// Runs a workflow to any end and returns the counts per session.
pub(crate) fn run_and_count(plan: WorkflowPlan, what: &str) -> BTreeMap<String, SessionCounts> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let counter = Arc::new(CountingListener::default());
    let layers: Vec<_> = plan.policy.iter().cloned().collect();
    let source = PolicySource::new(layers, Preset::Workflow).unwrap();
    // The clock advances by a second per call, so no time budget is near.
    let clock = AtomicU64::new(1_000_000);
    let book = EventSink::ephemeral(source, Arc::new(move || clock.fetch_add(1_000, Ordering::Relaxed)));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let files =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bounds-{}-{number}", std::process::id()));
    let around = RunOptions {
        sink: Arc::new(book),
        listener: Arc::clone(&counter) as Arc<dyn RunListener>,
        human_input: Arc::new(NoHumanInput),
        cancel: CancelToken::new(),
        run_dir: files.clone(),
        outputs: files.join("outputs"),
        env: Arc::new(|_| None),
        on_interrupted_step: InterruptedStepPolicy::Ask,
        workflow_file: None,
    };
    let run = WorkflowRun::new(plan, "run", around).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    run.execute("the adversary").unwrap_or_else(|failure| panic!("{what}: {failure}"));
    drop(run);
    let _ = std::fs::remove_dir_all(&files);
    let taken = counter.0.lock().unwrap().clone();
    assert!(taken.contains_key("run"), "{what}: no event was recorded");
    taken
}
