//! MCP proxy: sits between an MCP client and server and guards the server's tools.
//!
//! Messages are forwarded byte for byte, for any method and protocol version; only `tools/call`, `tools/list`, their
//! responses, `initialize` and cancellations are inspected. A library that deserializes every message would drop
//! unknown fields, so this module parses as little as possible. The tests use such a library as client and as server.
//!
//! `stdio.rs` (child process), `http_proxy.rs` and `bridge.rs` (remote server) receive messages. `guard.rs` forwards a
//! message or responds itself (`gate_refusals.rs`). `results.rs` edits tool results: large parts are replaced by
//! references and notes are appended. `large_outputs.rs` implements the tool that reads them.

mod bridge;
mod gate_refusals;
mod guard;
mod http_proxy;
mod large_outputs;
mod message;
mod results;
mod sse_frames;
mod stdio;

use crate::listen::OnReady;
use crate::model_proxy::{OnDecision, ProxyError};
use flyball::policy::OnErrorAction;
use flyball_store::{Recorder, RedactingParser};
use guard::{McpGuard, McpProxyState};
use std::ffi::OsString;
use std::net::TcpListener;
use std::process::ExitStatus;
use std::sync::Arc;

/// The variable that marks a server started by the proxy, and the server's child processes.
pub const PROXY_MARKER_VARIABLE: &str = "FLYBALL_MCP";

/// Configuration and dependencies of the proxy.
pub struct McpProxyConfig {
    /// Evaluates and records events.
    pub recorder: Arc<Recorder>,
    /// Redacts secrets.
    pub parser: RedactingParser,
    /// Clock, in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// Callback for decisions.
    pub on_decision: Box<OnDecision>,
    /// Callback for errors.
    pub report_error: Box<dyn Fn(&ProxyError) + Send + Sync>,
    /// The session name.
    pub session: String,
    /// Distinguishes this process from others in the same session.
    pub instance_id: String,
    /// The store flag for printed commands; empty for the default store.
    pub store_flag: String,
    /// Which calls are allowed, with an error report, if they cannot be evaluated.
    pub on_error: OnErrorAction,
}

/// Serves a client on stdin and stdout with the server as a child process, until one of them exits. Returns the
/// server's exit status, if known.
///
/// # Errors
/// If the server cannot be started.
pub fn serve_stdio(
    argv: &[OsString],
    config: McpProxyConfig,
    on_ready: OnReady,
) -> Result<Option<ExitStatus>, ProxyError> {
    let (session, shared) = (config.session.clone(), McpProxyState::new(config));
    let ended = stdio::serve(argv, McpGuard::new(Arc::clone(&shared), session), on_ready);
    shared.remove_outputs();
    ended
}

/// Serves HTTP clients with a remote HTTP server, until a shutdown signal.
///
/// # Errors
/// If the URL cannot be used, or the machine refuses.
pub fn serve_http(
    listener: TcpListener,
    url: &str,
    config: McpProxyConfig,
    on_ready: OnReady,
) -> Result<(), ProxyError> {
    let shared = McpProxyState::new(config);
    let http = Arc::new(http_proxy::McpHttpProxy::new(Arc::clone(&shared), url)?);
    let ended = crate::listen::serve(listener, on_ready, move |request| Arc::clone(&http).handle(request));
    shared.remove_outputs();
    ended.map_err(crate::model_proxy::listen_error)
}

/// Serves a client on stdin and stdout with a remote HTTP server, until the client's end of input. `headers` are sent
/// with every request, for example an API key.
///
/// # Errors
/// If the URL or a header is invalid.
pub fn serve_bridge(
    url: &str,
    headers: &[(String, String)],
    config: McpProxyConfig,
) -> Result<(), ProxyError> {
    let shared = McpProxyState::new(config);
    let ended = bridge::serve(url, headers, Arc::clone(&shared));
    shared.remove_outputs();
    ended
}

/// Splits a URL into its origin and its path.
fn split_origin(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(host..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| host + at);
    let (origin, path) = url.split_at(path);
    (origin, if path.is_empty() { "/" } else { path })
}
