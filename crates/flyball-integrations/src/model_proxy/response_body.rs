//! Response bodies: each chunk is forwarded as it arrives, and a copy is inspected.
//!
//! Only the last chunk is delayed until the answer is recorded, so that the client's next request finds it.

use super::partial_answer::{AnswerTap, PartialAnswer};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Records an answer on a thread that may block on disk I/O.
pub(super) type RecordAnswer = Box<dyn FnOnce(PartialAnswer) -> JoinHandle<()> + Send + Sync>;

/// A forwarded body. If it fails, the data received before the error reaches the client first.
pub(super) struct PassthroughBody {
    inner: Incoming,
    pending_error: Option<hyper::Error>,
}

impl From<Incoming> for PassthroughBody {
    fn from(inner: Incoming) -> Self {
        PassthroughBody { inner, pending_error: None }
    }
}

impl Body for PassthroughBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.pending_error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Err(error))) => {
                // The server flushes buffered data when the body is pending, but discards it on an error.
                self.pending_error = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pending_error.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A forwarded body whose content is inspected.
pub(super) struct TappedBody {
    inner: PassthroughBody,
    /// Present until the answer is complete.
    tap: Option<(AnswerTap, RecordAnswer)>,
    /// Remaining bytes, if the content length is known.
    bytes_left: Option<u64>,
    /// The last chunk, while the answer is being recorded.
    held_frame: Option<(Frame<Bytes>, JoinHandle<()>)>,
    /// The recording of an answer that ended without a completion marker.
    final_recording: Option<JoinHandle<()>>,
}

impl TappedBody {
    /// Wraps `inner`.
    pub(super) fn new(inner: Incoming, tap: AnswerTap, record: RecordAnswer) -> Self {
        let bytes_left = inner.size_hint().exact();
        TappedBody {
            inner: inner.into(),
            tap: Some((tap, record)),
            bytes_left,
            held_frame: None,
            final_recording: None,
        }
    }

    /// Inspects a chunk; starts recording if it was the last one.
    fn inspect_chunk(&mut self, bytes: &[u8]) -> Option<JoinHandle<()>> {
        let left = self.bytes_left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.bytes_left = left;
        let (tap, _) = self.tap.as_mut()?;
        if tap.push(bytes) || left == Some(0) { self.start_recording() } else { None }
    }

    /// Records the answer, unless that was already done.
    fn start_recording(&mut self) -> Option<JoinHandle<()>> {
        let (tap, record) = self.tap.take()?;
        tap.finish().map(record)
    }
}

impl Body for TappedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some((frame, mut task)) = self.held_frame.take() {
            if Pin::new(&mut task).poll(context).is_pending() {
                self.held_frame = Some((frame, task));
                return Poll::Pending;
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(mut task) = self.final_recording.take() {
            if Pin::new(&mut task).poll(context).is_pending() {
                self.final_recording = Some(task);
                return Poll::Pending;
            }
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let task = frame.data_ref().cloned().and_then(|bytes| self.inspect_chunk(&bytes));
                let Some(task) = task else { return Poll::Ready(Some(Ok(frame))) };
                self.held_frame = Some((frame, task));
                self.poll_frame(context)
            }
            Poll::Ready(None) => {
                let Some(task) = self.start_recording() else { return Poll::Ready(None) };
                self.final_recording = Some(task);
                self.poll_frame(context)
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held_frame.is_none()
            && self.final_recording.is_none()
            && self.tap.is_none()
            && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // The held chunk counts too.
        match &self.held_frame {
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

impl Drop for TappedBody {
    /// The client or the provider disconnected: the usage is recorded anyway.
    fn drop(&mut self) {
        if let Some(task) = self.start_recording() {
            // The detached task keeps running.
            drop(task);
        }
    }
}
