//! The command line: every command, argument and flag, with its manual.

mod audit;
mod desk;
mod hook;
mod misuse;
mod proxy;
mod run;
mod serve;
mod tell;
mod trust;

pub(crate) use audit::Audit;
pub(crate) use desk::{
    Activity, Backup, Doctor, DoctorStep, List, Metrics, Mode, Outbox, Output, Prune, Release, Reply,
    Restore, Send, Status, Step, Stop, StoreArgs, Top, Who,
};

pub(crate) use hook::{Action, AnswerArgs, Hook, Install, Place};
pub(crate) use misuse::refuse;
pub(crate) use proxy::{Mcp, OnError, Proxy};
pub(crate) use run::{Resume, Run};
pub(crate) use serve::{LogStyle, Role, Serve, Token, TokenAct};
pub(crate) use tell::Tell;
pub(crate) use trust::{AcceptPolicy, PolicyAct, PolicyCommand, Trust};

use clap::{Args, Parser, Subcommand, ValueEnum};
use flyball_adapt::source::Format;
use std::path::PathBuf;

/// The governor for AI agents: sees every turn, call and transition, and decides allow, warn, block or halt.
///
/// Exit codes: 0 done, nothing tripped; 1 error; 2 wrong usage; 3 stopped by a guard; 4 waits for a person;
/// 5 blocked by a gate.
#[derive(Debug, Parser)]
#[command(name = "flyball", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow to its end, a halt, or a question to a person.
    Run(Run),
    /// Take a run up again after a stop, a release or a crash.
    Resume(Resume),
    /// Show what a policy would have decided on recorded events.
    Replay(Replay),
    /// Find the loops in a folder of transcripts: where, how long, and what a stop would have saved.
    Audit(Audit),
    /// Read events on stdin and answer each with a decision on stdout: the pipe for any language.
    Observe(Observe),
    /// Tell the session of a coding agent what its hook does not see: phases, progress, checks, operations.
    Tell(Tell),
    /// Stand between an agent and its model: an endpoint that speaks the OpenAI and Anthropic APIs.
    Proxy(Proxy),
    /// Stand between an MCP client and an MCP server, and guard its tools.
    Mcp(Mcp),
    /// The hook of a coding agent: put it into the agent's settings, test it, and answer it.
    Hook(Box<Hook>),
    /// Check a policy or workflow: errors with their place, contradictions, loops, worst-case bounds.
    Check(Check),
    /// Show the effective policy and where each value came from.
    Config(Config),
    /// Decide about the policy of a running session.
    Policy(PolicyCommand),
    /// Trust a project's policy file, so that it may also loosen.
    Trust(Trust),
    /// Draw a workflow, or the workflow of a session, with its loops.
    Graph(Graph),
    /// Say in plain words why a session was stopped, with the evidence.
    Explain(Explain),
    /// Show what goes on in the store, or in one session, and what waits for a person.
    Status(Status),
    /// Watch all sessions of the store, those that need a person first.
    Top(Top),
    /// List sessions: all, or those that are blocked, that wait for a yes, or that struggle.
    List(List),
    /// Let a session that was stopped go on, within bounds; who and why are recorded.
    Release(Release),
    /// Say yes to the plan that waits in a session.
    Approve(Reply),
    /// Say no to the plan that waits in a session.
    Deny(Reply),
    /// Stop a session until a person releases it.
    Stop(Stop),
    /// Tell a session something, or answer its question in words.
    Send(Send),
    /// Take the label off that calls a person: this releases the session.
    Unlabel(Stop),
    /// Take away what is old: sessions that have ended, and events that are no longer needed. No counter is reset.
    Prune(Prune),
    /// Write a consistent copy of the store to a file, while it is in use.
    Backup(Backup),
    /// Replace the store with a backup; the old store is kept beside it.
    Restore(Restore),
    /// Prove that the set-up works: versions, store, permissions, a round trip through other processes, clock.
    Doctor(Doctor),
    /// One half of the doctor's round trip.
    #[command(hide = true)]
    DoctorStep(DoctorStep),
    /// Show what happens in the sessions of the store, one line each, by kind.
    Activity(Activity),
    /// Print what was counted over all sessions of the store, as Prometheus reads it or as JSON.
    Metrics(Metrics),
    /// Show what is to be told to others and was not yet, and try again what was given up.
    Outbox(Outbox),
    /// Read a large output in slices, or search it, by its reference.
    Output(Output),
    /// Serve the interface and the dashboard, for agents and people on this machine or on many.
    Serve(Box<Serve>),
    /// Make, list and take back the keys of agents and people who ask the server.
    Token(Token),
    /// Print the JSON schema of policy or workflow files, for editors.
    Schema(Schema),
}

/// Where the policy comes from.
#[derive(Debug, Args, Default)]
pub(crate) struct PolicyArgs {
    /// The policy file (YAML, TOML or JSON). Without it: flyball.yaml in this folder or above, if there is one.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Start from this preset: workflow, agent, simple, complex, strict, observe or off.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Set one value, for example --set budgets.session.runtime=2h; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The format of a transcript by its name.
fn format() -> impl clap::builder::TypedValueParser<Value = Format> {
    use clap::builder::TypedValueParser;
    let names = clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name));
    names.try_map(|name| Format::from_name(&name).ok_or("no such format"))
}

/// `flyball replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Files of events, or transcripts of other tools; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The format of the files. Without it: found out from their first lines.
    #[arg(long, value_name = "NAME", value_parser = format())]
    pub(crate) format: Option<Format>,
    /// Print one decision a line, for each event, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball observe`.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Record everything in this store: sqlite:PATH, postgres://… or memory:. Without a value: the project's own,
    /// .flyball/flyball.db here or above. Not given: FLYBALL_STORE, else nothing is kept.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "sqlite:")]
    pub(crate) store: Option<String>,
    /// Decisions are always JSON here; accepted so that it can be given everywhere.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The policy or workflow file, or a folder with a workflow.yaml in it.
    pub(crate) file: PathBuf,
    /// Start from this preset instead of the one that the kind of file has by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The files that there is a schema of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Policy files.
    #[default]
    Policy,
    /// Workflow files.
    Workflow,
    /// The server's interface, as OpenAPI 3.1.
    Openapi,
}

/// `flyball schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The kind of file.
    #[arg(value_enum, default_value_t)]
    pub(crate) of: SchemaOf,
}

/// `flyball config`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Show where each value came from.
    #[arg(long)]
    pub(crate) origin: bool,
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// For a terminal.
    #[default]
    Ascii,
    /// A picture.
    Svg,
    /// For Graphviz.
    Dot,
    /// For Markdown pages.
    Mermaid,
}

/// `flyball graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// A workflow file, a file of recorded events, or a session of the store.
    #[arg(value_name = "FILE|SESSION")]
    pub(crate) file: PathBuf,
    /// The session to draw, if the file holds several.
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How it is drawn.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Drawing,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print loops and counters as JSON instead of a drawing.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A session of the store, a file of recorded events, or a transcript of another tool.
    #[arg(value_name = "SESSION|FILE")]
    pub(crate) file: PathBuf,
    /// Only this session, if the file holds several.
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// The format of the file. Without it: found out from its first lines.
    #[arg(long, value_name = "NAME", value_parser = format())]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
