//! The arguments of the commands that a person uses at the store: looking around, answering, cleaning up.

use super::PolicyArgs;
use clap::{Args, ValueEnum};

/// Where the store is.
#[derive(Debug, Args, Default)]
pub(crate) struct StoreArgs {
    /// Store: sqlite:PATH or postgres://… [default: $FLYBALL_STORE, else .flyball/flyball.db here or above]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// Arguments of all commands that use the store.
#[derive(Debug, Args, Default)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Session to show [default: all]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `flyball list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only stopped sessions that need a release
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Only sessions with a plan awaiting approval
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only running sessions with warnings or denials
    #[arg(long)]
    pub(crate) struggling: bool,
    /// Maximum number of sessions, most recent first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball activity`.
#[derive(Debug, Args)]
pub(crate) struct ActivityArgs {
    /// Session to show [default: all]
    pub(crate) session: Option<String>,
    /// Only lines of this kind (repeatable)
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<crate::commands::activity::ActivityKind>,
    /// Maximum number of lines, the newest ones
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Keep printing new activity until interrupted
    #[arg(long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball metrics`.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print the table once and exit; always so without a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Maximum number of sessions, most recent first
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print one JSON object per session and exit
    #[arg(long)]
    pub(crate) json: bool,
}

/// Effects of a release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReleaseModeArg {
    /// Allow a few more, then trip again
    #[default]
    Grant,
    /// Reset the guard's counters
    Reset,
    /// Continue with all counters unchanged
    Keep,
}

impl ReleaseModeArg {
    /// The word as it is sent.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ReleaseModeArg::Grant => "grant",
            ReleaseModeArg::Reset => "reset",
            ReleaseModeArg::Keep => "keep",
        }
    }
}

/// `flyball release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// Session name
    pub(crate) session: String,
    /// Guard to release; `human` lifts a manual stop [default: the guard that stopped the session]
    #[arg(long, value_name = "GUARD")]
    pub(crate) guard: Option<String>,
    /// Effect of the release
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ReleaseModeArg,
    /// Number of further attempts granted [default: set by the policy, usually 3]
    #[arg(long, value_name = "N")]
    pub(crate) n: Option<u64>,
    /// Reason, recorded in the session
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Your name [default: $FLYBALL_USER, $USER or $LOGNAME]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `flyball approve` and `flyball deny`.
#[derive(Debug, Args)]
pub(crate) struct PlanReplyArgs {
    /// Session name
    pub(crate) session: String,
    /// Your name [default: $FLYBALL_USER, $USER or $LOGNAME]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    /// Reason, recorded in the session
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `flyball stop` and `flyball unlabel`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Session name
    pub(crate) session: String,
    /// Reason, recorded in the session
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Your name [default: $FLYBALL_USER, $USER or $LOGNAME]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `flyball send`.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Session name
    pub(crate) session: String,
    /// Message text
    pub(crate) text: String,
    /// Your name [default: $FLYBALL_USER, $USER or $LOGNAME]
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `flyball output`.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Reference of the output, from a decision or tool result
    #[arg(value_name = "REF")]
    pub(crate) reference: String,
    /// First character to print
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
    /// Maximum number of characters; 0 prints to the end
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) limit: u64,
    /// Print only lines that contain this text, with their offsets
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["offset", "limit"])]
    pub(crate) search: Option<String>,
    /// Print the path of the output file (SQLite stores only)
    #[arg(long, conflicts_with_all = ["offset", "limit", "search"])]
    pub(crate) path: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Minimum age, e.g. 90m, 12h, 30d or 2w [default: `journal.retention` of the policy]
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<String>,
    /// Show what would be deleted, without deleting it
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// File to write
    pub(crate) file: std::path::PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Backup file to restore
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Accept the present hooks, policies and store as the new baseline
    #[arg(long)]
    pub(crate) accept: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The halves of the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoundTripStep {
    /// Ask a question
    Ask,
    /// Find the question, answer it and end the session
    Settle,
}

/// The hidden half of `flyball doctor`. The store is named by FLYBALL_STORE.
#[derive(Debug, Args)]
pub(crate) struct DoctorStepArgs {
    /// Half of the round trip
    #[arg(value_enum)]
    pub(crate) step: RoundTripStep,
    /// Session to use
    pub(crate) session: String,
}

/// `flyball outbox`.
#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    /// Only notifications that were given up
    #[arg(long)]
    pub(crate) dead: bool,
    /// Only notifications scheduled for later
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Deliver everything that is due now
    #[arg(long)]
    pub(crate) deliver: bool,
    /// Retry the notification with this key
    #[arg(long, value_name = "KEY")]
    pub(crate) retry: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
