//! The `flyball` command: parses the arguments, runs one command, and turns its outcome into an exit code.

mod args;
mod commands;
mod evidence;
mod fail;
mod input;
mod load;
mod paint;
mod story;
mod workflow;

use args::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Replay(args) => commands::replay::run(&args),
        Command::Observe(args) => commands::observe::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Config(args) => commands::config::run(&args),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Schema => commands::schema::run(),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
