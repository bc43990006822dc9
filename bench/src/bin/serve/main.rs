//! What the server costs, measured beside the plainest server that reads the same body, and beside the journal alone.
//!
//! usage: flyball-bench-serve TASK ARGS… (see `TASKS`); `cargo xtask bench serve` runs them all.

mod client;
#[path = "../journal/clock.rs"]
mod clock;
mod hello;
#[path = "../journal/lines.rs"]
mod lines;
mod load;
mod overload;
#[path = "../journal/rate.rs"]
mod rate;
mod readers;
mod server;
mod sessions;
mod wrk;

use std::io::Write;
use std::process::ExitCode;

/// What can go wrong in a benchmark: anything, and it is told.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const TASKS: &str = "\
usage: flyball-bench-serve TASK ARGS…
  rate FLYBALL FOLDER CONNECTIONS ROUNDS SECONDS
                         durable decisions a second over HTTP, beside a bare server and the journal alone, in turn
  load FLYBALL STORE CONNECTIONS SECONDS
                         durable decisions a second over HTTP, on any store
  overload FLYBALL FOLDER SECONDS
                         ten times as many clients as there are places
  readers FLYBALL FOLDER LISTENERS ROUNDS SECONDS
                         the load with and without listeners that read nothing, in turn
  sessions FLYBALL FOLDER SESSIONS EVENTS
                         memory with so many sessions that live, each with a history
  wrk FLYBALL FOLDER CONNECTIONS ROUNDS SECONDS
                         the load made by wrk, on the server and on the bare one, in turn
  hello                  the bare server: says where it listens, and answers until it is stopped";

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
        ["rate", flyball, folder, connections, rounds, seconds] => {
            load::rounds(flyball, folder, connections.parse()?, rounds.parse()?, seconds.parse()?)
        }
        ["load", flyball, store, connections, seconds] => {
            load::once(flyball, store, connections.parse()?, seconds.parse()?)
        }
        ["overload", flyball, folder, seconds] => overload::run(flyball, folder, seconds.parse()?),
        ["sessions", flyball, folder, sessions, events] => {
            sessions::run(flyball, folder, sessions.parse()?, events.parse()?)
        }
        ["readers", flyball, folder, listeners, rounds, seconds] => {
            readers::run(flyball, folder, listeners.parse()?, rounds.parse()?, seconds.parse()?)
        }
        ["wrk", flyball, folder, connections, rounds, seconds] => {
            wrk::rounds(flyball, folder, connections, rounds.parse()?, seconds)
        }
        ["hello"] => hello::run(),
        _ => Err(TASKS.into()),
    }
}
