//! The model proxy: stands between an agent and its model, in the agent's own protocol.
//!
//! Requests and answers go through untouched. What they say is recorded as events of the contract, and what is decided
//! acts at the next request, because an answer has reached the agent by the time its calls are known: a warning or a
//! refusal becomes a note in that request, a halt becomes an answer of our own, in the same protocol.
//!
//! `server.rs` takes a request -> `dialect.rs` reads it (`chat.rs`, `messages.rs`, `responses.rs`) -> `watch.rs` and
//! `book.rs` find out what is new, and record it -> `upstream.rs` sends it on -> `body.rs` passes the answer back and
//! has a copy of it recorded.

mod body;
mod book;
mod chat;
mod dialect;
mod draft;
mod entry;
pub(crate) mod headers;
mod log;
mod messages;
mod path;
mod responses;
mod server;
mod sse;
mod strict_json;
pub(crate) mod upstream;
mod watch;

pub use draft::Tokens;
pub use server::OnError;
pub(crate) use watch::quoted;
pub use watch::{Cost, Setting, Tell, Trouble};

use crate::same_site::AllowedHosts;
use server::Proxy;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use upstream::Upstream;

/// How the proxy works.
pub struct Options {
    /// The provider: a URL, with a path before the API's own if it has one.
    pub upstream: String,
    /// Host names that clients may use for the proxy, beside `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// What it does when it cannot decide.
    pub on_error: OnError,
    /// Who is told when something goes wrong.
    pub complain: Box<dyn Fn(&Trouble) + Send + Sync>,
    /// Called once the proxy is ready.
    pub on_ready: crate::OnReady,
}

/// Serves until it is told to stop (SIGINT, SIGTERM): answers that are under way may end, a second signal ends them.
///
/// # Errors
/// If the provider's URL cannot be used, or the machine refuses.
pub fn serve(listener: TcpListener, setting: Setting, options: Options) -> Result<(), Trouble> {
    let upstream = Upstream::new(&options.upstream)?;
    let proxy = Arc::new(Proxy::new(
        setting,
        upstream,
        AllowedHosts::new(&options.hosts),
        options.on_error,
        options.complain,
    ));
    crate::listen::serve(listener, options.on_ready, move |request| Arc::clone(&proxy).answer(request))
        .map_err(refused)
}

/// What a machine says that does not let us listen.
pub(crate) fn refused(error: io::Error) -> Trouble {
    let advice = "check the address after --listen".to_owned();
    Trouble { code: "cannot_listen".to_owned(), what: error.to_string(), advice }
}
