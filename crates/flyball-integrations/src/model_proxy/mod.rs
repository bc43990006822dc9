//! Model proxy: sits between an agent and its model provider and speaks the agent's protocol.
//!
//! Requests and answers are forwarded unchanged and recorded as events. An answer has reached the agent by the time its
//! calls are known, so decisions take effect on the next request: a warning or a denial becomes a note in that request,
//! and a halt becomes our own answer in the same protocol.
//!
//! `server.rs` receives a request; `protocol.rs` parses it (`openai_chat.rs`, `anthropic_messages.rs`,
//! `openai_responses.rs`); `conversation_index.rs` and `conversation_log.rs` find the new entries;
//! `conversation_recorder.rs` records them; `upstream.rs` forwards the request; `response_body.rs` streams the answer
//! back and records a copy of it.

mod anthropic_messages;
mod conversation_index;
mod conversation_log;
mod conversation_recorder;
mod entry;
pub(crate) mod headers;
mod openai_chat;
mod openai_responses;
mod partial_answer;
mod path;
mod protocol;
mod response_body;
mod server;
mod sse;
mod strict_json;
pub(crate) mod upstream;

pub(crate) use conversation_recorder::shell_quote;
pub use conversation_recorder::{CostFn, ModelProxyConfig, OnDecision, ProxyError};
pub use partial_answer::ProxyTokens;
pub use server::ProxyOnError;

use crate::listen::OnReady;
use crate::same_site::AllowedHosts;
use server::ModelProxy;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use upstream::Upstream;

/// Options of the model proxy.
pub struct ModelProxyOptions {
    /// The provider's URL, with a path prefix if it has one.
    pub upstream: String,
    /// Host names that clients may use for the proxy, in addition to `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// The action if a request cannot be evaluated.
    pub on_error: ProxyOnError,
    /// Callback for errors.
    pub report_error: Box<dyn Fn(&ProxyError) + Send + Sync>,
    /// Called once the proxy is ready.
    pub on_ready: OnReady,
}

/// Serves until SIGINT or SIGTERM. In-flight answers are drained; a second signal drops them.
///
/// # Errors
/// If the provider's URL is invalid, or the address cannot be served.
pub fn serve(
    listener: TcpListener,
    config: ModelProxyConfig,
    options: ModelProxyOptions,
) -> Result<(), ProxyError> {
    let upstream = Upstream::new(&options.upstream)?;
    let proxy = Arc::new(ModelProxy::new(
        config,
        upstream,
        AllowedHosts::new(&options.hosts),
        options.on_error,
        options.report_error,
    ));
    crate::listen::serve(listener, options.on_ready, move |request| Arc::clone(&proxy).handle(request))
        .map_err(listen_error)
}

/// The error for an address that cannot be served.
pub(crate) fn listen_error(error: io::Error) -> ProxyError {
    let help = "check the address after --listen".to_owned();
    ProxyError { code: "cannot_listen".to_owned(), message: error.to_string(), help }
}
