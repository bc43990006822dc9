//! `cargo xtask bench hook`: a cold call of a hook, its commit included, beside the plainest program that opens the same
//! file, commits one row and prints a line.

use crate::bench;
use crate::bench_journal::{after, verdict};
use crate::outside::succeeded;
use crate::run::{command, run_with, say, target};
use std::fs;

/// Rounds; the middle one counts.
const ROUNDS: usize = 5;
/// Cold processes of each kind in a round.
const COLD: &str = "200";

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    bench::programs()?;
    let folder = target().join("bench-hook");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = target().join("release/flyball-bench-journal");
    let flyball = target().join("release/flyball").display().to_string();
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let file = folder.join(format!("{round}.db")).display().to_string();
        let done = run_with(command(&program, &["hook", &flyball, &file, COLD]), |_| true)?;
        ratios.push(after(&done.output, "ratio "));
        succeeded(done)?;
    }
    let _ = fs::remove_dir_all(&folder);
    ratios.sort_unstable();
    let ratio = ratios.get(ROUNDS / 2).copied().unwrap_or(0);
    say(&verdict("a cold hook / the bare program", ratio, ratio <= 150, "at most 1.5"));
    Ok(())
}
