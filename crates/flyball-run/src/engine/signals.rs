//! Signals of progress: what changed in the workspace, which tests fail, what is ticked off, any number.

use super::leftover::RUN;
use super::stop::Stop;
use super::walk::Walk;
use crate::process::{Job, run};
use crate::workflow::Node;
use crate::workflow::spec::{Line, Signal};
use flyball::{Event, Kind, without_timestamps};
use std::path::Path;
use std::time::Duration;

/// The longest a program may take that measures.
const MEASURING: Duration = Duration::from_secs(120);
/// Folders that hold what was built, not what was written.
const BUILT: [&str; 7] =
    [".git", ".flyball", "target", "node_modules", "__pycache__", ".pytest_cache", ".venv"];
/// The largest file whose contents count; of a larger one, its length does.
const LARGEST: u64 = 16 * 1024 * 1024;

impl Walk {
    /// Measures what is to be measured after a node.
    pub(super) fn measure(&mut self, node: &Node) -> Result<(), Stop> {
        let world = std::sync::Arc::clone(&self.world);
        let after = |signal: &&Signal| signal.after.as_ref().is_none_or(|after| *after == node.name);
        for signal in world.plan.signals.iter().filter(after).filter(|signal| measured_here(signal, node)) {
            let by_gate = signal.name == "tests" && signal.command.is_none();
            if by_gate && self.failing.is_none() {
                continue;
            }
            // What lies in the past is in the history: it is not measured again.
            let kind = if self.lane.is_live() { self.look(signal) } else { unknown(signal) };
            self.tell(Event::new("", kind).node(node.name.clone()))?;
        }
        Ok(())
    }

    fn look(&self, signal: &Signal) -> Kind {
        let workspace = &self.world.workspace;
        let mut found = unknown(signal);
        let Kind::Progress { content, hash, value, failing, done, total, .. } = &mut found else {
            return found;
        };
        if let Some(line) = &signal.command {
            *value = self.number(line);
            // A number that cannot be had is no progress: the same words each time.
            if value.is_none() {
                *content = Some("nothing was measured".to_owned());
            }
        } else if signal.name == "tests" {
            failing.clone_from(&self.failing);
        } else if let Some(file) = &signal.file {
            let text = std::fs::read_to_string(workspace.join(file)).unwrap_or_default();
            if signal.name == "checklist" {
                let ticked = |line: &&str| {
                    line.trim_start().starts_with("- [x]") || line.trim_start().starts_with("- [X]")
                };
                let all = text.lines().filter(|line| line.trim_start().starts_with("- ["));
                *total = Some(all.count() as u64);
                *done = Some(text.lines().filter(ticked).count() as u64);
            } else {
                *content = Some(text);
            }
        } else {
            let mut hasher = blake3::Hasher::new();
            contents(workspace, Path::new(""), &mut hasher);
            *hash = hasher.finalize().to_hex().get(..32).map(str::to_owned);
        }
        found
    }

    fn number(&self, line: &Line) -> Option<serde_json::Number> {
        let argv = match line {
            Line::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            Line::Words(words) => words.clone(),
        };
        let mut job = Job::new(argv, &self.world.workspace);
        job.env.extend(self.world.passed(&[]));
        job.env.push((RUN.to_owned(), self.world.files.display().to_string()));
        job.deadline = Some(MEASURING);
        let ran = run(&job, &self.cancel, &mut |_, _| {}).ok()?;
        ran.stdout_text().split_whitespace().last()?.parse().ok()
    }
}

/// `tests` without a node is measured where a gate ran; `diff` where something was written.
fn measured_here(signal: &Signal, node: &Node) -> bool {
    if signal.after.is_some() {
        return true;
    }
    let gate = matches!(node.work, crate::workflow::Work::Gate(_));
    if signal.name == "tests" { gate } else { !gate && node.work.takes_turns() }
}

fn unknown(signal: &Signal) -> Kind {
    Kind::Progress {
        signal: signal.name.clone(),
        content: None,
        hash: None,
        value: None,
        failing: None,
        done: None,
        total: None,
        better: signal.better,
    }
}

/// The names and contents of all files below a folder, in order.
fn contents(root: &Path, below: &Path, hasher: &mut blake3::Hasher) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names.sort();
    for name in names {
        if BUILT.iter().any(|built| name == *built) {
            continue;
        }
        let path = below.join(&name);
        let Ok(about) = std::fs::symlink_metadata(root.join(&path)) else { continue };
        if about.is_dir() {
            contents(root, &path, hasher);
        } else if about.is_file() {
            hasher.update(path.as_os_str().as_encoded_bytes());
            let bytes = if about.len() <= LARGEST { std::fs::read(root.join(&path)).ok() } else { None };
            match bytes.map(String::from_utf8) {
                None => hasher.update(&about.len().to_le_bytes()),
                // A new time stamp in a text is no change of it.
                Some(Ok(text)) => hasher.update(without_timestamps(&text).as_bytes()),
                Some(Err(binary)) => hasher.update(binary.as_bytes()),
            };
            hasher.update(b"\0");
        }
    }
}
