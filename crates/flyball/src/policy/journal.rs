//! The `journal:` section: storage, redaction and retention of sessions, and delivery of effects.
//!
//! The core does no storage or delivery itself; the store and the dispatcher use these values. An inline session policy
//! cannot set them, because a delivery runs commands.

use serde_json::{Map, Value};

use super::guard_mode::{HOUR_MS, Limit};
use super::label_sync::LabelSync;
use super::policy_error::PolicyErrorCode;
use super::section_reader::{PolicySection, SectionReader};
use super::targets::{DeliveryTarget, EmailTarget, WebhookFormat, WebhookTarget, read_variable_name};
use super::units::written_duration;
use super::values::StricterDirection;
use crate::limits::NAME_BYTES;
use crate::suggest::closest;

/// Length in bytes from which a text may be shortened. The minimum keeps names in events whole.
const PAYLOAD_RANGE: std::ops::RangeInclusive<u64> = NAME_BYTES as u64..=1_000_000_000;
/// Length of a preview, in characters.
const PREVIEW_RANGE: std::ops::RangeInclusive<u64> = 0..=100_000;
/// Maximum number of patterns, deliveries, and arguments of one command.
const MAX_ITEMS: usize = 100;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum length of a URL or a command argument, in characters.
const MAX_WORD_CHARS: usize = 2_000;
/// Maximum timeout of one delivery attempt.
const MAX_TIMEOUT_MS: u64 = HOUR_MS;
/// Matches every effect.
const ALL_EFFECTS: &str = "*";

/// Storage, redaction and retention of sessions, and delivery of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPolicy {
    /// Texts longer than this many bytes are stored as a fingerprint, a length and a preview.
    pub payload: Limit,
    /// Length of the preview, in characters.
    pub preview: u64,
    /// Whether secrets are redacted before storage and display.
    pub redact: bool,
    /// Additional secrets to redact, as regular expressions. They are compiled outside the core, which reports an
    /// invalid one at `journal.patterns.N`.
    pub patterns: Vec<String>,
    /// How long a finished session is kept, in milliseconds; `None` = forever.
    pub retention_ms: Limit,
    /// Deliveries of effects.
    pub deliver: Vec<Delivery>,
    /// How label changes in an issue tracker are read back.
    pub labels: LabelSync,
}

impl Default for JournalPolicy {
    fn default() -> Self {
        JournalPolicy {
            payload: Some(16_384),
            preview: 1_000,
            redact: true,
            patterns: Vec::new(),
            retention_ms: Some(30 * 24 * HOUR_MS),
            deliver: Vec::new(),
            labels: LabelSync::default(),
        }
    }
}

/// A delivery of some effects, at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Names of the effects; a single `*` means all.
    pub effects: Vec<String>,
    /// The delivery target.
    pub target: DeliveryTarget,
    /// Base URL of the server's pages, for links in messages.
    pub page: Option<String>,
    /// Attempts before the delivery is given up.
    pub attempts: u64,
    /// Timeout of one attempt, in milliseconds.
    pub timeout_ms: u64,
}

impl Delivery {
    /// The names of all effects, in the order of the documentation.
    pub const EFFECTS: [&'static str; 13] = [
        "loop.halted",
        "say",
        "plan.approved",
        "plan.rejected",
        "plan.expired",
        "plan.aborted",
        "plan.replaced",
        "label.added",
        "label.removed",
        "notify",
        "person.message",
        "completion.blocked",
        "budget.raised",
    ];

    /// Whether this delivery includes the effect.
    #[must_use]
    pub fn matches(&self, effect: &str) -> bool {
        self.effects.iter().any(|name| name == ALL_EFFECTS || name == effect)
    }

    fn to_value(&self) -> Value {
        let mut all = Map::from_iter([
            ("effects".to_owned(), Value::from(self.effects.clone())),
            ("attempts".to_owned(), Value::from(self.attempts)),
            ("timeout".to_owned(), Value::from(written_duration(self.timeout_ms))),
        ]);
        if let Some(page) = &self.page {
            all.insert("page".to_owned(), Value::from(page.as_str()));
        }
        self.target.write_keys(&mut all);
        Value::Object(all)
    }
}

