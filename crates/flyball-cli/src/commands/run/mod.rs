//! `flyball run` and `flyball resume`: a workflow to its end, a halt, or a question to a person.

mod asker;
mod ending;
mod evidence;
mod gauges;
mod lines;
mod page;
mod raise;
mod so_far;
mod steps;
mod tail;
mod view;

use crate::args::{PolicyArgs, Resume, Run as RunArgs, StoreArgs};
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::person;
use crate::store;
use crate::workflow;
use ending::Ending;
use flyball::PolicySource;
use flyball::policy::JournalPolicy;
use flyball_journal::{Address, Desk, Outputs, PolicyChanges, Recorder, RecorderOptions, Which};
use flyball_run::engine::{Book, CutOff, End, Run, Surroundings};
use flyball_run::process::Cancel;
use flyball_run::workflow::Plan;
use flyball_run::workflow::spec::Workspace;
use flyball_view::whereabouts::file_of;
use lines::Lines;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many names are looked at to find a free one.
const KNOWN: usize = 100_000;

impl From<flyball_run::Failure> for Failure {
    fn from(failure: flyball_run::Failure) -> Self {
        Failure::new(&failure.code, failure.place, failure.what, failure.advice)
    }
}

/// What a run needs to know, new or taken up again.
struct Order<'a> {
    file: PathBuf,
    session: String,
    store: &'a StoreArgs,
    policy: &'a PolicyArgs,
    json: bool,
    cut_off: CutOff,
}

/// Where the files of a run are.
struct Places {
    /// The copy of the workspace, and the lock of whoever is at it.
    files: PathBuf,
    /// The large outputs of all sessions of the store.
    outputs: PathBuf,
}

/// `flyball run`.
pub(crate) fn start(args: &RunArgs) -> Result<Exit, Failure> {
    let file = workflow_file(&args.workflow)?;
    let plan = plan(&file)?;
    if args.keep_nothing {
        let session = args.session.clone().unwrap_or_else(|| plan.name.clone());
        let order = Order {
            file,
            session,
            store: &args.store,
            policy: &args.policy,
            json: args.json,
            cut_off: CutOff::Ask,
        };
        let source = source(&plan, &args.policy)?;
        let book = Book::bare(source.clone(), clock());
        let files = std::env::temp_dir().join(format!("flyball-run-{}", std::process::id()));
        let places = Places { outputs: files.join("outputs"), files };
        let exit = walk(&order, plan, (Arc::new(book), source), &places, None);
        let files = places.files;
        // Nothing is kept, and what cannot be removed is in the system's own folder for such things.
        let _ = std::fs::remove_dir_all(&files);
        return exit;
    }
    let address = store::address(&args.store)?;
    let desk = address.open()?;
    let session = match &args.session {
        // One that was claimed and never began is as good as none.
        Some(name) if desk.load(name)?.is_some_and(|loaded| loaded.head.seq > 0) => {
            let what = format!("there is a session '{name}' already");
            let advice = format!("take it up again with `flyball resume {name}`, or choose another name");
            return Err(Failure::new("run_exists", "", what, advice));
        }
        Some(name) => name.clone(),
        None => free_name(desk.as_ref(), &plan.name)?,
    };
    let order = Order {
        file,
        session,
        store: &args.store,
        policy: &args.policy,
        json: args.json,
        cut_off: CutOff::Ask,
    };
    kept(&order, plan, &address, desk)
}

/// `flyball resume`.
pub(crate) fn resume(args: &Resume) -> Result<Exit, Failure> {
    let cut_off = match (args.rerun, args.skip) {
        (true, _) => CutOff::Rerun,
        (_, true) => CutOff::Skip,
        _ => CutOff::Ask,
    };
    let desk = store::open(&args.store)?;
    let Some(file) = file_of(desk.as_ref(), &args.session)? else {
        match desk.load(&args.session)? {
            None => return Err(store::unknown(desk.as_ref(), &args.session)?),
            Some(loaded) if loaded.head.seq == 0 => {
                let what = format!("nothing of session '{}' was recorded yet", args.session);
                return Err(Failure::new("run_not_begun", "", what, "start it with `flyball run`"));
            }
            Some(_) => {}
        }
        let what = format!("session '{}' was not started by `flyball run`", args.session);
        return Err(Failure::new("run_not_a_run", "", what, "whoever started it must go on with it"));
    };
    let order = Order {
        file,
        session: args.session.clone(),
        store: &args.store,
        policy: &args.policy,
        json: args.json,
        cut_off,
    };
    let address = store::address(&args.store)?;
    kept(&order, plan(&order.file)?, &address, desk)
}

