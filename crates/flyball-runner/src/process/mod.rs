//! Runs a program until it exits, exceeds its deadline, or is cancelled.
//!
//! Nothing is left behind. The program gets its own process group, and when the run ends, for any reason, the whole
//! group is terminated: SIGTERM, a short grace period, SIGKILL. Only a program that creates its own session (a daemon)
//! survives; it does not delay the run either, even if it keeps the output open.
//!
//! Data flow: `spawn_process` -> `read_until_exit`, deadline or cancellation -> `drain` the pipes -> `terminate_group`
//! and collect the exit status.

mod cancel;
mod environment;
mod process_io;
mod spawn;

pub use cancel::CancelToken;
pub use spawn::SpawnError;

use process_io::{PollState, ProcessIo};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use spawn::spawn_process;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Grace period between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long to wait for output of background processes after the program has exited.
const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// How long a killed program may take to disappear; longer only if it hangs in the kernel.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How often to check whether a terminated group is gone.
const GROUP_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A program to run and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The program and its arguments, run without a shell. A program without `/` is looked up in `PATH`; one with `/`
    /// is relative to `dir`.
    pub argv: Vec<String>,
    /// Working directory.
    pub dir: PathBuf,
    /// Variables added to the inherited ones, which are limited to a safe list (`environment.rs`). The last value of a
    /// name wins.
    pub env: Vec<(String, String)>,
    /// Standard input; `None` means empty.
    pub input: Option<Vec<u8>>,
    /// Maximum duration; `None` means no limit.
    pub deadline: Option<Duration>,
    /// Number of bytes kept in memory per stream, from its start. Only the watcher receives the rest.
    pub max_kept_bytes: usize,
}

impl ProcessSpec {
    /// Default number of bytes kept per stream: 8 MiB.
    pub const DEFAULT_KEPT_BYTES: usize = 8 * 1024 * 1024;

    /// A program with its arguments in a folder: no input, no deadline, [`ProcessSpec::DEFAULT_KEPT_BYTES`] bytes kept.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>, dir: impl Into<PathBuf>) -> Self {
        ProcessSpec {
            argv: argv.into_iter().map(Into::into).collect(),
            dir: dir.into(),
            env: Vec::new(),
            input: None,
            deadline: None,
            max_kept_bytes: ProcessSpec::DEFAULT_KEPT_BYTES,
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Exited with this code.
    Exit(i32),
    /// Killed by a signal that the runner did not send.
    Signal(i32),
    /// Terminated at its deadline.
    DeadlineExceeded,
    /// Terminated because of cancellation.
    Cancelled,
}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Result of a finished program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutput {
    /// How it ended.
    pub end: ProcessEnd,
    /// Start of its standard output, up to [`ProcessSpec::max_kept_bytes`] bytes.
    pub stdout: Vec<u8>,
    /// Start of its standard error, up to [`ProcessSpec::max_kept_bytes`] bytes.
    pub stderr: Vec<u8>,
    /// Bytes of both streams that were dropped.
    pub dropped_bytes: u64,
    /// Duration.
    pub duration: Duration,
}

impl ProcessOutput {
    /// Whether the program exited with code 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.end == ProcessEnd::Exit(0)
    }

    /// Kept standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        lossy_text(&self.stdout)
    }

    /// Kept standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        lossy_text(&self.stderr)
    }
}

