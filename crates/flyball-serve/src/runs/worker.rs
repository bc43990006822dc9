//! The workers of a server: each takes an order, lets it be carried out, and says how it went.

use super::child::Running;
use super::order::{Claimed, CutOff, LEASE_MS, Order};
use super::record::Last;
use super::{Bell, Runs};
use flyball_journal::StoreError;
use flyball_view::whereabouts::file_of;
use flyball_view::words::line;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a worker looks for orders that were placed elsewhere.
const LOOK: Duration = Duration::from_millis(500);
/// How often it looks whether its run has ended.
const TICK: Duration = Duration::from_millis(20);
/// How often it says that it still has its order.
const RENEW: Duration = Duration::from_millis(LEASE_MS / 4);
/// How long a run may take to stop, once the server is to stop.
const GRACE: Duration = Duration::from_secs(8);
/// How long an order waits if another process runs its session, in milliseconds.
const ELSEWHERE_MS: u64 = 1_000;
/// How often a run may be ended by a signal before it is given up.
const CRASHES: u32 = 5;
/// How long an order waits after the first crash, in milliseconds; twice as long after each one more.
const CRASH_MS: u64 = 500;

/// The threads of the workers.
pub(crate) struct Workers {
    runs: Arc<Runs>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts them.
    pub(crate) fn start(runs: &Arc<Runs>) -> Self {
        let count = if runs.workshop.folder.is_some() { runs.workshop.workers } else { 0 };
        let threads = (0..count).map(|number| {
            let runs = Arc::clone(runs);
            std::thread::spawn(move || Worker::new(&runs, number).work())
        });
        Workers { runs: Arc::clone(runs), threads: threads.collect() }
    }

    /// Tells them that the work is over; runs are asked to stop where they are.
    pub(crate) fn close(&self) {
        self.runs.bell.close();
    }

    /// Waits until all have put back what they had.
    pub(crate) fn finish(self) {
        self.close();
        for thread in self.threads {
            // One that has panicked had an order, which runs out by itself.
            let _ = thread.join();
        }
    }
}

/// One worker.
struct Worker<'a> {
    runs: &'a Runs,
    name: String,
}

impl<'a> Worker<'a> {
    fn new(runs: &'a Runs, number: usize) -> Self {
        // A name that no other worker has, also not one of another machine with the same process number.
        let mut random = [0_u8; 8];
        let _ = getrandom::fill(&mut random);
        let name = format!("{}.{number}.{:016x}", std::process::id(), u64::from_le_bytes(random));
        Worker { runs, name }
    }

    fn bell(&self) -> &Bell {
        &self.runs.bell
    }

    fn work(&self) {
        let mut heard = 0;
        while !self.bell().is_closed() {
            match self.runs.orders.claim(&self.name, |order| self.can(order)) {
                Ok(Some(claimed)) => {
                    // A store that fails lets the order run out: it is taken again, by us or by another.
                    let _ = self.carry_out(claimed);
                }
                // Without the store there is nothing to do, and it is looked for again.
                Ok(None) | Err(_) => self.bell().wait(&mut heard, LOOK),
            }
        }
    }

    /// Whether this server has the workflow of an order.
    fn can(&self, order: &Order) -> Result<bool, StoreError> {
        Ok(self.command(order)?.is_some())
    }

