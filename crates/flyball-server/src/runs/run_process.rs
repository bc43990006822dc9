//! A run in a separate process: its arguments and its exit.
//!
//! Its output is already in the store, so only stderr is kept, in an unnamed file: if this server dies, the run
//! continues without it.

use super::WorkerConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes read from the end of stderr.
const MAX_STDERR_BYTES: u64 = 4_096;
/// Flyball variables that configure the policy; all others may be secrets and are not passed on.
const POLICY_VARIABLES: [&str; 3] = ["FLYBALL_PRESET", "FLYBALL_ON_STALL", "FLYBALL_ON_ERROR"];

/// A running run.
pub(super) struct RunProcess {
    child: Child,
    stderr: File,
}

impl RunProcess {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn spawn(config: &WorkerConfig, args: &[OsString]) -> io::Result<Self> {
        let stderr = unnamed_temp_file()?;
        let mut command = Command::new(&config.program);
        for (name, _) in std::env::vars_os() {
            if is_secret(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .envs(config.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone()?);
        Ok(RunProcess { child: command.spawn()?, stderr })
    }

    /// The exit status, if the process has ended.
    ///
    /// # Errors
    /// If the system call fails.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks the process to stop; its progress is kept.
    pub(super) fn interrupt(&self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // Fails only if the process has already ended.
            let _ = kill_process(id, Signal::INT);
        }
    }

    /// The end of stderr.
    pub(super) fn stderr_tail(&mut self) -> String {
        let mut read = || -> io::Result<String> {
            let length = self.stderr.seek(SeekFrom::End(0))?;
            self.stderr.seek(SeekFrom::Start(length.saturating_sub(MAX_STDERR_BYTES)))?;
            let mut bytes = Vec::new();
            (&self.stderr).take(MAX_STDERR_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }
}

fn is_secret(name: &str) -> bool {
    // A double underscore marks a policy key.
    name.starts_with("FLYBALL_") && !name.contains("__") && !POLICY_VARIABLES.contains(&name)
}

/// A temporary file that no one else can open and that disappears with the process.
fn unnamed_temp_file() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("flyball-run-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    //! The environment of a run.

    use super::is_secret;

    #[test]
    fn secrets_are_not_passed_to_runs() {
        for ours in ["FLYBALL_STORE", "FLYBALL_SMTP_PASSWORD", "FLYBALL_WEBHOOK_SECRET", "FLYBALL_TOKEN"] {
            assert!(is_secret(ours), "{ours}");
        }
        for known in ["FLYBALL_BUDGETS__SESSION__RUNTIME", "FLYBALL_PRESET", "PATH", "OPENAI_API_KEY"] {
            assert!(!is_secret(known), "{known}");
        }
    }
}
