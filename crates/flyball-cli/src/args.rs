//! The command line: every command, argument and flag, with its manual.

use clap::{Args, Parser, Subcommand, ValueEnum};
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
    /// Show what a policy would have decided on recorded events.
    Replay(Replay),
    /// Read events on stdin and answer each with a decision on stdout: the pipe for any language.
    Observe(Observe),
    /// Check a policy or workflow: errors with their place, contradictions, loops, worst-case bounds.
    Check(Check),
    /// Show the effective policy and where each value came from.
    Config(Config),
    /// Draw a workflow, or the workflow of a recorded session, with its loops.
    Graph(Graph),
    /// Say in plain words why a recorded session was stopped, with the evidence.
    Explain(Explain),
    /// Print the JSON schema of policy files.
    Schema,
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

/// The formats that `replay` reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Flyball's own events, one JSON object a line.
    #[default]
    Flyball,
}

/// `flyball replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Files of events; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The format of the files.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Print one decision a line, for each event, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball observe`.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Decisions are always JSON here; accepted so that it can be given everywhere.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The policy or workflow file.
    pub(crate) file: PathBuf,
    /// Start from this preset instead of the one that the kind of file has by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
    /// A workflow file, or a file of recorded events.
    pub(crate) file: PathBuf,
    /// The session to draw, if the file holds several.
    #[arg(long)]
    pub(crate) session: Option<String>,
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
    /// A file of recorded events.
    pub(crate) file: PathBuf,
    /// Only this session.
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
