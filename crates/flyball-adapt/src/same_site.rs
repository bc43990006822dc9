//! Refuses requests of web pages: a page may point a host name of its own at this machine (DNS rebinding), or send
//! requests here from another site.

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use std::net::IpAddr;

/// The host names that a local proxy answers to.
#[derive(Debug, Default)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// `localhost` and every IP address, which a page cannot point elsewhere, and these names.
    pub(crate) fn new(names: &[String]) -> Self {
        AllowedHosts(names.iter().map(|name| name.to_lowercase()).collect())
    }

    /// Checks that a request names this machine, and that no page of another site sent it.
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

    /// Checks the name alone, and gives it.
    pub(crate) fn check_host<'r>(&self, request: &'r Parts) -> Result<&'r str, &'static str> {
        let host = only_host(&request.headers)?;
        let target = request.uri.authority().map_or(host, |authority| authority.as_str());
        if self.allows(host) && self.allows(target) {
            Ok(host)
        } else {
            Err("the proxy does not answer to this host name")
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

fn only_host(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err("the request names no host, or several"),
    }
}
