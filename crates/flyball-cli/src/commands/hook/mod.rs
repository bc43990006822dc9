//! `flyball hook HOST`: what a coding agent calls before and after each of its steps, and how it is set up.

mod answer;
mod decide;
mod files;
mod install;
mod root;
mod setting;
mod test;
mod view;

pub(crate) use setting::project;
pub(crate) use test::{Installed, check, glance, installed_flags, redirected, told};

use crate::args::{Action, Hook};
use crate::fail::{Exit, Failure};

/// Runs the command.
pub(crate) fn run(args: Hook) -> Result<Exit, Failure> {
    let Hook { host, action, answer } = args;
    match action {
        None => answer::run(host, answer),
        Some(Action::Install(args)) => install::install(host, &answer, &args),
        Some(Action::Uninstall(args)) => install::uninstall(host, &args),
        Some(Action::Test(place)) => test::run(host, &place),
    }
}
