//! The arguments of `flyball audit`.

use super::PolicyArgs;
use clap::Args;
use std::path::PathBuf;

/// `flyball audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Transcripts, or directories to search, including hidden ones
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Price list by model, added to the built-in one [default: $FLYBALL_PRICES, else
    /// ~/.config/flyball/prices.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a policy fitted to this history, and audit again with it
    #[arg(long, value_name = "FILE")]
    pub(crate) write_policy: Option<PathBuf>,
    /// Overwrite existing files; reports of an earlier audit are always replaced
    #[arg(long)]
    pub(crate) force: bool,
    /// Number of threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
}
