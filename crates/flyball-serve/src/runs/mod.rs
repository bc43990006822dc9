//! Workflows through the server: who wants one writes an order, and any server of the store carries it out.
//!
//! An order is a note in the store (`order.rs`). A worker (`worker.rs`) takes it for a while, says again and again that it
//! still has it, and lets the same program run the workflow as a process of its own (`child.rs`), so that a run that
//! crashes takes nobody along. If the worker's server dies, the order is free again after a while and the next server goes
//! on: a run is durable, and a session is run by one process at a time whatever the orders say.

mod child;
mod library;
mod order;
mod record;
pub(crate) mod web;
mod worker;

use flyball::Verdict;
use flyball_journal::{Desk, StoreError};
use library::Library;
use order::{CutOff, Orders};
use record::Records;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use worker::Workers;

/// What the command says about workflows.
#[derive(Debug, Clone, Default)]
pub struct Workshop {
    /// Only the workflows of this folder are run; without one there are none.
    pub folder: Option<PathBuf>,
    /// How many runs this server carries out at a time.
    pub workers: usize,
    /// The program that runs them: ourselves.
    pub program: PathBuf,
    /// What it is told besides: the store and the policy.
    pub args: Vec<OsString>,
    /// Variables that it gets and that must not be seen in a list of processes.
    pub env: Vec<(OsString, OsString)>,
}

/// Orders that a run goes on which was started through a server, for whoever has spoken to it elsewhere: any server of the
/// store carries it out. `false` if no server has started it.
///
/// # Errors
/// If the store cannot be used.
pub fn order_resume(desk: &Arc<dyn Desk>, session: &str, by: &str) -> Result<bool, StoreError> {
    let Some(run) = flyball_view::whereabouts::run_of(desk.as_ref(), session)? else { return Ok(false) };
    if Records::new(Arc::clone(desk)).find(&run.session)?.is_none() {
        return Ok(false);
    }
    Orders::new(Arc::clone(desk)).place(&run.session, by, None)?;
    Ok(true)
}

/// The runs of a store.
pub(crate) struct Runs {
    workshop: Workshop,
    pub(crate) library: Library,
    pub(crate) orders: Orders,
    pub(crate) records: Records,
    desk: Arc<dyn Desk>,
    bell: Bell,
}

impl Runs {
    pub(crate) fn new(workshop: Workshop, desk: &Arc<dyn Desk>) -> Self {
        Runs {
            library: Library::new(workshop.folder.as_deref()),
            orders: Orders::new(Arc::clone(desk)),
            records: Records::new(Arc::clone(desk)),
            desk: Arc::clone(desk),
            bell: Bell::default(),
            workshop,
        }
    }

    /// Orders that a session goes on, and wakes whoever may do it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn place(&self, session: &str, by: &str, cut_off: Option<CutOff>) -> Result<(), StoreError> {
        self.orders.place(session, by, cut_off)?;
        self.bell.ring();
        Ok(())
    }

    /// A person has said something to a session: if it is a run of ours, it goes on by itself.
    pub(crate) fn heard(&self, session: &str, kind: &str, verdict: Verdict, by: &str) {
        let goes_on =
            matches!(kind, "human.released" | "confirmation.answered" | "user.message" | "person.message");
        if !goes_on || verdict >= Verdict::Block {
            return;
        }
        // The word itself stands. If the order cannot be written, the run can be taken up again by hand.
        let _ = self.ours(session).map(|run| run.map(|run| self.place(&run, by, None)));
    }

    /// The run that a session belongs to, if it was started by a server or from a workflow of ours.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn ours(&self, session: &str) -> Result<Option<String>, StoreError> {
        let run = flyball_view::whereabouts::run_of(self.desk.as_ref(), session)?;
        let Some(run) = run else { return Ok(None) };
        let known = self.library.holds(&run.file) || self.records.find(&run.session)?.is_some();
        Ok(known.then_some(run.session))
    }
}

/// Wakes the workers when there is something to do, and when they are to end.
#[derive(Debug, Default)]
struct Bell {
    /// How often it was rung.
    rung: Mutex<u64>,
    heard: Condvar,
    closed: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        *rung = rung.wrapping_add(1);
        drop(rung);
        self.heard.notify_all();
    }

    /// The work is over.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.ring();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits until it rings once more than it was heard, but not for longer than this: other servers ring elsewhere.
    fn wait(&self, heard: &mut u64, most: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.wait_timeout_while(rung, most, |rung| *rung == *heard);
        *heard = *waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
