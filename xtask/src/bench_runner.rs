//! `cargo xtask bench runner`: measures the runner against LangGraph on the same cycle and machine.
//!
//! Machines are noisy, so both run alternately and the median of several rounds counts.

use crate::bench;
use crate::command::{command, print_line, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use std::fs;
use std::path::{Path, PathBuf};

/// Rounds of the comparison.
const ROUNDS: usize = 5;
/// Steps in the cycle.
const CYCLE_STEPS: &str = "10000";
/// Persisted steps of LangGraph; fewer, because each takes milliseconds.
const PERSISTED_STEPS: &str = "2000";

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    bench::build_programs()?;
    let folder = target_dir().join("bench-run");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let python = langgraph_python()?;
    let program = target_dir().join("release/flyball-bench-runner");
    let circle = "bench/langgraph/circle.py";
    let mut all: [Vec<u64>; 4] = Default::default();
    for round in 0..ROUNDS {
        let store = format!("sqlite:{}", folder.join(format!("flyball-{round}.db")).display());
        let saver = folder.join(format!("langgraph-{round}.db")).display().to_string();
        let figures = [
            nanos_per_step(&program, &["nothing", CYCLE_STEPS])?,
            nanos_per_step(&python, &[circle, "bare", CYCLE_STEPS])?,
            nanos_per_step(&program, &["everything", &store, CYCLE_STEPS])?,
            nanos_per_step(&python, &[circle, "sqlite", PERSISTED_STEPS, &saver])?,
        ];
        for (list, figure) in all.iter_mut().zip(figures) {
            list.push(figure);
        }
    }
    let [bare, their_bare, kept, their_kept] = all.map(median);
    let store = format!("sqlite:{}", folder.join("share.db").display());
    let files = folder.join("share").display().to_string();
    let share = run_program(&program, &["share", "examples/fix-until-green/workflow.yaml", &store, &files])?;
    let _ = fs::remove_dir_all(&folder);
    print_line("");
    print_line(&format!("keeping nothing:    Flyball {bare} ns a step, LangGraph {their_bare} ns"));
    print_line(&report_line("times the steps of LangGraph", their_bare / bare.max(1), 50));
    print_line(&format!(
        "keeping everything: Flyball {kept} ns a step, LangGraph {their_kept} ns (SQLite, sync)"
    ));
    print_line(&report_line("times the steps of LangGraph", their_kept / kept.max(1), 5));
    let permille =
        share.split(' ').rev().nth(2).and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let mark = if permille < 20 { "" } else { "  MISSED" };
    print_line(&format!("fix-until-green: {}  (goal: under 20 of 1000){mark}", share.trim()));
    Ok(())
}

fn report_line(what: &str, figure: u64, goal: u64) -> String {
    let mark = if figure >= goal { "" } else { "  MISSED" };
    format!("  {figure} {what} (goal: at least {goal}){mark}")
}

/// A Python virtual environment with LangGraph.
fn langgraph_python() -> Result<PathBuf, String> {
    let folder = target_dir().join("bench-langgraph");
    let python = folder.join("bin/python");
    if !python.exists() {
        let place = folder.display().to_string();
        run_command(command(Path::new("python3"), &["-m", "venv", &place])).and_then(into_result)?;
    }
    let packages = ["-m", "pip", "install", "--quiet", "langgraph", "langgraph-checkpoint-sqlite"];
    run_command(command(&python, &packages)).and_then(into_result)?;
    Ok(python)
}

fn run_program(program: &Path, args: &[&str]) -> Result<String, String> {
    let done = run_with(command(program, args), |_| true)?;
    let text = done.output.clone();
    into_result(done)?;
    Ok(text)
}

/// The number before `ns a step`.
fn nanos_per_step(program: &Path, args: &[&str]) -> Result<u64, String> {
    let text = run_program(program, args)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ns");
    let figure = at.and_then(|at| words.get(at.checked_sub(1)?)).and_then(|word| word.parse().ok());
    figure.ok_or_else(|| format!("no number in: {text}"))
}

fn median(mut list: Vec<u64>) -> u64 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or(0)
}
