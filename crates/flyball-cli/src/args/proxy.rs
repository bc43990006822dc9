//! The arguments of the commands that proxy model calls and tool calls.

use super::{PolicyArgs, StoreArgs};
use clap::{Args, ValueEnum};
use flyball::policy::{self, Policy};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Behavior when no decision can be made because the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// Allow the request, with a warning
    Allow,
    /// Block the request
    Block,
}

impl OnErrorArg {
    /// The value of the command line, else that of the policy. A call of a model changes nothing by itself, so `reads`
    /// lets it pass.
    pub(crate) fn resolve_for_models(said: Option<Self>, policy: &Policy) -> Self {
        said.unwrap_or(if policy.on_error == policy::OnErrorAction::Block {
            OnErrorArg::Block
        } else {
            OnErrorArg::Allow
        })
    }

    /// The value of the command line, else that of the policy, for single tool calls.
    pub(crate) fn resolve_for_tools(said: Option<Self>, policy: &Policy) -> policy::OnErrorAction {
        match said {
            Some(OnErrorArg::Allow) => policy::OnErrorAction::Allow,
            Some(OnErrorArg::Block) => policy::OnErrorAction::Block,
            None => policy.on_error,
        }
    }
}

/// `flyball proxy`.
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Model endpoint, e.g. https://api.openai.com or https://api.anthropic.com
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,
    /// Address to listen on; port 0 picks a free one. The proxy has no authentication: keep it local
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4141")]
    pub(crate) listen: SocketAddr,
    /// Additional host name that clients may use (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Price in dollars per million tokens: MODEL=IN,OUT or MODEL=IN,OUT,CACHED (repeatable); overrides the price
    /// lists. Models without a price are counted in tokens only
    #[arg(long, value_name = "MODEL=IN,OUT")]
    pub(crate) price: Vec<String>,
    /// Price list by model, added to the built-in one [default: $FLYBALL_PRICES, else
    /// ~/.config/flyball/prices.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Action if the store fails [default: `block` if the policy has `on_error: block`, else `allow`]
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnErrorArg>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// `flyball mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Session name [default: made from the server name, the time and the process ID]
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Action if the store fails [default: `on_error` of the policy; `reads` allows only tools declared `effect: read`].
    /// Tools that need approval are always blocked
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnErrorArg>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Connect to a server over streamable HTTP instead of starting one
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) url: Option<String>,
    /// Header for requests to --url, read from an environment variable: Authorization=MY_TOKEN (repeatable)
    #[arg(long, value_name = "NAME=VARIABLE", requires = "url", conflicts_with = "listen")]
    pub(crate) header: Vec<String>,
    /// Serve clients over HTTP instead of stdio; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", requires = "url")]
    pub(crate) listen: Option<SocketAddr>,
    /// Server command and its arguments, after `--`
    #[arg(last = true, required_unless_present = "url", value_name = "SERVER")]
    pub(crate) server: Vec<OsString>,
}
