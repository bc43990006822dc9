//! `flyball completions`: a completion script for a shell.

use crate::args::{CompletionsArgs, visible_command};
use crate::error::{CliError, Exit};
use std::io::Write;

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CliError> {
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible_command(), "flyball", &mut script);
    crate::terminal::raw_stdout().write_all(&script)?;
    Ok(Exit::Success)
}
