//! What flows between us and a running program, on one thread: `poll` over its streams, its exit and the cancel
//! button. No thread reads a pipe, so none is left behind when somebody keeps a pipe open for ever.

use super::start::Pipes;
use super::{Job, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How much is read or written at once.
const PIECE: usize = 64 * 1024;
/// How many pieces are read after the end of everything, at most; a pipe holds no more than this.
const LAST_PIECES: usize = 16;

/// What a look at the world has shown.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// The program has exited.
    pub(super) exited: bool,
    /// The run was cancelled.
    pub(super) cancelled: bool,
}

/// The streams of a running program.
pub(super) struct Output<'a> {
    input: Option<Input>,
    taps: [Tap; 2],
    exit: BorrowedFd<'a>,
    cancel: BorrowedFd<'a>,
    seen: Seen,
    piece: Vec<u8>,
    watch: &'a mut dyn FnMut(Stream, &[u8]),
}

impl<'a> Output<'a> {
    /// Takes over the pipes.
    pub(super) fn new(
        pipes: Pipes,
        exit: &'a PipeReader,
        cancel: BorrowedFd<'a>,
        job: &Job,
        watch: &'a mut dyn FnMut(Stream, &[u8]),
    ) -> Self {
        let input = pipes.stdin.zip(job.input.clone()).and_then(|(fd, bytes)| Input::new(fd, bytes));
        let taps = [
            Tap::new(Stream::Stdout, pipes.stdout, job.keep),
            Tap::new(Stream::Stderr, pipes.stderr, job.keep),
        ];
        let seen = Seen { exited: false, cancelled: false };
        Output { input, taps, exit: exit.as_fd(), cancel, seen, piece: vec![0; PIECE], watch }
    }

    /// Whether somebody may still write to one of the streams.
    pub(super) fn is_open(&self) -> bool {
        self.taps.iter().any(|tap| tap.fd.is_some())
    }

    /// Whether the program has exited, as far as it was looked.
    pub(super) fn has_exited(&self) -> bool {
        self.seen.exited
    }

    /// Waits until something happens or the time comes, and takes what is there: a piece of each stream at most.
    pub(super) fn turn(&mut self, until: Option<Instant>) -> Seen {
        let mut looked: Vec<PollFd<'_>> = Vec::with_capacity(5);
        let (mut exit, mut cancel, mut input, mut out) = (None, None, None, [None, None]);
        if !self.seen.exited {
            exit = Some(looked.len());
            looked.push(PollFd::from_borrowed_fd(self.exit, PollFlags::IN));
        }
        if !self.seen.cancelled {
            cancel = Some(looked.len());
            looked.push(PollFd::from_borrowed_fd(self.cancel, PollFlags::IN));
        }
        if let Some(open) = &self.input {
            input = Some(looked.len());
            looked.push(PollFd::new(&open.fd, PollFlags::OUT));
        }
        for (tap, at) in self.taps.iter().zip(&mut out) {
            if let Some(fd) = &tap.fd {
                *at = Some(looked.len());
                looked.push(PollFd::new(fd, PollFlags::IN));
            }
        }
        let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        // An interrupted wait has seen nothing; the caller looks at the time and comes again.
        let _ = poll(&mut looked, timeout.as_ref());
        let ready =
            |at: Option<usize>| at.and_then(|at| looked.get(at)).is_some_and(|fd| !fd.revents().is_empty());
        let (exited, cancelled, writable) = (ready(exit), ready(cancel), ready(input));
        let readable = out.map(ready);
        self.seen.exited |= exited;
        self.seen.cancelled |= cancelled;
        if writable && self.input.as_mut().is_some_and(|input| !input.write()) {
            self.input = None;
        }
        for (tap, readable) in self.taps.iter_mut().zip(readable) {
            if readable {
                tap.read(&mut self.piece, self.watch);
            }
        }
        self.seen
    }

    /// Takes what is in the pipes without waiting for more.
    pub(super) fn rest(&mut self) {
        for tap in &mut self.taps {
            for _ in 0..LAST_PIECES {
                if !tap.read(&mut self.piece, self.watch) {
                    break;
                }
            }
        }
    }

    /// What was kept of the output and of the errors, and how many bytes were not.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u8>, u64) {
        let [stdout, stderr] = self.taps;
        (stdout.kept, stderr.kept, stdout.dropped.saturating_add(stderr.dropped))
    }
}

/// What the program still has to read.
struct Input {
    fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

impl Input {
    fn new(fd: OwnedFd, bytes: Vec<u8>) -> Option<Self> {
        // Without this a program that does not read would hold us up. A pipe that is dropped has ended.
        rustix::io::ioctl_fionbio(&fd, true).ok()?;
        (!bytes.is_empty()).then_some(Input { fd, bytes, written: 0 })
    }

    /// Writes a piece; `false` once there is nothing more to write or nobody to read it.
    fn write(&mut self) -> bool {
        let left = self.bytes.get(self.written..).unwrap_or_default();
        match rustix::io::write(&self.fd, left.get(..PIECE).unwrap_or(left)) {
            Ok(written) => {
                self.written += written;
                self.written < self.bytes.len()
            }
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// One output stream of the program.
struct Tap {
    which: Stream,
    fd: Option<OwnedFd>,
    kept: Vec<u8>,
    keep: usize,
    dropped: u64,
}

impl Tap {
    fn new(which: Stream, fd: Option<OwnedFd>, keep: usize) -> Self {
        let fd = fd.filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok());
        Tap { which, fd, kept: Vec::new(), keep, dropped: 0 }
    }

    /// Reads a piece; `false` if there is nothing now, or never again.
    fn read(&mut self, piece: &mut [u8], watch: &mut dyn FnMut(Stream, &[u8])) -> bool {
        let Some(fd) = &self.fd else { return false };
        match rustix::io::read(fd, &mut *piece) {
            Ok(length @ 1..) => {
                let read = piece.get(..length).unwrap_or_default();
                watch(self.which, read);
                self.take(read);
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

    fn take(&mut self, read: &[u8]) {
        let room = self.keep.saturating_sub(self.kept.len()).min(read.len());
        let (kept, dropped) = read.split_at(room);
        self.kept.extend_from_slice(kept);
        self.dropped = self.dropped.saturating_add(dropped.len() as u64);
    }
}

fn timespec(left: Duration) -> Timespec {
    // Rounded up to a millisecond, so that a wait never ends just before its time and is asked for again.
    let left = left.saturating_add(Duration::from_millis(1));
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}