    /// What is to be started for an order; nothing if its workflow is none of this server's. What the session itself
    /// says is never trusted: its file must be one of the library.
    fn command(&self, order: &Order) -> Result<Option<Vec<OsString>>, StoreError> {
        let runs = self.runs;
        let begun = runs.desk.records(&order.session, 1, 1)?.pop().is_some();
        let record = runs.records.find(&order.session)?;
        let mut args: Vec<OsString> = Vec::new();
        if begun {
            let file = file_of(runs.desk.as_ref(), &order.session)?;
            if !file.is_some_and(|file| runs.library.holds(&file)) {
                return Ok(None);
            }
            args.push("resume".into());
            args.extend(order.cut_off.map(|what| match what {
                CutOff::Rerun => OsString::from("--rerun"),
                CutOff::Skip => OsString::from("--skip"),
            }));
        } else {
            let Some(record) = &record else { return Ok(None) };
            let Ok(file) = runs.library.find(&record.workflow) else { return Ok(None) };
            args.push("run".into());
            args.push(format!("--session={}", order.session).into());
            args.push(file.into());
        }
        args.push("--json".into());
        args.extend(runs.workshop.args.iter().cloned());
        let set = record.map(|record| record.set).unwrap_or_default();
        args.extend(set.iter().map(|(key, value)| OsString::from(format!("--set={key}={value}"))));
        if begun {
            args.extend([OsString::from("--"), OsString::from(&order.session)]);
        }
        Ok(Some(args))
    }

    fn carry_out(&self, mut claimed: Claimed) -> Result<(), StoreError> {
        let Some(args) = self.command(&claimed.order)? else { return Ok(()) };
        let mut running = match Running::start(&self.runs.workshop, &args) {
            Ok(running) => running,
            Err(error) => return self.crashed(&mut claimed, format!("it could not be started: {error}")),
        };
        let Some(status) = self.watch(&mut claimed, &mut running)? else {
            // It did not stop in time: it holds its session by itself, and another server waits for it.
            return self.runs.orders.put_back(&mut claimed, 0, 0).map(|_| ());
        };
        let said = running.complaints();
        if said.contains("error[run_elsewhere]") {
            return self.runs.orders.put_back(&mut claimed, ELSEWHERE_MS, 0).map(|_| ());
        }
        if self.bell().is_closed() && !status.success() {
            return self.runs.orders.put_back(&mut claimed, 0, 0).map(|_| ());
        }
        match status.code() {
            Some(exit) => self.ended(&mut claimed, Some(exit), &said),
            None => self.crashed(&mut claimed, signal(status)),
        }
    }

    /// Waits for a run to end, and says now and then that its order is ours. Nothing if it would not stop.
    fn watch(&self, claimed: &mut Claimed, running: &mut Running) -> Result<Option<ExitStatus>, StoreError> {
        let (mut renewed, mut asked) = (Instant::now(), None);
        loop {
            if let Ok(Some(status)) = running.ended() {
                return Ok(Some(status));
            }
            if renewed.elapsed() >= RENEW {
                // Lost or not, the run holds its session itself, and goes on as long as it does.
                let _ = self.runs.orders.renew(claimed);
                renewed = Instant::now();
            }
            match asked {
                None if self.bell().is_closed() => {
                    running.interrupt();
                    asked = Some(Instant::now());
                }
                Some(when) if Instant::now().duration_since(when) > GRACE => return Ok(None),
                _ => {}
            }
            std::thread::park_timeout(TICK);
        }
    }

    /// It came to where it cannot go on by itself: its end, a halt, a person, or a complaint.
    fn ended(&self, claimed: &mut Claimed, exit: Option<i32>, said: &str) -> Result<(), StoreError> {
        // A halt, a gate or a question is no complaint.
        let said = if matches!(exit, Some(0 | 3 | 4 | 5)) { String::new() } else { line(said, 400) };
        let at = self.runs.records.now()?;
        self.runs.records.went(&claimed.order.session, Last { exit, at, said })?;
        self.runs.orders.finish(claimed).map(|_| ())
    }

    /// Its process was ended by somebody: it is tried again, but not for ever.
    fn crashed(&self, claimed: &mut Claimed, what: String) -> Result<(), StoreError> {
        let crashes = claimed.order.crashes + 1;
        if crashes >= CRASHES {
            return self.ended(claimed, None, &format!("{what}; given up after {crashes} times"));
        }
        let wait = CRASH_MS << crashes.min(10);
        self.runs.orders.put_back(claimed, wait, crashes).map(|_| ())
    }
}

fn signal(status: ExitStatus) -> String {
    format!("its process was ended by signal {}", status.signal().unwrap_or_default())
}
