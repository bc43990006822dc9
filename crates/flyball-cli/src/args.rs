//! The command line: every command, argument and flag, with its help text.

mod audit;
mod help;
mod hook;
mod ineffective_flags;
mod operator;
mod proxy;
mod run;
mod serve;
mod setup;
mod tell;
mod trust;

pub(crate) use audit::AuditArgs;
pub(crate) use operator::{
    ActivityArgs, BackupArgs, CommonArgs, DoctorArgs, DoctorStepArgs, ListArgs, MetricsArgs, OutboxArgs,
    OutputArgs, PlanReplyArgs, PruneArgs, ReleaseArgs, ReleaseModeArg, RestoreArgs, RoundTripStep, SendArgs,
    StatusArgs, StopArgs, StoreArgs, TopArgs,
};

pub(crate) use help::{cli_command, examples, visible_command};
pub(crate) use hook::{HookAction, HookCommandArgs, HookInstallArgs, HookRunArgs, SettingsScopeArgs};
pub(crate) use ineffective_flags::exit_on_ineffective_flags;
pub(crate) use proxy::{McpArgs, OnErrorArg, ProxyArgs};
pub(crate) use run::{ResumeArgs, RunArgs};
pub(crate) use serve::{LogStyleArg, RoleArg, ServeArgs, TokenAction, TokenArgs};
pub(crate) use setup::{CompletionsArgs, InitArgs, ManArgs};
pub(crate) use tell::TellArgs;
pub(crate) use trust::{AcceptPolicyArgs, PolicyAction, PolicyCommandArgs, TrustArgs};

use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use flyball_integrations::transcript::TranscriptFormat;
use std::path::PathBuf;

