//! `cargo xtask bench serve`: what the server costs, beside a bare server and the journal alone on the same machine; what it
//! does when ten times too many come; and how much memory many sessions take.

use crate::bench;
use crate::bench_journal::{after, verdict};
use crate::outside::succeeded;
use crate::run::{command, run_with, say, target};
use crate::tools;
use std::fs;

/// Connections at once, rounds, and seconds of each measurement in a round.
const RATE: [&str; 3] = ["64", "5", "5"];
/// Seconds of too much.
const OVERLOAD: &str = "120";
/// Sessions that live, and events of each.
const SESSIONS: [&str; 2] = ["10000", "50"];

/// Listeners that read nothing, rounds, and seconds of each load.
const READERS: [&str; 3] = ["100", "3", "5"];

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    bench::programs()?;
    let folder = target().join("bench-serve");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (program, flyball) = (target().join("release/flyball-bench-serve"), target().join("release/flyball"));
    let (flyball, place) = (flyball.display().to_string(), folder.display().to_string());
    let ask = |args: &[&str]| -> Result<String, String> {
        let done = run_with(command(&program, args), |_| true)?;
        let text = done.output.clone();
        succeeded(done)?;
        Ok(text)
    };
    let [connections, rounds, seconds] = RATE;
    let rate = ask(&["rate", &flyball, &place, connections, rounds, seconds])?;
    tools::need("wrk", "wrk")?;
    let [connections, rounds, seconds] = RATE;
    ask(&["wrk", &flyball, &place, connections, rounds, seconds])?;
    let overload = ask(&["overload", &flyball, &place, OVERLOAD])?;
    let [listeners, rounds, seconds] = READERS;
    let readers = ask(&["readers", &flyball, &place, listeners, rounds, seconds])?;
    let [sessions, events] = SESSIONS;
    let memory = ask(&["sessions", &flyball, &place, sessions, events])?;
    let _ = fs::remove_dir_all(&folder);
    say("");
    for clients in ["threads", "tasks"] {
        let journal = after(&rate, &format!("the journal alone, {clients} = "));
        let what = format!("over HTTP / the journal alone, {clients}");
        say(&verdict(&what, journal, journal >= 60, "at least 0.6"));
    }
    let beside = after(&readers, "read nothing / without = ");
    say(&verdict("with 100 listeners that read nothing / without", beside, beside >= 90, "at least 0.9"));
    let grown = after(&overload, "ratio ");
    say(&verdict("memory under ten times too much / before", grown, grown <= 150, "at most 1.5"));
    let most =
        memory.lines().filter_map(|line| line.split(" KiB").next()?.rsplit(' ').next()?.parse::<u64>().ok());
    let mib = most.max().unwrap_or(0) / 1024;
    say(&verdict("MiB with 10,000 sessions", mib * 100, mib <= 1024, "at most 1024"));
    Ok(())
}
