//! Engine: executes a run from its first event until it ends, halts, or waits for a person.

mod event_sink;
mod executor;
mod fork;
mod orphans;
mod outcome;
mod person_messages;
mod replay_log;
mod run_context;
mod run_lease;
mod signals;
mod stall;
mod step;
mod turn;
mod vars;

pub use event_sink::{Clock, EventSink, RecordedEvent};
pub(crate) use executor::event_usage;
pub use orphans::RUN_DIR_VAR;
pub use outcome::{NodeOutcome, NodeStatus, RunStop};
pub(crate) use person_messages::{PersonMessage, record_delivered};
pub(crate) use replay_log::must_stop;
pub use replay_log::{HumanInput, ReplayLog, RunListener};
pub use run_context::{EnvLookup, InterruptedStepPolicy, RunContext, RunOptions};
pub use run_lease::holder_is_gone;
pub(crate) use step::{Effect, GIVEN_UP, Recovery, RunOnce, Step};
pub(crate) use turn::Turn;
pub use vars::TemplateVars;

use crate::run_error::RunError;
use crate::workflow::{DONE, WorkflowPlan};
use executor::{Arrival, WorkflowExecutor};
use flyball::{Event, EventKind};
use flyball_store::Lease;
use run_lease::RunLease;
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// How often a run renews its lease.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEnd {
    /// Reached `done`.
    Done,
    /// Reached `failed`.
    Failed,
    /// Stopped before its end.
    Stopped(RunStop),
}

/// A run of a workflow in one session.
pub struct WorkflowRun {
    context: Arc<RunContext>,
    session: String,
}

impl WorkflowRun {
    /// Prepares a new or resumed run.
    ///
    /// # Errors
    /// If a provider, tool, gate or the workspace is unavailable.
    pub fn new(plan: WorkflowPlan, session: &str, options: RunOptions) -> Result<Self, RunError> {
        let context = Arc::new(RunContext::new(plan, session, options)?);
        Ok(WorkflowRun { context, session: session.to_owned() })
    }

    /// Executes the run from the start, or from where it stopped. `holder` must be unique across all runs.
    ///
    /// # Errors
    /// If another process holds the session, or its history cannot be read.
    pub fn execute(&self, holder: &str) -> Result<RunEnd, RunError> {
        let lease = RunLease::acquire(&self.context.sink, &self.context.run_dir, &self.session, holder)?;
        if let Some(killed) = lease.as_ref().map(|lease| lease.orphans_killed).filter(|killed| *killed > 0) {
            let note = format!("killed {killed} programs left over from the interrupted run");
            self.context.listener.on_note(&note);
        }
        let heartbeat = lease.as_ref().map(|lease| Heartbeat::start(&self.context, lease.lease()));
        let end = self.execute_leased();
        drop(heartbeat);
        if let Some(lease) = lease {
            lease.release(&self.context.sink);
        }
        end
    }

    fn execute_leased(&self) -> Result<RunEnd, RunError> {
        let log = ReplayLog::open(&self.context.sink, &self.context.listener, &self.session)?;
        if log.was_resumed() {
            crate::tools::remove_stale_temp_files(&self.context.workspace);
        }
        let plan = &self.context.plan;
        let mut vars = TemplateVars::default();
        plan.vars.iter().for_each(|(name, value)| vars.set(name.clone(), value.clone()));
        vars.set("goal", json!(plan.goal));
        vars.set("session", json!(self.session));
        vars.set("workspace", json!(self.context.workspace.display().to_string()));
        let mut executor = WorkflowExecutor::new(&self.context, log, vars);
        let arrival = executor.record_session_start().and_then(|()| executor.run_from(&plan.start, None));
        let ended =
            arrival.and_then(|arrival| executor.record_session_end(arrival.outcome()).map(|()| arrival));
        let end = match ended {
            Ok(Arrival::End(name)) if name == DONE => RunEnd::Done,
            Ok(_) => RunEnd::Failed,
            Err(stop) => match executor.log.flush() {
                Ok(()) => RunEnd::Stopped(stop),
                Err(other) => RunEnd::Stopped(other),
            },
        };
        if matches!(end, RunEnd::Done | RunEnd::Failed) {
            // Files that cannot be removed now are removed by a later cleanup.
            let _ = self.context.outputs.end_session();
        }
        match end {
            RunEnd::Stopped(RunStop::Failed(failure)) => Err(failure),
            end => Ok(end),
        }
    }
}

impl WorkflowExecutor {
    /// Records the last event of a session.
    fn record_session_end(&mut self, outcome: &str) -> Result<(), RunStop> {
        let kind = EventKind::SessionEnded { outcome: Some(outcome.to_owned()) };
        self.log.record(Event::new("", kind)).map(drop)
    }

    /// Records the first event of a session.
    fn record_session_start(&mut self) -> Result<(), RunStop> {
        let plan = &self.context.plan;
        let kind = EventKind::SessionStarted {
            policy: None,
            workflow: Some(plan.graph.clone()),
            parent: None,
            labels: plan.labels.clone(),
            goal: plan.goal.clone(),
            reopen: false,
        };
        let mut event = Event::new("", kind);
        event.extra.insert("name".to_owned(), json!(plan.name));
        if let Some(file) = &self.context.workflow_file {
            event.extra.insert("file".to_owned(), json!(file.display().to_string()));
        }
        self.record_event(event).map(drop)
    }
}

/// Renews the lease periodically; cancels the run if the session was taken over.
struct Heartbeat {
    stop: mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Heartbeat {
    fn start(context: &Arc<RunContext>, lease: Lease) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let context = Arc::clone(context);
        let thread = std::thread::spawn(move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(HEARTBEAT_INTERVAL) {
                if !RunLease::renew(&context.sink, &lease) {
                    context.listener.on_note("the session was taken over by another process");
                    context.cancel.cancel();
                    return;
                }
            }
        });
        Heartbeat { stop, thread: Some(thread) }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            // A panicked heartbeat thread needs no handling here.
            let _ = thread.join();
        }
    }
}
