//! `cargo xtask bench hook`: measures a cold hook call, including its commit, against a minimal program that opens the
//! same file, commits one row and prints a line; linked dynamically and statically.

use crate::bench;
use crate::bench_store::{number_after, report_line};
use crate::command::{command, print_line, run_with, target_dir};
use crate::external_checks::into_result;
use crate::static_build;
use std::fs;
use std::path::Path;

/// Number of rounds; the median counts.
const ROUNDS: usize = 5;
/// Cold processes of each kind in a round.
const COLD_CALLS: &str = "200";

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    bench::build_programs()?;
    let usual = median_ratio(&target_dir().join("release/flyball"))?;
    // Last, because it overwrites the program in cargo's usual place.
    let alone = median_ratio(&static_build::build("release")?)?;
    print_line(&report_line("a cold hook / the bare program", usual, usual <= 150, "at most 1.5"));
    print_line(&report_line("the same, linked statically", alone, alone <= 150, "at most 1.5"));
    Ok(())
}

/// The median ratio of several rounds.
fn median_ratio(flyball: &Path) -> Result<u64, String> {
    let folder = target_dir().join("bench-hook");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = target_dir().join("release/flyball-bench-store");
    let flyball = flyball.display().to_string();
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let file = folder.join(format!("{round}.db")).display().to_string();
        let done = run_with(command(&program, &["hook", &flyball, &file, COLD_CALLS]), |_| true)?;
        ratios.push(number_after(&done.output, "ratio "));
        into_result(done)?;
    }
    let _ = fs::remove_dir_all(&folder);
    ratios.sort_unstable();
    Ok(ratios.get(ROUNDS / 2).copied().unwrap_or(0))
}
