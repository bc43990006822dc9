//! Background delivery of effects, so that a decision never waits for a webhook.

use crate::error::CliError;
use flyball_store::{FailpointHook, OutboxDispatcher, Recorder};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Maximum number of outbox messages delivered per batch.
const BATCH_SIZE: usize = 64;

/// The delivery thread; `None` if the policy has no destinations.
pub(crate) struct DeliveryThread(Option<(Sender<()>, JoinHandle<()>)>);

impl DeliveryThread {
    /// Starts the thread, beginning with messages left by an earlier process.
    pub(crate) fn start(recorder: &Recorder) -> Self {
        let journal = std::sync::Arc::clone(recorder.store());
        let dispatcher = OutboxDispatcher::new(journal, &recorder.policy().journal, FailpointHook::default());
        if dispatcher.has_no_deliveries() {
            return DeliveryThread(None);
        }
        let (nudge, nudged) = channel();
        let thread = std::thread::spawn(move || {
            deliver_due(&dispatcher);
            while nudged.recv().is_ok() {
                while nudged.try_recv().is_ok() {}
                deliver_due(&dispatcher);
            }
        });
        DeliveryThread(Some((nudge, thread)))
    }

    /// Wakes the thread after a decision, which may have queued messages.
    pub(crate) fn wake(&self) {
        if let Some((nudge, _)) = &self.0 {
            // If the thread is gone, the messages stay in the outbox for the next process.
            let _ = nudge.send(());
        }
    }

    /// Waits until every due message has been tried once.
    pub(crate) fn finish(self) {
        if let Some((nudge, thread)) = self.0 {
            drop(nudge);
            let _ = thread.join();
        }
    }
}

/// Delivers due messages. Failed deliveries are retried later; store errors are reported on stderr.
fn deliver_due(dispatcher: &OutboxDispatcher) {
    loop {
        match dispatcher.deliver_due(BATCH_SIZE) {
            Ok(counts) if counts.done + counts.retried + counts.dead > 0 => {}
            Ok(_) => return,
            Err(error) => return CliError::from(error).print(),
        }
    }
}