impl PolicySection for JournalPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        f.limit("payload", &mut self.payload, PAYLOAD_RANGE, StricterDirection::Unknown);
        f.count("preview", &mut self.preview, PREVIEW_RANGE, StricterDirection::Unknown);
        f.flag("redact", &mut self.redact, StricterDirection::More);
        if let Some(patterns) = f.list("patterns", &self.patterns) {
            for (index, pattern) in patterns.iter().enumerate() {
                if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
                    let what = format!("a pattern must be 1 to {MAX_PATTERN_BYTES} bytes long");
                    let at = ["patterns", &index.to_string()];
                    f.report_at(
                        PolicyErrorCode::Range,
                        &at,
                        what,
                        "split it into shorter regular expressions",
                    );
                }
            }
            f.check_length("patterns", patterns.len(), MAX_ITEMS);
            self.patterns = patterns;
        }
        f.emit_list("patterns", self.patterns.clone());
        f.duration_limit("retention", &mut self.retention_ms, StricterDirection::Unknown);
        let present = self.deliver.iter().map(Delivery::to_value).collect();
        if let Some(drafts) = f.items::<DeliveryBuilder>("deliver", &present) {
            f.check_length("deliver", drafts.len(), MAX_ITEMS);
            self.deliver = drafts.into_iter().filter_map(DeliveryBuilder::build).collect();
        }
        f.emit_value("deliver", self.deliver.iter().map(Delivery::to_value).collect());
        f.section("labels", &mut self.labels);
    }
}

/// A delivery that is being read.
#[derive(Clone)]
struct DeliveryBuilder {
    effects: Vec<String>,
    command: Option<Vec<String>>,
    webhook: Option<String>,
    format: Option<WebhookFormat>,
    secret_env: Option<String>,
    email: Option<EmailTarget>,
    page: Option<String>,
    attempts: u64,
    timeout_ms: u64,
}

impl Default for DeliveryBuilder {
    fn default() -> Self {
        DeliveryBuilder {
            effects: Vec::new(),
            command: None,
            webhook: None,
            format: None,
            secret_env: None,
            email: None,
            page: None,
            attempts: 8,
            timeout_ms: 10_000,
        }
    }
}

impl DeliveryBuilder {
    /// The delivery, or `None` if a part is missing, which has already been reported.
    fn build(self) -> Option<Delivery> {
        let DeliveryBuilder { effects, attempts, timeout_ms, page, format, secret_env, .. } = self;
        let format = format.unwrap_or_default();
        let target = match (self.command, self.webhook, self.email) {
            (Some(words), None, None) => DeliveryTarget::Command(words),
            (None, Some(address), None) => {
                DeliveryTarget::Webhook(WebhookTarget { url: address, format, secret_env })
            }
            (None, None, Some(email)) => DeliveryTarget::Email(email),
            _ => return None,
        };
        Some(Delivery { effects, target, page, attempts, timeout_ms })
    }

    fn read_effects(&mut self, f: &mut SectionReader<'_>) {
        let written = f.has("effects");
        let Some(effects) = f.list("effects", &[]) else {
            if !written {
                let what = "a delivery requires 'effects'".to_owned();
                f.report(
                    PolicyErrorCode::Type,
                    "effects",
                    what,
                    "write effects: [loop.halted], or [\"*\"] for all",
                );
            }
            return;
        };
        if effects.is_empty() {
            let what = "'effects' is empty, so nothing would be delivered".to_owned();
            f.report(PolicyErrorCode::Range, "effects", what, "name an effect, or write [\"*\"] for all");
        }
        for (index, name) in effects.iter().enumerate() {
            let at = ["effects", &index.to_string()];
            if name == ALL_EFFECTS && effects.len() > 1 {
                let what = "'*' already includes all effects".to_owned();
                f.report_at(PolicyErrorCode::Contradiction, &at, what, "write only [\"*\"], or only names");
            } else if name != ALL_EFFECTS && !Delivery::EFFECTS.contains(&name.as_str()) {
                let shown: String = name.chars().take(40).collect();
                let help = closest(name, Delivery::EFFECTS).map_or_else(
                    || format!("expected one of {}, or *", Delivery::EFFECTS.join(", ")),
                    |word| format!("did you mean '{word}'?"),
                );
                f.report_at(PolicyErrorCode::Type, &at, format!("unknown effect '{shown}'"), &help);
            }
        }
        self.effects = effects;
    }

