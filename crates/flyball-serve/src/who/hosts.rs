//! The names under which the server may be asked: a page on the internet may point a name of its own at this machine,
//! and a browser would then send its requests here.

use super::browser::{from_another_origin, opens_a_page};
use super::{Peer, foreign};
use crate::problem::Problem;
use axum::http::header;
use axum::http::request::Parts;

/// The names of this machine.
const OWN: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The names.
#[derive(Debug)]
pub(crate) struct Hosts {
    others: Vec<String>,
    tls: bool,
}

impl Hosts {
    /// The names of this machine, and others that were allowed. `tls`: the server itself speaks TLS.
    pub(crate) fn new(others: Vec<String>, tls: bool) -> Self {
        Hosts { others: others.into_iter().map(|host| host.to_lowercase()).collect(), tls }
    }

    /// Refuses a request under another name, or from a page of another origin. On the socket there is no browser.
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
        let somebody_else = || Err(foreign("the request comes from a page of somebody else"));
        if from_another_origin(&request.headers) && !opens_a_page(&request.method, &request.headers) {
            return somebody_else();
        }
        let Some(origin) = origin else { return Ok(()) };
        // The page must come from the same origin: scheme, name and port.
        match origin.to_str().ok().and_then(|origin| origin.split_once("://")) {
            Some((scheme, place)) if place.eq_ignore_ascii_case(host) && self.speaks(scheme, host) => Ok(()),
            _ => somebody_else(),
        }
    }

    /// Whether pages of a host have this scheme. A proxy in front of the server may speak TLS for it, under a name that
    /// was allowed.
    fn speaks(&self, scheme: &str, host: &str) -> bool {
        match scheme {
            "https" => self.tls || self.others.iter().any(|known| known.eq_ignore_ascii_case(name(host))),
            "http" => !self.tls,
            _ => false,
        }
    }

    fn knows(&self, host: &str) -> bool {
        let name = name(host);
        let others = self.others.iter().map(String::as_str);
        OWN.into_iter().chain(others).any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// A host without its port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}
