//! The `flyball` command: parses the arguments, runs one command, and turns its outcome into an exit code.

mod args;
mod clock;
mod commands;
mod crash;
mod deliver;
mod evidence;
mod fail;
mod hook_runs;
mod input;
mod load;
mod meaning;
mod paint;
mod person;
mod posts;
mod prices;
mod recording;
mod screen;
mod store;
mod story;
mod telling;
mod terminal;
mod trust;
mod whereabouts;
mod workflow;

use args::{Arguments, Command, Hook};
use clap::Parser;
use fail::{Exit, Failure};
use flyball_view::{trend, words};
use std::process::ExitCode;

fn main() -> ExitCode {
    crash::tell_places_only();
    let outcome = match Hook::as_installed(std::env::args_os().skip(1)) {
        Some(hook) => commands::hook::run(hook),
        None => {
            let command = Arguments::parse().command;
            args::refuse(&command);
            run(command)
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => commands::run::start(&args),
        Command::Resume(args) => commands::run::resume(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Audit(args) => commands::audit::run(&args),
        Command::Observe(args) => commands::observe::run(&args),
        Command::Tell(args) => commands::tell::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Mcp(args) => commands::mcp::run(&args),
        Command::Hook(args) => commands::hook::run(*args),
        Command::Check(args) => commands::check::run(&args),
        Command::Config(args) => commands::config::run(&args),
        Command::Policy(args) => commands::policy::run(&args),
        Command::Trust(args) => commands::trust::run(&args),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Release(args) => commands::answer::release(&args),
        Command::Approve(args) => commands::answer::approve(&args),
        Command::Deny(args) => commands::answer::deny(&args),
        Command::Stop(args) => commands::answer::stop(&args),
        Command::Send(args) => commands::answer::send(&args),
        Command::Unlabel(args) => commands::answer::unlabel(&args),
        Command::Prune(args) => commands::prune::run(&args),
        Command::Backup(args) => commands::backup::run(&args),
        Command::Restore(args) => commands::restore::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::DoctorStep(args) => commands::doctor::step(&args),
        Command::Activity(args) => commands::activity::run(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Outbox(args) => commands::outbox::run(&args),
        Command::Output(args) => commands::output::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Token(args) => commands::token::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
    }
}
