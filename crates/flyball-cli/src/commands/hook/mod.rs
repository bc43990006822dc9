//! `flyball hook HOST`: the hook that coding agents call before and after each step, and its setup.

mod decide;
mod hook_process;
mod hook_settings;
mod host_view;
mod install;
mod self_test;
mod session_root;
mod settings_file;

pub(crate) use hook_settings::repository_root;
pub(crate) use self_test::{
    HookHealth, check_hook, hook_fingerprint, installed_flags, redirecting_variables, redirection_text,
};

use crate::args::{HookAction, HookCommandArgs};
use crate::error::{CliError, Exit};

/// Runs the command.
pub(crate) fn run(args: HookCommandArgs) -> Result<Exit, CliError> {
    let HookCommandArgs { host, action, run: answer } = args;
    match action {
        None => hook_process::run(host, answer),
        Some(HookAction::Install(args)) => install::install(host, &answer, &args),
        Some(HookAction::Uninstall(args)) => install::uninstall(host, &args),
        Some(HookAction::Test(place)) => self_test::run(host, &place),
    }
}
