//! Gate detection tests. Uses real tools where they are installed, and small scripts in place of project-local tools.

use super::detect;
use crate::gates::gate::{QualityGate, ResultsLocation};
use crate::gates::scratch::ScratchDir;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

/// A workspace with files.
fn workspace(files: &[(&str, &str)]) -> ScratchDir {
    let folder = ScratchDir::new().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, text).expect("a file");
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("rights");
        }
    }
    folder
}

fn find<'a>(gates: &'a [QualityGate], name: &str) -> &'a QualityGate {
    gates.iter().find(|gate| gate.name == name).unwrap_or_else(|| panic!("no gate {name} in {gates:?}"))
}

fn reason<'a>(gates: &'a [QualityGate], name: &str) -> &'a str {
    find(gates, name).skip.as_deref().unwrap_or_else(|| panic!("{name} is not skipped"))
}

fn command(gates: &[QualityGate], name: &str) -> String {
    assert_eq!(find(gates, name).skip, None, "{name}");
    find(gates, name).argv.join(" ")
}

/// Whether a tool works here. Tests that need it are skipped with a message otherwise.
fn is_installed(tool: &str) -> bool {
    let works =
        std::process::Command::new(tool).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !works {
        writeln!(std::io::stderr(), "LEFT OUT: {tool} is not installed").expect("a terminal");
    }
    works
}

const MANIFEST: &str = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";

#[test]
fn rust_project_has_build_tests_and_lint() {
    let folder = workspace(&[("Cargo.toml", MANIFEST), ("src/lib.rs", "")]);
    let gates = detect(folder.path());
    assert_eq!(command(&gates, "build"), "cargo build --workspace --message-format=json");
    assert_eq!(find(&gates, "build").format, ResultsFormat::Cargo);
    let tests = find(&gates, "tests");
    assert_eq!(tests.needs, ["build"]);
    if tests.argv.contains(&"nextest".to_owned()) {
        assert_eq!(
            (tests.format, &tests.results),
            (ResultsFormat::Junit, &ResultsLocation::Scratch("junit.xml".to_owned()))
        );
        // nextest does not run doctests.
        assert_eq!(find(&gates, "doctests").check, "tests");
        assert!(command(&gates, "doctests").contains("--doc"));
    } else {
        assert_eq!(tests.format, ResultsFormat::Cargo);
    }
}

#[test]
fn binary_crate_skips_doctests() {
    let folder = workspace(&[("Cargo.toml", MANIFEST), ("src/main.rs", "fn main() {}")]);
    let gates = detect(folder.path());
    if let Some(gate) = gates.iter().find(|gate| gate.name == "doctests") {
        assert_eq!(gate.skip.as_deref(), Some("no library target with doctests"));
    }
}

/// Fake interpreter that reports the project's installed modules.
const PYTHON: &str = "#!/bin/sh\ncase \"$2\" in pytest|ruff) echo 1.0;; *) exit 1;; esac\n";

#[test]
fn python_project_uses_its_virtualenv() {
    let folder = workspace(&[
        ("pyproject.toml", "[project]\nname = \"a\"\n"),
        (".venv/bin/python", PYTHON),
        ("tests/test_a.py", ""),
    ]);
    let gates = detect(folder.path());
    assert_eq!(
        command(&gates, "tests"),
        ".venv/bin/python -m pytest --color=no --junitxml={results} -o junit_family=xunit1"
    );
    assert_eq!(command(&gates, "lint"), ".venv/bin/python -m ruff check --output-format json");
    assert_eq!(reason(&gates, "build"), "Python has no build step");
    assert!(find(&gates, "tests").needs.is_empty());
}

#[test]
fn python_project_without_tests_reports_the_reason() {
    let folder =
        workspace(&[("requirements.txt", ""), (".venv/bin/python", PYTHON), (".venv/lib/test_x.py", "")]);
    let gates = detect(folder.path());
    assert_eq!(reason(&gates, "tests"), "no tests: no file matches test_*.py or *_test.py");
}

#[test]
fn broken_tools_count_as_missing() {
    // A command that exists but fails, like an empty shim.
    let nothing = "#!/bin/sh\nexit 127\n";
    let folder = workspace(&[("setup.py", ""), (".venv/bin/python", nothing), ("a_test.py", "")]);
    let gates = detect(folder.path());
    let tests = find(&gates, "tests");
    assert_ne!(tests.argv.first().map(String::as_str), Some(".venv/bin/python"));
    if let Some(reason) = &tests.skip {
        assert_eq!(reason, "pytest is not installed: `pip install pytest`");
    }
}