/// Converts output to text; invalid UTF-8 becomes U+FFFD.
#[must_use]
pub fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program to its end and passes all output to `watch` as it arrives, including output that is not kept.
///
/// The watcher runs on the caller's thread, so a slow watcher slows the program down. If the run is cancelled
/// beforehand or its deadline is zero, nothing is started.
///
/// # Errors
/// If the program cannot be started. Anything after that is a [`ProcessEnd`].
pub fn run(
    job: &ProcessSpec,
    cancel: &CancelToken,
    watch: &mut dyn FnMut(OutputStream, &[u8]),
) -> Result<ProcessOutput, SpawnError> {
    let begun = Instant::now();
    let nothing = |end| ProcessOutput {
        end,
        stdout: Vec::new(),
        stderr: Vec::new(),
        dropped_bytes: 0,
        duration: begun.elapsed(),
    };
    if cancel.is_cancelled() {
        return Ok(nothing(ProcessEnd::Cancelled));
    }
    if job.deadline.is_some_and(|deadline| deadline.is_zero()) {
        return Ok(nothing(ProcessEnd::DeadlineExceeded));
    }
    let cancel_waiter = cancel.waiter().map_err(|error| SpawnError::from_system(&job.argv, &error))?;
    let started = spawn_process(job)?;
    let mut output = ProcessIo::new(started.pipes, &started.exit, cancel_waiter.pipe(), job, watch);
    // A deadline too far away to represent means no deadline.
    let stop_at = job.deadline.and_then(|deadline| begun.checked_add(deadline));
    let stopped = read_until_exit(&mut output, stop_at);
    if stopped.is_none() {
        drain(&mut output);
    }
    let status = terminate_group(&mut output, started.pid, started.child);
    let (stdout, stderr, dropped) = output.finish();
    Ok(ProcessOutput {
        end: stopped.unwrap_or(status),
        stdout,
        stderr,
        dropped_bytes: dropped,
        duration: begun.elapsed(),
    })
}

/// Reads until the program exits (`None`), or until there is a reason to stop it.
fn read_until_exit(output: &mut ProcessIo<'_>, stop_at: Option<Instant>) -> Option<ProcessEnd> {
    loop {
        let PollState { exited, cancelled } = output.poll_once(stop_at);
        if exited {
            return None;
        }
        if cancelled {
            return Some(ProcessEnd::Cancelled);
        }
        if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
            return Some(ProcessEnd::DeadlineExceeded);
        }
    }
}

/// Reads the rest of the pipes after the exit. The timeout is short, because a background process may keep them open
/// forever.
fn drain(output: &mut ProcessIo<'_>) {
    let until = Instant::now() + DRAIN_GRACE;
    while output.is_open() && Instant::now() < until {
        if output.poll_once(Some(until)).cancelled {
            return;
        }
    }
}

/// Terminates the rest of the group and collects the program's exit status.
///
/// Until the program is reaped its process ID cannot be reused, so the first signal cannot hit another process.
/// Afterwards the ID belongs to the group while it has members. It could be reused only if the last member exited and
/// the system cycled through all IDs within the few milliseconds between two polls.
fn terminate_group(output: &mut ProcessIo<'_>, pid: Pid, mut child: std::process::Child) -> ProcessEnd {
    // A stopped group (Ctrl-Z, reading from the terminal) receives SIGTERM only when continued.
    let _ = kill_process_group(pid, Signal::TERM);
    let _ = kill_process_group(pid, Signal::CONT);
    let until = Instant::now() + TERM_GRACE;
    let mut status = None;
    while Instant::now() < until {
        if status.is_none() && output.has_exited() {
            status = Some(reap(&mut child));
        }
        if status.is_some() && test_kill_process_group(pid).is_err() {
            break;
        }
        output.poll_once(Some((Instant::now() + GROUP_POLL_INTERVAL).min(until)));
    }
    if status.is_none() || test_kill_process_group(pid).is_ok() {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let until = Instant::now() + KILL_GRACE;
    while status.is_none() && !output.has_exited() && Instant::now() < until {
        output.poll_once(Some(until));
    }
    output.drain_available();
    match status {
        Some(status) => status,
        None if output.has_exited() => reap(&mut child),
        None => {
            // It hangs in the kernel; a thread reaps it eventually.
            let _ = std::thread::Builder::new().name("collect".into()).spawn(move || child.wait());
            ProcessEnd::Signal(Signal::KILL.as_raw())
        }
    }
}

/// Reaps an exited program and returns its exit status.
fn reap(child: &mut std::process::Child) -> ProcessEnd {
    match child.wait() {
        Ok(status) => {
            status.signal().map_or_else(|| ProcessEnd::Exit(status.code().unwrap_or(-1)), ProcessEnd::Signal)
        }
        // Other code in this process reaped it; treat an unknown status as a failure.
        Err(_) => ProcessEnd::Exit(-1),
    }
}
