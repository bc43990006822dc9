//! Runs one program to its end, whatever that end is: it exits, it takes too long, or nobody wants it any more.
//!
//! A run leaves nothing behind. The program gets a process group of its own, and when the run ends, for whatever
//! reason, the whole group is ended with it: SIGTERM, a short grace, SIGKILL. Only a program that makes a session of
//! its own (a daemon) outlives its run; it does not hold the run up either, even if it keeps the output open.
//!
//! The way of a run: `start` -> `live` until exit, deadline or cancel -> `drain` what is still in the pipes ->
//! `settle` the group and collect the exit status.

mod cancel;
mod environment;
mod output;
mod start;

pub use cancel::Cancel;
pub use start::NotStarted;

use output::{Output, Seen};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use start::start;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a group that was asked to end (SIGTERM) may take before it is made to (SIGKILL).
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long the output of those whom the program left behind is waited for after it has exited.
const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// How long a killed program may take to be gone; longer only if it hangs inside the kernel.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a group that was asked to end has done so.
const TICK: Duration = Duration::from_millis(10);

/// What to run, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program and its arguments. A program without `/` is looked up on the `PATH`; one with it is relative to
    /// `dir`. No shell is involved.
    pub argv: Vec<String>,
    /// The folder to run it in.
    pub dir: PathBuf,
    /// Variables set on top of the inherited ones, which are harmless ones only (`environment.rs`); the last of a name
    /// wins.
    pub env: Vec<(String, String)>,
    /// What the program reads on its standard input; `None` = nothing, at once.
    pub input: Option<Vec<u8>>,
    /// The longest it may take. `None` = no limit.
    pub deadline: Option<Duration>,
    /// How many bytes of each stream are kept in memory: the first ones. The rest goes to the watcher only.
    pub keep: usize,
}

impl Job {
    /// The most that is kept of each stream unless one says otherwise: 8 MiB.
    pub const KEEP: usize = 8 * 1024 * 1024;

    /// A program with its arguments in a folder: no input, no deadline, [`Job::KEEP`] bytes kept.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>, dir: impl Into<PathBuf>) -> Self {
        Job {
            argv: argv.into_iter().map(Into::into).collect(),
            dir: dir.into(),
            env: Vec::new(),
            input: None,
            deadline: None,
            keep: Job::KEEP,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The program exited with this code.
    Exit(i32),
    /// A signal that was not ours ended it.
    Signal(i32),
    /// It took too long and was ended.
    Deadline,
    /// It was cancelled and ended.
    Cancelled,
}

/// Which of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// The beginning of its standard output, up to [`Job::keep`] bytes.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error, up to [`Job::keep`] bytes.
    pub stderr: Vec<u8>,
    /// Bytes of both streams that were not kept.
    pub dropped: u64,
    /// How long it took.
    pub duration: Duration,
}

impl Ran {
    /// Whether the program exited with code 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.end == End::Exit(0)
    }

    /// The kept standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        text(&self.stdout)
    }

    /// The kept standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        text(&self.stderr)
    }
}

/// Output as text; what is no UTF-8 becomes U+FFFD.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program to its end and tells `watch` of every piece of output as it comes, also of what is not kept.
///
/// The watcher is called on the caller's thread, so a slow one slows the program down. A run that was cancelled
/// before it began, or whose deadline is zero, starts nothing.
///
/// # Errors
/// If the program could not be started. Once it runs, everything that happens is an [`End`].
pub fn run(job: &Job, cancel: &Cancel, watch: &mut dyn FnMut(Stream, &[u8])) -> Result<Ran, NotStarted> {
    let begun = Instant::now();
    let nothing =
        |end| Ran { end, stdout: Vec::new(), stderr: Vec::new(), dropped: 0, duration: begun.elapsed() };
    if cancel.is_cancelled() {
        return Ok(nothing(End::Cancelled));
    }
    if job.deadline.is_some_and(|deadline| deadline.is_zero()) {
        return Ok(nothing(End::Deadline));
    }
    let alarm = cancel.alarm().map_err(|error| NotStarted::system(&job.argv, &error))?;
    let started = start(job)?;
    let mut output = Output::new(started.pipes, &started.exit, alarm.pipe(), job, watch);
    // A deadline too far away to be expressed is none.
    let stop_at = job.deadline.and_then(|deadline| begun.checked_add(deadline));
    let stopped = live(&mut output, stop_at);
    if stopped.is_none() {
        drain(&mut output);
    }
    let status = settle(&mut output, started.pid, started.child);
    let (stdout, stderr, dropped) = output.finish();
    Ok(Ran { end: stopped.unwrap_or(status), stdout, stderr, dropped, duration: begun.elapsed() })
}

/// Reads until the program exits (`None`), or until there is a reason to end it.
fn live(output: &mut Output<'_>, stop_at: Option<Instant>) -> Option<End> {
    loop {
        let Seen { exited, cancelled } = output.turn(stop_at);
        if exited {
            return None;
        }
        if cancelled {
            return Some(End::Cancelled);
        }
        if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
            return Some(End::Deadline);
        }
    }
}

/// Reads what is still in the pipes after the exit. Somebody in the background may keep them open for ever, so the
/// patience is short.
fn drain(output: &mut Output<'_>) {
    let until = Instant::now() + DRAIN_GRACE;
    while output.is_open() && Instant::now() < until {
        if output.turn(Some(until)).cancelled {
            return;
        }
    }
}

/// Ends what is left of the group and collects the program's exit status.
///
/// As long as the program has not been collected its number is taken, so the first signal cannot hit a stranger.
/// Afterwards the number belongs to the group while it has members; it could pass to somebody else only if the last
/// member ended and all numbers of the system were used up once, within the few milliseconds between two looks.
fn settle(output: &mut Output<'_>, pid: Pid, mut child: std::process::Child) -> End {
    // A stopped group (Ctrl-Z, reading from the terminal) hears SIGTERM only when it is continued.
    let _ = kill_process_group(pid, Signal::TERM);
    let _ = kill_process_group(pid, Signal::CONT);
    let until = Instant::now() + TERM_GRACE;
    let mut status = None;
    while Instant::now() < until {
        if status.is_none() && output.has_exited() {
            status = Some(collect(&mut child));
        }
        if status.is_some() && test_kill_process_group(pid).is_err() {
            break;
        }
        output.turn(Some((Instant::now() + TICK).min(until)));
    }
    if status.is_none() || test_kill_process_group(pid).is_ok() {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let until = Instant::now() + KILL_GRACE;
    while status.is_none() && !output.has_exited() && Instant::now() < until {
        output.turn(Some(until));
    }
    output.rest();
    match status {
        Some(status) => status,
        None if output.has_exited() => collect(&mut child),
        None => {
            // It hangs inside the kernel and will be gone one day; somebody has to be there to collect it.
            let _ = std::thread::Builder::new().name("collect".into()).spawn(move || child.wait());
            End::Signal(Signal::KILL.as_raw())
        }
    }
}

/// The exit status of a program that has exited; it is no zombie any more.
fn collect(child: &mut std::process::Child) -> End {
    match child.wait() {
        Ok(status) => status.signal().map_or_else(|| End::Exit(status.code().unwrap_or(-1)), End::Signal),
        // Somebody else in this process has collected it: how it ended is not known, and not known is not good.
        Err(_) => End::Exit(-1),
    }
}
