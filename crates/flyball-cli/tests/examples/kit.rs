//! Running an example in a folder of its own, and reading back what the store has of it.

use flyball_journal::Address;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A folder in which examples are run: its own store, its own HOME, and a log of everything that their programs did.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
}

/// What a command gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// One event of a session, with its decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) event: Value,
    pub(crate) decision: Value,
}

impl Entry {
    pub(crate) fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    pub(crate) fn node(&self) -> &str {
        self.event["node"].as_str().unwrap_or_default()
    }
}

impl Place {
    /// An empty place.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        // The search for flyball.yaml and for the store stops here, whatever stands above.
        std::fs::create_dir_all(folder.join(".git")).expect("a folder");
        std::fs::create_dir_all(folder.join("home")).expect("a folder");
        let place = Place { folder };
        place.watch_cargo();
        place
    }

    /// One example runs cargo, which writes no log of ours; a script in its place does, and hands over.
    fn watch_cargo(&self) {
        let cargo = std::env::var("CARGO").expect("tests are run by cargo");
        let log = format!(
            r#"echo "gate $FLYBALL_SESSION $FLYBALL_NODE $FLYBALL_TURN" >> '{}'"#,
            self.steps().display()
        );
        let script = format!("#!/bin/sh\n{log}\nexec '{cargo}' \"$@\"\n");
        let bin = self.folder.join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("cargo"), script).expect("a script");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join("cargo"), all).expect("its mode");
    }

    /// The file into which the programs of the examples write a line each time they run.
    pub(crate) fn steps(&self) -> PathBuf {
        self.folder.join("steps.log")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(args).current_dir(&self.folder).env_clear();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command.env("HOME", self.folder.join("home")).env("USER", "anna").env("STEPS", self.steps());
        // One example runs cargo; where it lives is told by these, or by the real HOME.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for (name, usual) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let place = std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from);
            if place.is_dir() {
                command.env(name, place);
            }
        }
        if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("the binary starts");
        Ran {
            code: output.status.code().expect("an exit code, not a signal"),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Starts a command whose lines can be counted while it runs.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts")
    }

    /// All sessions of the store whose names begin like this, by name, each from its first event on.
    pub(crate) fn sessions(&self, prefix: &str) -> BTreeMap<String, Vec<Entry>> {
        let address = Address::read("sqlite:.flyball/flyball.db", &self.folder).expect("an address");
        if !address.exists() {
            return BTreeMap::new();
        }
        // A store whose maker was killed has nothing yet.
        let Ok(desk) = address.open_existing() else { return BTreeMap::new() };
        let heads = desk.heads(flyball_journal::Which::All, 10_000).expect("the sessions");
        let names = heads.into_iter().map(|head| head.session).filter(|name| name.starts_with(prefix));
        let read = |name: String| {
            let records = desk.records(&name, 1, u64::MAX).expect("the records");
            let entry = |record: flyball_journal::Record| Entry {
                event: serde_json::from_str(&record.text).expect("an event"),
                decision: serde_json::from_str(&record.decision).expect("a decision"),
            };
            (name, records.into_iter().map(entry).collect::<Vec<_>>())
        };
        names.map(read).filter(|(_, entries)| !entries.is_empty()).collect()
    }

    /// The text of every file of a run's workspace, by its path; what was built is left out.
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

    /// How often each program ran, by the key that it wrote.
    pub(crate) fn executions(&self) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.steps()).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            *counts.entry(line.to_owned()).or_insert(0) += 1;
        }
        counts
    }
}

/// What was decided and what it was about, without what differs from run to run: times, and the names of files with large outputs.
pub(crate) fn decisions(entries: &[Entry]) -> Vec<Value> {
    let shown = |entry: &Entry| {
        let decision = &entry.decision;
        json!({
            "type": entry.kind(), "node": entry.node(), "seq": decision["seq"],
            "decision": decision["decision"], "state": decision["state"], "trips": decision["trips"],
            "effects": repeatable(&decision["effects"]), "feedback": decision["feedback"],
            "outcome": entry.event["outcome"], "to": entry.event["to"], "text": entry.event["text"],
            "tool": entry.event["tool"], "ok": entry.event["ok"], "error": entry.event["error"],
            "failing": entry.event["failing"], "hash": entry.event["hash"],
        })
    };
    entries.iter().map(shown).collect()
}

/// The effects without what differs from run to run: how long a check took, and what it printed.
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

/// A run whose lines are counted while it goes on.
pub(crate) struct Live {
    child: Child,
    lines: mpsc::Receiver<()>,
}

impl Live {
    pub(crate) fn new(mut child: Child) -> Self {
        let out = child.stdout.take().expect("its output");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for _ in BufReader::new(out).lines().map_while(Result::ok) {
                // Whoever killed it does not count any more.
                let _ = tell.send(());
            }
        });
        Live { child, lines }
    }

    /// Waits until so many lines have come, or it has ended.
    pub(crate) fn wait_for(&self, count: usize) {
        (0..count).try_for_each(|_| self.lines.recv()).unwrap_or_default();
    }

    /// Lets it go on for a while, or until it ends.
    pub(crate) fn go_on_for(&self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.lines.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Kills it with SIGKILL; its exit code if it had ended before.
    pub(crate) fn kill(mut self) -> Option<i32> {
        let _ = self.child.kill();
        self.child.wait().expect("it ends").code()
    }
}
