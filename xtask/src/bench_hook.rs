//! `cargo xtask bench hook`: a cold call of a hook, its commit included, beside the plainest program that opens the same
//! file, commits one row and prints a line; as cargo links it, and linked statically.

use crate::bench;
use crate::bench_journal::{after, verdict};
use crate::outside::succeeded;
use crate::run::{command, run_with, say, target};
use crate::standalone;
use std::fs;
use std::path::Path;

/// Rounds; the middle one counts.
const ROUNDS: usize = 5;
/// Cold processes of each kind in a round.
const COLD: &str = "200";

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    bench::programs()?;
    let usual = middle(&target().join("release/flyball"))?;
    // The last one: it leaves another program where cargo puts the usual one.
    let alone = middle(&standalone::build("release")?)?;
    say(&verdict("a cold hook / the bare program", usual, usual <= 150, "at most 1.5"));
    say(&verdict("the same, linked statically", alone, alone <= 150, "at most 1.5"));
    Ok(())
}

/// The middle of the ratios of several rounds.
fn middle(flyball: &Path) -> Result<u64, String> {
    let folder = target().join("bench-hook");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = target().join("release/flyball-bench-journal");
    let flyball = flyball.display().to_string();
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let file = folder.join(format!("{round}.db")).display().to_string();
        let done = run_with(command(&program, &["hook", &flyball, &file, COLD]), |_| true)?;
        ratios.push(after(&done.output, "ratio "));
        succeeded(done)?;
    }
    let _ = fs::remove_dir_all(&folder);
    ratios.sort_unstable();
    Ok(ratios.get(ROUNDS / 2).copied().unwrap_or(0))
}
