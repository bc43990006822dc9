//! What the journal costs, measured beside the plainest program that does the same to the disk.
//!
//! usage: flyball-bench-journal TASK ARGS… (see `TASKS`); `cargo xtask bench journal` runs them all.

mod bare;
mod clock;
mod growth;
mod lines;
mod processes;
mod rate;

use std::io::Write;
use std::process::ExitCode;

/// What can go wrong in a benchmark: anything, and it is told.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const TASKS: &str = "\
usage: flyball-bench-journal TASK ARGS…
  bare FILE BATCH SECONDS          rows a second, committed in batches by one writer
  rate STORE CLIENTS SECONDS       durable decisions a second, each client a task with a session of its own
  threads STORE CLIENTS SECONDS    the same, each client a thread
  fill STORE EVENTS                stores so many, in one thread: for a program that counts instructions
  growth STORE EVENTS              cost of an event and memory, early and late
  one FILE                         opens a SQLite file, commits one row, prints a line (the bare cold program)
  cold FLYBALL FILE RUNS           the cold `flyball observe` beside `one`, in turn
  hook FLYBALL FILE RUNS           the cold `flyball hook` beside `one`, in turn
  share FLYBALL FILE PROCESSES SECONDS
                                   many cold processes on one file: errors, and who was served how often";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(lines) => {
            let told = lines.iter().try_for_each(|line| writeln!(std::io::stdout(), "{line}"));
            if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(what) => {
            // If nobody reads the complaint, the exit code still tells.
            let _ = writeln!(std::io::stderr(), "{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Outcome<Vec<String>> {
    match args {
        ["bare", file, batch, seconds] => bare::rate(file, batch.parse()?, seconds.parse()?),
        ["rate", store, clients, seconds] => rate::tasks(store, clients.parse()?, seconds.parse()?),
        ["threads", store, clients, seconds] => rate::threads(store, clients.parse()?, seconds.parse()?),
        ["fill", store, events] => growth::fill(store, events.parse()?),
        ["growth", store, events] => growth::run(store, events.parse()?),
        ["one", file] => bare::one(file),
        ["cold", flyball, file, runs] => processes::cold(flyball, file, runs.parse()?),
        ["hook", flyball, file, runs] => processes::hook(flyball, file, runs.parse()?),
        ["share", flyball, file, processes, seconds] => {
            processes::share(flyball, file, processes.parse()?, seconds.parse()?)
        }
        _ => Err(TASKS.into()),
    }
}
