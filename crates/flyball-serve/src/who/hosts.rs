//! The names under which the server may be asked: a page on the internet may point a name of its own at this machine,
//! and a browser would then send its requests here.

use super::{Peer, foreign};
use crate::problem::Problem;
use axum::http::header;
use axum::http::request::Parts;

/// The names.
#[derive(Debug)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The names of this machine, and others that were allowed.
    pub(crate) fn new(others: Vec<String>) -> Self {
        let own = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        Hosts(own.into_iter().chain(others.into_iter().map(|host| host.to_lowercase())).collect())
    }

    /// Refuses a request under another name, or from a page of somebody else. On the socket there is no browser.
    ///
    /// # Errors
    /// If it is not for us.
    pub(crate) fn check(&self, peer: Peer, request: &Parts) -> Result<(), Problem> {
        let origin = request.headers.get(header::ORIGIN);
        if matches!(peer, Peer::Socket { .. }) {
            return if origin.is_some() { Err(foreign("a page asks on the socket")) } else { Ok(()) };
        }
        let host = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri.authority().map(|authority| authority.as_str()));
        let Some(host) = host.filter(|host| self.knows(host)) else {
            return Err(foreign("the server is not known under this name"));
        };
        let Some(origin) = origin else { return Ok(()) };
        // The page must come from the very place that it asks: same name, same port.
        let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        match own {
            Some(("http" | "https", place)) if place.eq_ignore_ascii_case(host) => Ok(()),
            _ => Err(foreign("the request comes from a page of somebody else")),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
            _ => host,
        };
        self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}
