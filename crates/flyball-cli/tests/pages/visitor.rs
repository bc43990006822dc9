//! Somebody with a browser: it keeps a cookie, names the page that a form comes from, and follows nothing by itself.

use super::kit::Server;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) struct Visitor {
    agent: ureq::Agent,
    place: String,
    pub(crate) cookie: String,
    /// The CSRF token that the page script keeps; empty without the script.
    pub(crate) token: String,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    /// A header, empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).cloned().unwrap_or_default()
    }
}

impl Visitor {
    pub(crate) fn new(server: &Server) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(60)));
        Visitor {
            agent: config.build().into(),
            place: server.place.clone(),
            cookie: String::new(),
            token: String::new(),
        }
    }

    /// Logs in; keeps the cookie if one was given.
    pub(crate) fn enter(&mut self, secret: &str) -> Answer {
        let answer = self.post("/login", &[("secret", secret)]);
        let cookie = answer.header("set-cookie");
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        answer
    }

    /// Logs in as the page script does: the CSRF token is kept, and sent with every request.
    pub(crate) fn enter_with_script(&mut self, secret: &str) -> Answer {
        let answer = self.post("/login", &[("secret", secret), ("script", "1")]);
        let cookie = answer.header("set-cookie");
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        self.token = body["csrf_token"].as_str().unwrap_or_default().to_owned();
        answer
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, String::new())
    }

    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_from(path, fields, Some(&self.place))
    }

    /// Sends a form that comes from a page somewhere.
    pub(crate) fn post_from(&self, path: &str, fields: &[(&str, &str)], origin: Option<&str>) -> Answer {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let mut headers = vec![("Content-Type", "application/x-www-form-urlencoded")];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        self.ask("POST", path, &headers, body.join("&"))
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> Answer {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.place));
        request = request.header("Accept", "text/html");
        if !self.cookie.is_empty() {
            request = request.header("Cookie", &self.cookie);
        }
        if !self.token.is_empty() {
            request = request.header("Flyball-CSRF", &self.token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = self.agent.run(request.body(body).unwrap()).unwrap();
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        Answer {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.body_mut().read_to_string().unwrap(),
        }
    }
}

/// Every byte that could mean something, written so that it does not.
pub(crate) fn encoded(text: &str) -> String {
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

/// The value of the first hidden field of a name that belongs to an act, as the page has it.
pub(crate) fn field(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let Some(at) = page.find(&mark) else { panic!("no field {name} in {page}") };
    page[at + mark.len()..].split('"').next().unwrap().to_owned()
}
