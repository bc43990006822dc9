//! `cargo xtask bench`: instructions per pair of events, counted by callgrind.
//!
//! Each row is the difference between a run with 2N pairs and one with N, divided by N; callgrind collects only inside
//! the measured loop. Instruction counts do not depend on the machine's load, so they are comparable over time.

use crate::command::{command, print_line, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use crate::tools;

/// N, the number of event pairs in the shorter run.
const BASE_PAIRS: u64 = 1_000;
/// The function with the measured loop.
const CALLGRIND_TOGGLE: &str = "--toggle-collect=flyball_bench::modes::measured*";
/// The two history lengths compared, in events.
const SHORT_HISTORY_EVENTS: u64 = 100;
const LONG_HISTORY_EVENTS: u64 = 10_000;
/// Maximum cost of a step after the long history, in percent of the cost after the short one.
const MAX_COST_PERCENT: u64 = 110;

struct BenchRow {
    name: &'static str,
    mode: &'static str,
    history: u64,
}

const fn bench_row(name: &'static str, mode: &'static str, history: u64) -> BenchRow {
    BenchRow { name, mode, history }
}

const ROWS: [BenchRow; 13] = [
    bench_row("hash both lines and compare", "hash", SHORT_HISTORY_EVENTS),
    bench_row("parse both lines into structs", "parse", SHORT_HISTORY_EVENTS),
    bench_row("parse both lines into values", "parse-value", SHORT_HISTORY_EVENTS),
    bench_row("step, history 100", "step", SHORT_HISTORY_EVENTS),
    bench_row("step, history 10,000", "step", LONG_HISTORY_EVENTS),
    bench_row("step, known calls with new results, history 100", "step-again", SHORT_HISTORY_EVENTS),
    bench_row("step, known calls with new results, 10,000", "step-again", LONG_HISTORY_EVENTS),
    bench_row("step with a rule, history 100", "step-rule", SHORT_HISTORY_EVENTS),
    bench_row("step with a rule, history 10,000", "step-rule", LONG_HISTORY_EVENTS),
    bench_row("step, nearly a loop, history 10,000", "near-loop", LONG_HISTORY_EVENTS),
    bench_row("step in a loop that is reported, history 10,000", "loop", LONG_HISTORY_EVENTS),
    bench_row("encode and decode the state, history 100", "encode", SHORT_HISTORY_EVENTS),
    bench_row("encode and decode the state, history 10,000", "encode", LONG_HISTORY_EVENTS),
];

/// Builds the programs of all benchmarks at once: building other sets of packages would rebuild most of it.
pub(crate) fn build_programs() -> Result<(), String> {
    let build = ["build", "--release", "--package", "flyball-bench", "--package", "flyball-cli"];
    run_command(crate::command::cargo(&build)).and_then(into_result)
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    tools::ensure_program("valgrind", "valgrind")?;
    build_programs()?;
    let mut costs = Vec::new();
    for row in &ROWS {
        let (once, twice) = (count_instructions(row, BASE_PAIRS)?, count_instructions(row, 2 * BASE_PAIRS)?);
        costs.push(twice.saturating_sub(once) / BASE_PAIRS);
    }
    print_line(&format!(
        "\n{:50} {:>12} {:>9} {:>9}",
        "instructions per pair of events", "", "x parse", "x hash"
    ));
    let cost = |mode: &str, history: u64| {
        let at = ROWS.iter().position(|row| row.mode == mode && row.history == history);
        at.and_then(|at| costs.get(at)).copied().unwrap_or(0)
    };
    let (parse, hash) = (cost("parse", SHORT_HISTORY_EVENTS), cost("hash", SHORT_HISTORY_EVENTS));
    for (row, &own) in ROWS.iter().zip(&costs) {
        // The goal applies to steps in which no guard trips.
        let missed = matches!(row.mode, "step" | "step-again") && own > parse;
        let mark = if missed { "  MISSED: more than parse" } else { "" };
        print_line(&format!(
            "{:50} {own:>12} {:>9} {:>9}{mark}",
            row.name,
            format_ratio(own, parse),
            format_ratio(own, hash)
        ));
    }
    print_line("");
    for (name, mode) in
        [("step", "step"), ("step, known calls", "step-again"), ("step with a rule", "step-rule")]
    {
        let (short, long) = (cost(mode, SHORT_HISTORY_EVENTS), cost(mode, LONG_HISTORY_EVENTS));
        let mark = if long * 100 > short * MAX_COST_PERCENT { "  MISSED: more than 1.10" } else { "" };
        print_line(&format!("{name}: history 10,000 / history 100 = {}{mark}", format_ratio(long, short)));
    }
    Ok(())
}

/// A ratio with two decimals.
fn format_ratio(own: u64, other: u64) -> String {
    match (own * 100 + other / 2).checked_div(other) {
        Some(hundredths) => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        None => "-".to_owned(),
    }
}

/// The instructions of one complete run.
fn count_instructions(row: &BenchRow, pairs: u64) -> Result<u64, String> {
    let mut valgrind =
        command("valgrind", &["--tool=callgrind", "--callgrind-out-file=/dev/null", CALLGRIND_TOGGLE]);
    valgrind.arg(target_dir().join("release/flyball-bench")).args([
        row.mode,
        &pairs.to_string(),
        &row.history.to_string(),
    ]);
    let done = run_with(valgrind, |line| line.contains("not allow") || line.contains("error"))?;
    let collected =
        done.output.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, text)| text);
    if !done.ok {
        return Err(format!("mode {} failed", row.mode));
    }
    // In a loop that is only reported, every decision is still `allow`.
    let stopped = !done.output.lines().any(|line| line == "0 decisions were not allow");
    if stopped {
        return Err(format!(
            "mode {} was stopped by a guard: it does not measure the intended path",
            row.mode
        ));
    }
    collected
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| "callgrind reported no count".to_owned())
}
