//! `flyball run` and `flyball resume`: run a workflow until it ends, halts or asks a person.

mod budget_gauges;
mod final_screen;
mod live_view;
mod output_tail;
mod run_printer;
mod run_state;
mod screen_page;
mod step_lines;
mod suggest_limit;
mod terminal_prompt;
mod trip_evidence;

use crate::args::{PolicyArgs, ResumeArgs, RunArgs, StoreArgs};
use crate::caller_check;
use crate::clock;
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use crate::policy_loader;
use crate::store;
use crate::workflow_file;
use final_screen::FinalScreen;
use flyball::PolicySource;
use flyball::policy::JournalPolicy;
use flyball_runner::engine::{EventSink, InterruptedStepPolicy, RunEnd, RunOptions, WorkflowRun};
use flyball_runner::process::CancelToken;
use flyball_runner::workflow::WorkflowPlan;
use flyball_runner::workflow::spec::WorkspaceSpec;
use flyball_store::{
    AdminStore, LargeOutputs, PolicyChangeMode, Recorder, RecorderOptions, SessionFilter, StoreAddress,
};
use flyball_view::run_status::workflow_file_of;
use run_printer::RunPrinter;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of names tried to find a free one.
const MAX_NAMES: usize = 100_000;

impl From<flyball_runner::RunError> for CliError {
    fn from(failure: flyball_runner::RunError) -> Self {
        CliError::new(&failure.code, failure.location, failure.message, failure.help)
    }
}

/// Parameters of a new or resumed run.
struct RunRequest<'a> {
    file: PathBuf,
    session: String,
    store: &'a StoreArgs,
    policy: &'a PolicyArgs,
    json: bool,
    on_interrupted: InterruptedStepPolicy,
}

/// Folders of a run.
struct RunDirs {
    /// The copy of the workspace and the lock of the running process.
    run_dir: PathBuf,
    /// The large outputs of all sessions in the store.
    outputs_dir: PathBuf,
}

/// `flyball run`.
pub(crate) fn start(args: &RunArgs) -> Result<Exit, CliError> {
    let file = workflow_file(&args.workflow)?;
    let plan = read_plan(&file)?;
    if args.keep_nothing {
        let session = args.session.clone().unwrap_or_else(|| plan.name.clone());
        let request = RunRequest {
            file,
            session,
            store: &args.store,
            policy: &args.policy,
            json: args.json,
            on_interrupted: InterruptedStepPolicy::Ask,
        };
        let source = policy_source(&plan, &args.policy)?;
        let book = EventSink::ephemeral(source.clone(), run_clock());
        let files = std::env::temp_dir().join(format!("flyball-run-{}", std::process::id()));
        let dirs = RunDirs { outputs_dir: files.join("outputs"), run_dir: files };
        let exit = execute(&request, plan, (Arc::new(book), source), &dirs, None);
        let files = dirs.run_dir;
        // Nothing is stored; leftovers are in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&files);
        return exit;
    }
    let address = store::store_address(&args.store)?;
    let admin_store = address.open()?;
    let session = match &args.session {
        // A session that was claimed but never started can be reused.
        Some(name) if admin_store.load(name)?.is_some_and(|loaded| loaded.head.seq > 0) => {
            let what = format!("session '{name}' already exists");
            let help = format!("resume it with `flyball resume {name}`, or choose another name");
            return Err(CliError::new("run_exists", "", what, help));
        }
        Some(name) => name.clone(),
        None => free_session_name(admin_store.as_ref(), &plan.name)?,
    };
    let request = RunRequest {
        file,
        session,
        store: &args.store,
        policy: &args.policy,
        json: args.json,
        on_interrupted: InterruptedStepPolicy::Ask,
    };
    run_stored(&request, plan, &address, admin_store)
}

