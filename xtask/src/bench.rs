//! `cargo xtask bench`: instructions per pair of events, counted by callgrind.
//!
//! Each row is the difference between a run with 2N pairs and one with N, divided by N; callgrind collects only inside
//! the measured loop. Instructions do not depend on how busy the machine is, so the numbers can be compared from day
//! to day.

use crate::outside::succeeded;
use crate::run::{command, run as run_command, run_with, say, target};
use crate::tools;

/// N.
const PAIRS: u64 = 1_000;
/// The function that holds the measured loop.
const LOOP: &str = "--toggle-collect=flyball_bench::modes::measured*";
/// The two lengths of history that are compared, in events.
const SHORT: u64 = 100;
const LONG: u64 = 10_000;
/// A step may cost so many percent more after the long history than after the short one.
const GROWTH_PERCENT: u64 = 110;

struct Row {
    name: &'static str,
    mode: &'static str,
    history: u64,
}

const fn row(name: &'static str, mode: &'static str, history: u64) -> Row {
    Row { name, mode, history }
}

const ROWS: [Row; 13] = [
    row("hash both lines and compare", "hash", SHORT),
    row("parse both lines into structs", "parse", SHORT),
    row("parse both lines into values", "parse-value", SHORT),
    row("step, history 100", "step", SHORT),
    row("step, history 10,000", "step", LONG),
    row("step, known calls with new results, history 100", "step-again", SHORT),
    row("step, known calls with new results, 10,000", "step-again", LONG),
    row("step with a rule, history 100", "step-rule", SHORT),
    row("step with a rule, history 10,000", "step-rule", LONG),
    row("step, nearly a loop, history 10,000", "near-loop", LONG),
    row("step in a loop that is reported, history 10,000", "loop", LONG),
    row("encode and decode the state, history 100", "encode", SHORT),
    row("encode and decode the state, history 10,000", "encode", LONG),
];

/// Builds what is measured, for all benchmarks alike: another choice of packages would build most of it again.
pub(crate) fn programs() -> Result<(), String> {
    let build = ["build", "--release", "--package", "flyball-bench", "--package", "flyball-cli"];
    run_command(crate::run::cargo(&build)).and_then(succeeded)
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    tools::need("valgrind", "valgrind")?;
    programs()?;
    let mut costs = Vec::new();
    for row in &ROWS {
        let (once, twice) = (count(row, PAIRS)?, count(row, 2 * PAIRS)?);
        costs.push(twice.saturating_sub(once) / PAIRS);
    }
    say(&format!("\n{:50} {:>12} {:>9} {:>9}", "instructions per pair of events", "", "x parse", "x hash"));
    let cost = |mode: &str, history: u64| {
        let at = ROWS.iter().position(|row| row.mode == mode && row.history == history);
        at.and_then(|at| costs.get(at)).copied().unwrap_or(0)
    };
    let (parse, hash) = (cost("parse", SHORT), cost("hash", SHORT));
    for (row, &own) in ROWS.iter().zip(&costs) {
        // The goal is about steps in which nothing is wrong.
        let missed = matches!(row.mode, "step" | "step-again") && own > parse;
        let mark = if missed { "  MISSED: more than parse" } else { "" };
        say(&format!("{:50} {own:>12} {:>9} {:>9}{mark}", row.name, ratio(own, parse), ratio(own, hash)));
    }
    say("");
    for (name, mode) in
        [("step", "step"), ("step, known calls", "step-again"), ("step with a rule", "step-rule")]
    {
        let (short, long) = (cost(mode, SHORT), cost(mode, LONG));
        let mark = if long * 100 > short * GROWTH_PERCENT { "  MISSED: more than 1.10" } else { "" };
        say(&format!("{name}: history 10,000 / history 100 = {}{mark}", ratio(long, short)));
    }
    Ok(())
}

/// A quotient with two decimals.
fn ratio(own: u64, other: u64) -> String {
    match (own * 100 + other / 2).checked_div(other) {
        Some(hundredths) => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        None => "-".to_owned(),
    }
}

/// The instructions of one whole run.
fn count(row: &Row, pairs: u64) -> Result<u64, String> {
    let mut valgrind = command("valgrind", &["--tool=callgrind", "--callgrind-out-file=/dev/null", LOOP]);
    valgrind.arg(target().join("release/flyball-bench")).args([
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
        return Err(format!("mode {} was stopped by a guard: it does not measure what it should", row.mode));
    }
    collected
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| "callgrind did not say what it collected".to_owned())
}
