//! `go test -json`: events of packages and tests, and of the build since Go 1.24.

use super::{ParseFailure, ParserOutput, RawResults, TestCounts};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::parse_location;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoTestEvent {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
    #[serde(default)]
    output_type: String,
    #[serde(default)]
    failed_build: String,
}

/// A test, or a package if `test` is empty.
#[derive(Default)]
struct GoTestLog {
    package: String,
    test: String,
    /// `pass`, `fail` or `skip` once finished.
    action: String,
    /// Lines that Go marks as errors, since Go 1.25.
    errors: Vec<String>,
    output: Vec<String>,
    failed_build: bool,
}

#[derive(Default)]
struct GoTestLogs {
    index: BTreeMap<(String, String), usize>,
    logs: Vec<GoTestLog>,
    build: Vec<String>,
}

impl GoTestLogs {
    fn log_mut(&mut self, package: &str, test: &str) -> Option<&mut GoTestLog> {
        let next = self.logs.len();
        let at = *self.index.entry((package.to_owned(), test.to_owned())).or_insert(next);
        if at == next {
            self.logs.push(GoTestLog {
                package: package.to_owned(),
                test: test.to_owned(),
                ..GoTestLog::default()
            });
        }
        self.logs.get_mut(at)
    }

    fn push(&mut self, event: GoTestEvent) {
        if event.action == "build-output" {
            self.build.push(event.output);
            return;
        }
        if event.package.is_empty() {
            return;
        }
        let Some(log) = self.log_mut(&event.package, &event.test) else { return };
        match event.action.as_str() {
            "pass" | "fail" | "skip" => {
                log.action = event.action;
                log.failed_build |= !event.failed_build.is_empty();
            }
            "output" => {
                if event.output_type.starts_with("error") {
                    log.errors.push(event.output.clone());
                }
                log.failed_build |= event.output.trim_end().ends_with(" failed]");
                log.output.push(event.output);
            }
            _ => {}
        }
    }
}

pub(super) fn parse_go_test(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let mut test_logs = GoTestLogs::default();
    let mut parsed = ParserOutput::default();
    let (mut events, mut text) = (0_u32, String::new());
    for line in source.lines() {
        if !line.starts_with('{') {
            test_logs.build.push(line.to_owned());
            text.push_str(line);
            text.push('\n');
            continue;
        }
        match serde_json::from_str::<GoTestEvent>(line) {
            Ok(event) => {
                events += 1;
                text.push_str(&event.output);
                test_logs.push(event);
            }
            Err(_) => parsed.missing = Some("a `go test` event is truncated".to_owned()),
        }
    }
    if events == 0 {
        return Err(ParseFailure::new("`go test` wrote no event"));
    }
    text.push_str(raw.stderr);
    test_logs.build.extend(raw.stderr.lines().map(str::to_owned));
    // Older versions mention a package only when it ends, after its tests.
    let packages: BTreeSet<&str> = test_logs.logs.iter().map(|log| log.package.as_str()).collect();
    let has_ended = |package: &str| {
        let at =
            test_logs.index.get(&(package.to_owned(), String::new())).and_then(|at| test_logs.logs.get(*at));
        at.is_some_and(|log| !log.action.is_empty())
    };
    if packages.iter().any(|package| !has_ended(package)) && parsed.missing.is_none() {
        parsed.missing = Some("a package did not finish".to_owned());
    }
    collect_results(&test_logs, raw, &mut parsed);
    parsed.text = Some(text);
    Ok(parsed)
}

fn collect_results(test_logs: &GoTestLogs, raw: &RawResults<'_>, parsed: &mut ParserOutput) {
    parsed.findings = build_errors(&test_logs.build, raw);
    let mut counts = TestCounts::default();
    for log in test_logs.logs.iter().filter(|log| !log.test.is_empty()) {
        match log.action.as_str() {
            "pass" => counts.passed += 1,
            "skip" => counts.skipped += 1,
            _ => {
                counts.failed += 1;
                let is_parent = has_failed_child(test_logs, log);
                if !is_parent || !error_lines(log).is_empty() {
                    parsed.findings.push(test_finding(log, raw));
                }
                // A panic aborts the rest of the package.
                let panicked = log.output.iter().any(|line| line.starts_with("panic: "));
                parsed.partial |= log.action.is_empty() || panicked;
            }
        }
    }
    for package in test_logs.logs.iter().filter(|log| log.test.is_empty() && log.action == "fail") {
        let has_failing = test_logs.logs.iter().any(|log| {
            log.package == package.package && !log.test.is_empty() && !matches!(&*log.action, "pass" | "skip")
        });
        let is_known =
            package.failed_build && parsed.findings.iter().any(|found| found.kind == FindingKind::Build);
        parsed.partial |= package.failed_build || !has_failing;
        if !has_failing && !is_known {
            parsed.findings.push(package_finding(package));
        }
    }
    let unbuilt = test_logs.build.iter().any(|line| line.trim_end().ends_with("[build failed]"));
    parsed.partial |= unbuilt || parsed.findings.iter().any(|found| found.kind == FindingKind::Build);
    parsed.tests = Some(counts);
}

