//! How the labels of an issue tracker come back: who may report them, to which session they belong, and what they mean.
//!
//! Labels go out as the effects `label.added` and `label.removed` (`journal.deliver`). Taking the label off in the
//! tracker is a release; putting it on there is a stop only if the policy says so. No decision depends on this section.

use super::error::Code;
use super::fields::{Fields, Section};
use super::targets::variable;
use super::values::{Stricter, Word};

/// Words of the command.
const MAX_WORDS: usize = 100;
/// Accounts whose changes do not count.
const MAX_ACCOUNTS: usize = 20;
/// The shortest and the longest time between two runs of the command.
const EVERY: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// How the labels of an issue tracker come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSync {
    /// A program that tells which labels the issues of some sessions have; empty = none.
    pub command: Vec<String>,
    /// How often a server runs it.
    pub every_ms: u64,
    /// The name of the session that a webhook is about, made from the fields of its body.
    pub session: String,
    /// The environment variable with the secret that webhooks are signed with; empty = none are taken without a key.
    pub secret_env: String,
    /// Accounts whose changes do not count: the one that Flyball itself uses.
    pub own_accounts: Vec<String>,
    /// What it means when somebody puts the label on in the tracker.
    pub on_added: OnLabelAdded,
}

impl Default for LabelSync {
    fn default() -> Self {
        LabelSync {
            command: Vec::new(),
            every_ms: 30_000,
            session: "{session}".to_owned(),
            secret_env: String::new(),
            own_accounts: Vec::new(),
            on_added: OnLabelAdded::default(),
        }
    }
}

/// What it means when somebody puts the label on in the tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLabelAdded {
    /// Nothing: only Flyball calls a person.
    #[default]
    Ignore,
    /// The session is stopped, as by a person; taking the label off does not lift that.
    Stop,
}

impl Word for OnLabelAdded {
    const WORDS: &'static [(&'static str, OnLabelAdded)] =
        &[("ignore", OnLabelAdded::Ignore), ("stop", OnLabelAdded::Stop)];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            OnLabelAdded::Ignore => 0,
            OnLabelAdded::Stop => 1,
        })
    }
}

impl Section for LabelSync {
    fn fields(&mut self, f: &mut Fields<'_>) {
        if let Some(words) = f.list("command", &self.command) {
            if words.first().is_some_and(|program| program.trim().is_empty())
                || words.iter().any(|word| word.contains('\0'))
            {
                let what = "'command' must name a program".to_owned();
                f.refuse(Code::Range, "command", what, "write command: [\"./labels.sh\"]");
            }
            f.at_most("command", words.len(), MAX_WORDS);
            self.command = words;
        }
        f.put_list("command", self.command.clone());
        f.duration("every", &mut self.every_ms, Stricter::Unknown);
        if !EVERY.contains(&self.every_ms) {
            let what = "'every' is outside 1s to 1d".to_owned();
            f.refuse(Code::Range, "every", what, "write a duration such as 30s");
        }
        f.text("session", &mut self.session);
        if f.has("session") && fields_of(&self.session).is_none_or(|fields| fields.is_empty()) {
            let what = "'session' must name a field of the webhook in braces".to_owned();
            let help = "write session: \"{repository.full_name}#{issue.number}\"";
            f.refuse(Code::Type, "session", what, help);
        }
        if f.is_empty_text("secret_env") {
            self.secret_env.clear();
        } else if f.has("secret_env") {
            self.secret_env = variable(f, "secret_env").unwrap_or_default();
        }
        f.knows("secret_env");
        f.put_value("secret_env", self.secret_env.as_str().into());
        if let Some(accounts) = f.list("own_accounts", &self.own_accounts) {
            f.at_most("own_accounts", accounts.len(), MAX_ACCOUNTS);
            self.own_accounts = accounts;
        }
        f.put_list("own_accounts", self.own_accounts.clone());
        f.word("on_added", &mut self.on_added);
    }
}

impl LabelSync {
    /// Whether the program is asked also when no session is held: a label that is put on must be noticed.
    #[must_use]
    pub fn asks_about_all(&self) -> bool {
        self.on_added == OnLabelAdded::Stop
    }

    /// The name of the session that a webhook is about; nothing if the body lacks one of the fields.
    #[must_use]
    pub fn session_of(&self, body: &serde_json::Value) -> Option<String> {
        let mut name = String::new();
        let mut rest = self.session.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (path, after) = after.split_once('}')?;
            let value = path.split('.').try_fold(body, |value, key| value.get(key))?;
            name.push_str(before);
            match value {
                serde_json::Value::String(text) => name.push_str(text),
                serde_json::Value::Number(number) => name.push_str(&number.to_string()),
                _ => return None,
            }
            rest = after;
        }
        name.push_str(rest);
        (!name.is_empty() && name.len() <= crate::limits::NAME_BYTES).then_some(name)
    }
}

/// The fields that a template names; nothing if a brace is left open.
fn fields_of(template: &str) -> Option<Vec<&str>> {
    let mut fields = Vec::new();
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        let (path, after) = after.split_once('}')?;
        if path.is_empty() || path.split('.').any(str::is_empty) {
            return None;
        }
        fields.push(path);
        rest = after;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::LabelSync;
    use serde_json::json;

    #[test]
    fn a_session_is_named_after_the_fields_of_a_webhook() {
        let body = json!({"repository": {"full_name": "o/r"}, "issue": {"number": 7, "labels": []}});
        let name = |template: &str| {
            LabelSync { session: template.to_owned(), ..LabelSync::default() }.session_of(&body)
        };
        assert_eq!(name("{repository.full_name}#{issue.number}").as_deref(), Some("o/r#7"));
        assert_eq!(name("issue-{issue.number}").as_deref(), Some("issue-7"));
        for lacking in ["{issue.title}", "{issue.labels}", "{session}", "{issue"] {
            assert_eq!(name(lacking), None, "{lacking}");
        }
    }
}
