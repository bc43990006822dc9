//! Checklist gate: fails while an item is open.
//!
//! `- [x]` is done, `- [ ]` is open. `- [~] item: reason` waives an item; the agent may do so only if the gate has
//! `may_skip`, and only with a reason. A waived item is skipped, and skipped is not passed. Every item is a separate
//! check, so that the governor sees which one recurs.

use super::gate::QualityGate;
use super::report::GateRun;
use flyball_checks::CheckOutcome;
use flyball_checks::{CheckFinding, FindingKind};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum number of bytes read from a file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Maximum length of an item's name, in characters.
const MAX_NAME_CHARS: usize = 120;

/// Runs the checklist of a gate; one result per item, or one for the file if it has none.
pub(crate) fn run_checklist(gate: &QualityGate, file: &Path, workspace: &Path) -> Vec<GateRun> {
    let shown = file.display();
    let mut text = String::new();
    let read = File::open(workspace.join(&gate.dir).join(file))
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    if let Err(error) = read {
        return vec![failed_item(gate, &gate.check, &format!("cannot read the checklist {shown}: {error}"))];
    }
    let runs: Vec<GateRun> = text.lines().filter_map(|line| parse_item(gate, line)).collect();
    if runs.is_empty() {
        return vec![GateRun::skipped(gate, format!("the checklist {shown} has no items"), None)];
    }
    runs
}

/// Parses a line; `None` if it is not an item.
fn parse_item(gate: &QualityGate, line: &str) -> Option<GateRun> {
    let rest = line.trim_start().strip_prefix(['-', '*', '+'])?.trim_start().strip_prefix('[')?;
    let (mark, text) = rest.split_once(']')?;
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let run = match mark.trim() {
        "x" | "X" => GateRun { outcome: CheckOutcome::Passed, ..item_run(gate, text) },
        "" => failed_item(gate, text, "open"),
        "~" | "-" => match text.split_once(": ") {
            _ if !gate.may_skip => {
                failed_item(gate, text, "open, and this gate does not allow waiving items")
            }
            Some((name, reason)) if !reason.trim().is_empty() => GateRun {
                outcome: CheckOutcome::Skipped { reason: format!("waived: {}", reason.trim()) },
                ..item_run(gate, name)
            },
            _ => failed_item(gate, text, "waived without a reason; write one after a colon"),
        },
        _ => return None,
    };
    Some(run)
}

fn item_run(gate: &QualityGate, name: &str) -> GateRun {
    let check = name.trim().chars().take(MAX_NAME_CHARS).collect();
    GateRun { check, attempts: 1, ..GateRun::skipped(gate, String::new(), None) }
}

fn failed_item(gate: &QualityGate, name: &str, message: &str) -> GateRun {
    let run = item_run(gate, name);
    let findings = vec![CheckFinding::new(FindingKind::Other, &*run.check, message)];
    GateRun { outcome: CheckOutcome::Failed, findings, ..run }
}
