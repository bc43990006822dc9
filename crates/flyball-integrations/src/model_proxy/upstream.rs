//! The upstream provider: its URL and the connections to it.

use super::conversation_recorder::ProxyError;
use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, Uri, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::time::Duration;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request body for the provider.
pub(crate) type UpstreamBody = BoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The upstream provider.
pub(crate) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// The path prefix, without a trailing slash.
    prefix: String,
    client: Client<HttpsConnector<HttpConnector>, UpstreamBody>,
}

impl Upstream {
    /// Creates a client for a URL; connections are opened on demand.
    pub(crate) fn new(url: &str) -> Result<Self, ProxyError> {
        let bad = |what: String| ProxyError {
            code: "bad_upstream".to_owned(),
            message: format!("invalid upstream URL '{url}': {what}"),
            help: "write it like https://api.openai.com or http://127.0.0.1:11434".to_owned(),
        };
        let uri: Uri = url.parse().map_err(|error| bad(format!("{error}")))?;
        let scheme =
            uri.scheme().cloned().filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| bad("it starts with neither http:// nor https://".to_owned()))?;
        let authority = uri.authority().cloned().ok_or_else(|| bad("it has no host".to_owned()))?;
        if uri.query().is_some() {
            return Err(bad("it has a query string".to_owned()));
        }
        if authority.as_str().contains('@') {
            let what = "it contains a password; the client sends its own key".to_owned();
            return Err(ProxyError { message: what, ..bad(String::new()) });
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let tls = HttpsConnectorBuilder::new();
        let tls = tls.with_native_roots().map_err(|error| {
            bad(format!(
                "cannot load root certificates: \
             {error}"
            ))
        })?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).http1_preserve_header_case(true).build(connector);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Upstream { scheme, authority, prefix, client })
    }

    /// Forwards a request.
    pub(crate) async fn send(
        &self,
        mut request: Request<UpstreamBody>,
    ) -> Result<Response<Incoming>, ProxyError> {
        let failed = |what: String| ProxyError {
            code: "upstream_unreachable".to_owned(),
            message: format!("{} did not respond: {what}", self.authority),
            help: "check --upstream and the network".to_owned(),
        };
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let mut uri = hyper::http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(self.path(path).parse().map_err(|error| failed(format!("{error}")))?);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|error| failed(format!("{error}")))?;
        *request.version_mut() = Version::HTTP_11;
        self.client.request(request).await.map_err(|error| failed(error_chain(&error)))
    }

    /// The path at the provider. A `/v1` in both the URL and the request path is used once.
    fn path(&self, path: &str) -> String {
        let rest = match path.strip_prefix("/v1") {
            Some(rest)
                if self.prefix.ends_with("/v1") && (rest.is_empty() || rest.starts_with(['/', '?'])) =>
            {
                rest
            }
            _ => path,
        };
        format!("{}{rest}", self.prefix)
    }
}

/// An error and its causes on one line.
fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
