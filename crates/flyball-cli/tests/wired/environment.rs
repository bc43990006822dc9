//! Every environment variable: each variable that sets a policy key changes a decision, and each variable that the
//! program reads, or sets for programs it starts, changes the behavior of a command. The list of variables is read from
//! the sources, so that a new one without a proof fails. The proofs are in `environment.json`.

use crate::command_harness::{repo_root, test_dir};
use crate::difference::{Difference, assert_complete, assert_no_errors, recorded};
use crate::policy_keys::variables;
use crate::schema_keys::policy_keys;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names that the programs of a run inherit, and shell words; the program itself does not read them.
const PASSED_ON: [&str; 3] =
    ["flyball-runner/src/process/environment.rs", "flyball-runner/src/tools/risk/", "flyball-shell/"];
/// Uppercase words that are not variables of this program.
const NO_VARIABLES: [&str; 11] = [
    "CARGO_PKG_VERSION",
    "CARGO_TERM_COLOR",
    "DB_PASSWORD",
    "MALFORMED_JSON",
    "QUALITY_BLOCKED",
    "QUALITY_PASSED",
    "TASK_COMPLETE",
    "TRUST_FOLDER",
    "TRUST_PARENT",
    "KEY",
    "NAME",
];

/// The proof that a variable has an effect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    variable: String,
    /// The value; `$place` is the test's folder.
    #[serde(default)]
    value: String,
    /// The value to compare with; if `None`, the variable is unset there.
    instead: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Variables set in both runs.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files to inspect afterwards.
    #[serde(default)]
    reads: Vec<String>,
    /// Commands to run before, without the variable.
    #[serde(default)]
    before: Vec<Step>,
    #[serde(default)]
    run: Step,
    /// Text in the program's output or in the list of files afterwards.
    shows: Option<String>,
    hides: Option<String>,
    /// For a variable set for started programs: text that one of them prints.
    tells: Option<String>,
    /// A separate test that uses it.
    test: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    args: Vec<String>,
    #[serde(default)]
    input: String,
}

impl Step {
    fn run(&self, place: &Path, env: &BTreeMap<String, String>) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap().to_str().unwrap();
        let fill = |text: &str| text.replace("$place", place.to_str().unwrap()).replace("$program", program);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(self.args.iter().map(|arg| fill(arg))).current_dir(place).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.envs(env.iter().map(|(name, value)| (name, fill(value))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command may exit without reading its stdin.
        let _ = child.stdin.take().unwrap().write_all(fill(&self.input).as_bytes());
        let run = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}\n{}{}", run.status, text(&run.stdout), text(&run.stderr))
    }
}

impl Proof {
    fn observed(&self, side: &str, value: Option<&String>) -> String {
        let place = test_dir(&format!("wired-environment-{}-{side}", self.variable));
        for (name, text) in &self.files {
            let file = place.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text.replace("$place", place.to_str().unwrap())).unwrap();
            if name.starts_with("bin/") {
                let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(&file, all).unwrap();
            }
        }
        let mut env: BTreeMap<String, String> = [
            ("XDG_STATE_HOME", "$place/state"),
            ("HOME", "$place/home"),
            ("XDG_CONFIG_HOME", "$place/config"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        env.extend(self.env.clone());
        env.remove(&self.variable);
        env.retain(|_, value| value != "unset");
        self.before.iter().for_each(|step| drop(step.run(&place, &env)));
        env.extend(value.map(|value| (self.variable.clone(), value.clone())));
        let text = self.run.run(&place, &env);
        let there: String = names(&place, &place).into_iter().map(|name| format!("file {name}\n")).collect();
        let read = self.reads.iter().filter_map(|file| std::fs::read_to_string(place.join(file)).ok());
        format!("{text}{there}{}{}", read.collect::<String>(), stored(&place))
            .replace(place.to_str().unwrap(), "$place")
    }

    fn problem(&self) -> Option<String> {
        let variable = &self.variable;
        if let Some(file) = &self.test {
            let text = std::fs::read_to_string(repo_root().join("crates").join(file)).unwrap_or_default();
            return (!text.contains(variable)).then(|| format!("{variable}: {file} does not use it"));
        }
        if let Some(words) = &self.tells {
            let replied = self.observed("replied", None);
            return (!replied.contains(words))
                .then(|| format!("{variable}: no program prints {words:?}\n{replied}"));
        }
        let with = self.observed("with", Some(&self.value));
        let without = self.observed("without", self.instead.as_ref());
        let difference = Difference { shows: self.shows.clone(), hides: self.hides.clone() };
        let problem = difference.error(&with, &without)?;
        Some(format!("{variable}: {problem}\n== with:\n{with}\n== without:\n{without}"))
    }
}

/// The files in a folder.
fn names(folder: &Path, base: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let inside = |path: PathBuf| {
        if path.is_dir() {
            return names(&path, base);
        }
        BTreeSet::from([path.strip_prefix(base).unwrap().display().to_string()])
    };
    entries.flat_map(inside).collect()
}

/// The events of a store in the folder.
fn stored(place: &Path) -> String {
    let store = place.join("events.db");
    if !store.exists() {
        return String::new();
    }
    let sql = rusqlite::Connection::open(store).unwrap();
    let mut statement = sql.prepare("SELECT text FROM flyball_events ORDER BY pos").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| format!("{}\n", row.unwrap())).collect()
}

