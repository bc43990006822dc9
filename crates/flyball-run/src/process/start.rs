//! Starting a program, and saying in words why it could not be started.

use super::Job;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fmt;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often a program that somebody is just writing is tried again.
const BUSY_TRIES: u32 = 20;
/// How long is waited in between.
const BUSY_WAIT: Duration = Duration::from_millis(25);

/// Why a program could not be started. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted {
    /// The stable code: `command_empty`, `command_invalid`, `command_too_long`, `folder_missing`,
    /// `folder_forbidden`, `program_not_found`, `program_not_executable`, `interpreter_missing` or `process_failed`.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, in one line.
    pub hint: String,
}

impl NotStarted {
    fn new(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        NotStarted { code, what: what.into(), hint: hint.into() }
    }

    /// The system has refused: no more processes, files or memory.
    pub(super) fn system(argv: &[String], error: &io::Error) -> Self {
        let program = argv.first().map_or("", String::as_str);
        let what = format!("'{program}' could not be started: {error}");
        NotStarted::new(
            "process_failed",
            what,
            "look at the limits of processes, open files and memory (ulimit -a)",
        )
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.what, self.code)
    }
}

impl std::error::Error for NotStarted {}

/// A program that runs.
pub(super) struct Started {
    pub(super) child: Child,
    /// Its number, and that of its group.
    pub(super) pid: Pid,
    pub(super) pipes: Pipes,
    /// Ends when the program has exited; it has not been collected then.
    pub(super) exit: PipeReader,
}

/// Our ends of the program's three streams.
pub(super) struct Pipes {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// Starts the program of a job.
pub(super) fn start(job: &Job) -> Result<Started, NotStarted> {
    let Some((program, arguments)) = job.argv.split_first().filter(|(program, _)| !program.is_empty()) else {
        return Err(NotStarted::new(
            "command_empty",
            "there is no program to run",
            "name a program and its arguments",
        ));
    };
    check_folder(&job.dir)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&job.dir).process_group(0);
    command.stdin(if job.input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().envs(super::environment::inherited());
    for (name, value) in &job.env {
        if name.is_empty() || name.contains('=') {
            let what = format!("'{name}' is no name of an environment variable");
            return Err(NotStarted::new(
                "command_invalid",
                what,
                "use a name of letters, digits and underscores",
            ));
        }
        command.env(name, value);
    }
    let (watcher, exit) = exit_watcher().map_err(|error| NotStarted::system(&job.argv, &error))?;
    let mut child = spawn(&mut command).map_err(|error| why_not(program, &job.dir, &error))?;
    let pid = Pid::from_child(&child);
    // The watcher waits for exactly this; it is gone only if it has been told.
    let _ = watcher.send(pid);
    let pipes = Pipes {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    Ok(Started { child, pid, pipes, exit })
}

/// A thread that waits for the exit of one program, and a pipe that ends when it has happened. The thread exists
/// before the program does, so that a program never runs unwatched.
fn exit_watcher() -> io::Result<(mpsc::Sender<Pid>, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("exit".into()).stack_size(64 * 1024).spawn(move || {
        if let Ok(pid) = receiver.recv() {
            // NOWAIT: it stays a zombie until it is collected, and so its number stays its own.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        drop(writer);
    })?;
    Ok((sender, reader))
}

/// Starts it; a file that somebody is just writing (or whose writer was just copied by a fork) is tried again.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                thread::park_timeout(BUSY_WAIT);
            }
            done => return done,
        }
    }
}

/// The folder is looked at first: the system gives the same error for a missing folder and a missing program.
fn check_folder(dir: &Path) -> Result<(), NotStarted> {
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            let what = format!("'{shown}' is not a folder");
            Err(NotStarted::new("folder_missing", what, "name a folder to run the program in"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(forbidden(dir)),
        Err(error) => {
            let what = format!("the folder '{shown}' cannot be used: {error}");
            Err(NotStarted::new("folder_missing", what, "make the folder, or name another one"))
        }
        Ok(_) if rustix::fs::access(dir, rustix::fs::Access::EXEC_OK).is_err() => Err(forbidden(dir)),
        Ok(_) => Ok(()),
    }
}

fn forbidden(dir: &Path) -> NotStarted {
    let what = format!("the folder '{}' may not be entered", dir.display());
    NotStarted::new("folder_forbidden", what, "give this user the right to enter it (chmod u+x)")
}

/// Why a program could not be started, in words.
fn why_not(program: &str, dir: &Path, error: &io::Error) -> NotStarted {
    // A relative program with a `/` is looked for in the folder of the run, as the system does.
    let is_path = program.contains('/');
    let exists = is_path && dir.join(program).exists();
    match error.kind() {
        ErrorKind::NotFound if exists => {
            let what = format!("'{program}' is there, but the interpreter that its first line names is not");
            NotStarted::new(
                "interpreter_missing",
                what,
                "correct the line that begins with #!, or install what it names",
            )
        }
        ErrorKind::NotFound if is_path => {
            let what = format!("there is no program '{program}' in '{}'", dir.display());
            NotStarted::new(
                "program_not_found",
                what,
                "check the path; it is relative to the folder of the run",
            )
        }
        ErrorKind::NotFound => {
            let what = format!("there is no program '{program}' on the PATH");
            NotStarted::new("program_not_found", what, "install it, or name it with its path")
        }
        ErrorKind::PermissionDenied => {
            let what = format!("'{program}' may not be executed");
            NotStarted::new(
                "program_not_executable",
                what,
                "make the file executable (chmod +x), or run it with its interpreter",
            )
        }
        ErrorKind::InvalidInput => {
            let what = format!("the command line or environment of '{program}' holds a NUL character");
            NotStarted::new("command_invalid", what, "take the NUL character out")
        }
        ErrorKind::ArgumentListTooLong => {
            let what = format!("the arguments of '{program}' are longer than the system allows");
            NotStarted::new("command_too_long", what, "give long data through the standard input or a file")
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            let what = format!("'{program}' is not a program of this system");
            NotStarted::new("program_not_executable", what, "begin a script with #! and its interpreter")
        }
        _ => NotStarted::system(&[program.to_owned()], error),
    }
}