    fn read_target(&mut self, f: &mut SectionReader<'_>) {
        self.read_command(f);
        if let Some(address) = f.optional_text("webhook") {
            if !is_http_url(&address) {
                let what = "'webhook' must be an http:// or https:// URL".to_owned();
                f.report(
                    PolicyErrorCode::Type,
                    "webhook",
                    what,
                    "write webhook: \"https://hooks.example.org/flyball\"",
                );
            }
            self.webhook = Some(address);
        }
        f.optional_keyword("format", &mut self.format, None);
        self.secret_env = read_variable_name(f, "secret_env");
        if f.has("email") {
            let mut email = EmailTarget::default();
            f.section("email", &mut email);
            self.email = Some(email);
        } else {
            f.declare_key("email");
        }
        let named: Vec<&str> = ["command", "webhook", "email"].into_iter().filter(|key| f.has(key)).collect();
        let help = "write one of command: [...], webhook: \"https://...\" or email: {...}";
        match named.as_slice() {
            [] => f.report(PolicyErrorCode::Type, "command", "a delivery has no target".to_owned(), help),
            [_] => {}
            [.., first, last] => {
                let article = |word: &str| if word == "email" { "an" } else { "a" };
                let what = format!("a delivery has {} {first} and {} {last}", article(first), article(last));
                f.report(PolicyErrorCode::Contradiction, last, what, "keep only one of them");
            }
        }
        for key in ["format", "secret_env"] {
            if f.has(key) && !f.has("webhook") {
                let what = format!("'{key}' requires a webhook");
                f.report(
                    PolicyErrorCode::Contradiction,
                    key,
                    what,
                    "add webhook: \"https://...\", or remove the key",
                );
            }
        }
        self.read_page(f);
    }

    fn read_command(&mut self, f: &mut SectionReader<'_>) {
        let Some(words) = f.list("command", &[]) else { return };
        let bad = |word: &String| word.contains('\0') || word.chars().count() > MAX_WORD_CHARS;
        if words.first().is_none_or(|program| program.trim().is_empty()) {
            let what = "'command' must name a program".to_owned();
            f.report(PolicyErrorCode::Range, "command", what, "write command: [\"./label.sh\"]");
        } else if words.iter().any(bad) {
            let what =
                format!("an argument of 'command' has more than {MAX_WORD_CHARS} characters, or a NUL");
            f.report(PolicyErrorCode::Range, "command", what, "move it into a script");
        }
        f.check_length("command", words.len(), MAX_ITEMS);
        self.command = Some(words);
    }

    fn read_page(&mut self, f: &mut SectionReader<'_>) {
        self.page = f.optional_text("page");
        if self.page.as_deref().is_some_and(|page| !is_http_url(page)) {
            let what = "'page' must be an http:// or https:// URL".to_owned();
            f.report(PolicyErrorCode::Type, "page", what, "write page: \"https://flyball.example.org\"");
        }
    }
}

impl PolicySection for DeliveryBuilder {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        self.read_effects(f);
        self.read_target(f);
        f.count("attempts", &mut self.attempts, 1..=100, StricterDirection::Unknown);
        f.duration("timeout", &mut self.timeout_ms, StricterDirection::Unknown);
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            let what = "'timeout' is outside 1ms to 1h".to_owned();
            f.report(PolicyErrorCode::Range, "timeout", what, "write a duration such as 10s");
        }
    }
}

/// Whether the text is an `http` or `https` URL with a host and no whitespace.
fn is_http_url(address: &str) -> bool {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let named = host.is_some_and(|host| host.chars().any(char::is_alphanumeric));
    named && address.is_ascii() && !address.bytes().any(|b| b.is_ascii_whitespace() || b.is_ascii_control())
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
