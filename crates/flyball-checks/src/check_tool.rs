//! Tools whose raw output a client may send, and how each reports success.

use super::format::ResultsFormat;
use flyball::CheckKind;

/// A tool with parsable output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckTool {
    /// Its name in a check's `kind`.
    pub name: &'static str,
    /// The kind of check.
    pub kind: CheckKind,
    /// The format of its results.
    pub format: ResultsFormat,
    /// Whether it prints nothing on success.
    silent_on_success: bool,
}

const fn tool(name: &'static str, kind: CheckKind, quiet: bool) -> CheckTool {
    CheckTool { name, kind, format: ResultsFormat::Auto, silent_on_success: quiet }
}

/// All tools, and the four kinds of check for unlisted tools.
const TOOLS: [CheckTool; 35] = [
    tool("cargo-test", CheckKind::Tests, false),
    tool("nextest", CheckKind::Tests, false),
    tool("libtest", CheckKind::Tests, false),
    tool("pytest", CheckKind::Tests, false),
    tool("unittest", CheckKind::Tests, false),
    tool("go-test", CheckKind::Tests, false),
    tool("jest", CheckKind::Tests, false),
    tool("vitest", CheckKind::Tests, false),
    tool("mocha", CheckKind::Tests, false),
    tool("node-test", CheckKind::Tests, false),
    tool("junit", CheckKind::Tests, false),
    tool("tap", CheckKind::Tests, false),
    tool("tests", CheckKind::Tests, false),
    tool("cargo-build", CheckKind::Build, true),
    tool("cargo-check", CheckKind::Build, true),
    tool("rustc", CheckKind::Build, true),
    tool("go-build", CheckKind::Build, true),
    tool("tsc", CheckKind::Build, true),
    tool("mypy", CheckKind::Build, false),
    tool("pyright", CheckKind::Build, false),
    tool("gcc", CheckKind::Build, true),
    tool("clang", CheckKind::Build, true),
    tool("build", CheckKind::Build, true),
    tool("clippy", CheckKind::Lint, true),
    tool("cargo-clippy", CheckKind::Lint, true),
    tool("eslint", CheckKind::Lint, true),
    tool("ruff", CheckKind::Lint, true),
    tool("flake8", CheckKind::Lint, true),
    tool("go-vet", CheckKind::Lint, true),
    tool("golangci-lint", CheckKind::Lint, true),
    tool("sarif", CheckKind::Lint, false),
    tool("lint", CheckKind::Lint, true),
    tool("auto", CheckKind::Custom, false),
    tool("plain", CheckKind::Custom, false),
    tool("custom", CheckKind::Custom, false),
];

/// Parts of lines that builds and linters print on success.
const SUCCESS_MARKERS: [&str; 9] = [
    "All checks passed",
    "no issues found",
    "No issues found",
    "Success:",
    "0 errors",
    "0 issues",
    "0 problems",
    "Found 0 ",
    "Finished ",
];

impl CheckTool {
    /// The names of all tools.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TOOLS.iter().map(|tool| tool.name)
    }

    /// The tool with this name; `-` and `_` are equivalent.
    #[must_use]
    pub fn from_name(name: &str) -> Option<CheckTool> {
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        TOOLS.iter().find(|tool| tool.name == name).copied()
    }

    /// Whether an output without failures reports success by itself, without the exit code.
    pub(crate) fn reports_success(&self, output: &str) -> bool {
        if output.trim().is_empty() {
            return self.silent_on_success;
        }
        match self.kind {
            CheckKind::Tests => tests_passed(output),
            CheckKind::Build | CheckKind::Lint => output
                .lines()
                .any(|line| SUCCESS_MARKERS.iter().any(|words| contains_standalone(line, words))),
            CheckKind::Custom => {
                tests_passed(output) || SUCCESS_MARKERS.iter().any(|words| output.contains(words))
            }
        }
    }
}

/// Whether a line contains `words` not preceded by a digit: `0 errors`, but not `10 errors`.
fn contains_standalone(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !(words.starts_with('0') && before.is_some_and(|c| c.is_ascii_digit() || c == '.' || c == ','))
    })
}

/// Whether a summary counts passed tests and no failed ones, or a whole test program reports success.
fn tests_passed(output: &str) -> bool {
    let (mut passed, mut failed) = (false, false);
    for line in output.lines().map(str::trim) {
        passed |= line == "OK" || line == "PASS" || line.starts_with("OK (") || line.starts_with("ok  \t");
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let &[first, second] = pair else { continue };
            let number = |word: &str| word.parse::<u64>().ok();
            let counted = |names: &[&str]| {
                let before = number(first).filter(|_| names.contains(&second));
                before.or_else(|| number(second).filter(|_| names.contains(&first))).is_some_and(|n| n > 0)
            };
            passed |= counted(&["passed", "passing", "pass"]);
            failed |= counted(&["failed", "failing", "fail", "errors"]);
        }
    }
    passed && !failed
}
