//! Builds histories and runs the binary that audits them.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Output of a run.
pub(crate) struct AuditOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The root of the repository.
pub(crate) fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A new, empty directory for one test.
pub(crate) fn test_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-{name}"));
    let _ = fs::remove_dir_all(&path);
    // Stops the search for flyball.yaml here.
    fs::create_dir_all(path.join(".git")).expect("a folder");
    fs::create_dir_all(path.join("runs")).expect("a folder");
    path
}

/// Runs `flyball` in a directory with a clean environment.
pub(crate) fn flyball(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> AuditOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    let output = command.args(args).current_dir(folder).env_clear().envs(env.iter().copied()).output();
    let output = output.expect("the binary runs");
    AuditOutput {
        code: output.status.code().expect("an exit code, not a signal"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// The audit of `runs` as JSON.
pub(crate) fn audit_json(folder: &Path, more: &[&str]) -> Value {
    let args: Vec<&str> = ["audit", "runs", "--json"].into_iter().chain(more.iter().copied()).collect();
    let ran = flyball(folder, &args, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

/// Builder of one session: calls with their results, one second apart.
pub(crate) struct HistoryBuilder {
    session: String,
    started_at: u64,
    lines: Vec<String>,
    calls: u64,
}

impl HistoryBuilder {
    /// A session that starts on a day of November 2023.
    pub(crate) fn new(session: &str, day: u64) -> Self {
        HistoryBuilder {
            session: session.to_owned(),
            started_at: 1_700_000_000_000 + day * 86_400_000,
            lines: Vec::new(),
            calls: 0,
        }
    }

    pub(crate) fn event(&mut self, mut value: Value) -> &mut Self {
        value["session"] = json!(self.session);
        value["at"] = json!(self.started_at + self.lines.len() as u64 * 1000);
        self.lines.push(value.to_string());
        self
    }

    /// One call that costs a thousand tokens and a cent.
    pub(crate) fn call(&mut self, tool: &str, argument: &str, output: &str) -> &mut Self {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        let usage = json!({"tokens_in": 900, "tokens_out": 100, "cost_usd": 0.01});
        self.event(json!({"type": "tool.requested", "call": call, "tool": tool, "args": {"x": argument}, "usage": usage}));
        self.event(json!({"type": "tool.finished", "call": call, "ok": true, "output": output}))
    }

    /// The same call with the same result, repeated.
    pub(crate) fn repeated_call(&mut self, tool: &str, times: u64) -> &mut Self {
        for _ in 0..times {
            self.call(tool, "again", "as before");
        }
        self
    }

    /// Calls that make progress.
    pub(crate) fn useful_calls(&mut self, times: u64) -> &mut Self {
        for _ in 0..times {
            let what = format!("file {}", self.calls);
            self.call("write_file", &what, "written");
        }
        self
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    pub(crate) fn save(&self, folder: &Path, name: &str) {
        let path = folder.join("runs").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, self.text()).expect("a file");
    }
}

/// A directory with two loops, one polling run, and two runs without loops.
pub(crate) fn mixed_histories(name: &str) -> PathBuf {
    let folder = test_dir(name);
    HistoryBuilder::new("long", 0)
        .useful_calls(3)
        .repeated_call("bash", 20)
        .useful_calls(10)
        .save(&folder, "a/long.jsonl");
    HistoryBuilder::new("short", 1)
        .useful_calls(1)
        .repeated_call("grep", 8)
        .save(&folder, ".agent/short.jsonl");
    let mut waits = HistoryBuilder::new("waits", 2);
    waits
        .repeated_call("job_status", 9)
        .call("job_status", "again", "done: 12 files")
        .useful_calls(2)
        .save(&folder, "waits.jsonl");
    HistoryBuilder::new("honest-1", 2).useful_calls(12).save(&folder, "honest-1.jsonl");
    HistoryBuilder::new("honest-2", 2)
        .useful_calls(4)
        .repeated_call("read_file", 2)
        .save(&folder, "honest-2.jsonl");
    folder
}
