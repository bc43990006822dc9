//! A browser-like client: it keeps a cookie, sends an `Origin` with forms, and follows no redirects.

use super::server_harness::TestServer;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) struct BrowserClient {
    agent: ureq::Agent,
    base_url: String,
    pub(crate) cookie: String,
    /// The CSRF token that the page script keeps; empty without the script.
    pub(crate) csrf_token: String,
}

/// A response.
pub(crate) struct PageResponse {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl PageResponse {
    /// A header, empty if missing.
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).cloned().unwrap_or_default()
    }
}

impl BrowserClient {
    pub(crate) fn new(server: &TestServer) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(60)));
        BrowserClient {
            agent: config.build().into(),
            base_url: server.base_url.clone(),
            cookie: String::new(),
            csrf_token: String::new(),
        }
    }

    /// Logs in and keeps the cookie, if any.
    pub(crate) fn log_in(&mut self, secret: &str) -> PageResponse {
        let answer = self.post("/login", &[("secret", secret)]);
        let cookie = answer.header("set-cookie");
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        answer
    }

    /// Logs in like the page script: keeps the CSRF token and sends it with every request.
    pub(crate) fn log_in_with_script(&mut self, secret: &str) -> PageResponse {
        let answer = self.post("/login", &[("secret", secret), ("script", "1")]);
        let cookie = answer.header("set-cookie");
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        self.csrf_token = body["csrf_token"].as_str().unwrap_or_default().to_owned();
        answer
    }

    pub(crate) fn get(&self, path: &str) -> PageResponse {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> PageResponse {
        self.request("GET", path, headers, String::new())
    }

    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> PageResponse {
        self.post_from(path, fields, Some(&self.base_url))
    }

    /// Submits a form with this `Origin`.
    pub(crate) fn post_from(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        origin: Option<&str>,
    ) -> PageResponse {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        let mut headers = vec![("Content-Type", "application/x-www-form-urlencoded")];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        self.request("POST", path, &headers, body.join("&"))
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> PageResponse {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base_url));
        request = request.header("Accept", "text/html");
        if !self.cookie.is_empty() {
            request = request.header("Cookie", &self.cookie);
        }
        if !self.csrf_token.is_empty() {
            request = request.header("Flyball-CSRF", &self.csrf_token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = self.agent.run(request.body(body).unwrap()).unwrap();
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        PageResponse {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.body_mut().read_to_string().unwrap(),
        }
    }
}

/// Percent-encodes every byte except letters and digits.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
    }
    out
}

/// The value of the first hidden field with this name.
pub(crate) fn hidden_field(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let Some(at) = page.find(&mark) else { panic!("no field {name} in {page}") };
    page[at + mark.len()..].split('"').next().unwrap().to_owned()
}
