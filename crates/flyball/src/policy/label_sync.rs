//! Reads label changes back from an issue tracker: who may report them, which session they belong to, and what they do.
//!
//! Labels are sent as the effects `label.added` and `label.removed` (`journal.deliver`). Removing the label in the
//! tracker releases the session; adding it stops the session only if the policy says so. This section does not affect
//! decisions.

use super::policy_error::PolicyErrorCode;
use super::section_reader::{PolicySection, SectionReader};
use super::targets::read_variable_name;
use super::values::{Keyword, StricterDirection};

/// Maximum number of arguments of the command.
const MAX_COMMAND_WORDS: usize = 100;
/// Maximum number of ignored accounts.
const MAX_ACCOUNTS: usize = 20;
/// Shortest and longest interval between two runs of the command.
const POLL_INTERVAL_RANGE: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// How label changes in an issue tracker are read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSync {
    /// A program that reports the issue labels of some sessions; empty = none.
    pub command: Vec<String>,
    /// How often the server runs it.
    pub every_ms: u64,
    /// Template for the session name of a webhook, filled from the fields of its body.
    pub session: String,
    /// Environment variable that holds the secret for verifying webhook signatures; if empty, a webhook needs an API
    /// key.
    pub secret_env: String,
    /// Tracker accounts whose changes are ignored, such as the one Flyball uses.
    pub own_accounts: Vec<String>,
    /// Action when the label is added in the tracker.
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

/// Action when the label is added in the tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLabelAdded {
    /// Nothing happens.
    #[default]
    Ignore,
    /// The session is stopped, as by an operator; removing the label does not undo that.
    Stop,
}

impl Keyword for OnLabelAdded {
    const KEYWORDS: &'static [(&'static str, OnLabelAdded)] =
        &[("ignore", OnLabelAdded::Ignore), ("stop", OnLabelAdded::Stop)];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            OnLabelAdded::Ignore => 0,
            OnLabelAdded::Stop => 1,
        })
    }
}

impl PolicySection for LabelSync {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        if let Some(words) = f.list("command", &self.command) {
            if words.first().is_some_and(|program| program.trim().is_empty())
                || words.iter().any(|word| word.contains('\0'))
            {
                let what = "'command' must name a program".to_owned();
                f.report(PolicyErrorCode::Range, "command", what, "write command: [\"./labels.sh\"]");
            }
            f.check_length("command", words.len(), MAX_COMMAND_WORDS);
            self.command = words;
        }
        f.emit_list("command", self.command.clone());
        f.duration("every", &mut self.every_ms, StricterDirection::Unknown);
        if !POLL_INTERVAL_RANGE.contains(&self.every_ms) {
            let what = "'every' is outside 1s to 1d".to_owned();
            f.report(PolicyErrorCode::Range, "every", what, "write a duration such as 30s");
        }
        f.text("session", &mut self.session);
        if f.has("session") && template_fields(&self.session).is_none_or(|fields| fields.is_empty()) {
            let what = "'session' must contain a field of the webhook body in braces".to_owned();
            let help = "write session: \"{repository.full_name}#{issue.number}\"";
            f.report(PolicyErrorCode::Type, "session", what, help);
        }
        if f.is_empty_text("secret_env") {
            self.secret_env.clear();
        } else if f.has("secret_env") {
            self.secret_env = read_variable_name(f, "secret_env").unwrap_or_default();
        }
        f.declare_key("secret_env");
        f.emit_value("secret_env", self.secret_env.as_str().into());
        if let Some(accounts) = f.list("own_accounts", &self.own_accounts) {
            f.check_length("own_accounts", accounts.len(), MAX_ACCOUNTS);
            self.own_accounts = accounts;
        }
        f.emit_list("own_accounts", self.own_accounts.clone());
        f.keyword("on_added", &mut self.on_added);
    }
}

impl LabelSync {
    /// Whether the program also runs when no session is held, so that an added label is noticed.
    #[must_use]
    pub fn polls_all_sessions(&self) -> bool {
        self.on_added == OnLabelAdded::Stop
    }

    /// The session name of a webhook, or `None` if the body lacks one of the fields.
    #[must_use]
    pub fn session_name(&self, body: &serde_json::Value) -> Option<String> {
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

/// The fields of a template, or `None` if a brace is not closed.
fn template_fields(template: &str) -> Option<Vec<&str>> {
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
    fn session_name_is_built_from_webhook_fields() {
        let body = json!({"repository": {"full_name": "o/r"}, "issue": {"number": 7, "labels": []}});
        let name = |template: &str| {
            LabelSync { session: template.to_owned(), ..LabelSync::default() }.session_name(&body)
        };
        assert_eq!(name("{repository.full_name}#{issue.number}").as_deref(), Some("o/r#7"));
        assert_eq!(name("issue-{issue.number}").as_deref(), Some("issue-7"));
        for lacking in ["{issue.title}", "{issue.labels}", "{session}", "{issue"] {
            assert_eq!(name(lacking), None, "{lacking}");
        }
    }
}
