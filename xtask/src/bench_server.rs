//! `cargo xtask bench server`: measures the server against a bare server and the store alone on the same machine, under
//! ten times its capacity, and its memory with many sessions.

use crate::bench;
use crate::bench_store::{number_after, report_line};
use crate::command::{command, print_line, run_with, target_dir};
use crate::external_checks::into_result;
use crate::tools;
use std::fs;

/// Concurrent connections, rounds, and seconds per measurement.
const RATE_ARGS: [&str; 3] = ["64", "5", "5"];
/// Seconds of overload.
const OVERLOAD_SECONDS: &str = "120";
/// Active sessions, and events of each.
const SESSION_ARGS: [&str; 2] = ["10000", "50"];

/// Listeners that read nothing, rounds, and seconds of each load.
const STALLED_READER_ARGS: [&str; 3] = ["100", "3", "5"];

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    bench::build_programs()?;
    let folder = target_dir().join("bench-serve");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (program, flyball) =
        (target_dir().join("release/flyball-bench-server"), target_dir().join("release/flyball"));
    let (flyball, place) = (flyball.display().to_string(), folder.display().to_string());
    let ask = |args: &[&str]| -> Result<String, String> {
        let done = run_with(command(&program, args), |_| true)?;
        let text = done.output.clone();
        into_result(done)?;
        Ok(text)
    };
    let [connections, rounds, seconds] = RATE_ARGS;
    let rate = ask(&["rate", &flyball, &place, connections, rounds, seconds])?;
    tools::ensure_program("wrk", "wrk")?;
    let [connections, rounds, seconds] = RATE_ARGS;
    ask(&["wrk", &flyball, &place, connections, rounds, seconds])?;
    let overload = ask(&["overload", &flyball, &place, OVERLOAD_SECONDS])?;
    let [listeners, rounds, seconds] = STALLED_READER_ARGS;
    let readers = ask(&["readers", &flyball, &place, listeners, rounds, seconds])?;
    let [sessions, events] = SESSION_ARGS;
    let memory = ask(&["sessions", &flyball, &place, sessions, events])?;
    let _ = fs::remove_dir_all(&folder);
    print_line("");
    for clients in ["threads", "tasks"] {
        let journal = number_after(&rate, &format!("the journal alone, {clients} = "));
        let what = format!("over HTTP / the journal alone, {clients}");
        print_line(&report_line(&what, journal, journal >= 60, "at least 0.6"));
    }
    let beside = number_after(&readers, "read nothing / without = ");
    print_line(&report_line(
        "with 100 listeners that read nothing / without",
        beside,
        beside >= 90,
        "at least 0.9",
    ));
    let grown = number_after(&overload, "ratio ");
    print_line(&report_line("memory under tenfold overload / before", grown, grown <= 150, "at most 1.5"));
    let most =
        memory.lines().filter_map(|line| line.split(" KiB").next()?.rsplit(' ').next()?.parse::<u64>().ok());
    let mib = most.max().unwrap_or(0) / 1024;
    print_line(&report_line("MiB with 10,000 sessions", mib * 100, mib <= 1024, "at most 1024"));
    Ok(())
}
