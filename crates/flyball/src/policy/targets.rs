//! Delivery targets of an effect: a program, a webhook or e-mail recipients.

use serde_json::{Map, Value};

use super::policy_error::PolicyErrorCode;
use super::section_reader::{PolicySection, SectionReader};
use super::values::Keyword;

/// Maximum length of a variable name, in characters.
const MAX_VARIABLE_CHARS: usize = 200;
/// Maximum length of an e-mail address, in characters.
const MAX_MAIL_CHARS: usize = 254;
/// Maximum number of recipients of one e-mail.
const MAX_RECIPIENTS: usize = 20;

/// A delivery target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryTarget {
    /// A program with its arguments. It reads the effect from standard input.
    Command(Vec<String>),
    /// A URL that the effect is posted to.
    Webhook(WebhookTarget),
    /// E-mail recipients, through a relay.
    Email(EmailTarget),
}

/// A URL that effects are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookTarget {
    /// The URL.
    pub url: String,
    /// Format of the request body.
    pub format: WebhookFormat,
    /// Environment variable that holds the secret for signing the body.
    pub secret_env: Option<String>,
}

/// Format of a webhook's request body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookFormat {
    /// The effect as JSON.
    #[default]
    Json,
    /// A message in Slack's format.
    Slack,
}

impl Keyword for WebhookFormat {
    const KEYWORDS: &'static [(&'static str, WebhookFormat)] =
        &[("json", WebhookFormat::Json), ("slack", WebhookFormat::Slack)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

/// E-mail recipients and the relay that delivers to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmailTarget {
    /// Recipient addresses.
    pub to: Vec<String>,
    /// Sender address.
    pub from: String,
    /// URL of the relay: `smtp://HOST:PORT`, or `smtps://HOST:PORT` for TLS from the start.
    pub relay: String,
    /// User name for the relay.
    pub user: Option<String>,
    /// Environment variable that holds the password.
    pub password_env: Option<String>,
}

impl DeliveryTarget {
    /// Writes the target as keys of a delivery.
    pub(super) fn write_keys(&self, into: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| into.insert(key.to_owned(), value);
        match self {
            DeliveryTarget::Command(words) => {
                put("command", Value::from(words.clone()));
            }
            DeliveryTarget::Webhook(webhook) => {
                put("webhook", Value::from(webhook.url.as_str()));
                if webhook.format == WebhookFormat::Slack {
                    put("format", Value::from("slack"));
                }
                if let Some(name) = &webhook.secret_env {
                    put("secret_env", Value::from(name.as_str()));
                }
            }
            DeliveryTarget::Email(email) => {
                put("email", email.to_value());
            }
        }
    }
}

impl EmailTarget {
    fn to_value(&self) -> Value {
        let mut all = Map::from_iter([
            ("to".to_owned(), Value::from(self.to.clone())),
            ("from".to_owned(), Value::from(self.from.as_str())),
            ("relay".to_owned(), Value::from(self.relay.as_str())),
        ]);
        for (key, value) in [("user", &self.user), ("password_env", &self.password_env)] {
            if let Some(value) = value {
                all.insert(key.to_owned(), Value::from(value.as_str()));
            }
        }
        Value::Object(all)
    }

    /// The parts of the relay's URL: whether it uses TLS from the start, the host, and the port if present.
    #[must_use]
    pub fn relay_parts(&self) -> Option<(bool, &str, Option<u16>)> {
        parse_relay(&self.relay)
    }
}

impl PolicySection for EmailTarget {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        if let Some(to) = f.list("to", &self.to) {
            f.check_length("to", to.len(), MAX_RECIPIENTS);
            self.to = to;
        }
        f.text("from", &mut self.from);
        f.text("relay", &mut self.relay);
        self.user = f.optional_text("user");
        self.password_env = read_variable_name(f, "password_env");
        if self.to.is_empty() || !self.to.iter().all(|one| is_email_address(one)) {
            let what = "'to' must be a list of e-mail addresses".to_owned();
            f.report(PolicyErrorCode::Type, "to", what, "write to: [\"oncall@example.org\"]");
        }
        if !is_email_address(&self.from) {
            let what = "'from' must be an e-mail address".to_owned();
            f.report(PolicyErrorCode::Type, "from", what, "write from: \"flyball@example.org\"");
        }
        if parse_relay(&self.relay).is_none() {
            let what =
                "'relay' must be smtp://HOST:PORT or smtps://HOST:PORT, without a user name or password";
            let help =
                "write relay: \"smtp://mail.example.org:587\", and set user and password_env separately";
            f.report(PolicyErrorCode::Type, "relay", what.to_owned(), help);
        }
        if self.user.is_some() != self.password_env.is_some() {
            let key = if self.user.is_some() { "user" } else { "password_env" };
            let what = "'user' and 'password_env' must be set together".to_owned();
            f.report(PolicyErrorCode::Contradiction, key, what, "set both or neither");
        }
    }
}

/// Reads the name of an environment variable. A policy never contains the secret itself.
pub(super) fn read_variable_name(f: &mut SectionReader<'_>, key: &'static str) -> Option<String> {
    let name = f.optional_text(key)?;
    let fits = name.chars().count() <= MAX_VARIABLE_CHARS
        && name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !fits {
        // The message omits the value: it may be the secret itself.
        let what = format!("'{key}' must be the name of an environment variable");
        f.report(PolicyErrorCode::Type, key, what, "write the variable's name, never the secret itself");
        return None;
    }
    Some(name)
}

/// Whether the text is `name@host`, without characters that could start another line or address.
fn is_email_address(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "<>,;:\"()[]\\".contains(c);
    let named = text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.chars().any(char::is_alphanumeric) && !host.contains('@')
    });
    named && text.chars().count() <= MAX_MAIL_CHARS && !text.chars().any(odd)
}

fn parse_relay(text: &str) -> Option<(bool, &str, Option<u16>)> {
    let (sealed, rest) = match text.strip_prefix("smtp://") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("smtps://")?),
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (rest, None),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    (!host.is_empty() && host.chars().all(fits)).then_some((sealed, host, port))
}
