//! Runs an example in a separate folder and reads its stored events.

use flyball_store::StoreAddress;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The repository root.
pub(crate) fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A folder for running examples, with its own store, its own HOME, and a log of all program executions.
pub(crate) struct ExampleDir {
    pub(crate) folder: PathBuf,
}

/// The output of a command.
pub(crate) struct ExampleOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// One event of a session, with its decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredEntry {
    pub(crate) event: Value,
    pub(crate) decision: Value,
}

impl StoredEntry {
    pub(crate) fn event_type(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    pub(crate) fn node(&self) -> &str {
        self.event["node"].as_str().unwrap_or_default()
    }
}

impl ExampleDir {
    /// Creates an empty folder.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        // The search for flyball.yaml and for the store stops here, regardless of the parent folders.
        std::fs::create_dir_all(folder.join(".git")).expect("a folder");
        std::fs::create_dir_all(folder.join("home")).expect("a folder");
        let dir = ExampleDir { folder };
        dir.install_cargo_wrapper();
        dir
    }

    /// Installs a wrapper script for cargo, used by one example, that writes our log and then runs cargo.
    fn install_cargo_wrapper(&self) {
        let cargo = std::env::var("CARGO").expect("tests are run by cargo");
        let log = format!(
            r#"echo "gate $FLYBALL_SESSION $FLYBALL_NODE $FLYBALL_TURN" >> '{}'"#,
            self.step_log().display()
        );
        let script = format!("#!/bin/sh\n{log}\nexec '{cargo}' \"$@\"\n");
        let bin = self.folder.join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("cargo"), script).expect("a script");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join("cargo"), all).expect("its mode");
    }

    /// The file to which the examples' programs append a line on each run.
    pub(crate) fn step_log(&self) -> PathBuf {
        self.folder.join("steps.log")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(args).current_dir(&self.folder).env_clear();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command.env("HOME", self.folder.join("home")).env("USER", "anna").env("STEPS", self.step_log());
        // One example runs cargo, which finds its files through these variables or the real HOME.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for (name, usual) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let dir = std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from);
            if dir.is_dir() {
                command.env(name, dir);
            }
        }
        if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to completion.
    pub(crate) fn run(&self, args: &[&str]) -> ExampleOutput {
        let output = self.command(args).output().expect("the binary starts");
        ExampleOutput {
            code: output.status.code().expect("an exit code, not a signal"),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Starts a command whose output lines can be counted while it runs.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts")
    }

    /// All sessions of the store whose names start with `prefix`, sorted by name, with all their events.
    pub(crate) fn sessions(&self, prefix: &str) -> BTreeMap<String, Vec<StoredEntry>> {
        let address = StoreAddress::parse("sqlite:.flyball/flyball.db", &self.folder).expect("an address");
        if !address.exists() {
            return BTreeMap::new();
        }
        // If the creating process was killed, there may be no store yet.
        let Ok(store) = address.open_existing() else { return BTreeMap::new() };
        let heads = store.list_sessions(flyball_store::SessionFilter::All, 10_000).expect("the sessions");
        let names = heads.into_iter().map(|head| head.session).filter(|name| name.starts_with(prefix));
        let read = |name: String| {
            let records = store.records(&name, 1, u64::MAX).expect("the records");
            let entry = |record: flyball_store::EventRecord| StoredEntry {
                event: serde_json::from_str(&record.text).expect("an event"),
                decision: serde_json::from_str(&record.decision_json).expect("a decision"),
            };
            (name, records.into_iter().map(entry).collect::<Vec<_>>())
        };
        names.map(read).filter(|(_, entries)| !entries.is_empty()).collect()
    }

    /// The text of every file in a run's workspace by path, without build artifacts.
    pub(crate) fn files(&self, session: &str) -> BTreeMap<String, String> {
        let workspace = self.folder.join(".flyball/runs").join(session).join("workspace");
        let mut files = BTreeMap::new();
        let mut open = vec![workspace.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    if !path.ends_with("target") {
                        open.push(path);
                    }
                } else if !path.ends_with("Cargo.lock") {
                    let name = path.strip_prefix(&workspace).expect("below").display().to_string();
                    files.insert(name, std::fs::read_to_string(&path).expect("text"));
                }
            }
        }
        files
    }

    /// How often each program ran, by the key it logged.
    pub(crate) fn execution_counts(&self) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.step_log()).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            *counts.entry(line.to_owned()).or_insert(0) += 1;
        }
        counts
    }
}

/// The decisions and their subjects without values that differ between runs: times, and names of files with large
/// outputs.
pub(crate) fn comparable_decisions(entries: &[StoredEntry]) -> Vec<Value> {
    let shown = |entry: &StoredEntry| {
        let decision = &entry.decision;
        json!({
            "type": entry.event_type(), "node": entry.node(), "seq": decision["seq"],
            "decision": decision["decision"], "state": decision["state"], "trips": decision["trips"],
            "effects": repeatable(&decision["effects"]), "feedback": decision["feedback"],
            "outcome": entry.event["outcome"], "to": entry.event["to"], "text": entry.event["text"],
            "tool": entry.event["tool"], "ok": entry.event["ok"], "error": entry.event["error"],
            "failing": entry.event["failing"], "hash": entry.event["hash"],
        })
    };
    entries.iter().map(shown).collect()
}

/// The effects without values that differ between runs: the duration and output of checks.
fn repeatable(effects: &Value) -> Value {
    match effects {
        Value::Object(map) => {
            let differs = |key: &str| match key {
                "duration_ms" | "output" => map.contains_key("passed"),
                "text" => map.contains_key("gate_result"),
                _ => false,
            };
            let kept = map.iter().filter(|(key, _)| !differs(key));
            kept.map(|(key, value)| (key.clone(), repeatable(value))).collect()
        }
        Value::Array(list) => list.iter().map(repeatable).collect(),
        other => other.clone(),
    }
}

/// A running example whose output lines are counted.
pub(crate) struct LiveRun {
    child: Child,
    lines: mpsc::Receiver<()>,
}

impl LiveRun {
    pub(crate) fn new(mut child: Child) -> Self {
        let out = child.stdout.take().expect("its output");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for _ in BufReader::new(out).lines().map_while(Result::ok) {
                // After a kill nothing is counted anymore.
                let _ = tell.send(());
            }
        });
        LiveRun { child, lines }
    }

    /// Waits for `count` lines, or until it exits.
    pub(crate) fn wait_for(&self, count: usize) {
        (0..count).try_for_each(|_| self.lines.recv()).unwrap_or_default();
    }

    /// Waits for a duration, or until it exits.
    pub(crate) fn wait_for_duration(&self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.lines.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Kills it with SIGKILL; returns its exit code if it had already exited.
    pub(crate) fn kill(mut self) -> Option<i32> {
        let _ = self.child.kill();
        self.child.wait().expect("the process exits").code()
    }
}
