//! Cost of the runner: a cycle of two empty nodes, run for ten thousand steps.
//!
//! LangGraph runs the same cycle in `bench/langgraph/circle.py`; `cargo xtask bench runner` prints both.

use flyball::policy::PolicyLayer;
use flyball::{PolicySource, Preset};
use flyball_runner::engine::{
    EventSink, HumanInput, InterruptedStepPolicy, RecordedEvent, RunEnd, RunListener, RunOptions, WorkflowRun,
};
use flyball_runner::process::CancelToken;
use flyball_runner::workflow::{WorkflowPlan, parse_workflow};
use flyball_store::{Recorder, RecorderOptions, StoreAddress};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type RunnerBenchResult<T> = Result<T, Box<dyn std::error::Error>>;

const CYCLE_WORKFLOW: &str = "
name: circle
policy: {preset: off, budgets: {loop: {iterations: ITERATIONS}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: a}
";

/// Counts the steps.
#[derive(Default)]
struct StepCounter(AtomicU64);

impl RunListener for StepCounter {
    fn on_event(&self, past: &RecordedEvent, _live: bool) {
        if past.event.kind.name() == "transition.requested" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn on_output(&self, _session: &str, _node: &str, _text: &str) {}
    fn on_note(&self, _text: &str) {}
}

struct NoAnswers;

impl HumanInput for NoAnswers {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        None
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["nothing", steps] => bench_cycle(None, steps),
        ["everything", store, steps] => bench_cycle(Some(store), steps),
        ["share", workflow, store, files] => bench_share(Path::new(workflow), store, Path::new(files)),
        _ => Err(
            "usage: flyball-bench-runner nothing STEPS | everything STORE STEPS | share WORKFLOW STORE FILES"
                .into(),
        ),
    };
    match done {
        Ok(line) => {
            // Ignore a closed pipe.
            let _ = writeln!(std::io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cycle with or without a store, until the loop budget is used up.
fn bench_cycle(store: Option<&str>, steps: &str) -> RunnerBenchResult<String> {
    let steps: u64 = steps.parse()?;
    let text = CYCLE_WORKFLOW.replace("ITERATIONS", &(steps / 2).to_string());
    let folder = std::env::current_dir()?;
    let plan = parse_workflow(&text, "circle.yaml", &folder).map_err(|wrong| format!("{wrong:?}"))?;
    let sink = event_sink(&plan, store)?;
    let count = Arc::new(StepCounter::default());
    // A stored run locks a file: put it beside the store, not into the current directory.
    let files = store.map_or_else(std::env::temp_dir, |store| {
        PathBuf::from(format!("{}-files", store.trim_start_matches("sqlite:")))
    });
    let around = run_context(sink, Arc::clone(&count), files);
    let run = WorkflowRun::new(plan, "circle", around)?;
    let began = Instant::now();
    let end = run.execute("bench")?;
    let took = began.elapsed();
    if !matches!(end, RunEnd::Stopped(_)) {
        return Err(format!("unexpected end of the cycle: {end:?}").into());
    }
    let walked = count.0.load(Ordering::Relaxed);
    let nanos = u64::try_from(took.as_nanos())? / walked.max(1);
    Ok(format!("{walked} steps, {nanos} ns a step"))
}

/// Share of the governor and the event store in the time of a whole run.
fn bench_share(workflow: &Path, store: &str, files: &Path) -> RunnerBenchResult<String> {
    let text = std::fs::read_to_string(workflow)?;
    let folder = std::path::absolute(workflow.parent().unwrap_or_else(|| Path::new(".")))?;
    let plan = parse_workflow(&text, &workflow.display().to_string(), &folder)
        .map_err(|wrong| format!("{wrong:?}"))?;
    std::fs::create_dir_all(files)?;
    let sink = event_sink(&plan, Some(store))?;
    let around = run_context(Arc::clone(&sink), Arc::default(), std::path::absolute(files)?);
    let run = WorkflowRun::new(plan, "share", around)?;
    let began = Instant::now();
    let end = run.execute("bench")?;
    let took = began.elapsed();
    if end != RunEnd::Done {
        return Err(format!("unexpected end of the run: {end:?}").into());
    }
    let permille = sink.overhead().as_micros() * 1_000 / took.as_micros().max(1);
    let (spent, whole) = (sink.overhead().as_millis(), took.as_millis());
    Ok(format!("governor and journal: {spent} of {whole} ms, {permille} of 1000"))
}

/// Event sink for a plan.
fn event_sink(plan: &WorkflowPlan, store: Option<&str>) -> RunnerBenchResult<Arc<EventSink>> {
    let layers: Vec<PolicyLayer> = plan.policy.iter().cloned().collect();
    let source = PolicySource::new(layers, Preset::Workflow).map_err(|wrong| format!("{wrong:?}"))?;
    let began = Instant::now();
    let clock: flyball_runner::engine::Clock =
        Arc::new(move || 1_763_200_000_000 + u64::try_from(began.elapsed().as_millis()).unwrap_or(0));
    Ok(Arc::new(match store {
        None => EventSink::ephemeral(source, clock),
        Some(store) => {
            let journal = StoreAddress::parse(store, Path::new("."))?.open()?;
            EventSink::durable(Recorder::new(journal, source, RecorderOptions::default()), clock)?
        }
    }))
}

fn run_context(sink: Arc<EventSink>, count: Arc<StepCounter>, files: PathBuf) -> RunOptions {
    RunOptions {
        sink,
        listener: count,
        human_input: Arc::new(NoAnswers),
        cancel: CancelToken::new(),
        outputs: files.join("outputs"),
        run_dir: files,
        env: Arc::new(|name| std::env::var(name).ok()),
        on_interrupted_step: InterruptedStepPolicy::Ask,
        workflow_file: None,
    }
}
