//! Header filtering: hop-by-hop headers are not forwarded.

use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Headers that apply to one connection only.
const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Removes hop-by-hop headers.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named.iter().map(String::as_str).chain(["keep-alive", "proxy-connection"]) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Prepares request headers for the provider: removes hop-by-hop headers and our own.
pub(crate) fn prepare_request_headers(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    headers.remove(HOST);
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-flyball-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Prepares response headers for the client.
pub(crate) fn prepare_response_headers(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
}

/// The client's credentials for the provider, to be hashed.
pub(crate) fn credentials(headers: &HeaderMap) -> String {
    let shown = [AUTHORIZATION.as_str(), "x-api-key", "api-key", "x-goog-api-key"];
    let shown =
        shown.into_iter().filter_map(|name| headers.get(name)).filter_map(|value| value.to_str().ok());
    shown.collect::<Vec<_>>().join("\n")
}
