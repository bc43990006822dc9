//! A checklist as a gate: work is not done while an item of it is open.
//!
//! `- [x]` is done, `- [ ]` is open. `- [~] item: reason` is left open knowingly: a word of the one whose work is
//! checked, which counts only if the gate's `may_skip` lets them have it, and only with a reason. It is skipped then,
//! and skipped is not passed. Every item is a check of its own, so that the governor sees which one comes back.

use super::gate::Gate;
use super::report::GateRun;
use flyball_checks::Outcome;
use flyball_checks::{Finding, FindingKind};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most of a file that is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// The longest name of an item, in characters.
const NAME_CHARS: usize = 120;

/// What became of the items of a gate's checklist; of the whole, if there are none to speak of.
pub(crate) fn look(gate: &Gate, file: &Path, workspace: &Path) -> Vec<GateRun> {
    let shown = file.display();
    let mut text = String::new();
    let read = File::open(workspace.join(&gate.dir).join(file))
        .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    if let Err(error) = read {
        return vec![open(gate, &gate.check, &format!("the checklist {shown} cannot be read: {error}"))];
    }
    let runs: Vec<GateRun> = text.lines().filter_map(|line| item(gate, line)).collect();
    if runs.is_empty() {
        return vec![GateRun::skipped(gate, format!("the checklist {shown} has no items"), None)];
    }
    runs
}

/// One line, if it is an item.
fn item(gate: &Gate, line: &str) -> Option<GateRun> {
    let rest = line.trim_start().strip_prefix(['-', '*', '+'])?.trim_start().strip_prefix('[')?;
    let (mark, text) = rest.split_once(']')?;
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let run = match mark.trim() {
        "x" | "X" => GateRun { outcome: Outcome::Passed, ..entry(gate, text) },
        "" => open(gate, text, "it is open"),
        "~" | "-" => match text.split_once(": ") {
            _ if !gate.may_skip => open(gate, text, "it is open, and may not be left open knowingly"),
            Some((name, reason)) if !reason.trim().is_empty() => GateRun {
                outcome: Outcome::Skipped { reason: format!("left open knowingly: {}", reason.trim()) },
                ..entry(gate, name)
            },
            _ => open(gate, text, "it is left open without a reason; write one after a colon"),
        },
        _ => return None,
    };
    Some(run)
}

fn entry(gate: &Gate, name: &str) -> GateRun {
    let check = name.trim().chars().take(NAME_CHARS).collect();
    GateRun { check, attempts: 1, ..GateRun::skipped(gate, String::new(), None) }
}

fn open(gate: &Gate, name: &str, message: &str) -> GateRun {
    let run = entry(gate, name);
    let findings = vec![Finding::new(FindingKind::Other, &*run.check, message)];
    GateRun { outcome: Outcome::Failed, findings, ..run }
}
