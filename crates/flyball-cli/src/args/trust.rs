//! The arguments of `flyball trust` and `flyball policy`.

use super::CommonArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `flyball trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Policy file [default: flyball.yaml here or above]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// List trusted files
    #[arg(long, conflicts_with_all = ["file", "revoke", "dry_run"])]
    pub(crate) list: bool,
    /// Stop trusting the file
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Show which limits the file relaxes, and its digest
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyCommandArgs {
    /// The action on the policy.
    #[command(subcommand)]
    pub(crate) action: PolicyAction,
}

/// Actions on the policy of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAction {
    /// Apply the present policy to a session, even if less strict.
    Accept(AcceptPolicyArgs),
}

/// `flyball policy accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptPolicyArgs {
    /// Session name
    pub(crate) session: String,
    /// Reason, recorded in the session
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Your name [default: $FLYBALL_USER, $USER or $LOGNAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
