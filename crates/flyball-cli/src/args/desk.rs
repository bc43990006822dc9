//! The arguments of the commands that a person uses at the store: looking around, answering, cleaning up.

use super::PolicyArgs;
use clap::{Args, ValueEnum};

/// Where the store is.
#[derive(Debug, Args, Default)]
pub(crate) struct StoreArgs {
    /// The store: sqlite:PATH or postgres://…. Without it: FLYBALL_STORE, else the project's own, .flyball/flyball.db
    /// in this folder or above.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// What every command at the store takes.
#[derive(Debug, Args, Default)]
pub(crate) struct Who {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The session; without it the whole store is shown.
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `flyball list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only sessions that stand still until a person releases them.
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Only sessions in which a plan waits for a yes.
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only sessions that run on after warnings or refusals.
    #[arg(long)]
    pub(crate) struggling: bool,
    /// At most so many, the one that changed last first.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball activity`.
#[derive(Debug, Args)]
pub(crate) struct Activity {
    /// Only this session.
    pub(crate) session: Option<String>,
    /// Only lines of this kind; may be given several times.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<crate::commands::activity::What>,
    /// At most so many, the newest.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on with what happens from now on, until it is ended.
    #[arg(long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print the table once and end; without a terminal it is printed once anyway.
    #[arg(long)]
    pub(crate) once: bool,
    /// Look at this many sessions at most, the ones that changed last.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print one JSON object for each session, and end.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a release does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A few more, then the guard trips again.
    #[default]
    Grant,
    /// The guard counts from the beginning.
    Reset,
    /// It may go on, and nothing is forgotten.
    Keep,
}

impl Mode {
    /// The word as it is sent.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Mode::Grant => "grant",
            Mode::Reset => "reset",
            Mode::Keep => "keep",
        }
    }
}

/// `flyball release`.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// The session.
    pub(crate) session: String,
    /// The guard to release; without it, the one that holds the session. `human` lifts a person's stop.
    #[arg(long, value_name = "GUARD")]
    pub(crate) guard: Option<String>,
    /// What the release does.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// How many more are granted; without it, as many as the policy says (3 by default).
    #[arg(long, value_name = "N")]
    pub(crate) n: Option<u64>,
    /// Why; it is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Who you are; without it FLYBALL_USER, USER or LOGNAME.
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `flyball approve` and `flyball deny`.
#[derive(Debug, Args)]
pub(crate) struct Reply {
    /// The session.
    pub(crate) session: String,
    /// Who you are; without it FLYBALL_USER, USER or LOGNAME.
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    /// Why; it is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `flyball stop` and `flyball unlabel`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// The session.
    pub(crate) session: String,
    /// Why; it is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Who you are; without it FLYBALL_USER, USER or LOGNAME.
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `flyball send`.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The session.
    pub(crate) session: String,
    /// What to tell it.
    pub(crate) text: String,
    /// Who you are; without it FLYBALL_USER, USER or LOGNAME.
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `flyball output`.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// The reference of the output, as a decision or a result gives it.
    #[arg(value_name = "REF")]
    pub(crate) reference: String,
    /// The first character to print; 0 is the beginning.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
    /// How many characters to print; 0 = to the end.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) limit: u64,
    /// Print the lines that contain this text instead, each with the offset where it begins.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["offset", "limit"])]
    pub(crate) search: Option<String>,
    /// Print the path of its file instead; an output in a PostgreSQL store has none.
    #[arg(long, conflicts_with_all = ["offset", "limit", "search"])]
    pub(crate) path: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball prune`.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// What counts as old: 30d, 12h, 90m, 2w. Without it: `journal.retention` of the policy, 30 days unless set.
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<String>,
    /// Only say what would be taken away.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write.
    pub(crate) file: std::path::PathBuf,
    /// Replace the file if it is there already.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup to restore.
    pub(crate) file: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Accept hooks, policies and the store as they are now, and forget what was there before.
    #[arg(long)]
    pub(crate) accept: bool,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// Which half of the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Put a question.
    Ask,
    /// Find it again, answer it, and end the session.
    Settle,
}

/// The hidden half of `flyball doctor`. The store is named by FLYBALL_STORE.
#[derive(Debug, Args)]
pub(crate) struct DoctorStep {
    /// Which half.
    #[arg(value_enum)]
    pub(crate) step: Step,
    /// The session that is used for it.
    pub(crate) session: String,
}

/// `flyball outbox`.
#[derive(Debug, Args)]
pub(crate) struct Outbox {
    /// Only what was given up.
    #[arg(long)]
    pub(crate) dead: bool,
    /// Only what waits for its time.
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Perform now what is due.
    #[arg(long)]
    pub(crate) deliver: bool,
    /// Try this one again.
    #[arg(long, value_name = "KEY")]
    pub(crate) retry: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