/// The sources of the program, without tests.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(repo_root().join("crates")).unwrap().display().to_string();
        if path.is_dir() && !name.ends_with("/tests") {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && name.contains("/src/") && !name.ends_with("_tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let end = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
            found.push((name, text[..end].to_owned()));
        }
    }
    found
}

/// The variables named in the sources: uppercase words with an underscore, and uppercase words where variables are
/// read.
fn named_variables() -> BTreeSet<String> {
    let is_name = |word: &str| {
        word.len() >= 3
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.ends_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let mut found = BTreeSet::new();
    for (name, text) in sources(&repo_root().join("crates")) {
        if PASSED_ON.iter().any(|part| name.contains(part)) {
            continue;
        }
        let is_reader = text.contains("var(") || text.contains("var_os(");
        let named = text.split('"').filter(|word| is_name(word) && (word.contains('_') || is_reader));
        found.extend(named.map(str::to_owned));
    }
    found.retain(|word| !NO_VARIABLES.contains(&word.as_str()));
    found
}

#[test]
fn every_variable_of_the_program_has_an_effect() {
    let file = repo_root().join("crates/flyball-cli/tests/wired/environment.json");
    let proofs: Vec<Proof> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let wanted = std::env::var("FLYBALL_SCENARIO").unwrap_or_default();
    let chosen = proofs.iter().filter(|proof| proof.variable.contains(&wanted));
    assert_no_errors(chosen.filter_map(Proof::problem).collect());
    let named = named_variables();
    let proven = proofs.iter().map(|proof| proof.variable.as_str());
    assert_complete("environment variables", named.iter().map(String::as_str), proven);
}

#[test]
fn every_policy_key_that_a_variable_can_set_changes_a_decision() {
    let place = test_dir("wired-variables");
    let observe = Step { args: vec!["observe".to_owned()], input: String::new() };
    let (mut errors, mut names) = (Vec::new(), BTreeSet::new());
    for variable in variables(&policy_keys()) {
        let lines: Vec<String> = variable.events.iter().map(Value::to_string).collect();
        let step = Step { input: lines.join("\n"), ..observe.clone() };
        let state = ("XDG_STATE_HOME".to_owned(), "$place/state".to_owned());
        let mut env = BTreeMap::from([state]);
        let without = variable.outlined(&step.run(&place, &env));
        env.insert(variable.name.clone(), variable.value.clone());
        let with = variable.outlined(&step.run(&place, &env));
        let problem = variable.difference.error(&with, &without);
        errors.extend(
            problem.map(|problem| format!("{}={}: {problem}\n{with}", variable.name, variable.value)),
        );
        names.insert(variable.name);
    }
    assert_no_errors(errors);
    recorded("policy keys as environment variables", names.len());
}

#[test]
fn the_socket_of_a_server_is_among_the_runtime_files() {
    let place = test_dir("wired-runtime");
    let serve = |runtime: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["serve", "--no-tcp", "--store", "memory:"]).current_dir(&place).env_clear();
        command.env("XDG_STATE_HOME", place.join("state"));
        command.envs(runtime.map(|folder| ("XDG_RUNTIME_DIR", folder)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // Without the variable there is no address to listen on.
    assert!(!serve(None).wait().unwrap().success());
    let mut server = serve(Some(&place));
    let socket = place.join("flyball.sock");
    let began = std::time::Instant::now();
    while !socket.exists() && began.elapsed() < crate::sse_client::RECEIVE_TIMEOUT {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let is_there = socket.exists();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_there, "XDG_RUNTIME_DIR: no socket in {}", place.display());
}
