//! A child process and what it has said so far.

use crate::audit::Ack;
use crate::kit::{Fallible, Words};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A running child.
pub(crate) struct Running {
    child: Child,
    lines: Option<JoinHandle<Vec<String>>>,
    errors: Option<JoinHandle<Vec<String>>>,
}

/// How a child ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// It ended by itself and was content.
    pub(crate) ok: bool,
    /// Its lines; the last one may be half a line and is dropped then.
    pub(crate) lines: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl Ended {
    pub(crate) fn acks(&self) -> Vec<Ack> {
        self.lines.iter().filter_map(|line| Ack::read(line)).collect()
    }
}

/// Starts this program again, in another mode.
pub(crate) fn start(mode: &str, words: &Words) -> Fallible<Running> {
    start_under(mode, words, &[])
}

/// The same, with something in its environment.
pub(crate) fn start_under(mode: &str, words: &Words, environment: &[(&str, String)]) -> Fallible<Running> {
    let own: PathBuf = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let mut child = Command::new(own)
        .arg(mode)
        .args(words.args())
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a child: {error}"))?;
    let lines = child.stdout.take().map(|pipe| std::thread::spawn(move || read(pipe)));
    let errors = child.stderr.take().map(|pipe| std::thread::spawn(move || read(pipe)));
    Ok(Running { child, lines, errors })
}

fn read(pipe: impl std::io::Read) -> Vec<String> {
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

impl Running {
    /// Ends it with SIGKILL and returns what it had said.
    pub(crate) fn kill(mut self) -> Ended {
        let _ = self.child.kill();
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let ok = self.child.wait().is_ok_and(|status| status.success());
        let all = |thread: Option<JoinHandle<Vec<String>>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        Ended { ok, lines: all(self.lines.take()), errors: all(self.errors.take()) }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([name, &self.child.id().to_string()]).status();
    }
}
