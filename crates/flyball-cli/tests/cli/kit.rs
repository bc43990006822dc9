//! Running the real binary: arguments and stdin in, exit code and both streams out.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A folder of its own for one test, empty at the start.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    let _ = std::fs::remove_dir_all(state(&path));
    std::fs::create_dir_all(&path).expect("a folder");
    // The search for flyball.yaml stops here, whatever stands above.
    std::fs::create_dir_all(path.join(".git")).expect("a folder");
    path
}

/// The state folder of the user who works in a folder: beside it, because nothing in a project is the user's own.
pub(crate) fn state(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// The user trusts the policy file of a folder, as it is now.
pub(crate) fn trusted(folder: &Path) {
    let run = flyball(folder, &["trust"], b"", &[]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

/// Runs `flyball` in a folder with a clean environment.
pub(crate) fn flyball(folder: &Path, args: &[&str], input: &[u8], env: &[(&str, &str)]) -> Run {
    if env.iter().any(|(name, _)| *name == "HOME") {
        return flyball_bare(folder, args, input, env);
    }
    let state = state(folder);
    let own = ("XDG_STATE_HOME", state.to_str().expect("UTF-8"));
    flyball_bare(folder, args, input, &[&[own], env].concat())
}

/// Runs `flyball` in a folder with these variables and no other: without a home or a state folder, if they name none.
pub(crate) fn flyball_bare(folder: &Path, args: &[&str], input: &[u8], env: &[(&str, &str)]) -> Run {
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
    Run {
        code: output.status.code().expect("an exit code, not a signal"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Files of a folder of fixtures whose names end in a way, sorted.
pub(crate) fn fixtures(folder: &str, ending: &str) -> Vec<PathBuf> {
    let path = root().join("fixtures").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// The histories of a folder of fixtures: events that have their decisions beside them.
pub(crate) fn histories(folder: &str) -> Vec<PathBuf> {
    let all = fixtures(folder, ".jsonl");
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        !name.ends_with(".decisions.jsonl") && !name.ends_with(".quiet.jsonl")
    };
    all.into_iter().filter(wanted).collect()
}

/// The decisions that were recorded for a history.
pub(crate) fn recorded(file: &Path) -> Vec<String> {
    let name = file.to_string_lossy().replace(".jsonl", ".decisions.jsonl");
    std::fs::read_to_string(&name)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A store that one test talks to, with a process for every request.
pub(crate) struct Store {
    pub(crate) folder: PathBuf,
    pub(crate) url: Option<String>,
}

impl Store {
    /// The project's own store in a folder of its own.
    pub(crate) fn own(name: &str) -> Self {
        Store { folder: folder(name), url: None }
    }

    /// A store in a file that is named.
    pub(crate) fn file(name: &str) -> Self {
        Store { folder: folder(name), url: Some("sqlite:events.db".to_owned()) }
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(if self.url.is_some() { "events.db" } else { ".flyball/flyball.db" })
    }

    /// Sends lines through a process of their own; gives its answers.
    pub(crate) fn observe(&self, lines: &str) -> Vec<Value> {
        let run = self.run_with(&["observe", "--store"], lines.as_bytes());
        run.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Sends one event through a process of its own; gives its answer.
    pub(crate) fn event(&self, line: &str) -> Value {
        let mut answers = self.observe(line);
        assert_eq!(answers.len(), 1, "{line}");
        answers.remove(0)
    }

    /// Runs a command of a person who is called anna.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        let mut args = args.to_vec();
        if self.url.is_some() {
            args.push("--store");
        }
        self.run_with(&args, b"")
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Run {
        let mut args = args.to_vec();
        args.extend(self.url.as_deref());
        flyball(&self.folder, &args, input, &[("USER", "anna")])
    }

    /// Runs a command with `--json`; gives what it printed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let run = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{args:?}: {}{}", run.out, run.err))
    }

    /// The database, as somebody with a tool of their own sees it.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).expect("the database")
    }

    /// A number that a query gives.
    pub(crate) fn count(&self, query: &str) -> i64 {
        self.sql().query_row(query, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}
