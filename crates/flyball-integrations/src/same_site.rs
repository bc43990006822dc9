//! Rejects requests from web pages: a page may point its own host name at this machine (DNS rebinding) or send
//! cross-site requests.

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use std::net::IpAddr;

/// The host names that a local proxy accepts.
#[derive(Debug, Default)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Accepts `localhost`, every IP address (a page cannot rebind those), and the given names.
    pub(crate) fn new(names: &[String]) -> Self {
        AllowedHosts(names.iter().map(|name| name.to_lowercase()).collect())
    }

    /// Checks that a request names this machine and was not sent by a page of another site.
    ///
    /// # Errors
    /// With the reason.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), &'static str> {
        let host = self.check_host(request)?;
        let Some(origin) = request.headers.get(ORIGIN) else {
            return match request.headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
                None | Some(b"same-origin" | b"none") => Ok(()),
                Some(_) => Err("the request comes from a page of another site"),
            };
        };
        let place = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, place)| place);
        match place {
            Some(place) if place.eq_ignore_ascii_case(host) => Ok(()),
            _ => Err("the request comes from a page of another site"),
        }
    }

    /// Checks the host name only, and returns it.
    pub(crate) fn check_host<'r>(&self, request: &'r Parts) -> Result<&'r str, &'static str> {
        let host = single_host(&request.headers)?;
        let target = request.uri.authority().map_or(host, |authority| authority.as_str());
        if self.allows(host) && self.allows(target) {
            Ok(host)
        } else {
            Err("the proxy does not accept this host name")
        }
    }

    fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

fn single_host(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err("the request has no host name, or more than one"),
    }
}
