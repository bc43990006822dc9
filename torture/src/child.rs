//! A child process and its output.

use crate::audit::Ack;
use crate::harness::{ChildArgs, TortureResult};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A running child.
pub(crate) struct TortureChild {
    child: Child,
    lines: Option<JoinHandle<Vec<String>>>,
    errors: Option<JoinHandle<Vec<String>>>,
}

/// How a child exited.
#[derive(Debug, Default)]
pub(crate) struct TortureChildExit {
    /// Whether it exited by itself with success.
    pub(crate) ok: bool,
    /// Its output lines. An incomplete last line is dropped.
    pub(crate) lines: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl TortureChildExit {
    pub(crate) fn acks(&self) -> Vec<Ack> {
        self.lines.iter().filter_map(|line| Ack::parse(line)).collect()
    }
}

/// Starts this program again in another mode.
pub(crate) fn spawn(mode: &str, child_args: &ChildArgs) -> TortureResult<TortureChild> {
    spawn_with_env(mode, child_args, &[])
}

/// Like [`spawn`], with environment variables.
pub(crate) fn spawn_with_env(
    mode: &str,
    child_args: &ChildArgs,
    environment: &[(&str, String)],
) -> TortureResult<TortureChild> {
    let own: PathBuf =
        std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut child = Command::new(own)
        .arg(mode)
        .args(child_args.args())
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a child: {error}"))?;
    let lines = child.stdout.take().map(|pipe| std::thread::spawn(move || read_lines(pipe)));
    let errors = child.stderr.take().map(|pipe| std::thread::spawn(move || read_lines(pipe)));
    Ok(TortureChild { child, lines, errors })
}

fn read_lines(pipe: impl std::io::Read) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(pipe);
    let mut text = String::new();
    while reader.read_line(&mut text).is_ok_and(|read| read > 0) {
        if text.ends_with('\n') {
            lines.push(text.trim_end().to_owned());
        }
        text.clear();
    }
    lines
}

impl TortureChild {
    /// Kills it with SIGKILL and returns its output.
    pub(crate) fn kill(mut self) -> TortureChildExit {
        let _ = self.child.kill();
        self.wait()
    }

    /// Waits for its exit.
    pub(crate) fn wait(mut self) -> TortureChildExit {
        let ok = self.child.wait().is_ok_and(|status| status.success());
        let all = |thread: Option<JoinHandle<Vec<String>>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        TortureChildExit { ok, lines: all(self.lines.take()), errors: all(self.errors.take()) }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([name, &self.child.id().to_string()]).status();
    }
}
