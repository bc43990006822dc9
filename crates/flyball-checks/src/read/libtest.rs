//! The text of Rust's own test programs: names, messages and sums, one block for each program.

use super::{Broken, Counts, Parsed, Raw, rust_text};
use crate::finding::{Finding, FindingKind};
use crate::text::number;
use std::collections::{BTreeMap, BTreeSet};

/// What a doc test's name may end with besides its line.
const MARKS: [&str; 3] = [" - should panic", " - compile fail", " - compile"];

/// One test program.
#[derive(Default)]
struct Block<'a> {
    /// Failing tests in the order of their lines.
    failing: Vec<&'a str>,
    seen: BTreeSet<&'a str>,
    /// What each failing test printed.
    printed: BTreeMap<&'a str, String>,
    counts: Option<Counts>,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let mut parsed = Parsed::default();
    read_into(source, raw, &mut parsed);
    if parsed.tests.is_none() && parsed.findings.is_empty() {
        return Err(Broken::new("no test program wrote anything"));
    }
    Ok(parsed)
}

/// Adds what the test programs wrote to what is known.
pub(super) fn read_into(text: &str, raw: &Raw<'_>, parsed: &mut Parsed) {
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    let mut total = Counts::default();
    let blocks = blocks(text);
    for block in &blocks {
        for name in &block.failing {
            let printed = block.printed.get(name).map_or("", String::as_str);
            parsed.findings.push(finding(name, &mut used, printed, raw));
        }
        match block.counts {
            Some(counts) => total.add(counts),
            None => parsed.findings.push(died(raw, parsed)),
        }
    }
    parsed.partial |= blocks.iter().any(|block| block.counts.is_none());
    if blocks.is_empty() {
        parsed.findings.extend(rust_text::compile_errors(raw.stderr, raw));
        parsed.partial |= !parsed.findings.is_empty();
        return;
    }
    parsed.tests = Some(total);
    // Unit tests and doc tests always write a block; other test programs may have a way of their own.
    let announced = raw.stderr.lines().map(str::trim_start);
    let announced =
        announced.filter(|line| line.starts_with("Running unittests ") || line.starts_with("Doc-tests "));
    let announced = announced.count();
    if announced > blocks.len() && parsed.missing.is_none() {
        parsed.missing =
            Some(format!("{announced} test programs were started and {} reported", blocks.len()));
    }
}

fn finding(name: &str, used: &mut BTreeMap<String, u32>, printed: &str, raw: &Raw<'_>) -> Finding {
    let (message, mut at) = rust_text::failure(printed, raw);
    // `src/lib.rs - add (line 5)`: a doc test knows its place by its name.
    if let Some((file, rest)) = name.split_once(" - ") {
        let line = rest.rsplit_once("(line ").and_then(|(_, line)| number(line)).map(|(line, _)| line);
        at = line.map(|line| (file.to_owned(), Some(line))).or(at);
    }
    let message = if message.is_empty() { "failed without a word" } else { &message };
    // Two programs may have a test of the same name; the text does not say which is whose.
    let again = used.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1);
    let name = if *again == 1 { name.to_owned() } else { format!("{name} #{again}") };
    Finding::new(FindingKind::Test, name, message).maybe_at(at)
}

/// A program that ended in the middle of its tests; cargo says how.
fn died(raw: &Raw<'_>, parsed: &Parsed) -> Finding {
    let nth = parsed.findings.iter().filter(|finding| finding.kind == FindingKind::Setup).count();
    let how = raw.stderr.lines().filter(|line| line.contains("process didn't exit successfully")).nth(nth);
    let how = how.and_then(|line| line.rsplit_once("` ").or(line.rsplit_once(" (")));
    let how = how.map_or("it left no trace", |(_, how)| how).trim_matches(['(', ')']);
    let target = raw.stderr.lines().filter_map(|line| line.split_once("to rerun pass `")).nth(nth);
    let target = target.map(|(_, target)| format!("cargo test {}", target.trim_end_matches('`')));
    let target = target.unwrap_or_else(|| "a test program".to_owned());
    Finding::new(FindingKind::Setup, target, &format!("the test program ended before its tests did: {how}"))
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut current, mut listed): (Option<&str>, bool) = (None, false);
    for line in text.lines() {
        if is_start(line) {
            blocks.push(Block::default());
            (current, listed) = (None, false);
            continue;
        }
        let Some(block) = blocks.last_mut().filter(|block| block.counts.is_none()) else { continue };
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            current = Some(plain_name(name));
            note(block, plain_name(name));
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            block.counts = sums(rest);
        } else if line == "failures:" {
            (current, listed) = (None, true);
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            note(block, plain_name(name));
        } else if let Some(name) = current {
            let printed = block.printed.entry(name).or_default();
            printed.push_str(line);
            printed.push('\n');
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| listed) {
            note(block, plain_name(name));
        }
    }
    blocks
}

fn note<'a>(block: &mut Block<'a>, name: &'a str) {
    if block.seen.insert(name) {
        block.failing.push(name);
    }
}

fn plain_name(name: &str) -> &str {
    MARKS.iter().find_map(|mark| name.strip_suffix(mark)).unwrap_or(name)
}

fn is_start(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(number);
    count.is_some_and(|(_, rest)| rest == " test" || rest == " tests")
}

/// `FAILED. 1 passed; 5 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn sums(text: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let (_, list) = text.split_once(". ")?;
    for part in list.split("; ") {
        let Some((n, word)) = number(part) else { continue };
        match word.trim() {
            "passed" => counts.passed = u64::from(n),
            "failed" => counts.failed = u64::from(n),
            "ignored" => counts.skipped = u64::from(n),
            _ => {}
        }
    }
    // A line that is cut off has not told everything.
    list.contains(" filtered out").then_some(counts)
}