/// Stop AI agents that loop, stall or overspend.
///
/// Exit codes: 0 success; 1 error; 2 usage error; 3 stopped by a guard; 4 awaiting approval or an answer; 5 blocked by a
/// quality gate.
#[derive(Debug, Parser)]
#[command(name = "flyball", version, propagate_version = true)]
pub(crate) struct CliArgs {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

impl CliArgs {
    /// Parses the arguments of the process. Prints help or a usage error and exits where they ask for it.
    pub(crate) fn from_env() -> Self {
        let parsed = Self::from_arg_matches_mut(&mut cli_command().get_matches());
        parsed.unwrap_or_else(|error| error.format(&mut cli_command()).exit())
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run a workflow until it ends, stops or needs an answer.
    Run(RunArgs),
    /// Resume a run after a release, an answer or a crash.
    Resume(ResumeArgs),
    /// Evaluate a policy against recorded events.
    Replay(ReplayArgs),
    /// Find loops in transcripts and estimate their cost.
    Audit(AuditArgs),
    /// Read events from stdin and write decisions to stdout.
    Observe(ObserveArgs),
    /// Report progress, checks or phases to a coding agent's session.
    Tell(TellArgs),
    /// Guard model calls with an OpenAI/Anthropic-compatible proxy.
    Proxy(ProxyArgs),
    /// Guard the tools of an MCP server.
    Mcp(McpArgs),
    /// Install, test or run the hook of a coding agent.
    Hook(Box<HookCommandArgs>),
    /// Create a commented policy file for this project.
    Init(InitArgs),
    /// Validate a policy or workflow file.
    Check(CheckArgs),
    /// Show the effective policy and the origin of each value.
    Config(ConfigArgs),
    /// Change the policy of a running session.
    Policy(PolicyCommandArgs),
    /// Allow a project's policy file to relax limits.
    Trust(TrustArgs),
    /// Draw a workflow or session as a graph, with its loops.
    Graph(GraphArgs),
    /// Explain why a session was stopped, with evidence.
    Explain(ExplainArgs),
    /// Show the state of all sessions, or of one.
    Status(StatusArgs),
    /// Watch sessions live; those needing attention come first.
    Top(TopArgs),
    /// List sessions: all, blocked, awaiting approval or warned.
    List(ListArgs),
    /// Release a stopped session, within limits.
    Release(ReleaseArgs),
    /// Approve the pending plan of a session.
    Approve(PlanReplyArgs),
    /// Deny the pending plan of a session.
    Deny(PlanReplyArgs),
    /// Stop a session until someone releases it.
    Stop(StopArgs),
    /// Send a message to a session, or answer its question.
    Send(SendArgs),
    /// Remove the needs-human label, which releases the session.
    Unlabel(StopArgs),
    /// Delete old sessions and events; counters are kept.
    Prune(PruneArgs),
    /// Back up the store to a file, while in use.
    Backup(BackupArgs),
    /// Replace the store with a backup; the old one is kept.
    Restore(RestoreArgs),
    /// Check store, permissions, hooks, policies and clock.
    Doctor(DoctorArgs),
    /// One half of the round trip of `flyball doctor`.
    #[command(hide = true)]
    DoctorStep(DoctorStepArgs),
    /// Show session activity, one line per event.
    Activity(ActivityArgs),
    /// Print metrics of all sessions, as Prometheus text or JSON.
    Metrics(MetricsArgs),
    /// List undelivered notifications, and deliver or retry them.
    Outbox(OutboxArgs),
    /// Read or search a stored large output.
    Output(OutputArgs),
    /// Run the HTTP API and the dashboard.
    Serve(Box<ServeArgs>),
    /// Create, list and revoke API keys of the server.
    Token(TokenArgs),
    /// Print the JSON schema of policies, workflows or the API.
    Schema(SchemaArgs),
    /// Print a shell completion script.
    Completions(CompletionsArgs),
    /// Print the manual page, or write all manual pages.
    Man(ManArgs),
}

/// Where the policy comes from.
#[derive(Debug, Args, Default)]
pub(crate) struct PolicyArgs {
    /// Policy file: YAML, TOML or JSON [default: flyball.yaml here or above, if any]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Base preset: workflow, agent, simple, complex, strict, observe or off
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Set a policy value, e.g. --set budgets.session.runtime=2h (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The format of a transcript by its name.
fn transcript_format_parser() -> impl clap::builder::TypedValueParser<Value = TranscriptFormat> {
    use clap::builder::TypedValueParser;
    let names = clap::builder::PossibleValuesParser::new(TranscriptFormat::ALL.map(TranscriptFormat::name));
    names.try_map(|name| TranscriptFormat::from_name(&name).ok_or("unknown format"))
}

/// `flyball replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Event files or transcripts; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Format of the files [default: detected]
    #[arg(long, value_name = "NAME", value_parser = transcript_format_parser())]
    pub(crate) format: Option<TranscriptFormat>,
    /// Print one JSON decision per event, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball observe`.
#[derive(Debug, Args)]
pub(crate) struct ObserveArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Record to this store: sqlite:PATH, postgres://… or memory: [no value: .flyball/flyball.db here or above]
    /// [default: $FLYBALL_STORE, else nothing is stored]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "sqlite:")]
    pub(crate) store: Option<String>,
    /// No effect: decisions are always JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Policy or workflow file, or a directory that contains workflow.yaml
    pub(crate) file: PathBuf,
    /// Base preset [default: depends on the kind of file]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The documents that have a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaKind {
    /// Policy files
    #[default]
    Policy,
    /// Workflow files
    Workflow,
    /// The HTTP API, as OpenAPI 3.1
    Openapi,
}

/// `flyball schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The document to describe
    #[arg(value_enum, default_value_t)]
    pub(crate) of: SchemaKind,
}

/// `flyball config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Show where each value comes from
    #[arg(long)]
    pub(crate) origin: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output formats of `flyball graph`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormatArg {
    /// Text for a terminal
    #[default]
    Ascii,
    /// SVG image
    Svg,
    /// Graphviz DOT
    Dot,
    /// Mermaid, for Markdown
    Mermaid,
}

/// `flyball graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Workflow file, event file, or a session in the store
    #[arg(value_name = "FILE|SESSION")]
    pub(crate) file: PathBuf,
    /// Session to draw, if the file has several
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: GraphFormatArg,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print loops and counters as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Session in the store, event file, or transcript
    #[arg(value_name = "SESSION|FILE")]
    pub(crate) file: PathBuf,
    /// Session to explain, if the file has several
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Format of the file [default: detected]
    #[arg(long, value_name = "NAME", value_parser = transcript_format_parser())]
    pub(crate) format: Option<TranscriptFormat>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
