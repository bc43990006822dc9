//! The arguments of the commands that run workflows.

use super::{PolicyArgs, StoreArgs};
use clap::Args;
use std::path::PathBuf;

/// `flyball run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The workflow file, or a folder with a workflow.yaml in it.
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: PathBuf,
    /// The name of the session. Without it: the workflow's name and the next free number.
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Keep nothing: no store, no way to take the run up again.
    #[arg(long, conflicts_with = "store")]
    pub(crate) keep_nothing: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print one JSON object for each event and its decision, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The session.
    pub(crate) session: String,
    /// Run a step again that was cut off, although nobody knows how far it came.
    #[arg(long, conflicts_with = "skip")]
    pub(crate) rerun: bool,
    /// Take a step that was cut off as failed, and go on.
    #[arg(long)]
    pub(crate) skip: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print one JSON object for each event and its decision, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}
