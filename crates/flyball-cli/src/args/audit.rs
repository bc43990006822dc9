//! The arguments of `flyball audit`.

use super::PolicyArgs;
use clap::Args;
use std::path::PathBuf;

/// `flyball audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Transcripts, or folders with transcripts in them; hidden folders are looked into as well.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Prices by model, beside those that come with the program. Without it: FLYBALL_PRICES, or
    /// ~/.config/flyball/prices.yaml if there is one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report as one HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a policy that fits this history, and audit the history once more with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_policy: Option<PathBuf>,
    /// Write over files that are there. An older page gives way without it.
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads at work. Without it: as many as there are cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
}
