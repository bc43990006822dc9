//! Worker threads: each leases a job, runs it, and records the result.

use super::job::{InterruptedStep, LEASE_MS, LeasedJob, RunJob};
use super::record::LastRunResult;
use super::run_process::RunProcess;
use super::{RunService, Wakeup};
use flyball_store::StoreError;
use flyball_view::formatting::single_line;
use flyball_view::run_status::workflow_file_of;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a worker polls for jobs enqueued by other servers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often it checks whether its run has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often it renews its lease.
const RENEW_INTERVAL: Duration = Duration::from_millis(LEASE_MS / 4);
/// How long a run may take to stop at shutdown.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// Delay before a retry if another process runs the session, in milliseconds.
const BUSY_RETRY_MS: u64 = 1_000;
/// Number of crashes after which a job is given up.
const MAX_CRASHES: u32 = 5;
/// Delay after the first crash, in milliseconds; doubled after each further one.
const CRASH_BACKOFF_MS: u64 = 500;

/// The worker threads.
pub(crate) struct RunWorkers {
    runs: Arc<RunService>,
    threads: Vec<JoinHandle<()>>,
}

impl RunWorkers {
    /// Starts the workers.
    pub(crate) fn start(runs: &Arc<RunService>) -> Self {
        let count = if runs.config.folder.is_some() { runs.config.workers } else { 0 };
        let threads = (0..count).map(|number| {
            let runs = Arc::clone(runs);
            std::thread::spawn(move || RunWorker::new(&runs, number).run())
        });
        RunWorkers { runs: Arc::clone(runs), threads: threads.collect() }
    }

    /// Signals shutdown; runs are asked to stop.
    pub(crate) fn close(&self) {
        self.runs.wakeup.close();
    }

    /// Waits until all workers have returned their jobs.
    pub(crate) fn finish(self) {
        self.close();
        for thread in self.threads {
            // If a worker panicked, the lease on its job expires.
            let _ = thread.join();
        }
    }
}

/// One worker.
struct RunWorker<'a> {
    runs: &'a RunService,
    name: String,
}

impl<'a> RunWorker<'a> {
    fn new(runs: &'a RunService, number: usize) -> Self {
        // Unique across workers, including those on other machines with the same process id.
        let mut random = [0_u8; 8];
        let _ = getrandom::fill(&mut random);
        let name = format!("{}.{number}.{:016x}", std::process::id(), u64::from_le_bytes(random));
        RunWorker { runs, name }
    }

    fn wakeup(&self) -> &Wakeup {
        &self.runs.wakeup
    }

    fn run(&self) {
        let mut seen = 0;
        while !self.wakeup().is_closed() {
            match self.runs.jobs.lease(&self.name, |job| self.can_run(job)) {
                Ok(Some(leased)) => {
                    // If the store fails, the lease expires and the job is leased again.
                    let _ = self.run_job(leased);
                }
                // Also on a store error: there is nothing to do until it recovers.
                Ok(None) | Err(_) => self.wakeup().wait(&mut seen, POLL_INTERVAL),
            }
        }
    }

    /// Whether this server has the workflow of a job.
    fn can_run(&self, job: &RunJob) -> Result<bool, StoreError> {
        Ok(self.command(job)?.is_some())
    }

    /// The arguments of the process for a job; `None` if this server does not have its workflow. The file recorded in
    /// the session is not trusted: it must be in the registry.
    fn command(&self, job: &RunJob) -> Result<Option<Vec<OsString>>, StoreError> {
        let runs = self.runs;
        let begun = runs.store.records(&job.session, 1, 1)?.pop().is_some();
        let record = runs.records.find(&job.session)?;
        let mut args: Vec<OsString> = Vec::new();
        if begun {
            let file = workflow_file_of(runs.store.as_ref(), &job.session)?;
            if !file.is_some_and(|file| runs.registry.contains(&file)) {
                return Ok(None);
            }
            args.push("resume".into());
            args.extend(job.interrupted.map(|step| match step {
                InterruptedStep::Rerun => OsString::from("--rerun"),
                InterruptedStep::Skip => OsString::from("--skip"),
            }));
        } else {
            let Some(record) = &record else { return Ok(None) };
            let Ok(file) = runs.registry.find(&record.workflow) else { return Ok(None) };
            args.push("run".into());
            args.push(format!("--session={}", job.session).into());
            args.push(file.into());
        }
        args.push("--json".into());
        args.extend(runs.config.args.iter().cloned());
        let set = record.map(|record| record.set).unwrap_or_default();
        args.extend(set.iter().map(|(key, value)| OsString::from(format!("--set={key}={value}"))));
        if begun {
            args.extend([OsString::from("--"), OsString::from(&job.session)]);
        }
        Ok(Some(args))
    }

