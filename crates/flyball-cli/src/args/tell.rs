//! The arguments of `flyball tell`.

use super::StoreArgs;
use clap::Args;

/// `flyball tell`.
#[derive(Debug, Args)]
pub(crate) struct TellArgs {
    /// Event type, e.g. progress, gate.checked, transition.requested, operation.failed or turn.started; `-` reads one
    /// JSON event from stdin
    #[arg(value_name = "TYPE")]
    pub(crate) kind: String,
    /// Event fields; values are JSON or text. Lists: failing=a,b and checks=build:passed,tests:failed
    #[arg(value_name = "KEY=VALUE", value_parser = parse_field)]
    pub(crate) fields: Vec<(String, String)>,
    /// Session name [default: $FLYBALL_SESSION, else the session of the calling coding agent, else the active one of this
    /// project]
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the decision as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_field(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