#[test]
fn npm_scripts_write_reports_where_supported() {
    if !is_installed("npm") {
        return;
    }
    let with = |scripts: &str| {
        let package = format!("{{\"scripts\": {scripts}}}");
        let folder = workspace(&[("package.json", &package)]);
        detect(folder.path())
    };
    let gates = with(r#"{"test": "tsc -p . && vitest run", "lint": "eslint src", "build": "vite build"}"#);
    assert_eq!(
        command(&gates, "tests"),
        "npm run --silent test -- --reporter=default --reporter=junit --outputFile.junit={results}"
    );
    assert_eq!(command(&gates, "lint"), "npm run --silent lint -- -f json -o {results}");
    assert_eq!(command(&gates, "build"), "npm run --silent build");
    assert_eq!(find(&gates, "tests").env.get("CI").map(String::as_str), Some("true"));
    let gates = with(r#"{"test": "cross-env A=1 jest", "lint": "biome check"}"#);
    assert_eq!(command(&gates, "tests"), "npm run --silent test -- --json --outputFile={results}");
    assert_eq!(
        (command(&gates, "lint"), find(&gates, "lint").format),
        ("npm run --silent lint".to_owned(), ResultsFormat::Auto)
    );
    assert_eq!(reason(&gates, "build"), "package.json has no `build` script");
    let gates = with(r#"{"test": "node --test test/a.js"}"#);
    assert_eq!(
        (command(&gates, "tests"), find(&gates, "tests").format),
        ("npm run --silent test".to_owned(), ResultsFormat::Tap)
    );
    let gates = with(r#"{"test": "mocha spec"}"#);
    assert_eq!(command(&gates, "tests"), "npm run --silent test -- --reporter tap");
    let gates = with(r#"{"test": "jest && echo done"}"#);
    assert_eq!(find(&gates, "tests").format, ResultsFormat::Auto, "extra arguments would be passed to echo");
}

#[test]
fn npm_package_reports_why_a_gate_is_skipped() {
    if !is_installed("npm") {
        return;
    }
    let placeholder = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    let gates = detect(workspace(&[("package.json", placeholder)]).path());
    assert_eq!(reason(&gates, "tests"), "no tests configured: the `test` script is npm's placeholder");
    assert_eq!(reason(&gates, "lint"), "package.json has no `lint` script and ESLint is not configured");
    let gates = detect(workspace(&[("package.json", "{}")]).path());
    assert_eq!(reason(&gates, "tests"), "package.json has no `test` script");
    let wants = r#"{"scripts": {"test": "jest"}, "devDependencies": {"jest": "^30"}}"#;
    let gates = detect(workspace(&[("package.json", wants)]).path());
    assert_eq!(reason(&gates, "tests"), "the packages are not installed: run `npm install`");
    let gates = detect(workspace(&[("package.json", "{nonsense")]).path());
    assert!(reason(&gates, "tests").starts_with("cannot parse package.json: "));
}

#[test]
fn type_check_is_separate_unless_part_of_the_build() {
    if !is_installed("npm") {
        return;
    }
    let files = |package| {
        [("package.json", package), ("tsconfig.json", "{}"), ("node_modules/.bin/tsc", "#!/bin/sh\n")]
    };
    let gates = detect(workspace(&files("{}")).path());
    assert_eq!(command(&gates, "types"), "node_modules/.bin/tsc --noEmit --pretty false");
    assert_eq!((find(&gates, "types").kind, &*find(&gates, "types").check), (CheckKind::Build, "types"));
    let gates = detect(workspace(&files(r#"{"scripts": {"typecheck": "tsc --noEmit"}}"#)).path());
    assert_eq!(command(&gates, "types"), "npm run --silent typecheck");
    let gates = detect(workspace(&files(r#"{"scripts": {"build": "tsc && vite build"}}"#)).path());
    assert!(!gates.iter().any(|gate| gate.name == "types"));
}

#[test]
fn go_module_has_build_vet_and_tests() {
    let folder = workspace(&[("go.mod", "module example.com/a\n"), ("a.go", "package a\n")]);
    let gates = detect(folder.path());
    if find(&gates, "build").skip.is_some() {
        assert_eq!(reason(&gates, "build"), "go is not installed");
        writeln!(std::io::stderr(), "LEFT OUT: go is not installed").expect("a terminal");
        return;
    }
    assert_eq!(command(&gates, "build"), "go build -o /dev/null ./...");
    assert_eq!(command(&gates, "lint"), "go vet ./...");
    assert_eq!(reason(&gates, "tests"), "no tests: no file matches *_test.go");
    fs::write(folder.path().join("a_test.go"), "package a\n").expect("a file");
    assert_eq!(command(&detect(folder.path()), "tests"), "go test -json ./...");
}

#[test]
fn multiple_projects_get_labeled_gates_and_share_checks() {
    let folder = workspace(&[
        ("core/Cargo.toml", MANIFEST),
        ("core/src/lib.rs", ""),
        ("api/setup.py", ""),
        ("node_modules/x/setup.py", ""),
    ]);
    let gates = detect(folder.path());
    let build = find(&gates, "core rust build");
    assert_eq!((build.dir.to_str(), &*build.check), (Some("core"), "build"));
    assert_eq!(find(&gates, "core rust tests").needs, ["core rust build"]);
    assert_eq!(find(&gates, "api python tests").check, "tests");
    assert!(!gates.iter().any(|gate| gate.name.contains("node_modules")));
}

#[test]
fn directory_without_project_reports_the_reason() {
    let folder = workspace(&[("README.md", "words")]);
    let gates = detect(folder.path());
    assert_eq!(gates.len(), 1);
    assert!(reason(&gates, "tests").starts_with("no project recognized"));
}