fn has_failed_child(test_logs: &GoTestLogs, parent: &GoTestLog) -> bool {
    let prefix = format!("{}/", parent.test);
    let from = (parent.package.clone(), prefix.clone());
    let below = test_logs
        .index
        .range(from..)
        .take_while(|((package, test), _)| *package == parent.package && test.starts_with(&prefix));
    below
        .filter_map(|(_, at)| test_logs.logs.get(*at))
        .any(|child| child.action == "fail" || child.action.is_empty())
}

fn is_stack_frame(line: &str) -> bool {
    let line = line.trim_start();
    ["=== ", "--- FAIL", "--- PASS", "--- SKIP", "FAIL", "PASS", "ok  \t", "exit status", "coverage:"]
        .iter()
        .any(|frame| line.starts_with(frame))
}

/// The lines that contain a test's error: `    calc_test.go:16: got 4, want 5`.
fn error_lines(log: &GoTestLog) -> Vec<&str> {
    if !log.errors.is_empty() {
        return log.errors.iter().map(String::as_str).collect();
    }
    let said = |line: &&String| {
        parse_location(line).is_some_and(|at| at.file.ends_with(".go") && line.starts_with("    "))
    };
    log.output.iter().filter(said).map(String::as_str).collect()
}

fn test_finding(log: &GoTestLog, raw: &RawResults<'_>) -> CheckFinding {
    let name = format!("{}.{}", log.package, log.test);
    let folder = package_dir(&log.package, raw);
    if let Some(panic) = log.output.iter().find(|line| line.starts_with("panic: ")) {
        let message = panic.trim_end().replace(" [recovered, repanicked]", "").replace(" [recovered]", "");
        let stack = log.output.iter().filter_map(|line| line.strip_prefix('\t')).filter_map(parse_location);
        let own = stack
            .filter(|at| at.file.ends_with(".go") && at.file.contains('/'))
            .find_map(|at| raw.project_location(&at));
        return CheckFinding::new(FindingKind::Test, name, &message).at_optional(own);
    }
    let errors = error_lines(log);
    let message: Vec<&str> =
        errors.iter().filter_map(|line| parse_location(line)).map(|at| at.rest).collect();
    let at = errors.iter().find_map(|line| parse_location(line));
    let at = at.map(|at| (format!("{folder}{}", at.file), Some(at.line)));
    if !message.is_empty() {
        return CheckFinding::new(FindingKind::Test, name, &message.join("\n")).at_optional(at);
    }
    let printed: Vec<&str> =
        log.output.iter().map(|line| line.trim_end()).filter(|line| !is_stack_frame(line)).collect();
    let message = if printed.is_empty() && log.action.is_empty() {
        "it did not finish".to_owned()
    } else if printed.is_empty() {
        "failed without a message".to_owned()
    } else {
        printed.join("\n")
    };
    CheckFinding::new(FindingKind::Test, name, &message)
}

/// A package that failed although none of its tests did: a panic before them, an exit in `TestMain`, or a failed build.
fn package_finding(package: &GoTestLog) -> CheckFinding {
    let said: Vec<&str> =
        package.output.iter().map(|line| line.trim_end()).filter(|line| !is_stack_frame(line)).collect();
    let kind = if package.failed_build { FindingKind::Build } else { FindingKind::Setup };
    let message = match said.is_empty() {
        true if package.failed_build => "the package does not build".to_owned(),
        true => "the package failed outside its tests".to_owned(),
        false => said.join("\n"),
    };
    CheckFinding::new(kind, &*package.package, &message)
}

/// Parses `./broken.go:8:9: cannot use …`, relative to the command's working directory.
fn build_errors(lines: &[String], raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let errors = lines.iter().filter(|line| !line.starts_with([' ', '\t'])).filter_map(|line| {
        let at = parse_location(line.strip_prefix("vet: ").unwrap_or(line))?;
        let is_go = at.file.ends_with(".go") && !at.rest.is_empty();
        is_go.then(|| {
            CheckFinding::new(FindingKind::Build, "", at.rest).at(raw.relative(at.file), Some(at.line))
        })
    });
    errors.collect()
}

/// The folder of a package relative to the module, with a trailing slash.
fn package_dir(package: &str, raw: &RawResults<'_>) -> String {
    let below =
        raw.module.and_then(|module| package.strip_prefix(module)).and_then(|rest| rest.strip_prefix('/'));
    below.map(|below| format!("{below}/")).unwrap_or_default()
}
