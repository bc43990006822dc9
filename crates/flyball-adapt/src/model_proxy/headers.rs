//! Headers: which go on and which belong to one connection only.

use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Headers that belong to one connection.
const HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Takes out what belongs to one connection only.
fn take_hops(headers: &mut HeaderMap) {
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
    for name in HOP {
        headers.remove(name);
    }
}

/// Makes the headers of a request fit for the provider: ours and the client's connection's own are taken out.
pub(crate) fn for_provider(headers: &mut HeaderMap) {
    take_hops(headers);
    headers.remove(HOST);
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-flyball-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Makes the headers of an answer fit for the client.
pub(crate) fn for_client(headers: &mut HeaderMap) {
    take_hops(headers);
}

/// What a client shows the provider, to be hashed.
pub(crate) fn credentials(headers: &HeaderMap) -> String {
    let shown = [AUTHORIZATION.as_str(), "x-api-key", "api-key", "x-goog-api-key"];
    let shown =
        shown.into_iter().filter_map(|name| headers.get(name)).filter_map(|value| value.to_str().ok());
    shown.collect::<Vec<_>>().join("\n")
}
