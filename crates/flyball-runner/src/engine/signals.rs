//! Progress signals: workspace changes, failing tests, checklists and arbitrary numbers.

use super::executor::WorkflowExecutor;
use super::orphans::RUN_DIR_VAR;
use super::outcome::RunStop;
use crate::process::{ProcessSpec, run};
use crate::workflow::Node;
use crate::workflow::spec::{CommandLine, SignalSpec};
use flyball::{Event, EventKind, strip_timestamps};
use std::path::Path;
use std::time::Duration;

/// Timeout of a measuring program.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(120);
/// Directories with build output and tool state, excluded from the workspace hash.
const BUILD_DIRS: [&str; 7] =
    [".git", ".flyball", "target", "node_modules", "__pycache__", ".pytest_cache", ".venv"];
/// Largest file whose contents are hashed; larger files count by length.
const MAX_HASHED_FILE_BYTES: u64 = 16 * 1024 * 1024;

impl WorkflowExecutor {
    /// Measures the signals due after a node.
    pub(super) fn measure_signals(&mut self, node: &Node) -> Result<(), RunStop> {
        let context = std::sync::Arc::clone(&self.context);
        let after = |signal: &&SignalSpec| signal.after.as_ref().is_none_or(|after| *after == node.name);
        for signal in
            context.plan.signals.iter().filter(after).filter(|signal| is_measured_after(signal, node))
        {
            let by_gate = signal.name == "tests" && signal.command.is_none();
            if by_gate && self.failing_tests.is_none() {
                continue;
            }
            self.step(&node.name, "progress", |executor| {
                Event::new("", executor.measure_signal(signal)).node(node.name.clone())
            })?;
        }
        Ok(())
    }

    fn measure_signal(&self, signal: &SignalSpec) -> EventKind {
        let workspace = &self.context.workspace;
        let (mut content, mut hash, mut value, mut failing) = (None, None, None, None);
        let (mut done, mut total) = (None, None);
        if let Some(line) = &signal.command {
            value = self.number_from_command(line);
            // A failed measurement must not count as progress, so it always yields the same content.
            if value.is_none() {
                content = Some("nothing was measured".to_owned());
            }
        } else if signal.name == "tests" {
            failing.clone_from(&self.failing_tests);
        } else if let Some(file) = &signal.file {
            let text = std::fs::read_to_string(workspace.join(file)).unwrap_or_default();
            if signal.name == "checklist" {
                let ticked = |line: &&str| {
                    line.trim_start().starts_with("- [x]") || line.trim_start().starts_with("- [X]")
                };
                let all = text.lines().filter(|line| line.trim_start().starts_with("- ["));
                total = Some(all.count() as u64);
                done = Some(text.lines().filter(ticked).count() as u64);
            } else {
                content = Some(text);
            }
        } else {
            let mut hasher = blake3::Hasher::new();
            hash_tree(workspace, Path::new(""), &mut hasher);
            hash = hasher.finalize().to_hex().get(..32).map(str::to_owned);
        }
        EventKind::Progress {
            signal: signal.name.clone(),
            content,
            hash,
            value,
            failing,
            done,
            total,
            better: signal.better,
        }
    }

    fn number_from_command(&self, line: &CommandLine) -> Option<serde_json::Number> {
        let argv = match line {
            CommandLine::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            CommandLine::Argv(words) => words.clone(),
        };
        let mut job = ProcessSpec::new(argv, &self.context.workspace);
        job.env.extend(self.context.passed_env(&[]));
        job.env.push((RUN_DIR_VAR.to_owned(), self.context.run_dir.display().to_string()));
        job.deadline = Some(MEASURE_TIMEOUT);
        let ran = run(&job, &self.cancel, &mut |_, _| {}).ok()?;
        ran.stdout_text().split_whitespace().last()?.parse().ok()
    }
}

/// Without `after`, `tests` is measured after gates, and other signals after the remaining nodes that take turns.
fn is_measured_after(signal: &SignalSpec, node: &Node) -> bool {
    if signal.after.is_some() {
        return true;
    }
    let gate = matches!(node.kind, crate::workflow::NodeKind::Gate(_));
    if signal.name == "tests" { gate } else { !gate && node.kind.takes_turns() }
}

/// Hashes the names and contents of all files below a folder, in order.
fn hash_tree(root: &Path, below: &Path, hasher: &mut blake3::Hasher) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names.sort();
    for name in names {
        if BUILD_DIRS.iter().any(|built| name == *built) {
            continue;
        }
        let path = below.join(&name);
        let Ok(about) = std::fs::symlink_metadata(root.join(&path)) else { continue };
        if about.is_dir() {
            hash_tree(root, &path, hasher);
        } else if about.is_file() {
            hasher.update(path.as_os_str().as_encoded_bytes());
            let bytes = if about.len() <= MAX_HASHED_FILE_BYTES {
                std::fs::read(root.join(&path)).ok()
            } else {
                None
            };
            match bytes.map(String::from_utf8) {
                None => hasher.update(&about.len().to_le_bytes()),
                // A changed timestamp is not progress.
                Some(Ok(text)) => hasher.update(strip_timestamps(&text).as_bytes()),
                Some(Err(binary)) => hasher.update(binary.as_bytes()),
            };
            hasher.update(b"\0");
        }
    }
}
