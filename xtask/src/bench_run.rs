//! `cargo xtask bench run`: what the runner costs, beside LangGraph walking the same circle on the same machine.
//!
//! Machines are noisy: both are walked in turn, and the middle of several rounds counts.

use crate::bench;
use crate::outside::succeeded;
use crate::run::{command, run as run_command, run_with, say, target};
use std::fs;
use std::path::{Path, PathBuf};

/// Rounds of the comparison.
const ROUNDS: usize = 5;
/// Steps of the circle.
const STEPS: &str = "10000";
/// Steps that LangGraph keeps; fewer, because each takes milliseconds.
const KEPT_STEPS: &str = "2000";

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    bench::programs()?;
    let folder = target().join("bench-run");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let python = langgraph()?;
    let program = target().join("release/flyball-bench-run");
    let circle = "bench/langgraph/circle.py";
    let mut all: [Vec<u64>; 4] = Default::default();
    for round in 0..ROUNDS {
        let store = format!("sqlite:{}", folder.join(format!("flyball-{round}.db")).display());
        let saver = folder.join(format!("langgraph-{round}.db")).display().to_string();
        let figures = [
            nanos(&program, &["nothing", STEPS])?,
            nanos(&python, &[circle, "bare", STEPS])?,
            nanos(&program, &["everything", &store, STEPS])?,
            nanos(&python, &[circle, "sqlite", KEPT_STEPS, &saver])?,
        ];
        for (list, figure) in all.iter_mut().zip(figures) {
            list.push(figure);
        }
    }
    let [bare, their_bare, kept, their_kept] = all.map(middle);
    let store = format!("sqlite:{}", folder.join("share.db").display());
    let files = folder.join("share").display().to_string();
    let share = ask(&program, &["share", "examples/fix-until-green/workflow.yaml", &store, &files])?;
    let _ = fs::remove_dir_all(&folder);
    say("");
    say(&format!("keeping nothing:    Flyball {bare} ns a step, LangGraph {their_bare} ns"));
    say(&verdict("times the steps of LangGraph", their_bare / bare.max(1), 50));
    say(&format!("keeping everything: Flyball {kept} ns a step, LangGraph {their_kept} ns (SQLite, sync)"));
    say(&verdict("times the steps of LangGraph", their_kept / kept.max(1), 5));
    let permille =
        share.split(' ').rev().nth(2).and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let mark = if permille < 20 { "" } else { "  MISSED" };
    say(&format!("fix-until-green: {}  (goal: under 20 of 1000){mark}", share.trim()));
    Ok(())
}

fn verdict(what: &str, figure: u64, goal: u64) -> String {
    let mark = if figure >= goal { "" } else { "  MISSED" };
    format!("  {figure} {what} (goal: at least {goal}){mark}")
}

/// A Python of our own with LangGraph in it.
fn langgraph() -> Result<PathBuf, String> {
    let folder = target().join("bench-langgraph");
    let python = folder.join("bin/python");
    if !python.exists() {
        let place = folder.display().to_string();
        run_command(command(Path::new("python3"), &["-m", "venv", &place])).and_then(succeeded)?;
    }
    let packages = ["-m", "pip", "install", "--quiet", "langgraph", "langgraph-checkpoint-sqlite"];
    run_command(command(&python, &packages)).and_then(succeeded)?;
    Ok(python)
}

fn ask(program: &Path, args: &[&str]) -> Result<String, String> {
    let done = run_with(command(program, args), |_| true)?;
    let text = done.output.clone();
    succeeded(done)?;
    Ok(text)
}

/// The figure before `ns a step`.
fn nanos(program: &Path, args: &[&str]) -> Result<u64, String> {
    let text = ask(program, args)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ns");
    let figure = at.and_then(|at| words.get(at.checked_sub(1)?)).and_then(|word| word.parse().ok());
    figure.ok_or_else(|| format!("no figure in: {text}"))
}

fn middle(mut list: Vec<u64>) -> u64 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or(0)
}
