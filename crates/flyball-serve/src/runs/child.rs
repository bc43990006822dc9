//! A run as a process of its own: what it is started with, and how it ended.
//!
//! What it prints is in the store already, so only its complaints are kept, in a file without a name: if this server dies
//! the run has nobody to talk to, and goes on all the same.

use super::Workshop;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of the complaints is read, from the end.
const SAID: u64 = 4_096;
/// Variables of ours that say what the policy is; all others of ours may be secrets and stay here.
const POLICY: [&str; 3] = ["FLYBALL_PRESET", "FLYBALL_ON_STALL", "FLYBALL_ON_ERROR"];

/// A run at work.
pub(super) struct Running {
    child: Child,
    complaints: File,
}

impl Running {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(workshop: &Workshop, args: &[OsString]) -> io::Result<Self> {
        let complaints = nameless()?;
        let mut command = Command::new(&workshop.program);
        for (name, _) in std::env::vars_os() {
            if is_secret(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .envs(workshop.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaints.try_clone()?);
        Ok(Running { child: command.spawn()?, complaints })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the system does not say.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to stop where it is; what it has done is kept.
    pub(super) fn interrupt(&self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // One that is gone has stopped.
            let _ = kill_process(id, Signal::INT);
        }
    }

    /// What it complained about, the last of it.
    pub(super) fn complaints(&mut self) -> String {
        let mut read = || -> io::Result<String> {
            let length = self.complaints.seek(SeekFrom::End(0))?;
            self.complaints.seek(SeekFrom::Start(length.saturating_sub(SAID)))?;
            let mut bytes = Vec::new();
            (&self.complaints).take(SAID).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }
}

fn is_secret(name: &str) -> bool {
    // Two underscores: a key of the policy.
    name.starts_with("FLYBALL_") && !name.contains("__") && !POLICY.contains(&name)
}

/// A file that nobody else can open, and that is gone with us.
fn nameless() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("flyball-run-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    //! What a run gets to know of our surroundings.

    use super::is_secret;

    #[test]
    fn only_the_policy_is_handed_on() {
        for ours in ["FLYBALL_STORE", "FLYBALL_SMTP_PASSWORD", "FLYBALL_WEBHOOK_SECRET", "FLYBALL_TOKEN"] {
            assert!(is_secret(ours), "{ours}");
        }
        for known in ["FLYBALL_BUDGETS__SESSION__RUNTIME", "FLYBALL_PRESET", "PATH", "OPENAI_API_KEY"] {
            assert!(!is_secret(known), "{known}");
        }
    }
}
