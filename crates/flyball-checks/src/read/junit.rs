//! JUnit XML as nextest, pytest, vitest, node and Java tools write it: the same words, each in its own dialect.

use super::plain_js::without_pictures;
use super::{Broken, Counts, Parsed, Raw, pytest, rust_text};
use crate::finding::{Finding, FindingKind};
use crate::text::place;
use flyball::text::without_codes;
use roxmltree::{Document, Node};

/// The most elements that are read.
const MOST_NODES: u32 = 4_000_000;

/// Who wrote it, as far as it matters.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    Nextest,
    Pytest,
    Vitest,
    Node,
    Other,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let clean = valid(source);
    let options =
        roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..Default::default() };
    let document =
        Document::parse_with_options(&clean, options).map_err(|error| Broken::new(error.to_string()))?;
    let root = document.root_element();
    if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
        return Err(Broken::new(format!("it begins with <{}>", root.tag_name().name())));
    }
    let dialect = dialect(root);
    let mut parsed = Parsed::default();
    let mut counts = Counts::default();
    for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
        let outcome = case.children().find(|node| is_any(*node, &["failure", "error"]));
        let skipped = case.children().find(|node| node.has_tag_name("skipped"));
        let flaky = case.children().any(|node| is_any(node, &["flakyFailure", "flakyError"]));
        match (outcome, skipped) {
            (_, Some(_)) => counts.skipped += 1,
            (Some(failure), None) => {
                counts.failed += 1;
                let finding = finding(case, failure, dialect, raw);
                // A fixture breaks one test; a file that cannot be loaded takes all of its tests along.
                parsed.partial |= finding.kind == FindingKind::Setup && !finding.name.contains("::");
                parsed.findings.push(finding);
            }
            (None, None) => {
                counts.passed += 1;
                if flaky {
                    parsed.flaky.push(name(case, dialect, "", raw));
                }
            }
        }
    }
    parsed.findings.extend(of_suites(root, raw));
    let said = |key: &str| root.attribute(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    if said("failures") + said("errors") > 0 && parsed.findings.is_empty() {
        parsed.missing = Some("it counts failures but lists none".to_owned());
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

/// XML may not hold control characters; some tools let those of a test's output through.
fn valid(source: &str) -> String {
    let source = without_codes(source.trim_start_matches('\u{feff}'));
    source.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn is_any(node: Node<'_, '_>, names: &[&str]) -> bool {
    node.is_element() && names.contains(&node.tag_name().name())
}

fn dialect(root: Node<'_, '_>) -> Dialect {
    let named = |node: Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    let suite = root.descendants().find(|node| node.has_tag_name("testsuite")).map(named).unwrap_or_default();
    match named(root).as_str() {
        "nextest-run" => Dialect::Nextest,
        "pytest tests" => Dialect::Pytest,
        "vitest tests" => Dialect::Vitest,
        _ if suite == "pytest" => Dialect::Pytest,
        _ if root.descendants().any(|node| node.attribute("classname") == Some("test")) => Dialect::Node,
        _ => Dialect::Other,
    }
}

/// A suite that failed outside its tests: an `<error>` of its own.
fn of_suites(root: Node<'_, '_>, raw: &Raw<'_>) -> Vec<Finding> {
    let suites = root.descendants().filter(|node| node.has_tag_name("testsuite"));
    let errors =
        suites.flat_map(|suite| suite.children().filter(|node| is_any(*node, &["error", "failure"])));
    errors
        .map(|error| {
            let suite = error.parent().and_then(|suite| suite.attribute("name")).unwrap_or_default();
            let (message, at) = message_and_place(error, raw);
            Finding::new(FindingKind::Setup, suite, &message).maybe_at(at)
        })
        .collect()
}

fn finding(case: Node<'_, '_>, failure: Node<'_, '_>, dialect: Dialect, raw: &Raw<'_>) -> Finding {
    let body = failure.text().unwrap_or_default();
    let title = failure.attribute("message").unwrap_or_default();
    let name = name(case, dialect, body, raw);
    match dialect {
        Dialect::Pytest => pytest::finding(case, &name, title, body, raw),
        Dialect::Nextest => {
            let said = if body.trim().is_empty() { title } else { body };
            let (message, at) = rust_text::failure(said, raw);
            Finding::new(FindingKind::Test, name, &message).maybe_at(at)
        }
        Dialect::Vitest => of_vitest(case, name, failure, raw),
        _ => {
            let (message, at) = message_and_place(failure, raw);
            let hook = failure.attribute("type") == Some("hookFailed");
            let kind = if hook || is_script(&name) { FindingKind::Setup } else { FindingKind::Test };
            Finding::new(kind, name, &message).maybe_at(at.or_else(|| of_case(case, raw)))
        }
    }
}

/// vitest tells everything below the element, with real line ends; a file that failed as a whole is a test of its own.
fn of_vitest(case: Node<'_, '_>, name: String, failure: Node<'_, '_>, raw: &Raw<'_>) -> Finding {
    let body = failure.text().unwrap_or_default();
    let said = body.split("\n- Expected\n").next().unwrap_or(body);
    let message = without_pictures(said);
    let whole_file = case.attribute("name") == case.attribute("classname");
    if !whole_file {
        return Finding::new(FindingKind::Test, name, &message).maybe_at(stack_place(body, raw));
    }
    let line = stack_place(body, raw).filter(|(file, _)| *file == name).and_then(|(_, line)| line);
    let line = line.or_else(|| said_line(body, &name));
    Finding::new(FindingKind::Setup, name.clone(), &message).at(name, line)
}

/// `At file: /test/syntax.test.js:4:12`, which names the file from the project's folder.
pub(super) fn said_line(text: &str, file: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let at = place(line.trim().strip_prefix("At file: ")?)?;
        (at.file.trim_start_matches('/') == file).then_some(at.line)
    })
}

/// Whether a test is named like a script: a file that failed as a whole.
pub(super) fn is_script(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    matches!(end, "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx")
}

fn of_case(case: Node<'_, '_>, raw: &Raw<'_>) -> Option<(String, Option<u32>)> {
    let file = case.attribute("file").or_else(|| case.parent().and_then(|suite| suite.attribute("file")))?;
    Some((raw.relative(file), case.attribute("line").and_then(|line| line.parse().ok())))
}

/// The message, and the first place in the project that the text below it names.
fn message_and_place(failure: Node<'_, '_>, raw: &Raw<'_>) -> (String, Option<(String, Option<u32>)>) {
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
    (message, stack_place(body, raw))
}

/// The first line of a stack that lies in the project: `❯ test/a.js:9:23`, `at f (file:///p/a.js:5:51)`.
pub(super) fn stack_place(text: &str, raw: &Raw<'_>) -> Option<(String, Option<u32>)> {
    text.lines().find_map(|line| {
        let line = line.trim();
        let is_stack = line.starts_with("at ") || line.starts_with('❯') || line.contains("(file://");
        let last = line.rsplit([' ', '(']).next().filter(|_| is_stack)?.trim_end_matches(')');
        let last = last.strip_prefix("file://").unwrap_or(last);
        raw.own(&place(last)?)
    })
}

/// The test's name as its tool prints it.
fn name(case: Node<'_, '_>, dialect: Dialect, body: &str, raw: &Raw<'_>) -> String {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    match dialect {
        Dialect::Pytest => pytest::node_id(case, body),
        Dialect::Nextest if !class.is_empty() => format!("{class} {name}"),
        Dialect::Vitest if class == name => name.to_owned(),
        Dialect::Vitest if !class.is_empty() => format!("{class} > {name}"),
        Dialect::Node => {
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
