//! Python: pytest with a JUnit report, and Ruff if the project has it installed or configured.

use super::probe::ProjectProbe;
use crate::gates::gate::QualityGate;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;

const PROJECT_FILES: [&str; 8] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "pytest.ini",
    "tox.ini",
    "Pipfile",
    "conftest.py",
];

/// Interpreter commands in order of preference, each with a flag: whether it belongs to the project. The system's come
/// last.
fn interpreters(probe: &ProjectProbe) -> Vec<(Vec<&'static str>, bool)> {
    let mut commands = Vec::new();
    for python in [".venv/bin/python", "venv/bin/python", "env/bin/python"] {
        if probe.has(&[python]) {
            commands.push((vec![python, "-m"], true));
        }
    }
    if probe.has(&["uv.lock"]) {
        commands.push((vec!["uv", "run", "--no-sync", "python", "-m"], true));
    }
    if probe.has(&["poetry.lock"]) {
        commands.push((vec!["poetry", "run", "python", "-m"], true));
    }
    commands.push((vec!["python3", "-m"], false));
    commands.push((vec!["python", "-m"], false));
    commands
}

/// First working command for a module, and whether it belongs to the project.
fn module_command(probe: &ProjectProbe, module: &'static str) -> Option<(Vec<&'static str>, bool)> {
    interpreters(probe).into_iter().find_map(|(mut command, own)| {
        command.push(module);
        let asked: Vec<&str> = command.iter().copied().chain(["--version"]).collect();
        probe.works(&asked).then_some((command, own))
    })
}

pub(super) fn gates(probe: &ProjectProbe) -> Option<Vec<QualityGate>> {
    if !probe.has(&PROJECT_FILES) {
        return None;
    }
    let build = QualityGate::skipped("build", CheckKind::Build, "Python has no build step");
    let gates = vec![build, tests_gate(probe), lint_gate(probe)];
    Some(gates.into_iter().map(|gate| gate.env("PYTHONDONTWRITEBYTECODE", "1")).collect())
}

fn project_settings(probe: &ProjectProbe) -> String {
    ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"]
        .iter()
        .filter_map(|name| probe.read(name))
        .collect()
}

fn tests_gate(probe: &ProjectProbe) -> QualityGate {
    let is_test =
        |name: &str| name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"));
    let named_otherwise = project_settings(probe).contains("python_files");
    if !named_otherwise && !probe.any_file(&is_test) {
        let reason = "no tests: no file matches test_*.py or *_test.py";
        return QualityGate::skipped("tests", CheckKind::Tests, reason);
    }
    let Some((mut argv, _)) = module_command(probe, "pytest") else {
        return QualityGate::skipped(
            "tests",
            CheckKind::Tests,
            "pytest is not installed: `pip install pytest`",
        );
    };
    // The older report family includes files and lines.
    argv.extend(["--color=no", "--junitxml={results}", "-o", "junit_family=xunit1"]);
    QualityGate::new("tests", CheckKind::Tests, &argv).format(ResultsFormat::Junit).results_in("results.xml")
}

fn lint_gate(probe: &ProjectProbe) -> QualityGate {
    let set_up = probe.has(&["ruff.toml", ".ruff.toml"]) || project_settings(probe).contains("[tool.ruff");
    let (mut argv, own) = match module_command(probe, "ruff") {
        Some(command) => command,
        None if probe.works(&["ruff", "--version"]) => (vec!["ruff"], false),
        None => {
            return QualityGate::skipped(
                "lint",
                CheckKind::Lint,
                "Ruff is not installed: `pip install ruff`",
            );
        }
    };
    // A system-wide linter with default rules is not this project's gate.
    if !set_up && !own {
        let reason = "Ruff is not configured for this project: no ruff.toml and no [tool.ruff]";
        return QualityGate::skipped("lint", CheckKind::Lint, reason);
    }
    argv.extend(["check", "--output-format", "json"]);
    QualityGate::new("lint", CheckKind::Lint, &argv).format(ResultsFormat::Ruff)
}
