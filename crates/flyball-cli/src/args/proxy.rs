//! The arguments of the commands that stand between an agent and its model or its tools.

use super::{PolicyArgs, StoreArgs};
use clap::{Args, ValueEnum};
use flyball::policy::{self, Policy};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What is done when nothing can be decided, because the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Pass it on, and say so loudly.
    Allow,
    /// Refuse it.
    Block,
}

impl OnError {
    /// The value of the command line, else that of the policy. A call of a model changes nothing by itself, so `reads`
    /// lets it pass.
    pub(crate) fn or_policy(said: Option<Self>, policy: &Policy) -> Self {
        said.unwrap_or(if policy.on_error == policy::OnError::Block {
            OnError::Block
        } else {
            OnError::Allow
        })
    }

    /// The value of the command line, else that of the policy, for single tool calls.
    pub(crate) fn for_tools(said: Option<Self>, policy: &Policy) -> policy::OnError {
        match said {
            Some(OnError::Allow) => policy::OnError::Allow,
            Some(OnError::Block) => policy::OnError::Block,
            None => policy.on_error,
        }
    }
}

/// `flyball proxy`.
#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// The model's endpoint, for example https://api.openai.com or https://api.anthropic.com.
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,
    /// Where to listen; port 0 is any free one. Whoever reaches it can use it, so keep it on this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4141")]
    pub(crate) listen: SocketAddr,
    /// A host name that clients may use for the proxy, beside localhost and IP addresses. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// What a model costs, in dollars for a million tokens: MODEL=IN,OUT, or MODEL=IN,OUT,CACHED for those read from
    /// the provider's cache. May be given several times, and wins over the lists; a model without a price is counted in
    /// tokens only.
    #[arg(long, value_name = "MODEL=IN,OUT")]
    pub(crate) price: Vec<String>,
    /// Prices by model, beside those that come with the program. Without it: FLYBALL_PRICES, or
    /// ~/.config/flyball/prices.yaml if there is one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// What to do when the store fails. Without it: `on_error: block` of the policy refuses, everything else passes.
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnError>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// `flyball mcp`.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// The name of the session. Without it: the server's name with the time and the process.
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// What to do when the store fails. Without it: `on_error` of the policy; `reads`, the default, passes only tools
    /// that the policy declares `effect: read`. Tools that need an approval are refused in any case.
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnError>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// A server behind HTTP (streamable HTTP), instead of one that is started here.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) url: Option<String>,
    /// A header for every request to --url, from a variable of the environment: Authorization=MY_TOKEN. May be given
    /// several times.
    #[arg(long, value_name = "NAME=VARIABLE", requires = "url", conflicts_with = "listen")]
    pub(crate) header: Vec<String>,
    /// Serve clients over HTTP, with --url, instead of one on stdin and stdout; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS", requires = "url")]
    pub(crate) listen: Option<SocketAddr>,
    /// The server and its arguments, after `--`.
    #[arg(last = true, required_unless_present = "url", value_name = "SERVER")]
    pub(crate) server: Vec<OsString>,
}