    fn run_job(&self, mut leased: LeasedJob) -> Result<(), StoreError> {
        let Some(args) = self.command(&leased.job)? else { return Ok(()) };
        let mut running = match RunProcess::spawn(&self.runs.config, &args) {
            Ok(running) => running,
            Err(error) => {
                return self.retry_crashed(&mut leased, format!("could not start the run: {error}"));
            }
        };
        let Some(status) = self.wait_for_exit(&mut leased, &mut running)? else {
            // The run did not stop in time: it still holds its session's lease, and another server waits for it.
            return self.runs.jobs.release(&mut leased, 0, 0).map(|_| ());
        };
        let stderr = running.stderr_tail();
        if stderr.contains("error[run_locked]") {
            return self.runs.jobs.release(&mut leased, BUSY_RETRY_MS, 0).map(|_| ());
        }
        if self.wakeup().is_closed() && !status.success() {
            return self.runs.jobs.release(&mut leased, 0, 0).map(|_| ());
        }
        match status.code() {
            Some(exit) => self.finish_job(&mut leased, Some(exit), &stderr),
            None => self.retry_crashed(&mut leased, signal_message(status)),
        }
    }

    /// Waits for a run to end and renews the lease meanwhile. `None` if it does not stop.
    fn wait_for_exit(
        &self,
        leased: &mut LeasedJob,
        running: &mut RunProcess,
    ) -> Result<Option<ExitStatus>, StoreError> {
        let (mut renewed, mut stopping_since) = (Instant::now(), None);
        loop {
            if let Ok(Some(status)) = running.try_wait() {
                return Ok(Some(status));
            }
            if renewed.elapsed() >= RENEW_INTERVAL {
                // Even if the job's lease is lost, the run holds its session's lease and continues.
                let _ = self.runs.jobs.renew(leased);
                renewed = Instant::now();
            }
            match stopping_since {
                None if self.wakeup().is_closed() => {
                    running.interrupt();
                    stopping_since = Some(Instant::now());
                }
                Some(when) if Instant::now().duration_since(when) > STOP_GRACE => return Ok(None),
                _ => {}
            }
            std::thread::park_timeout(EXIT_POLL_INTERVAL);
        }
    }

    /// Records the result of a run that cannot continue on its own: it finished, halted, waits for a person, or
    /// failed.
    fn finish_job(&self, leased: &mut LeasedJob, exit: Option<i32>, stderr: &str) -> Result<(), StoreError> {
        // Exit codes of a halt, a gate or a question are not errors.
        let stderr =
            if matches!(exit, Some(0 | 3 | 4 | 5)) { String::new() } else { single_line(stderr, 400) };
        let at = self.runs.records.now()?;
        self.runs.records.set_last_result(&leased.job.session, LastRunResult { exit, at, stderr })?;
        self.runs.jobs.complete(leased).map(|_| ())
    }

    /// Retries a run whose process crashed, up to the maximum.
    fn retry_crashed(&self, leased: &mut LeasedJob, message: String) -> Result<(), StoreError> {
        let crashes = leased.job.crashes + 1;
        if crashes >= MAX_CRASHES {
            return self.finish_job(leased, None, &format!("{message}; given up after {crashes} attempts"));
        }
        let wait = CRASH_BACKOFF_MS << crashes.min(10);
        self.runs.jobs.release(leased, wait, crashes).map(|_| ())
    }
}

fn signal_message(status: ExitStatus) -> String {
    format!("the run was ended by signal {}", status.signal().unwrap_or_default())
}
