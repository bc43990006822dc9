//! I/O with a running program on one thread: `poll` over its streams, its exit and cancellation. No thread reads a
//! pipe, so none leaks if a process keeps a pipe open forever.

use super::spawn::ChildPipes;
use super::{OutputStream, ProcessSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Size of a read or write.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of chunks read after the end; a pipe holds no more.
const MAX_DRAIN_CHUNKS: usize = 16;

/// Result of a poll.
#[derive(Clone, Copy)]
pub(super) struct PollState {
    /// The program has exited.
    pub(super) exited: bool,
    /// The run was cancelled.
    pub(super) cancelled: bool,
}

/// Streams of a running program.
pub(super) struct ProcessIo<'a> {
    stdin: Option<StdinWriter>,
    pipes: [OutputPipe; 2],
    exit: BorrowedFd<'a>,
    cancel: BorrowedFd<'a>,
    state: PollState,
    buffer: Vec<u8>,
    watch: &'a mut dyn FnMut(OutputStream, &[u8]),
}

impl<'a> ProcessIo<'a> {
    /// Takes over the pipes.
    pub(super) fn new(
        pipes: ChildPipes,
        exit: &'a PipeReader,
        cancel: BorrowedFd<'a>,
        job: &ProcessSpec,
        watch: &'a mut dyn FnMut(OutputStream, &[u8]),
    ) -> Self {
        let stdin = pipes.stdin.zip(job.input.clone()).and_then(|(fd, bytes)| StdinWriter::new(fd, bytes));
        let pipes = [
            OutputPipe::new(OutputStream::Stdout, pipes.stdout, job.max_kept_bytes),
            OutputPipe::new(OutputStream::Stderr, pipes.stderr, job.max_kept_bytes),
        ];
        let state = PollState { exited: false, cancelled: false };
        ProcessIo { stdin, pipes, exit: exit.as_fd(), cancel, state, buffer: vec![0; CHUNK_BYTES], watch }
    }

    /// Whether an output stream is still open.
    pub(super) fn is_open(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.fd.is_some())
    }

    /// Whether the program had exited at the last poll.
    pub(super) fn has_exited(&self) -> bool {
        self.state.exited
    }

    /// Waits for an event or a timeout, then reads at most one chunk of each stream.
    pub(super) fn poll_once(&mut self, until: Option<Instant>) -> PollState {
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(5);
        let (mut exit, mut cancel, mut input, mut out) = (None, None, None, [None, None]);
        if !self.state.exited {
            exit = Some(polled.len());
            polled.push(PollFd::from_borrowed_fd(self.exit, PollFlags::IN));
        }
        if !self.state.cancelled {
            cancel = Some(polled.len());
            polled.push(PollFd::from_borrowed_fd(self.cancel, PollFlags::IN));
        }
        if let Some(open) = &self.stdin {
            input = Some(polled.len());
            polled.push(PollFd::new(&open.fd, PollFlags::OUT));
        }
        for (pipe, at) in self.pipes.iter().zip(&mut out) {
            if let Some(fd) = &pipe.fd {
                *at = Some(polled.len());
                polled.push(PollFd::new(fd, PollFlags::IN));
            }
        }
        let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        // An interrupted poll reports nothing; the caller checks the time and polls again.
        let _ = poll(&mut polled, timeout.as_ref());
        let ready =
            |at: Option<usize>| at.and_then(|at| polled.get(at)).is_some_and(|fd| !fd.revents().is_empty());
        let (exited, cancelled, writable) = (ready(exit), ready(cancel), ready(input));
        let readable = out.map(ready);
        self.state.exited |= exited;
        self.state.cancelled |= cancelled;
        if writable && self.stdin.as_mut().is_some_and(|input| !input.write()) {
            self.stdin = None;
        }
        for (pipe, readable) in self.pipes.iter_mut().zip(readable) {
            if readable {
                pipe.read(&mut self.buffer, self.watch);
            }
        }
        self.state
    }

    /// Reads available data without waiting.
    pub(super) fn drain_available(&mut self) {
        for pipe in &mut self.pipes {
            for _ in 0..MAX_DRAIN_CHUNKS {
                if !pipe.read(&mut self.buffer, self.watch) {
                    break;
                }
            }
        }
    }

    /// Kept stdout and stderr, and the number of dropped bytes.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u8>, u64) {
        let [stdout, stderr] = self.pipes;
        (stdout.kept, stderr.kept, stdout.dropped.saturating_add(stderr.dropped))
    }
}

/// Standard input that the program has not read yet.
struct StdinWriter {
    fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

impl StdinWriter {
    fn new(fd: OwnedFd, bytes: Vec<u8>) -> Option<Self> {
        // Nonblocking, so that a program that does not read cannot block us. Dropping the pipe closes it.
        rustix::io::ioctl_fionbio(&fd, true).ok()?;
        (!bytes.is_empty()).then_some(StdinWriter { fd, bytes, written: 0 })
    }

    /// Writes a chunk; `false` once everything is written or the reader is gone.
    fn write(&mut self) -> bool {
        let left = self.bytes.get(self.written..).unwrap_or_default();
        match rustix::io::write(&self.fd, left.get(..CHUNK_BYTES).unwrap_or(left)) {
            Ok(written) => {
                self.written += written;
                self.written < self.bytes.len()
            }
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// An output stream of the program.
struct OutputPipe {
    stream: OutputStream,
    fd: Option<OwnedFd>,
    kept: Vec<u8>,
    max_kept_bytes: usize,
    dropped: u64,
}

impl OutputPipe {
    fn new(stream: OutputStream, fd: Option<OwnedFd>, max_kept_bytes: usize) -> Self {
        let fd = fd.filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok());
        OutputPipe { stream, fd, kept: Vec::new(), max_kept_bytes, dropped: 0 }
    }

    /// Reads a chunk; `false` if no data is available.
    fn read(&mut self, piece: &mut [u8], watch: &mut dyn FnMut(OutputStream, &[u8])) -> bool {
        let Some(fd) = &self.fd else { return false };
        match rustix::io::read(fd, &mut *piece) {
            Ok(length @ 1..) => {
                let read = piece.get(..length).unwrap_or_default();
                watch(self.stream, read);
                self.keep_bytes(read);
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Ok(_) | Err(_) => {
                self.fd = None;
                false
            }
        }
    }

    fn keep_bytes(&mut self, read: &[u8]) {
        let free = self.max_kept_bytes.saturating_sub(self.kept.len()).min(read.len());
        let (kept, dropped) = read.split_at(free);
        self.kept.extend_from_slice(kept);
        self.dropped = self.dropped.saturating_add(dropped.len() as u64);
    }
}

fn timespec(left: Duration) -> Timespec {
    // Rounded up to a millisecond, so that a wait does not end just before its deadline.
    let left = left.saturating_add(Duration::from_millis(1));
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}
