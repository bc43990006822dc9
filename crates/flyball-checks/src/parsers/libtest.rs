//! Text output of Rust's test harness: names, messages and a summary, one block per test program.

use super::{ParseFailure, ParserOutput, RawResults, TestCounts, rust_text};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::parse_leading_number;
use std::collections::{BTreeMap, BTreeSet};

/// Suffixes of a doc test's name after its line.
const DOCTEST_SUFFIXES: [&str; 3] = [" - should panic", " - compile fail", " - compile"];

/// One test program.
#[derive(Default)]
struct LibtestBlock<'a> {
    /// Failing tests in order of appearance.
    failing: Vec<&'a str>,
    seen: BTreeSet<&'a str>,
    /// The output of each failing test.
    printed: BTreeMap<&'a str, String>,
    counts: Option<TestCounts>,
}

pub(super) fn parse_libtest(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let mut parsed = ParserOutput::default();
    parse_libtest_into(source, raw, &mut parsed);
    if parsed.tests.is_none() && parsed.findings.is_empty() {
        return Err(ParseFailure::new("no test program produced output"));
    }
    Ok(parsed)
}

/// Adds the results of test programs to a parser output.
pub(super) fn parse_libtest_into(text: &str, raw: &RawResults<'_>, parsed: &mut ParserOutput) {
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    let mut total = TestCounts::default();
    let blocks = parse_blocks(text);
    for block in &blocks {
        for name in &block.failing {
            let printed = block.printed.get(name).map_or("", String::as_str);
            parsed.findings.push(finding(name, &mut used, printed, raw));
        }
        match block.counts {
            Some(counts) => total.add(counts),
            None => parsed.findings.push(aborted_finding(raw, parsed)),
        }
    }
    parsed.partial |= blocks.iter().any(|block| block.counts.is_none());
    if blocks.is_empty() {
        parsed.findings.extend(rust_text::compile_errors(raw.stderr, raw));
        parsed.partial |= !parsed.findings.is_empty();
        return;
    }
    parsed.tests = Some(total);
    // Unit tests and doc tests always write a block; other test programs may use their own format.
    let announced = raw.stderr.lines().map(str::trim_start);
    let announced =
        announced.filter(|line| line.starts_with("Running unittests ") || line.starts_with("Doc-tests "));
    let announced = announced.count();
    if announced > blocks.len() && parsed.missing.is_none() {
        parsed.missing =
            Some(format!("{announced} test programs were started, but {} reported results", blocks.len()));
    }
}

fn finding(
    name: &str,
    used: &mut BTreeMap<String, u32>,
    printed: &str,
    raw: &RawResults<'_>,
) -> CheckFinding {
    let (message, mut at) = rust_text::failure_message_and_location(printed, raw);
    // `src/lib.rs - add (line 5)`: a doc test's name contains its location.
    if let Some((file, rest)) = name.split_once(" - ") {
        let line =
            rest.rsplit_once("(line ").and_then(|(_, line)| parse_leading_number(line)).map(|(line, _)| line);
        at = line.map(|line| (file.to_owned(), Some(line))).or(at);
    }
    let message = if message.is_empty() { "failed without a message" } else { &message };
    // Two programs may have a test of the same name; the text does not show which output belongs to which.
    let again = used.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1);
    let name = if *again == 1 { name.to_owned() } else { format!("{name} #{again}") };
    CheckFinding::new(FindingKind::Test, name, message).at_optional(at)
}

/// A program that exited before its tests finished; cargo reports how.
fn aborted_finding(raw: &RawResults<'_>, parsed: &ParserOutput) -> CheckFinding {
    let nth = parsed.findings.iter().filter(|finding| finding.kind == FindingKind::Setup).count();
    let how = raw.stderr.lines().filter(|line| line.contains("process didn't exit successfully")).nth(nth);
    let how = how.and_then(|line| line.rsplit_once("` ").or(line.rsplit_once(" (")));
    let how = how.map_or("no reason was reported", |(_, how)| how).trim_matches(['(', ')']);
    let target = raw.stderr.lines().filter_map(|line| line.split_once("to rerun pass `")).nth(nth);
    let target = target.map(|(_, target)| format!("cargo test {}", target.trim_end_matches('`')));
    let target = target.unwrap_or_else(|| "a test program".to_owned());
    CheckFinding::new(
        FindingKind::Setup,
        target,
        &format!("the test program exited before its tests finished: {how}"),
    )
}

fn parse_blocks(text: &str) -> Vec<LibtestBlock<'_>> {
    let mut blocks: Vec<LibtestBlock<'_>> = Vec::new();
    let (mut current, mut listed): (Option<&str>, bool) = (None, false);
    for line in text.lines() {
        if is_block_start(line) {
            blocks.push(LibtestBlock::default());
            (current, listed) = (None, false);
            continue;
        }
        let Some(block) = blocks.last_mut().filter(|block| block.counts.is_none()) else { continue };
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            current = Some(plain_name(name));
            note_failing(block, plain_name(name));
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            block.counts = parse_summary(rest);
        } else if line == "failures:" {
            (current, listed) = (None, true);
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            note_failing(block, plain_name(name));
        } else if let Some(name) = current {
            let printed = block.printed.entry(name).or_default();
            printed.push_str(line);
            printed.push('\n');
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| listed) {
            note_failing(block, plain_name(name));
        }
    }
    blocks
}

fn note_failing<'a>(block: &mut LibtestBlock<'a>, name: &'a str) {
    if block.seen.insert(name) {
        block.failing.push(name);
    }
}

fn plain_name(name: &str) -> &str {
    DOCTEST_SUFFIXES.iter().find_map(|mark| name.strip_suffix(mark)).unwrap_or(name)
}

fn is_block_start(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(parse_leading_number);
    count.is_some_and(|(_, rest)| rest == " test" || rest == " tests")
}

/// Parses `FAILED. 1 passed; 5 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
fn parse_summary(text: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    let (_, list) = text.split_once(". ")?;
    for part in list.split("; ") {
        let Some((n, word)) = parse_leading_number(part) else { continue };
        match word.trim() {
            "passed" => counts.passed = u64::from(n),
            "failed" => counts.failed = u64::from(n),
            "ignored" => counts.skipped = u64::from(n),
            _ => {}
        }
    }
    // A truncated line is not a summary.
    list.contains(" filtered out").then_some(counts)
}
