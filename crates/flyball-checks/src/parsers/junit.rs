//! JUnit XML as written by nextest, pytest, vitest, node and Java tools, each in its own dialect.

use super::plain_js::strip_code_frames;
use super::{ParseFailure, ParserOutput, RawResults, TestCounts, pytest, rust_text};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::parse_location;
use flyball::text::strip_ansi;
use roxmltree::{Document, Node};

/// Maximum number of XML nodes.
const MAX_XML_NODES: u32 = 4_000_000;

/// The tool that wrote the report, if it matters.
#[derive(Clone, Copy, PartialEq)]
enum JunitDialect {
    Nextest,
    Pytest,
    Vitest,
    Node,
    Other,
}

pub(super) fn parse_junit(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let clean = strip_control_chars(source);
    let options =
        roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: MAX_XML_NODES, ..Default::default() };
    let document = Document::parse_with_options(&clean, options)
        .map_err(|error| ParseFailure::new(error.to_string()))?;
    let root = document.root_element();
    if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
        return Err(ParseFailure::new(format!("it starts with <{}>", root.tag_name().name())));
    }
    let dialect = detect_dialect(root);
    let mut parsed = ParserOutput::default();
    let mut counts = TestCounts::default();
    for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
        let outcome = case.children().find(|node| has_tag(*node, &["failure", "error"]));
        let skipped = case.children().find(|node| node.has_tag_name("skipped"));
        let flaky = case.children().any(|node| has_tag(node, &["flakyFailure", "flakyError"]));
        match (outcome, skipped) {
            (_, Some(_)) => counts.skipped += 1,
            (Some(failure), None) => {
                counts.failed += 1;
                let finding = case_finding(case, failure, dialect, raw);
                // A broken fixture affects one test; a file that cannot be loaded affects all of its tests.
                parsed.partial |= finding.kind == FindingKind::Setup && !finding.name.contains("::");
                parsed.findings.push(finding);
            }
            (None, None) => {
                counts.passed += 1;
                if flaky {
                    parsed.flaky.push(test_name(case, dialect, "", raw));
                }
            }
        }
    }
    parsed.findings.extend(suite_findings(root, raw));
    let said = |key: &str| root.attribute(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    if said("failures") + said("errors") > 0 && parsed.findings.is_empty() {
        parsed.missing = Some("it reports failures but lists none".to_owned());
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

/// Removes control characters, which are invalid in XML but which some tools copy from test output.
fn strip_control_chars(source: &str) -> String {
    let source = strip_ansi(source.trim_start_matches('\u{feff}'));
    source.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn has_tag(node: Node<'_, '_>, names: &[&str]) -> bool {
    node.is_element() && names.contains(&node.tag_name().name())
}

fn detect_dialect(root: Node<'_, '_>) -> JunitDialect {
    let named = |node: Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    let suite = root.descendants().find(|node| node.has_tag_name("testsuite")).map(named).unwrap_or_default();
    match named(root).as_str() {
        "nextest-run" => JunitDialect::Nextest,
        "pytest tests" => JunitDialect::Pytest,
        "vitest tests" => JunitDialect::Vitest,
        _ if suite == "pytest" => JunitDialect::Pytest,
        _ if root.descendants().any(|node| node.attribute("classname") == Some("test")) => JunitDialect::Node,
        _ => JunitDialect::Other,
    }
}

/// Suites that failed outside their tests: an `<error>` in the suite itself.
fn suite_findings(root: Node<'_, '_>, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let suites = root.descendants().filter(|node| node.has_tag_name("testsuite"));
    let errors =
        suites.flat_map(|suite| suite.children().filter(|node| has_tag(*node, &["error", "failure"])));
    errors
        .map(|error| {
            let suite = error.parent().and_then(|suite| suite.attribute("name")).unwrap_or_default();
            let (message, at) = message_and_location(error, raw);
            CheckFinding::new(FindingKind::Setup, suite, &message).at_optional(at)
        })
        .collect()
}

fn case_finding(
    case: Node<'_, '_>,
    failure: Node<'_, '_>,
    dialect: JunitDialect,
    raw: &RawResults<'_>,
) -> CheckFinding {
    let body = failure.text().unwrap_or_default();
    let title = failure.attribute("message").unwrap_or_default();
    let name = test_name(case, dialect, body, raw);
    match dialect {
        JunitDialect::Pytest => pytest::case_finding(case, &name, title, body, raw),
        JunitDialect::Nextest => {
            let said = if body.trim().is_empty() { title } else { body };
            let (message, at) = rust_text::failure_message_and_location(said, raw);
            CheckFinding::new(FindingKind::Test, name, &message).at_optional(at)
        }
        JunitDialect::Vitest => vitest_finding(case, name, failure, raw),
        _ => {
            let (message, at) = message_and_location(failure, raw);
            let hook = failure.attribute("type") == Some("hookFailed");
            let kind = if hook || is_script(&name) { FindingKind::Setup } else { FindingKind::Test };
            CheckFinding::new(kind, name, &message).at_optional(at.or_else(|| case_location(case, raw)))
        }
    }
}

/// A vitest failure. vitest writes everything below the element, with real line breaks; a file that failed as a whole
/// is listed as a test.
fn vitest_finding(
    case: Node<'_, '_>,
    name: String,
    failure: Node<'_, '_>,
    raw: &RawResults<'_>,
) -> CheckFinding {
    let body = failure.text().unwrap_or_default();
    let said = body.split("\n- Expected\n").next().unwrap_or(body);
    let message = strip_code_frames(said);
    let whole_file = case.attribute("name") == case.attribute("classname");
    if !whole_file {
        return CheckFinding::new(FindingKind::Test, name, &message).at_optional(stack_location(body, raw));
    }
    let line = stack_location(body, raw).filter(|(file, _)| *file == name).and_then(|(_, line)| line);
    let line = line.or_else(|| line_of_file(body, &name));
    CheckFinding::new(FindingKind::Setup, name.clone(), &message).at(name, line)
}

/// Parses `At file: /test/syntax.test.js:4:12`, which names the file relative to the project folder.
pub(super) fn line_of_file(text: &str, file: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let at = parse_location(line.trim().strip_prefix("At file: ")?)?;
        (at.file.trim_start_matches('/') == file).then_some(at.line)
    })
}

/// Whether a test is named like a script, that is, a file that failed as a whole.
pub(super) fn is_script(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    matches!(end, "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx")
}

fn case_location(case: Node<'_, '_>, raw: &RawResults<'_>) -> Option<(String, Option<u32>)> {
    let file = case.attribute("file").or_else(|| case.parent().and_then(|suite| suite.attribute("file")))?;
    Some((raw.relative(file), case.attribute("line").and_then(|line| line.parse().ok())))
}

/// The message, and the first location in the project named in the text below it.
fn message_and_location(
    failure: Node<'_, '_>,
    raw: &RawResults<'_>,
) -> (String, Option<(String, Option<u32>)>) {
    let body = failure.text().unwrap_or_default();
    let title = failure.attribute("message").unwrap_or_default().trim();
    let mut message = title.to_owned();
    let type_name = failure.attribute("type").unwrap_or_default();
    let is_error = type_name.ends_with("Error") || type_name.ends_with("Exception");
    if is_error && type_name != "Error" && !title.starts_with(type_name) {
        message = format!("{type_name}: {title}");
    }
    if message.is_empty() {
        message = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(type_name).to_owned();
    }
    (message, stack_location(body, raw))
}

/// The first stack frame in the project: `❯ test/a.js:9:23`, `at f (file:///p/a.js:5:51)`.
pub(super) fn stack_location(text: &str, raw: &RawResults<'_>) -> Option<(String, Option<u32>)> {
    text.lines().find_map(|line| {
        let line = line.trim();
        let is_stack = line.starts_with("at ") || line.starts_with('❯') || line.contains("(file://");
        let last = line.rsplit([' ', '(']).next().filter(|_| is_stack)?.trim_end_matches(')');
        let last = last.strip_prefix("file://").unwrap_or(last);
        raw.project_location(&parse_location(last)?)
    })
}

/// The test's name as its tool prints it.
fn test_name(case: Node<'_, '_>, dialect: JunitDialect, body: &str, raw: &RawResults<'_>) -> String {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    match dialect {
        JunitDialect::Pytest => pytest::node_id(case, body),
        JunitDialect::Nextest if !class.is_empty() => format!("{class} {name}"),
        JunitDialect::Vitest if class == name => name.to_owned(),
        JunitDialect::Vitest if !class.is_empty() => format!("{class} > {name}"),
        JunitDialect::Node => {
            let mut path: Vec<&str> = vec![name];
            let outer = case.ancestors().filter(|node| node.has_tag_name("testsuite"));
            path.extend(outer.filter_map(|suite| suite.attribute("name")));
            path.reverse();
            raw.relative(&path.join(" > "))
        }
        _ if class.is_empty() || name.starts_with(class) => name.to_owned(),
        _ => format!("{class}.{name}"),
    }
}
