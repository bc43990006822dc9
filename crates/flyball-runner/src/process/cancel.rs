//! Cancellation token that stops a run from any thread.

use std::io::{PipeReader, PipeWriter, Result, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Cancels all work that holds a clone of it. Cancellation is permanent.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<CancelShared>);

#[derive(Default)]
struct CancelShared {
    state: Mutex<CancelState>,
    on_cancel: Condvar,
}

#[derive(Default)]
struct CancelState {
    cancelled: bool,
    next_waiter_id: u64,
    /// Wakes waiters blocked in `poll` by dropping the write end of their pipe.
    waiters: Vec<(u64, PipeWriter)>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Cancels all work under this token, now and later.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        state.waiters.clear();
        self.0.on_cancel.notify_all();
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Waits for a duration or until cancelled; returns whether it was cancelled.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        let mut state = self.lock();
        while !state.cancelled {
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.on_cancel.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A file descriptor for `poll` that becomes readable (end of file) on cancellation.
    pub(super) fn waiter(&self) -> Result<CancelWaiter> {
        let (reader, writer) = pipe()?;
        let mut state = self.lock();
        let number = state.next_waiter_id;
        state.next_waiter_id += 1;
        if !state.cancelled {
            state.waiters.push((number, writer));
        }
        drop(state);
        Ok(CancelWaiter { cancel: self.clone(), id: number, reader })
    }

    /// A panic while the lock is held would leave the state consistent, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, CancelState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_cancelled() { "Cancel(cancelled)" } else { "Cancel" })
    }
}

/// Registration of one waiter; removed on drop.
pub(super) struct CancelWaiter {
    cancel: CancelToken,
    id: u64,
    reader: PipeReader,
}

impl CancelWaiter {
    /// The descriptor to poll.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for CancelWaiter {
    fn drop(&mut self) {
        self.cancel.lock().waiters.retain(|(number, _)| *number != self.id);
    }
}