/// Goes on with a session after a person's word, if it is a run that nobody else is at.
pub(crate) fn go_on(
    session: &str,
    store: &StoreArgs,
    policy: &PolicyArgs,
    json: bool,
) -> Result<Option<Exit>, Failure> {
    let desk = store::open(store)?;
    let Some(file) = file_of(desk.as_ref(), session)? else { return Ok(None) };
    let order = Order { file, session: session.to_owned(), store, policy, json, cut_off: CutOff::Ask };
    let address = store::address(store)?;
    match kept(&order, plan(&order.file)?, &address, desk) {
        Err(failure) if failure.complaints.iter().any(|complaint| complaint.code == "run_elsewhere") => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn kept(order: &Order<'_>, plan: Plan, address: &Address, desk: Arc<dyn Desk>) -> Result<Exit, Failure> {
    let begun = desk.load(&order.session)?.is_some_and(|loaded| loaded.head.seq > 0);
    let files =
        if begun { address.known_run_folder(&order.session) } else { address.run_folder(&order.session) };
    let places = Places { files: files?, outputs: address.outputs_folder()? };
    store::sweep_outputs(&Outputs::in_folder(&places.outputs));
    let source = source(&plan, order.policy)?;
    // A person who starts or resumes a run wants the policy that it is started with.
    let accepts = person::speaks(&order.session).is_ok();
    let policy_changes = if accepts { PolicyChanges::Accept } else { PolicyChanges::TightenOnly };
    let options = RecorderOptions { policy_changes, ..RecorderOptions::default() };
    let recorder = Recorder::new(Arc::clone(&desk), source.clone(), options);
    let deliveries = Deliveries::start(&recorder);
    let book = Arc::new(Book::kept(recorder, clock())?);
    let exit = walk(order, plan, (book, source), &places, Some(Arc::clone(&desk)));
    deliveries.finish();
    // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
    let _ = desk.checkpoint();
    exit
}

fn walk(
    order: &Order<'_>,
    plan: Plan,
    (book, source): (Arc<Book>, PolicySource),
    places: &Places,
    desk: Option<Arc<dyn Desk>>,
) -> Result<Exit, Failure> {
    let files = &places.files;
    std::fs::create_dir_all(files)?;
    let cancel = Cancel::new();
    let lines = Arc::new(Lines::new(&order.session, source, order.json)?);
    let (stop, told) = (cancel.clone(), Arc::downgrade(&lines));
    // A second run in one process has its handler already; nothing else can be wrong with it.
    let _ = ctrlc::set_handler(move || {
        stop.cancel();
        if let Some(lines) = told.upgrade() {
            lines.stopping();
        }
    });
    let around = Surroundings {
        watcher: Arc::clone(&lines) as Arc<dyn flyball_run::engine::Watcher>,
        asker: asker::asker(&order.session, order.json, &lines, &cancel, desk.clone()),
        book: Arc::clone(&book),
        cancel,
        files: files.to_owned(),
        outputs: places.outputs.clone(),
        env: Arc::new(|name| std::env::var(name).ok()),
        cut_off: order.cut_off,
        origin: Some(order.file.clone()),
    };
    let (goal, workspace) = (plan.goal.clone(), workspace(&plan, files));
    let run = Run::new(plan, &order.session, around)?;
    lines.begin(&order.session, goal.as_deref(), book.policy());
    let holder = format!("process {} since {}", std::process::id(), clock::now().unwrap_or_default());
    let end = run.go(&holder);
    lines.finish();
    let end = end?;
    let (session, store, json) = (&order.session, order.store, order.json);
    let desk = desk.as_deref();
    ending::tell(&Ending { session, end: &end, lines: &lines, desk, store, workspace: &workspace, json })?;
    Ok(exit_of(&end))
}

/// The folder that the nodes of a run work in.
fn workspace(plan: &Plan, files: &Path) -> PathBuf {
    match &plan.workspace {
        None => plan.folder.clone(),
        Some(Workspace::Folder(folder)) => plan.folder.join(folder),
        Some(Workspace::Copy { .. }) => files.join("workspace"),
    }
}

fn exit_of(end: &End) -> Exit {
    use flyball_run::engine::Stop;
    match end {
        End::Done => Exit::Done,
        End::Failed | End::Stopped(Stop::Failed(_) | Stop::Interrupted | Stop::Skipped) => Exit::Error,
        End::Stopped(Stop::Halted(_)) => Exit::Stopped,
        End::Stopped(Stop::Gate(_)) => Exit::Gate,
        End::Stopped(Stop::Blocked { .. } | Stop::Asks(_) | Stop::CutOff { .. }) => Exit::Waits,
    }
}

fn clock() -> flyball_run::engine::Clock {
    Arc::new(|| clock::now().unwrap_or_default())
}

fn workflow_file(path: &Path) -> Result<PathBuf, Failure> {
    let file = workflow::file(path);
    std::path::absolute(&file).map_err(|error| {
        Failure::new("cannot_read", file.display().to_string(), error.to_string(), "check the path")
    })
}

fn plan(file: &Path) -> Result<Plan, Failure> {
    let text = load::read(file)?;
    let shown = file.strip_prefix(std::env::current_dir()?).unwrap_or(file).display().to_string();
    workflow::plan(&text, &shown, file)
}

/// The policy of a run.
fn source(plan: &Plan, args: &PolicyArgs) -> Result<PolicySource, Failure> {
    let (layers, preset) = load::layers_of_run(plan.policy.as_ref(), args)?;
    let source = PolicySource::new(layers, preset)?;
    load::report(source.ignored());
    // A run is taken up again from its events: they are kept whole.
    let journal = JournalPolicy { payload: None, ..source.base().journal.clone() };
    Ok(source.with_journal(&journal))
}

fn free_name(desk: &dyn Desk, name: &str) -> Result<String, Failure> {
    let taken: BTreeSet<String> =
        desk.heads(Which::All, KNOWN)?.into_iter().map(|head| head.session).collect();
    let free = (1_u64..).map(|number| format!("{name}-{number}")).find(|name| !taken.contains(name));
    Ok(free.unwrap_or_else(|| name.to_owned()))
}
