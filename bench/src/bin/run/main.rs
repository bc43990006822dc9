//! What the runner costs: a circle of two nodes that do nothing, walked ten thousand steps.
//!
//! The same circle is walked by LangGraph in `bench/langgraph/circle.py`; `cargo xtask bench run` prints both.

use flyball::policy::Layer;
use flyball::{PolicySource, Preset};
use flyball_journal::{Address, Recorder, RecorderOptions};
use flyball_run::engine::{Asker, Book, CutOff, End, Past, Run, Surroundings, Watcher};
use flyball_run::process::Cancel;
use flyball_run::workflow::{Plan, read};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const CIRCLE: &str = "
name: circle
policy: {preset: off, budgets: {loop: {iterations: ITERATIONS}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: a}
";

/// Counts the steps.
#[derive(Default)]
struct Count(AtomicU64);

impl Watcher for Count {
    fn event(&self, past: &Past, _live: bool) {
        if past.event.kind.name() == "transition.requested" {
            self.0.fetch_add(1, Ordering::Relaxed);
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

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["nothing", steps] => circle(None, steps),
        ["everything", store, steps] => circle(Some(store), steps),
        ["share", workflow, store, files] => share(Path::new(workflow), store, Path::new(files)),
        _ => Err(
            "usage: flyball-bench-run nothing STEPS | everything STORE STEPS | share WORKFLOW STORE FILES"
                .into(),
        ),
    };
    match done {
        Ok(line) => {
            // If nobody reads it, there is nobody to tell.
            let _ = writeln!(std::io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Walks the circle, keeping nothing or everything; ends when the budget of the loop is used up.
fn circle(store: Option<&str>, steps: &str) -> Outcome<String> {
    let steps: u64 = steps.parse()?;
    let text = CIRCLE.replace("ITERATIONS", &(steps / 2).to_string());
    let folder = std::env::current_dir()?;
    let plan = read(&text, "circle.yaml", &folder).map_err(|wrong| format!("{wrong:?}"))?;
    let book = book(&plan, store)?;
    let count = Arc::new(Count::default());
    // A run that is kept locks a file: beside its store, and not wherever somebody happens to stand.
    let files = store.map_or_else(std::env::temp_dir, |store| {
        PathBuf::from(format!("{}-files", store.trim_start_matches("sqlite:")))
    });
    let around = surroundings(book, Arc::clone(&count), files);
    let run = Run::new(plan, "circle", around)?;
    let began = Instant::now();
    let end = run.go("bench")?;
    let took = began.elapsed();
    if !matches!(end, End::Stopped(_)) {
        return Err(format!("the circle ended otherwise: {end:?}").into());
    }
    let walked = count.0.load(Ordering::Relaxed);
    let nanos = u64::try_from(took.as_nanos())? / walked.max(1);
    Ok(format!("{walked} steps, {nanos} ns a step"))
}

/// The share of the governor and the journal in the time of a whole run.
fn share(workflow: &Path, store: &str, files: &Path) -> Outcome<String> {
    let text = std::fs::read_to_string(workflow)?;
    let folder = std::path::absolute(workflow.parent().unwrap_or_else(|| Path::new(".")))?;
    let plan = read(&text, &workflow.display().to_string(), &folder).map_err(|wrong| format!("{wrong:?}"))?;
    std::fs::create_dir_all(files)?;
    let book = book(&plan, Some(store))?;
    let around = surroundings(Arc::clone(&book), Arc::default(), std::path::absolute(files)?);
    let run = Run::new(plan, "share", around)?;
    let began = Instant::now();
    let end = run.go("bench")?;
    let took = began.elapsed();
    if end != End::Done {
        return Err(format!("the run ended otherwise: {end:?}").into());
    }
    let permille = book.spent().as_micros() * 1_000 / took.as_micros().max(1);
    let (spent, whole) = (book.spent().as_millis(), took.as_millis());
    Ok(format!("governor and journal: {spent} of {whole} ms, {permille} of 1000"))
}

/// Where the events of a plan go.
fn book(plan: &Plan, store: Option<&str>) -> Outcome<Arc<Book>> {
    let layers: Vec<Layer> = plan.policy.iter().cloned().collect();
    let source = PolicySource::new(layers, Preset::Workflow).map_err(|wrong| format!("{wrong:?}"))?;
    let began = Instant::now();
    let clock: flyball_run::engine::Clock =
        Arc::new(move || 1_763_200_000_000 + u64::try_from(began.elapsed().as_millis()).unwrap_or(0));
    Ok(Arc::new(match store {
        None => Book::bare(source, clock),
        Some(store) => {
            let journal = Address::read(store, Path::new("."))?.open()?;
            Book::kept(Recorder::new(journal, source, RecorderOptions::default()), clock)?
        }
    }))
}

fn surroundings(book: Arc<Book>, count: Arc<Count>, files: PathBuf) -> Surroundings {
    Surroundings {
        book,
        watcher: count,
        asker: Arc::new(Nobody),
        cancel: Cancel::new(),
        outputs: files.join("outputs"),
        files,
        env: Arc::new(|name| std::env::var(name).ok()),
        cut_off: CutOff::Ask,
        origin: None,
    }
}
