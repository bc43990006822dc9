//! Who gets an effect: a program, an address on the web, people by e-mail. What is written, and what is wrong with it.

use serde_json::{Map, Value};

use super::error::Code;
use super::fields::{Fields, Section};
use super::values::Word;

/// Characters of the name of a variable.
const MAX_VARIABLE_CHARS: usize = 200;
/// Characters of an address of e-mail.
const MAX_MAIL_CHARS: usize = 254;
/// People who get one e-mail.
const MAX_PEOPLE: usize = 20;

/// Who gets an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program with its arguments; the effect comes on its standard input.
    Command(Vec<String>),
    /// An address that the effect is posted to.
    Webhook(Webhook),
    /// People, through a relay.
    Email(Email),
}

/// An address that effects are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The address.
    pub address: String,
    /// How the effect is written.
    pub format: WebhookFormat,
    /// The environment variable with the secret that the body is signed with.
    pub secret_env: Option<String>,
}

/// How an effect is written for a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookFormat {
    /// The effect itself, as JSON.
    #[default]
    Json,
    /// A message that Slack, and what is like it, shows.
    Slack,
}

impl Word for WebhookFormat {
    const WORDS: &'static [(&'static str, WebhookFormat)] =
        &[("json", WebhookFormat::Json), ("slack", WebhookFormat::Slack)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

/// People who are told by e-mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Email {
    /// Who gets it.
    pub to: Vec<String>,
    /// Who it comes from.
    pub from: String,
    /// The relay: `smtp://HOST:PORT`, or `smtps://HOST:PORT` where all is encrypted from the start.
    pub relay: String,
    /// Who we are to the relay.
    pub user: Option<String>,
    /// The environment variable with the password.
    pub password_env: Option<String>,
}

impl Target {
    /// The keys of a delivery that say it.
    pub(super) fn write(&self, into: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| into.insert(key.to_owned(), value);
        match self {
            Target::Command(words) => {
                put("command", Value::from(words.clone()));
            }
            Target::Webhook(webhook) => {
                put("webhook", Value::from(webhook.address.as_str()));
                if webhook.format == WebhookFormat::Slack {
                    put("format", Value::from("slack"));
                }
                if let Some(name) = &webhook.secret_env {
                    put("secret_env", Value::from(name.as_str()));
                }
            }
            Target::Email(email) => {
                put("email", email.to_value());
            }
        }
    }
}

impl Email {
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

    /// The parts of the relay's address: whether all is encrypted from the start, the host, the port if one is named.
    #[must_use]
    pub fn relay_parts(&self) -> Option<(bool, &str, Option<u16>)> {
        relay(&self.relay)
    }
}

impl Section for Email {
    fn fields(&mut self, f: &mut Fields<'_>) {
        if let Some(to) = f.list("to", &self.to) {
            f.at_most("to", to.len(), MAX_PEOPLE);
            self.to = to;
        }
        f.text("from", &mut self.from);
        f.text("relay", &mut self.relay);
        self.user = f.optional_text("user");
        self.password_env = variable(f, "password_env");
        if self.to.is_empty() || !self.to.iter().all(|one| is_mail(one)) {
            let what = "'to' must be a list of addresses of e-mail".to_owned();
            f.refuse(Code::Type, "to", what, "write to: [\"oncall@example.org\"]");
        }
        if !is_mail(&self.from) {
            let what = "'from' must be an address of e-mail".to_owned();
            f.refuse(Code::Type, "from", what, "write from: \"flyball@example.org\"");
        }
        if relay(&self.relay).is_none() {
            let what = "'relay' must be smtp://HOST:PORT or smtps://HOST:PORT, without a user or a password";
            let help = "write relay: \"smtp://mail.example.org:587\", and user and password_env beside it";
            f.refuse(Code::Type, "relay", what.to_owned(), help);
        }
        if self.user.is_some() != self.password_env.is_some() {
            let key = if self.user.is_some() { "user" } else { "password_env" };
            let what = "'user' and 'password_env' belong together".to_owned();
            f.refuse(Code::Contradiction, key, what, "write both or neither");
        }
    }
}

/// The name of an environment variable. A secret itself has no place in a policy.
pub(super) fn variable(f: &mut Fields<'_>, key: &'static str) -> Option<String> {
    let name = f.optional_text(key)?;
    let fits = name.chars().count() <= MAX_VARIABLE_CHARS
        && name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !fits {
        // The value is not repeated: it may be the secret itself.
        let what = format!("'{key}' must be the name of an environment variable");
        f.refuse(Code::Type, key, what, "write the name of the variable, never the secret itself");
        return None;
    }
    Some(name)
}

/// `name@host`, without anything that could begin another line or another address.
fn is_mail(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "<>,;:\"()[]\\".contains(c);
    let named = text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.chars().any(char::is_alphanumeric) && !host.contains('@')
    });
    named && text.chars().count() <= MAX_MAIL_CHARS && !text.chars().any(odd)
}

fn relay(text: &str) -> Option<(bool, &str, Option<u16>)> {
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
