//! The MCP proxy: stands between any client and server of the Model Context Protocol, and guards its tools.
//!
//! Messages go on as they are, byte for byte, whatever method they carry and whatever version of the protocol they
//! speak: only `tools/call`, its answer, `initialize` and cancellations are looked into. A library that types every
//! message would lose what it does not know; this one knows next to nothing, and is tested with such a library on
//! both sides.
//!
//! A line -> `stdio.rs` (a child process) or `http.rs` and `bridge.rs` (a server elsewhere) -> `gate.rs` decides -> the line itself, or an answer in its place; results come back through
//! `results.rs`, where large parts are replaced by references and notes are added. `outputs.rs` is the tool that reads them.

mod bridge;
mod events;
mod gate;
mod gate_refusals;
mod http;
mod message;
mod outputs;
mod results;
mod stdio;

use crate::model_proxy::{Tell, Trouble};
use flyball::policy::OnError;
use flyball_journal::{Door, Recorder};
use gate::{Gate, Shared};
use std::ffi::OsString;
use std::net::TcpListener;
use std::process::ExitStatus;
use std::sync::Arc;

/// The variable that marks a server which the proxy has started, and whatever that starts.
pub const MARK: &str = "FLYBALL_MCP";

/// What the proxy works with.
pub struct Setting {
    /// Decides and records.
    pub recorder: Arc<Recorder>,
    /// Takes secrets out.
    pub door: Door,
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// Who is told of decisions.
    pub tell: Box<Tell>,
    /// Who is told when something goes wrong.
    pub complain: Box<dyn Fn(&Trouble) + Send + Sync>,
    /// The session.
    pub session: String,
    /// What tells this process from others that worked on the same session.
    pub start: String,
    /// What a person must add to a command to reach this store; empty if nothing.
    pub store_flag: String,
    /// Which calls are let through, loudly, when nothing can be decided.
    pub on_error: OnError,
}

/// Serves a client on stdin and stdout, with the server as a child process, until one of them ends. Gives how the
/// server ended, if that is known.
///
/// # Errors
/// If the server cannot be started.
pub fn serve_stdio(
    argv: &[OsString],
    setting: Setting,
    on_ready: crate::OnReady,
) -> Result<Option<ExitStatus>, Trouble> {
    let (session, shared) = (setting.session.clone(), Shared::new(setting));
    let ended = stdio::serve(argv, Gate::new(Arc::clone(&shared), session), on_ready);
    shared.remove_outputs();
    ended
}

/// Serves clients over HTTP, with a server behind HTTP, until a signal says stop.
///
/// # Errors
/// If the URL cannot be used, or the machine refuses.
pub fn serve_http(
    listener: TcpListener,
    url: &str,
    setting: Setting,
    on_ready: crate::OnReady,
) -> Result<(), Trouble> {
    let shared = Shared::new(setting);
    let http = Arc::new(http::Http::new(Arc::clone(&shared), url)?);
    let ended = crate::listen::serve(listener, on_ready, move |request| Arc::clone(&http).answer(request));
    shared.remove_outputs();
    ended.map_err(crate::model_proxy::refused)
}

/// Serves a client on stdin and stdout, with a server behind HTTP, until the client sends nothing more. `headers` go with
/// every request: a key, for example.
///
/// # Errors
/// If the URL or a header cannot be used.
pub fn serve_bridge(url: &str, headers: &[(String, String)], setting: Setting) -> Result<(), Trouble> {
    let shared = Shared::new(setting);
    let ended = bridge::serve(url, headers, Arc::clone(&shared));
    shared.remove_outputs();
    ended
}

/// A URL in two: up to its path, and the path.
fn origin(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(host..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| host + at);
    let (origin, path) = url.split_at(path);
    (origin, if path.is_empty() { "/" } else { path })
}
