//! Performing effects beside the main work: whoever waits for a decision does not wait for a webhook.

use crate::fail::Failure;
use flyball_journal::{Courier, Probe, Recorder};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// How many errands are performed before the next look at whether to go on.
const AT_ONCE: usize = 64;

/// A thread that performs errands; there is none if the policy sends nothing anywhere.
pub(crate) struct Deliveries(Option<(Sender<()>, JoinHandle<()>)>);

impl Deliveries {
    /// Begins with what an earlier process has left.
    pub(crate) fn start(recorder: &Recorder) -> Self {
        let journal = std::sync::Arc::clone(recorder.journal());
        let courier = Courier::new(journal, &recorder.policy().journal, Probe::default());
        if courier.is_idle() {
            return Deliveries(None);
        }
        let (nudge, nudged) = channel();
        let thread = std::thread::spawn(move || {
            perform(&courier);
            while nudged.recv().is_ok() {
                while nudged.try_recv().is_ok() {}
                perform(&courier);
            }
        });
        Deliveries(Some((nudge, thread)))
    }

    /// Something was decided: there may be errands.
    pub(crate) fn nudge(&self) {
        if let Some((nudge, _)) = &self.0 {
            // If the thread is gone the errands wait in the store for the next process.
            let _ = nudge.send(());
        }
    }

    /// Waits until everything that is due was tried once.
    pub(crate) fn finish(self) {
        if let Some((nudge, thread)) = self.0 {
            drop(nudge);
            let _ = thread.join();
        }
    }
}

/// Performs what is due. What fails is tried again by whoever comes next; a store that fails is told.
fn perform(courier: &Courier) {
    loop {
        match courier.deliver(AT_ONCE) {
            Ok(told) if told.done + told.again + told.dead > 0 => {}
            Ok(_) => return,
            Err(error) => return Failure::from(error).print(),
        }
    }
}
