//! The provider behind the proxy: where it is, and the connections to it.

use super::watch::Trouble;
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

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);

/// A body on its way to the provider.
pub(crate) type Sent = BoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The provider.
pub(crate) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// What stands before every path, without a slash at the end.
    prefix: String,
    client: Client<HttpsConnector<HttpConnector>, Sent>,
}

impl Upstream {
    /// The provider at a URL; connections are made when they are needed.
    pub(crate) fn new(url: &str) -> Result<Self, Trouble> {
        let bad = |what: String| Trouble {
            code: "bad_upstream".to_owned(),
            what: format!("'{url}' cannot be used as upstream: {what}"),
            advice: "write it like https://api.openai.com or http://127.0.0.1:11434".to_owned(),
        };
        let uri: Uri = url.parse().map_err(|error| bad(format!("{error}")))?;
        let scheme =
            uri.scheme().cloned().filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let scheme =
            scheme.ok_or_else(|| bad("it begins neither with http:// nor with https://".to_owned()))?;
        let authority = uri.authority().cloned().ok_or_else(|| bad("it names no host".to_owned()))?;
        if uri.query().is_some() {
            return Err(bad("it has a query".to_owned()));
        }
        if authority.as_str().contains('@') {
            let what = "it holds a password; the client sends its own key".to_owned();
            return Err(Trouble { what, ..bad(String::new()) });
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let tls = HttpsConnectorBuilder::new();
        let tls = tls.with_native_roots().map_err(|error| bad(format!("no certificates: {error}")))?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).http1_preserve_header_case(true).build(connector);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Upstream { scheme, authority, prefix, client })
    }

    /// Sends a request on.
    pub(crate) async fn send(&self, mut request: Request<Sent>) -> Result<Response<Incoming>, Trouble> {
        let failed = |what: String| Trouble {
            code: "upstream_unreachable".to_owned(),
            what: format!("{} did not answer: {what}", self.authority),
            advice: "check --upstream and the network".to_owned(),
        };
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let mut uri = hyper::http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(self.path(path).parse().map_err(|error| failed(format!("{error}")))?);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|error| failed(format!("{error}")))?;
        *request.version_mut() = Version::HTTP_11;
        self.client.request(request).await.map_err(|error| failed(reasons(&error)))
    }

    /// The path at the provider. A `/v1` that both the URL and the client write is written once.
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

/// An error with what is behind it, in one line.
fn reasons(error: &dyn Error) -> String {
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
