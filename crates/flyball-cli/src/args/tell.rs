//! The arguments of `flyball tell`.

use super::StoreArgs;
use clap::Args;

/// `flyball tell`.
#[derive(Debug, Args)]
pub(crate) struct Tell {
    /// The type of the event: transition.requested, progress, gate.checked, operation.failed, turn.started and others;
    /// `-` reads one event as JSON from stdin.
    #[arg(value_name = "TYPE")]
    pub(crate) kind: String,
    /// Its fields. A value is JSON where the field takes JSON, else a text. Lists: failing=a,b and
    /// checks=build:passed,tests:failed.
    #[arg(value_name = "KEY=VALUE", value_parser = field)]
    pub(crate) fields: Vec<(String, String)>,
    /// The session. Without it: FLYBALL_SESSION, else the session of the coding agent that this runs under, else the one
    /// that is at work in this project.
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print the decision as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn field(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write a field as KEY=VALUE".to_owned()),
    }
}
