//! An answer on its way to the client: each piece goes on as it comes, and a copy is looked at.
//!
//! Only the last piece waits: until what the answer said is recorded, so that the client's next request finds it.

use super::draft::{Draft, Tap};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Records an answer; in a thread that may wait for the disk.
pub(super) type Record = Box<dyn FnOnce(Draft) -> JoinHandle<()> + Send + Sync>;

/// A body that is passed on. If it breaks off, what came before reaches the client first.
pub(super) struct Passed {
    inner: Incoming,
    broken: Option<hyper::Error>,
}

impl From<Incoming> for Passed {
    fn from(inner: Incoming) -> Self {
        Passed { inner, broken: None }
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Err(error))) => {
                // Whoever has to wait writes out what it has; on an error it would throw that away.
                self.broken = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer that is passed on and looked at.
pub(super) struct Tapped {
    inner: Passed,
    /// Until the answer is complete.
    watch: Option<(Tap, Record)>,
    /// How many bytes are still to come, if the head said so.
    left: Option<u64>,
    /// The last piece, while its answer is being recorded.
    held: Option<(Frame<Bytes>, JoinHandle<()>)>,
    /// The recording at the end of an answer that did not say itself that it is complete.
    ending: Option<JoinHandle<()>>,
}

impl Tapped {
    /// Passes on `inner`.
    pub(super) fn new(inner: Incoming, tap: Tap, record: Record) -> Self {
        let left = inner.size_hint().exact();
        Tapped { inner: inner.into(), watch: Some((tap, record)), left, held: None, ending: None }
    }

    /// Takes a piece; begins to record if it was the last.
    fn see(&mut self, bytes: &[u8]) -> Option<JoinHandle<()>> {
        let left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.left = left;
        let (tap, _) = self.watch.as_mut()?;
        if tap.push(bytes) || left == Some(0) { self.record() } else { None }
    }

    /// Records what was answered, unless that was done.
    fn record(&mut self) -> Option<JoinHandle<()>> {
        let (tap, record) = self.watch.take()?;
        tap.finish().map(record)
    }
}

impl Body for Tapped {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some((frame, mut task)) = self.held.take() {
            if Pin::new(&mut task).poll(context).is_pending() {
                self.held = Some((frame, task));
                return Poll::Pending;
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(mut task) = self.ending.take() {
            if Pin::new(&mut task).poll(context).is_pending() {
                self.ending = Some(task);
                return Poll::Pending;
            }
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let task = frame.data_ref().cloned().and_then(|bytes| self.see(&bytes));
                let Some(task) = task else { return Poll::Ready(Some(Ok(frame))) };
                self.held = Some((frame, task));
                self.poll_frame(context)
            }
            Poll::Ready(None) => {
                let Some(task) = self.record() else { return Poll::Ready(None) };
                self.ending = Some(task);
                self.poll_frame(context)
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.ending.is_none() && self.watch.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // What is held back counts too.
        match &self.held {
            Some((frame, _)) => {
                let held = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.inner
                    .size_hint()
                    .exact()
                    .map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + held))
            }
            None => self.inner.size_hint(),
        }
    }
}

impl Drop for Tapped {
    /// The client went away, or the provider did: what was used is counted all the same.
    fn drop(&mut self) {
        if let Some(task) = self.record() {
            // It goes on by itself.
            drop(task);
        }
    }
}
