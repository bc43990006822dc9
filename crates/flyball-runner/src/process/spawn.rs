//! Starts a program, and explains why it could not be started.

use super::ProcessSpec;
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

/// Number of retries while the program file is being written.
const BUSY_RETRIES: u32 = 20;
/// Delay between these retries.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(25);

/// Why a program could not be started. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnError {
    /// Stable code: `command_empty`, `command_invalid`, `command_too_long`, `folder_missing`, `folder_forbidden`,
    /// `program_not_found`, `program_not_executable`, `interpreter_missing` or `process_failed`.
    pub code: &'static str,
    /// The problem, in one line.
    pub message: String,
    /// The next thing to do, in one line.
    pub help: String,
}

impl SpawnError {
    fn new(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        SpawnError { code, message: message.into(), help: help.into() }
    }

    /// Error for exhausted system resources: processes, files or memory.
    pub(super) fn from_system(argv: &[String], error: &io::Error) -> Self {
        let program = argv.first().map_or("", String::as_str);
        let what = format!("'{program}' could not be started: {error}");
        SpawnError::new(
            "process_failed",
            what,
            "check the limits on processes, open files and memory (ulimit -a)",
        )
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for SpawnError {}

/// A running program.
pub(super) struct SpawnedProcess {
    pub(super) child: Child,
    /// Process ID, which is also its group ID.
    pub(super) pid: Pid,
    pub(super) pipes: ChildPipes,
    /// Closes when the program has exited; it is not reaped yet.
    pub(super) exit: PipeReader,
}

/// Our ends of the program's streams.
pub(super) struct ChildPipes {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// Starts a program.
pub(super) fn spawn_process(job: &ProcessSpec) -> Result<SpawnedProcess, SpawnError> {
    let Some((program, arguments)) = job.argv.split_first().filter(|(program, _)| !program.is_empty()) else {
        return Err(SpawnError::new(
            "command_empty",
            "the command is empty",
            "name a program and its arguments",
        ));
    };
    check_directory(&job.dir)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&job.dir).process_group(0);
    command.stdin(if job.input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().envs(super::environment::inherited_vars());
    for (name, value) in &job.env {
        if name.is_empty() || name.contains('=') {
            let what = format!("invalid environment variable name '{name}'");
            return Err(SpawnError::new("command_invalid", what, "use letters, digits and underscores"));
        }
        command.env(name, value);
    }
    let (watcher, exit) = exit_watcher().map_err(|error| SpawnError::from_system(&job.argv, &error))?;
    let mut child = spawn_with_retry(&mut command).map_err(|error| spawn_error(program, &job.dir, &error))?;
    let pid = Pid::from_child(&child);
    // The thread waits for this message, so it is still there.
    let _ = watcher.send(pid);
    let pipes = ChildPipes {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    Ok(SpawnedProcess { child, pid, pipes, exit })
}

/// Creates a thread that waits for one program to exit, and a pipe that closes when it has. The thread exists before
/// the program, so that a program never runs unwatched.
fn exit_watcher() -> io::Result<(mpsc::Sender<Pid>, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("exit".into()).stack_size(64 * 1024).spawn(move || {
        if let Ok(pid) = receiver.recv() {
            // NOWAIT keeps it a zombie until reaped, so that its process ID is not reused.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        drop(writer);
    })?;
    Ok((sender, reader))
}

/// Spawns it; retries while the file is open for writing (possibly in a forked copy of the writer).
fn spawn_with_retry(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && tries < BUSY_RETRIES => {
                tries += 1;
                thread::park_timeout(BUSY_RETRY_DELAY);
            }
            done => return done,
        }
    }
}

/// Checks the folder first, because the system reports the same error for a missing folder and a missing program.
fn check_directory(dir: &Path) -> Result<(), SpawnError> {
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            let what = format!("'{shown}' is not a folder");
            Err(SpawnError::new("folder_missing", what, "set the working directory to a folder"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(forbidden_directory(dir)),
        Err(error) => {
            let what = format!("cannot use folder '{shown}': {error}");
            Err(SpawnError::new("folder_missing", what, "create it, or use another folder"))
        }
        Ok(_) if rustix::fs::access(dir, rustix::fs::Access::EXEC_OK).is_err() => {
            Err(forbidden_directory(dir))
        }
        Ok(_) => Ok(()),
    }
}

fn forbidden_directory(dir: &Path) -> SpawnError {
    let what = format!("permission denied for folder '{}'", dir.display());
    SpawnError::new("folder_forbidden", what, "allow this user to enter it (chmod u+x)")
}

/// Explains why a program could not be started.
fn spawn_error(program: &str, dir: &Path, error: &io::Error) -> SpawnError {
    // A relative path with `/` is resolved in the working directory, as the system does.
    let is_path = program.contains('/');
    let exists = is_path && dir.join(program).exists();
    match error.kind() {
        ErrorKind::NotFound if exists => {
            let what = format!("'{program}' exists, but the interpreter in its first line does not");
            SpawnError::new("interpreter_missing", what, "fix the #! line, or install the interpreter")
        }
        ErrorKind::NotFound if is_path => {
            let what = format!("program '{program}' not found in '{}'", dir.display());
            SpawnError::new(
                "program_not_found",
                what,
                "check the path; it is relative to the working directory",
            )
        }
        ErrorKind::NotFound => {
            let what = format!("program '{program}' not found in PATH");
            SpawnError::new("program_not_found", what, "install it, or give its full path")
        }
        ErrorKind::PermissionDenied => {
            let what = format!("'{program}' is not executable");
            SpawnError::new(
                "program_not_executable",
                what,
                "make the file executable (chmod +x), or run it with its interpreter",
            )
        }
        ErrorKind::InvalidInput => {
            let what = format!("the command line or environment of '{program}' contains a NUL character");
            SpawnError::new("command_invalid", what, "remove the NUL character")
        }
        ErrorKind::ArgumentListTooLong => {
            let what = format!("the arguments of '{program}' exceed the system limit");
            SpawnError::new("command_too_long", what, "pass long data on standard input or in a file")
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            let what = format!("'{program}' is not an executable format of this system");
            SpawnError::new("program_not_executable", what, "start a script with #! and its interpreter")
        }
        _ => SpawnError::from_system(&[program.to_owned()], error),
    }
}
