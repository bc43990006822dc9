//! Every environment variable: each policy key that a variable can set changes a decision, and each variable that the
//! program reads, or sets for programs that it starts, changes what a command does. Which variables there are is read from
//! the sources, so that a new one without a proof fails. The proofs are `environment.json`.

use crate::difference::{Difference, complete, recorded, settle};
use crate::kit::{folder, root};
use crate::policy::variables;
use crate::schema::policy_keys;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names that programs of a run inherit, and words of shells: nothing here reads them for itself.
const PASSED_ON: [&str; 3] =
    ["flyball-run/src/process/environment.rs", "flyball-run/src/tools/risk/judge.rs", "flyball-shell/"];
/// Words in capitals that are no variables of this program.
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

/// How the effect of a variable is shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    variable: String,
    /// `$place` is the folder of the test.
    #[serde(default)]
    value: String,
    /// The value on the other side; without it the variable is not set there.
    instead: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Variables on both sides.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files that are looked at afterwards.
    #[serde(default)]
    reads: Vec<String>,
    /// Commands before, without the variable.
    #[serde(default)]
    before: Vec<Step>,
    #[serde(default)]
    run: Step,
    /// What the program says, and the names of the files that are there afterwards.
    shows: Option<String>,
    hides: Option<String>,
    /// It is set for programs that are started: one of them says this.
    tells: Option<String>,
    /// A test of its own that uses it.
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
        // A command may end without reading what it is told.
        let _ = child.stdin.take().unwrap().write_all(fill(&self.input).as_bytes());
        let run = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}\n{}{}", run.status, text(&run.stdout), text(&run.stderr))
    }
}

impl Proof {
    fn observed(&self, side: &str, value: Option<&String>) -> String {
        let place = folder(&format!("wired-environment-{}-{side}", self.variable));
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

    fn fault(&self) -> Option<String> {
        let variable = &self.variable;
        if let Some(file) = &self.test {
            let text = std::fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
            return (!text.contains(variable)).then(|| format!("{variable}: {file} does not use it"));
        }
        if let Some(words) = &self.tells {
            let told = self.observed("told", None);
            return (!told.contains(words)).then(|| format!("{variable}: no program says {words:?}\n{told}"));
        }
        let with = self.observed("with", Some(&self.value));
        let without = self.observed("without", self.instead.as_ref());
        let difference = Difference { shows: self.shows.clone(), hides: self.hides.clone() };
        let fault = difference.fault(&with, &without)?;
        Some(format!("{variable}: {fault}\n== with:\n{with}\n== without:\n{without}"))
    }
}

/// The files below a folder.
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

/// The sources of the program, without their tests.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root().join("crates")).unwrap().display().to_string();
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

/// The variables that the sources name: words in capitals with an underscore, and words in capitals where variables are
/// read.
fn named_variables() -> BTreeSet<String> {
    let is_name = |word: &str| {
        word.len() >= 3
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.ends_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let mut found = BTreeSet::new();
    for (name, text) in sources(&root().join("crates")) {
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
    let file = root().join("crates/flyball-cli/tests/wired/environment.json");
    let proofs: Vec<Proof> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let wanted = std::env::var("FLYBALL_SCENARIO").unwrap_or_default();
    let chosen = proofs.iter().filter(|proof| proof.variable.contains(&wanted));
    settle(chosen.filter_map(Proof::fault).collect());
    let named = named_variables();
    let proven = proofs.iter().map(|proof| proof.variable.as_str());
    complete("environment variables", named.iter().map(String::as_str), proven);
}

#[test]
fn every_policy_key_that_a_variable_can_set_changes_a_decision() {
    let place = folder("wired-variables");
    let observe = Step { args: vec!["observe".to_owned()], input: String::new() };
    let (mut faults, mut names) = (Vec::new(), BTreeSet::new());
    for variable in variables(&policy_keys()) {
        let lines: Vec<String> = variable.events.iter().map(Value::to_string).collect();
        let step = Step { input: lines.join("\n"), ..observe.clone() };
        let state = ("XDG_STATE_HOME".to_owned(), "$place/state".to_owned());
        let mut env = BTreeMap::from([state]);
        let without = variable.outlined(&step.run(&place, &env));
        env.insert(variable.name.clone(), variable.value.clone());
        let with = variable.outlined(&step.run(&place, &env));
        let fault = variable.difference.fault(&with, &without);
        faults.extend(fault.map(|fault| format!("{}={}: {fault}\n{with}", variable.name, variable.value)));
        names.insert(variable.name);
    }
    settle(faults);
    recorded("policy keys as environment variables", names.len());
}

#[test]
fn the_socket_of_a_server_is_among_the_runtime_files() {
    let place = folder("wired-runtime");
    let serve = |runtime: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["serve", "--no-tcp", "--store", "memory:"]).current_dir(&place).env_clear();
        command.env("XDG_STATE_HOME", place.join("state"));
        command.envs(runtime.map(|folder| ("XDG_RUNTIME_DIR", folder)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // Without the variable there is nowhere to listen.
    assert!(!serve(None).wait().unwrap().success());
    let mut server = serve(Some(&place));
    let socket = place.join("flyball.sock");
    let began = std::time::Instant::now();
    while !socket.exists() && began.elapsed() < crate::ear::PATIENCE {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let is_there = socket.exists();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_there, "XDG_RUNTIME_DIR: no socket in {}", place.display());
}
