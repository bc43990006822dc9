//! Allowed `Host` names, against DNS rebinding: a website can point its own domain at this machine, and a browser
//! would then send that site's requests here.

use super::browser_login::{is_cross_origin, is_navigation};
use super::{ClientPeer, foreign_origin};
use crate::api_error::ApiError;
use axum::http::header;
use axum::http::request::Parts;

/// Names of the local machine.
const LOCAL_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The allowed host names.
#[derive(Debug)]
pub(crate) struct AllowedHostNames {
    others: Vec<String>,
    tls: bool,
}

impl AllowedHostNames {
    /// Local names and additional allowed names. `tls`: the server terminates TLS.
    pub(crate) fn new(others: Vec<String>, tls: bool) -> Self {
        AllowedHostNames { others: others.into_iter().map(|host| host.to_lowercase()).collect(), tls }
    }

    /// Rejects a request with another `Host` or from another origin. Browsers do not use the socket.
    ///
    /// # Errors
    /// If the host or origin is not allowed.
    pub(crate) fn check(&self, peer: ClientPeer, request: &Parts) -> Result<(), ApiError> {
        let origin = request.headers.get(header::ORIGIN);
        if matches!(peer, ClientPeer::Socket { .. }) {
            return if origin.is_some() {
                Err(foreign_origin("browsers cannot use the socket"))
            } else {
                Ok(())
            };
        }
        let host = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri.authority().map(|authority| authority.as_str()));
        let Some(host) = host.filter(|host| self.allows(host)) else {
            return Err(foreign_origin("the Host header is not an allowed name"));
        };
        let cross_origin = || Err(foreign_origin("the request comes from another origin"));
        if is_cross_origin(&request.headers) && !is_navigation(&request.method, &request.headers) {
            return cross_origin();
        }
        let Some(origin) = origin else { return Ok(()) };
        // The whole origin must match: scheme, host and port.
        match origin.to_str().ok().and_then(|origin| origin.split_once("://")) {
            Some((scheme, authority))
                if authority.eq_ignore_ascii_case(host) && self.allows_scheme(scheme, host) =>
            {
                Ok(())
            }
            _ => cross_origin(),
        }
    }

    /// Whether pages of a host may use this scheme. A TLS proxy in front of the server uses `https` with an allowed
    /// name.
    fn allows_scheme(&self, scheme: &str, host: &str) -> bool {
        match scheme {
            "https" => {
                self.tls
                    || self.others.iter().any(|known| known.eq_ignore_ascii_case(host_without_port(host)))
            }
            "http" => !self.tls,
            _ => false,
        }
    }

    fn allows(&self, host: &str) -> bool {
        let name = host_without_port(host);
        let others = self.others.iter().map(String::as_str);
        LOCAL_NAMES.into_iter().chain(others).any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Strips the port from a host.
fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}
