//! The `flyball` command: parses the arguments, runs one command, and turns its outcome into an exit code.

mod args;
mod caller_check;
mod clock;
mod color;
mod commands;
mod coverage;
mod crash;
mod delivery;
mod error;
mod event_file;
mod event_lines;
mod evidence;
mod explanations;
mod hook_runs;
mod live_screen;
mod output_file;
mod plan_printer;
mod policy_loader;
mod prices;
mod run_status;
mod session_tally;
mod store;
mod terminal;
mod trust_list;
mod workflow_file;

use args::{CliArgs, CliCommand, HookCommandArgs};
use error::{CliError, Exit};
use flyball_view::{formatting, trend};
use std::process::ExitCode;

fn main() -> ExitCode {
    crash::install_panic_hook();
    let outcome = match HookCommandArgs::parse_installed(std::env::args_os().skip(1)) {
        Some(hook) => commands::hook::run(hook),
        None => {
            let command = CliArgs::from_env().command;
            args::exit_on_ineffective_flags(&command);
            run(command)
        }
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

fn run(command: CliCommand) -> Result<Exit, CliError> {
    match command {
        CliCommand::Run(args) => commands::run::start(&args),
        CliCommand::Resume(args) => commands::run::resume(&args),
        CliCommand::Replay(args) => commands::replay::run(&args),
        CliCommand::Audit(args) => commands::audit::run(&args),
        CliCommand::Observe(args) => commands::observe::run(&args),
        CliCommand::Tell(args) => commands::tell::run(&args),
        CliCommand::Proxy(args) => commands::proxy::run(&args),
        CliCommand::Mcp(args) => commands::mcp::run(&args),
        CliCommand::Hook(args) => commands::hook::run(*args),
        CliCommand::Init(args) => commands::init::run(&args),
        CliCommand::Check(args) => commands::check::run(&args),
        CliCommand::Config(args) => commands::config::run(&args),
        CliCommand::Policy(args) => commands::policy::run(&args),
        CliCommand::Trust(args) => commands::trust::run(&args),
        CliCommand::Graph(args) => commands::graph::run(&args),
        CliCommand::Explain(args) => commands::explain::run(&args),
        CliCommand::Status(args) => commands::status::run(&args),
        CliCommand::Top(args) => commands::top::run(&args),
        CliCommand::List(args) => commands::list::run(&args),
        CliCommand::Release(args) => commands::operator_commands::release(&args),
        CliCommand::Approve(args) => commands::operator_commands::approve(&args),
        CliCommand::Deny(args) => commands::operator_commands::deny(&args),
        CliCommand::Stop(args) => commands::operator_commands::stop(&args),
        CliCommand::Send(args) => commands::operator_commands::send(&args),
        CliCommand::Unlabel(args) => commands::operator_commands::unlabel(&args),
        CliCommand::Prune(args) => commands::prune::run(&args),
        CliCommand::Backup(args) => commands::backup::run(&args),
        CliCommand::Restore(args) => commands::restore::run(&args),
        CliCommand::Doctor(args) => commands::doctor::run(&args),
        CliCommand::DoctorStep(args) => commands::doctor::run_step(&args),
        CliCommand::Activity(args) => commands::activity::run(&args),
        CliCommand::Metrics(args) => commands::metrics::run(&args),
        CliCommand::Outbox(args) => commands::outbox::run(&args),
        CliCommand::Output(args) => commands::output::run(&args),
        CliCommand::Serve(args) => commands::serve::run(&args),
        CliCommand::Token(args) => commands::token::run(&args),
        CliCommand::Schema(args) => commands::schema::run(&args),
        CliCommand::Completions(args) => commands::completions::run(&args),
        CliCommand::Man(args) => commands::man::run(&args),
    }
}