/// `flyball resume`.
pub(crate) fn resume(args: &ResumeArgs) -> Result<Exit, CliError> {
    let on_interrupted = match (args.rerun, args.skip) {
        (true, _) => InterruptedStepPolicy::Rerun,
        (_, true) => InterruptedStepPolicy::Skip,
        _ => InterruptedStepPolicy::Ask,
    };
    let admin_store = store::open(&args.store)?;
    let Some(file) = workflow_file_of(admin_store.as_ref(), &args.session)? else {
        match admin_store.load(&args.session)? {
            None => return Err(store::unknown_session(admin_store.as_ref(), &args.session)?),
            Some(loaded) if loaded.head.seq == 0 => {
                let what = format!("session '{}' has no recorded events yet", args.session);
                return Err(CliError::new("run_not_started", "", what, "start it with `flyball run`"));
            }
            Some(_) => {}
        }
        let what = format!("session '{}' was not started by `flyball run`", args.session);
        return Err(CliError::new("not_a_run", "", what, "continue it with the program that started it"));
    };
    let request = RunRequest {
        file,
        session: args.session.clone(),
        store: &args.store,
        policy: &args.policy,
        json: args.json,
        on_interrupted,
    };
    let address = store::store_address(&args.store)?;
    run_stored(&request, read_plan(&request.file)?, &address, admin_store)
}

