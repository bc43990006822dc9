//! Benchmarks of the event store, next to the simplest program that does the same to the disk.
//!
//! usage: flyball-bench-store TASK ARGS… (see `TASKS`); `cargo xtask bench store` runs them all.

mod baseline;
mod event_lines;
mod growth;
mod processes;
mod stats;
mod throughput;

use std::io::Write;
use std::process::ExitCode;

/// Result of a benchmark, with any error.
type BenchResult<T> = Result<T, Box<dyn std::error::Error>>;

const TASKS: &str = "\
usage: flyball-bench-store TASK ARGS…
  bare FILE BATCH SECONDS          rows per second, committed in batches by one writer
  rate STORE CLIENTS SECONDS       durable decisions per second, one task and session per client
  threads STORE CLIENTS SECONDS    the same, one thread per client
  fill STORE EVENTS                stores events in one thread, for counting instructions
  growth STORE EVENTS              cost of an event and memory, early and late
  one FILE                         opens a SQLite file, commits one row, prints a line (the baseline)
  cold FLYBALL FILE RUNS           cold `flyball observe` and `one`, alternating
  hook FLYBALL FILE RUNS           cold `flyball hook` and `one`, alternating
  share FLYBALL FILE PROCESSES SECONDS
                                   many cold processes on one file: errors and fairness";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(lines) => {
            let printed = lines.iter().try_for_each(|line| writeln!(std::io::stdout(), "{line}"));
            if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(what) => {
            // If stderr is closed, the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> BenchResult<Vec<String>> {
    match args {
        ["bare", file, batch, seconds] => baseline::rate(file, batch.parse()?, seconds.parse()?),
        ["rate", store, clients, seconds] => throughput::tasks(store, clients.parse()?, seconds.parse()?),
        ["threads", store, clients, seconds] => {
            throughput::threads(store, clients.parse()?, seconds.parse()?)
        }
        ["fill", store, events] => growth::fill(store, events.parse()?),
        ["growth", store, events] => growth::run(store, events.parse()?),
        ["one", file] => baseline::commit_one_row(file),
        ["cold", flyball, file, runs] => processes::bench_cold_observe(flyball, file, runs.parse()?),
        ["hook", flyball, file, runs] => processes::bench_cold_hook(flyball, file, runs.parse()?),
        ["share", flyball, file, processes, seconds] => {
            processes::bench_shared_file(flyball, file, processes.parse()?, seconds.parse()?)
        }
        _ => Err(TASKS.into()),
    }
}
