//! Python: pytest with a JUnit report, and Ruff if the project has it or is set up for it.

use super::probe::Probe;
use crate::gates::gate::Gate;
use flyball_checks::CheckKind;
use flyball_checks::Format;

const PROJECT: [&str; 8] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "pytest.ini",
    "tox.ini",
    "Pipfile",
    "conftest.py",
];

/// How a module of the project's own environment is started, best first. The last ones belong to the system.
fn interpreters(probe: &Probe) -> Vec<(Vec<&'static str>, bool)> {
    let mut ways = Vec::new();
    for python in [".venv/bin/python", "venv/bin/python", "env/bin/python"] {
        if probe.has(&[python]) {
            ways.push((vec![python, "-m"], true));
        }
    }
    if probe.has(&["uv.lock"]) {
        ways.push((vec!["uv", "run", "--no-sync", "python", "-m"], true));
    }
    if probe.has(&["poetry.lock"]) {
        ways.push((vec!["poetry", "run", "python", "-m"], true));
    }
    ways.push((vec!["python3", "-m"], false));
    ways.push((vec!["python", "-m"], false));
    ways
}

/// The first way in which a module can be started, and whether it is the project's own.
fn way_to(probe: &Probe, module: &'static str) -> Option<(Vec<&'static str>, bool)> {
    interpreters(probe).into_iter().find_map(|(mut way, own)| {
        way.push(module);
        let asked: Vec<&str> = way.iter().copied().chain(["--version"]).collect();
        probe.works(&asked).then_some((way, own))
    })
}

pub(super) fn gates(probe: &Probe) -> Option<Vec<Gate>> {
    if !probe.has(&PROJECT) {
        return None;
    }
    let build = Gate::skipped("build", CheckKind::Build, "Python has no build step");
    let gates = vec![build, tests(probe), lint(probe)];
    Some(gates.into_iter().map(|gate| gate.env("PYTHONDONTWRITEBYTECODE", "1")).collect())
}

fn settings(probe: &Probe) -> String {
    ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"]
        .iter()
        .filter_map(|name| probe.read(name))
        .collect()
}

fn tests(probe: &Probe) -> Gate {
    let is_test =
        |name: &str| name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"));
    let named_otherwise = settings(probe).contains("python_files");
    if !named_otherwise && !probe.any_file(&is_test) {
        let reason = "no tests: there is no file named test_*.py or *_test.py";
        return Gate::skipped("tests", CheckKind::Tests, reason);
    }
    let Some((mut argv, _)) = way_to(probe, "pytest") else {
        return Gate::skipped("tests", CheckKind::Tests, "pytest is not installed: `pip install pytest`");
    };
    // The older family of reports names files and lines.
    argv.extend(["--color=no", "--junitxml={results}", "-o", "junit_family=xunit1"]);
    Gate::new("tests", CheckKind::Tests, &argv).format(Format::Junit).results_in("results.xml")
}

fn lint(probe: &Probe) -> Gate {
    let set_up = probe.has(&["ruff.toml", ".ruff.toml"]) || settings(probe).contains("[tool.ruff");
    let (mut argv, own) = match way_to(probe, "ruff") {
        Some(way) => way,
        None if probe.works(&["ruff", "--version"]) => (vec!["ruff"], false),
        None => return Gate::skipped("lint", CheckKind::Lint, "Ruff is not installed: `pip install ruff`"),
    };
    // Somebody else's linter with its own taste is not this project's gate.
    if !set_up && !own {
        let reason = "Ruff is not set up for this project: there is no ruff.toml and no [tool.ruff]";
        return Gate::skipped("lint", CheckKind::Lint, reason);
    }
    argv.extend(["check", "--output-format", "json"]);
    Gate::new("lint", CheckKind::Lint, &argv).format(Format::Ruff)
}