/// Continues a session after an operator's input, if it is a run that no other process is running.
pub(crate) fn continue_run(
    session: &str,
    store: &StoreArgs,
    policy: &PolicyArgs,
    json: bool,
) -> Result<Option<Exit>, CliError> {
    let admin_store = store::open(store)?;
    let Some(file) = workflow_file_of(admin_store.as_ref(), session)? else { return Ok(None) };
    let request = RunRequest {
        file,
        session: session.to_owned(),
        store,
        policy,
        json,
        on_interrupted: InterruptedStepPolicy::Ask,
    };
    let address = store::store_address(store)?;
    match run_stored(&request, read_plan(&request.file)?, &address, admin_store) {
        Err(failure) if failure.diagnostics.iter().any(|diagnostic| diagnostic.code == "run_locked") => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn run_stored(
    request: &RunRequest<'_>,
    plan: WorkflowPlan,
    address: &StoreAddress,
    admin_store: Arc<dyn AdminStore>,
) -> Result<Exit, CliError> {
    let begun = admin_store.load(&request.session)?.is_some_and(|loaded| loaded.head.seq > 0);
    let files =
        if begun { address.existing_run_dir(&request.session) } else { address.run_folder(&request.session) };
    let dirs = RunDirs { run_dir: files?, outputs_dir: address.outputs_dir()? };
    store::remove_orphaned_outputs(&LargeOutputs::in_dir(&dirs.outputs_dir));
    let source = policy_source(&plan, request.policy)?;
    // A person who starts or resumes a run accepts the policy it is started with.
    let accepts = caller_check::require_person(&request.session).is_ok();
    let policy_changes = if accepts { PolicyChangeMode::Accept } else { PolicyChangeMode::TightenOnly };
    let options = RecorderOptions { policy_changes, ..RecorderOptions::default() };
    let recorder = Recorder::new(Arc::clone(&admin_store), source.clone(), options);
    let deliveries = DeliveryThread::start(&recorder);
    let book = Arc::new(EventSink::durable(recorder, run_clock())?);
    let exit = execute(request, plan, (book, source), &dirs, Some(Arc::clone(&admin_store)));
    deliveries.finish();
    // After a checkpoint a plain file copy is a complete backup. Failure is harmless.
    let _ = admin_store.checkpoint();
    exit
}

fn execute(
    request: &RunRequest<'_>,
    plan: WorkflowPlan,
    (book, source): (Arc<EventSink>, PolicySource),
    dirs: &RunDirs,
    admin_store: Option<Arc<dyn AdminStore>>,
) -> Result<Exit, CliError> {
    let files = &dirs.run_dir;
    std::fs::create_dir_all(files)?;
    let cancel = CancelToken::new();
    let lines = Arc::new(RunPrinter::new(&request.session, source, request.json)?);
    let (stop, weak_lines) = (cancel.clone(), Arc::downgrade(&lines));
    // Fails only if a handler is already set, by an earlier run in this process.
    let _ = ctrlc::set_handler(move || {
        stop.cancel();
        if let Some(lines) = weak_lines.upgrade() {
            lines.mark_stopping();
        }
    });
    let around = RunOptions {
        listener: Arc::clone(&lines) as Arc<dyn flyball_runner::engine::RunListener>,
        human_input: terminal_prompt::prompter(
            &request.session,
            request.json,
            &lines,
            &cancel,
            admin_store.clone(),
        ),
        sink: Arc::clone(&book),
        cancel,
        run_dir: files.to_owned(),
        outputs: dirs.outputs_dir.clone(),
        env: Arc::new(|name| std::env::var(name).ok()),
        on_interrupted_step: request.on_interrupted,
        workflow_file: Some(request.file.clone()),
    };
    let (goal, workspace) = (plan.goal.clone(), workspace_dir(&plan, files));
    let run = WorkflowRun::new(plan, &request.session, around)?;
    lines.begin(&request.session, goal.as_deref(), book.policy());
    let holder = format!("process {} since {}", std::process::id(), clock::now().unwrap_or_default());
    let end = run.execute(&holder);
    lines.finish();
    let end = end?;
    let (session, store, json) = (&request.session, request.store, request.json);
    let admin_store = admin_store.as_deref();
    final_screen::print_final_screen(&FinalScreen {
        session,
        end: &end,
        lines: &lines,
        admin_store,
        store,
        workspace: &workspace,
        json,
    })?;
    Ok(exit_of(&end))
}

/// The working folder of a run's nodes.
fn workspace_dir(plan: &WorkflowPlan, files: &Path) -> PathBuf {
    match &plan.workspace {
        None => plan.folder.clone(),
        Some(WorkspaceSpec::Folder(folder)) => plan.folder.join(folder),
        Some(WorkspaceSpec::Copy { .. }) => files.join("workspace"),
    }
}

fn exit_of(end: &RunEnd) -> Exit {
    use flyball_runner::engine::RunStop;
    match end {
        RunEnd::Done => Exit::Success,
        RunEnd::Failed | RunEnd::Stopped(RunStop::Failed(_) | RunStop::Interrupted | RunStop::Skipped) => {
            Exit::Error
        }
        RunEnd::Stopped(RunStop::Halted(_)) => Exit::Stopped,
        RunEnd::Stopped(RunStop::Gate(_)) => Exit::GateFailed,
        RunEnd::Stopped(
            RunStop::Blocked { .. } | RunStop::AwaitingInput(_) | RunStop::StepOutcomeUnknown { .. },
        ) => Exit::Waiting,
    }
}

fn run_clock() -> flyball_runner::engine::Clock {
    Arc::new(|| clock::now().unwrap_or_default())
}

fn workflow_file(path: &Path) -> Result<PathBuf, CliError> {
    let file = workflow_file::workflow_path(path);
    std::path::absolute(&file).map_err(|error| {
        CliError::new("cannot_read", file.display().to_string(), error.to_string(), "check the path")
    })
}

fn read_plan(file: &Path) -> Result<WorkflowPlan, CliError> {
    let text = policy_loader::read_text_file(file)?;
    let shown = file.strip_prefix(std::env::current_dir()?).unwrap_or(file).display().to_string();
    workflow_file::read_plan(&text, &shown, file)
}

/// The policy of a run.
fn policy_source(plan: &WorkflowPlan, args: &PolicyArgs) -> Result<PolicySource, CliError> {
    let (layers, preset) = policy_loader::layers_for_run(plan.policy.as_ref(), args)?;
    let source = PolicySource::new(layers, preset)?;
    policy_loader::report_ignored(source.ignored());
    // A run is resumed from its events, so their payloads are always kept.
    let journal = JournalPolicy { payload: None, ..source.base().journal.clone() };
    Ok(source.with_journal(&journal))
}

fn free_session_name(admin_store: &dyn AdminStore, name: &str) -> Result<String, CliError> {
    let taken: BTreeSet<String> = admin_store
        .list_sessions(SessionFilter::All, MAX_NAMES)?
        .into_iter()
        .map(|head| head.session)
        .collect();
    let free = (1_u64..).map(|number| format!("{name}-{number}")).find(|name| !taken.contains(name));
    Ok(free.unwrap_or_else(|| name.to_owned()))
}
