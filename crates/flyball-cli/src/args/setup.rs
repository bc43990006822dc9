//! The arguments of the commands that set Flyball up: the policy file, shell completions and manual pages.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `flyball init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Overwrite an existing flyball.yaml and flyball.schema.json
    #[arg(long)]
    pub(crate) force: bool,
}

/// `flyball completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `flyball man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
