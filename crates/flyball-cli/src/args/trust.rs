//! The arguments of `flyball trust` and `flyball policy`.

use super::Who;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `flyball trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The policy file. Without it: the project's, flyball.yaml in this folder or above.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// List the trusted files.
    #[arg(long, conflicts_with_all = ["file", "revoke", "dry_run"])]
    pub(crate) list: bool,
    /// Stop trusting the file.
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Only show what the file would loosen, and its digest.
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyCommand {
    /// What to do.
    #[command(subcommand)]
    pub(crate) act: PolicyAct,
}

/// What is done with a session's policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAct {
    /// Put a running session under the present policy, also where that is looser.
    Accept(AcceptPolicy),
}

/// `flyball policy accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptPolicy {
    /// The session.
    pub(crate) session: String,
    /// Why; it is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Who says so. Without it: you.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}
