//! `go test -json`: events of packages and tests, and from Go 1.24 on those of the build too.

use super::{Broken, Counts, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use crate::text::place;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
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

/// A test, or a package if its test is empty.
#[derive(Default)]
struct Story {
    package: String,
    test: String,
    /// `pass`, `fail` or `skip` once it has ended.
    end: String,
    /// Lines that Go itself marks as an error, from Go 1.25 on.
    errors: Vec<String>,
    output: Vec<String>,
    failed_build: bool,
}

#[derive(Default)]
struct Stories {
    index: BTreeMap<(String, String), usize>,
    all: Vec<Story>,
    build: Vec<String>,
}

impl Stories {
    fn of(&mut self, package: &str, test: &str) -> Option<&mut Story> {
        let next = self.all.len();
        let at = *self.index.entry((package.to_owned(), test.to_owned())).or_insert(next);
        if at == next {
            self.all.push(Story { package: package.to_owned(), test: test.to_owned(), ..Story::default() });
        }
        self.all.get_mut(at)
    }

    fn take(&mut self, event: Event) {
        if event.action == "build-output" {
            self.build.push(event.output);
            return;
        }
        if event.package.is_empty() {
            return;
        }
        let Some(story) = self.of(&event.package, &event.test) else { return };
        match event.action.as_str() {
            "pass" | "fail" | "skip" => {
                story.end = event.action;
                story.failed_build |= !event.failed_build.is_empty();
            }
            "output" => {
                if event.output_type.starts_with("error") {
                    story.errors.push(event.output.clone());
                }
                story.failed_build |= event.output.trim_end().ends_with(" failed]");
                story.output.push(event.output);
            }
            _ => {}
        }
    }
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let mut stories = Stories::default();
    let mut parsed = Parsed::default();
    let (mut events, mut text) = (0_u32, String::new());
    for line in source.lines() {
        if !line.starts_with('{') {
            stories.build.push(line.to_owned());
            text.push_str(line);
            text.push('\n');
            continue;
        }
        match serde_json::from_str::<Event>(line) {
            Ok(event) => {
                events += 1;
                text.push_str(&event.output);
                stories.take(event);
            }
            Err(_) => parsed.missing = Some("an event of `go test` is cut off".to_owned()),
        }
    }
    if events == 0 {
        return Err(Broken::new("`go test` wrote no event"));
    }
    text.push_str(raw.stderr);
    stories.build.extend(raw.stderr.lines().map(str::to_owned));
    // Older versions tell of a package only when it ends; its tests come before that.
    let packages: BTreeSet<&str> = stories.all.iter().map(|story| story.package.as_str()).collect();
    let has_ended = |package: &str| {
        let at = stories.index.get(&(package.to_owned(), String::new())).and_then(|at| stories.all.get(*at));
        at.is_some_and(|story| !story.end.is_empty())
    };
    if packages.iter().any(|package| !has_ended(package)) && parsed.missing.is_none() {
        parsed.missing = Some("a package never ended".to_owned());
    }
    tell(&stories, raw, &mut parsed);
    parsed.text = Some(text);
    Ok(parsed)
}

fn tell(stories: &Stories, raw: &Raw<'_>, parsed: &mut Parsed) {
    parsed.findings = build_errors(&stories.build, raw);
    let mut counts = Counts::default();
    for story in stories.all.iter().filter(|story| !story.test.is_empty()) {
        match story.end.as_str() {
            "pass" => counts.passed += 1,
            "skip" => counts.skipped += 1,
            _ => {
                counts.failed += 1;
                let is_parent = has_failed_child(stories, story);
                if !is_parent || !error_lines(story).is_empty() {
                    parsed.findings.push(of_test(story, raw));
                }
                // A panic takes the rest of the package along.
                let panicked = story.output.iter().any(|line| line.starts_with("panic: "));
                parsed.partial |= story.end.is_empty() || panicked;
            }
        }
    }
    for package in stories.all.iter().filter(|story| story.test.is_empty() && story.end == "fail") {
        let has_failing = stories.all.iter().any(|story| {
            story.package == package.package
                && !story.test.is_empty()
                && !matches!(&*story.end, "pass" | "skip")
        });
        let is_known =
            package.failed_build && parsed.findings.iter().any(|found| found.kind == FindingKind::Build);
        parsed.partial |= package.failed_build || !has_failing;
        if !has_failing && !is_known {
            parsed.findings.push(of_package(package));
        }
    }
    let unbuilt = stories.build.iter().any(|line| line.trim_end().ends_with("[build failed]"));
    parsed.partial |= unbuilt || parsed.findings.iter().any(|found| found.kind == FindingKind::Build);
    parsed.tests = Some(counts);
}

fn has_failed_child(stories: &Stories, parent: &Story) -> bool {
    let prefix = format!("{}/", parent.test);
    let from = (parent.package.clone(), prefix.clone());
    let below = stories
        .index
        .range(from..)
        .take_while(|((package, test), _)| *package == parent.package && test.starts_with(&prefix));
    below.filter_map(|(_, at)| stories.all.get(*at)).any(|child| child.end == "fail" || child.end.is_empty())
}

fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    ["=== ", "--- FAIL", "--- PASS", "--- SKIP", "FAIL", "PASS", "ok  \t", "exit status", "coverage:"]
        .iter()
        .any(|frame| line.starts_with(frame))
}

