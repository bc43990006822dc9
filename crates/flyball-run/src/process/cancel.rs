//! The button that stops a run, from any thread, at once.

use std::io::{PipeReader, PipeWriter, Result, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Cancels whatever was given a clone of it. Once cancelled it stays so.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Button>);

#[derive(Default)]
struct Button {
    state: Mutex<State>,
    pressed: Condvar,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    next: u64,
    /// Whoever waits in `poll` is woken by the end of its pipe being dropped.
    alarms: Vec<(u64, PipeWriter)>,
}

impl Cancel {
    /// A button that nobody has pressed.
    #[must_use]
    pub fn new() -> Self {
        Cancel::default()
    }

    /// Stops everything that runs or waits under it, now and later.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        state.alarms.clear();
        self.0.pressed.notify_all();
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Waits for this long, or until it is cancelled; says whether it was cancelled.
    #[must_use]
    pub fn wait(&self, how_long: Duration) -> bool {
        let begun = Instant::now();
        let mut state = self.lock();
        while !state.cancelled {
            let left = how_long.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.pressed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Something to put into `poll`: readable (at its end) once it is cancelled.
    pub(super) fn alarm(&self) -> Result<Alarm> {
        let (reader, writer) = pipe()?;
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if !state.cancelled {
            state.alarms.push((number, writer));
        }
        drop(state);
        Ok(Alarm { cancel: self.clone(), number, reader })
    }

    /// Nobody panics while holding the lock; if somebody did, the state would still be whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_cancelled() { "Cancel(cancelled)" } else { "Cancel" })
    }
}

/// One waiter's pipe; it is forgotten when dropped.
pub(super) struct Alarm {
    cancel: Cancel,
    number: u64,
    reader: PipeReader,
}

impl Alarm {
    /// The end to poll.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.cancel.lock().alarms.retain(|(number, _)| *number != self.number);
    }
}
