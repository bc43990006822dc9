//! Runs the real binary: arguments and stdin in, exit code and both output streams out.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output of a run.
pub(crate) struct CommandOutput {
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
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    let _ = std::fs::remove_dir_all(state_dir(&path));
    std::fs::create_dir_all(&path).expect("a folder");
    // Stops the search for flyball.yaml here.
    std::fs::create_dir_all(path.join(".git")).expect("a folder");
    path
}

/// State directory of the user who works in a directory: next to it, because nothing in a project belongs to the
/// user.
pub(crate) fn state_dir(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// Trusts the current policy file of a directory.
pub(crate) fn trust_policy(folder: &Path) {
    let run = run_flyball(folder, &["trust"], b"", &[]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

/// Runs `flyball` in a directory with a clean environment.
pub(crate) fn run_flyball(folder: &Path, args: &[&str], input: &[u8], env: &[(&str, &str)]) -> CommandOutput {
    if env.iter().any(|(name, _)| *name == "HOME") {
        return run_flyball_with_env(folder, args, input, env);
    }
    let state = state_dir(folder);
    let own = ("XDG_STATE_HOME", state.to_str().expect("UTF-8"));
    run_flyball_with_env(folder, args, input, &[&[own], env].concat())
}

/// Runs `flyball` in a directory with only these variables: without a home or state directory unless they set one.
pub(crate) fn run_flyball_with_env(
    folder: &Path,
    args: &[&str],
    input: &[u8],
    env: &[(&str, &str)],
) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_clear().envs(env.iter().copied());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let bytes = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer");
    CommandOutput {
        code: output.status.code().expect("an exit code, not a signal"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Fixture files with a suffix, sorted.
pub(crate) fn fixture_files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let path = repo_root().join("fixtures").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// The histories of a fixture directory: event files with recorded decisions.
pub(crate) fn fixture_histories(folder: &str) -> Vec<PathBuf> {
    let all = fixture_files(folder, ".jsonl");
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        !name.ends_with(".decisions.jsonl") && !name.ends_with(".quiet.jsonl")
    };
    all.into_iter().filter(wanted).collect()
}

/// The recorded decisions of a history.
pub(crate) fn recorded_decisions(file: &Path) -> Vec<String> {
    let name = file.to_string_lossy().replace(".jsonl", ".decisions.jsonl");
    std::fs::read_to_string(&name)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A store that a test uses with one process per request.
pub(crate) struct CliStore {
    pub(crate) folder: PathBuf,
    pub(crate) url: Option<String>,
}

impl CliStore {
    /// The project store in a new directory.
    pub(crate) fn project_store(name: &str) -> Self {
        CliStore { folder: test_dir(name), url: None }
    }

    /// A store in a named file.
    pub(crate) fn in_file(name: &str) -> Self {
        CliStore { folder: test_dir(name), url: Some("sqlite:events.db".to_owned()) }
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(if self.url.is_some() { "events.db" } else { ".flyball/flyball.db" })
    }

    /// Sends lines to a new process; returns its answers.
    pub(crate) fn observe(&self, lines: &str) -> Vec<Value> {
        let run = self.run_with(&["observe", "--store"], lines.as_bytes());
        run.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Sends one event to a new process; returns its answer.
    pub(crate) fn event(&self, line: &str) -> Value {
        let mut answers = self.observe(line);
        assert_eq!(answers.len(), 1, "{line}");
        answers.remove(0)
    }

    /// Runs a command as the operator anna.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        let mut args = args.to_vec();
        if self.url.is_some() {
            args.push("--store");
        }
        self.run_with(&args, b"")
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut args = args.to_vec();
        args.extend(self.url.as_deref());
        run_flyball(&self.folder, &args, input, &[("USER", "anna")])
    }

    /// Runs a command with `--json`; returns its output.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let run = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{args:?}: {}{}", run.out, run.err))
    }

    /// The database, opened with a separate SQLite connection.
    pub(crate) fn open_database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).expect("the database")
    }

    /// Numeric result of a query.
    pub(crate) fn count(&self, query: &str) -> i64 {
        self.open_database()
            .query_row(query, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}
