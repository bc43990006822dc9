//! The arguments of the commands that run workflows.

use super::{PolicyArgs, StoreArgs};
use clap::Args;
use std::path::PathBuf;

/// `flyball run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Workflow file, or a directory that contains workflow.yaml
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: PathBuf,
    /// Session name [default: the workflow name and the next free number]
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Do not store the run; it cannot be resumed
    #[arg(long, conflicts_with = "store")]
    pub(crate) keep_nothing: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print one JSON object per event and decision, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Session name
    pub(crate) session: String,
    /// Run an interrupted step again, even if it may have had effects
    #[arg(long, conflicts_with = "skip")]
    pub(crate) rerun: bool,
    /// Treat an interrupted step as failed and continue
    #[arg(long)]
    pub(crate) skip: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print one JSON object per event and decision, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}