/// The lines by which a test says what is wrong: `    calc_test.go:16: got 4, want 5`.
fn error_lines(story: &Story) -> Vec<&str> {
    if !story.errors.is_empty() {
        return story.errors.iter().map(String::as_str).collect();
    }
    let said =
        |line: &&String| place(line).is_some_and(|at| at.file.ends_with(".go") && line.starts_with("    "));
    story.output.iter().filter(said).map(String::as_str).collect()
}

fn of_test(story: &Story, raw: &Raw<'_>) -> Finding {
    let name = format!("{}.{}", story.package, story.test);
    let folder = folder(&story.package, raw);
    if let Some(panic) = story.output.iter().find(|line| line.starts_with("panic: ")) {
        let message = panic.trim_end().replace(" [recovered, repanicked]", "").replace(" [recovered]", "");
        let stack = story.output.iter().filter_map(|line| line.strip_prefix('\t')).filter_map(place);
        let own =
            stack.filter(|at| at.file.ends_with(".go") && at.file.contains('/')).find_map(|at| raw.own(&at));
        return Finding::new(FindingKind::Test, name, &message).maybe_at(own);
    }
    let errors = error_lines(story);
    let message: Vec<&str> = errors.iter().filter_map(|line| place(line)).map(|at| at.rest).collect();
    let at = errors.iter().find_map(|line| place(line));
    let at = at.map(|at| (format!("{folder}{}", at.file), Some(at.line)));
    if !message.is_empty() {
        return Finding::new(FindingKind::Test, name, &message.join("\n")).maybe_at(at);
    }
    let printed: Vec<&str> =
        story.output.iter().map(|line| line.trim_end()).filter(|line| !is_frame(line)).collect();
    let message = if printed.is_empty() && story.end.is_empty() {
        "it did not end".to_owned()
    } else if printed.is_empty() {
        "failed without a word".to_owned()
    } else {
        printed.join("\n")
    };
    Finding::new(FindingKind::Test, name, &message)
}

/// A package that failed though none of its tests did: a panic before them, an exit in `TestMain`, a failed build.
fn of_package(package: &Story) -> Finding {
    let said: Vec<&str> =
        package.output.iter().map(|line| line.trim_end()).filter(|line| !is_frame(line)).collect();
    let kind = if package.failed_build { FindingKind::Build } else { FindingKind::Setup };
    let message = match said.is_empty() {
        true if package.failed_build => "the package does not build".to_owned(),
        true => "the package failed outside its tests".to_owned(),
        false => said.join("\n"),
    };
    Finding::new(kind, &*package.package, &message)
}

/// `./broken.go:8:9: cannot use …`, seen from where the command ran.
fn build_errors(lines: &[String], raw: &Raw<'_>) -> Vec<Finding> {
    let errors = lines.iter().filter(|line| !line.starts_with([' ', '\t'])).filter_map(|line| {
        let at = place(line.strip_prefix("vet: ").unwrap_or(line))?;
        let is_go = at.file.ends_with(".go") && !at.rest.is_empty();
        is_go.then(|| Finding::new(FindingKind::Build, "", at.rest).at(raw.relative(at.file), Some(at.line)))
    });
    errors.collect()
}

/// The folder of a package, seen from the module's, with a slash at its end.
fn folder(package: &str, raw: &Raw<'_>) -> String {
    let below =
        raw.module.and_then(|module| package.strip_prefix(module)).and_then(|rest| rest.strip_prefix('/'));
    below.map(|below| format!("{below}/")).unwrap_or_default()
}
