//! What is kept of a session, for how long, and where its effects go.
//!
//! The core keeps nothing and sends nothing: it reads these values and hands them to the journal. A session cannot
//! bring them itself, because a delivery runs commands.

use serde_json::{Map, Value};

use super::error::Code;
use super::fields::{Fields, Section};
use super::guards::{HOUR_MS, Limit};
use super::label_sync::LabelSync;
use super::targets::{Email, Target, Webhook, WebhookFormat, variable};
use super::units::duration_text;
use super::values::Stricter;
use crate::limits::NAME_BYTES;
use crate::suggest::closest;

/// Bytes of a text from which on it may be shortened: never the names in an event.
const PAYLOAD: std::ops::RangeInclusive<u64> = NAME_BYTES as u64..=1_000_000_000;
/// Characters of a preview.
const PREVIEW: std::ops::RangeInclusive<u64> = 0..=100_000;
/// Patterns, deliveries, and the words of one command.
const MAX_ITEMS: usize = 100;
/// Bytes of one pattern.
const MAX_PATTERN_BYTES: usize = 1024;
/// Characters of an address or of one word of a command.
const MAX_WORD_CHARS: usize = 2_000;
/// The longest a delivery may take.
const MAX_TIMEOUT_MS: u64 = HOUR_MS;
/// Stands for every effect.
const ALL: &str = "*";

/// What is kept of a session, for how long, and where its effects go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPolicy {
    /// Texts longer than this many bytes are stored as fingerprint, length and preview.
    pub payload: Limit,
    /// Characters of the preview.
    pub preview: u64,
    /// Whether what looks like a secret is taken out before it is stored or shown.
    pub redact: bool,
    /// More secrets, as regular expressions. The core does not compile them; whoever does reports a bad one at
    /// `journal.patterns.N`.
    pub patterns: Vec<String>,
    /// How long a finished session is kept, in milliseconds; `None` = for good.
    pub retention_ms: Limit,
    /// Where effects go.
    pub deliver: Vec<Delivery>,
    /// How the labels of an issue tracker come back.
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

/// Where some effects go, at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The names of the effects; `*` alone stands for all.
    pub effects: Vec<String>,
    /// Who gets them.
    pub target: Target,
    /// Where the server's pages are, for a link in a message.
    pub page: Option<String>,
    /// How often it is tried before it is given up.
    pub attempts: u64,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Delivery {
    /// The names of all effects, in the order the documentation lists them.
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

    /// Whether an effect of this name goes here.
    #[must_use]
    pub fn wants(&self, effect: &str) -> bool {
        self.effects.iter().any(|name| name == ALL || name == effect)
    }

    fn to_value(&self) -> Value {
        let mut all = Map::from_iter([
            ("effects".to_owned(), Value::from(self.effects.clone())),
            ("attempts".to_owned(), Value::from(self.attempts)),
            ("timeout".to_owned(), Value::from(duration_text(self.timeout_ms))),
        ]);
        if let Some(page) = &self.page {
            all.insert("page".to_owned(), Value::from(page.as_str()));
        }
        self.target.write(&mut all);
        Value::Object(all)
    }
}

impl Section for JournalPolicy {
    fn fields(&mut self, f: &mut Fields<'_>) {
        f.limit("payload", &mut self.payload, PAYLOAD, Stricter::Unknown);
        f.count("preview", &mut self.preview, PREVIEW, Stricter::Unknown);
        f.flag("redact", &mut self.redact, Stricter::More);
        if let Some(patterns) = f.list("patterns", &self.patterns) {
            for (index, pattern) in patterns.iter().enumerate() {
                if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
                    let what = format!("a pattern must have 1 to {MAX_PATTERN_BYTES} bytes");
                    let at = ["patterns", &index.to_string()];
                    f.refuse_at(Code::Range, &at, what, "write a shorter regular expression, or several");
                }
            }
            f.at_most("patterns", patterns.len(), MAX_ITEMS);
            self.patterns = patterns;
        }
        f.put_list("patterns", self.patterns.clone());
        f.duration_limit("retention", &mut self.retention_ms, Stricter::Unknown);
        let present = self.deliver.iter().map(Delivery::to_value).collect();
        if let Some(drafts) = f.items::<Draft>("deliver", &present) {
            f.at_most("deliver", drafts.len(), MAX_ITEMS);
            self.deliver = drafts.into_iter().filter_map(Draft::finished).collect();
        }
        f.put_value("deliver", self.deliver.iter().map(Delivery::to_value).collect());
        f.section("labels", &mut self.labels);
    }
}

/// A delivery while it is read.
#[derive(Clone)]
struct Draft {
    effects: Vec<String>,
    command: Option<Vec<String>>,
    webhook: Option<String>,
    format: Option<WebhookFormat>,
    secret_env: Option<String>,
    email: Option<Email>,
    page: Option<String>,
    attempts: u64,
    timeout_ms: u64,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
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

impl Draft {
    /// The delivery, if nothing is missing; what is missing was reported.
    fn finished(self) -> Option<Delivery> {
        let Draft { effects, attempts, timeout_ms, page, format, secret_env, .. } = self;
        let format = format.unwrap_or_default();
        let target = match (self.command, self.webhook, self.email) {
            (Some(words), None, None) => Target::Command(words),
            (None, Some(address), None) => Target::Webhook(Webhook { address, format, secret_env }),
            (None, None, Some(email)) => Target::Email(email),
            _ => return None,
        };
        Some(Delivery { effects, target, page, attempts, timeout_ms })
    }

    fn effects(&mut self, f: &mut Fields<'_>) {
        let written = f.has("effects");
        let Some(effects) = f.list("effects", &[]) else {
            if !written {
                let what = "a delivery needs the names of effects".to_owned();
                f.refuse(Code::Type, "effects", what, "write effects: [loop.halted], or [\"*\"] for all");
            }
            return;
        };
        if effects.is_empty() {
            let what = "'effects' is empty, so nothing would be delivered".to_owned();
            f.refuse(Code::Range, "effects", what, "name an effect, or write [\"*\"] for all");
        }
        for (index, name) in effects.iter().enumerate() {
            let at = ["effects", &index.to_string()];
            if name == ALL && effects.len() > 1 {
                let what = "'*' already stands for all effects".to_owned();
                f.refuse_at(Code::Contradiction, &at, what, "write [\"*\"] alone, or only names");
            } else if name != ALL && !Delivery::EFFECTS.contains(&name.as_str()) {
                let shown: String = name.chars().take(40).collect();
                let help = closest(name, Delivery::EFFECTS).map_or_else(
                    || format!("an effect is one of {}, or *", Delivery::EFFECTS.join(", ")),
                    |word| format!("did you mean '{word}'?"),
                );
                f.refuse_at(Code::Type, &at, format!("unknown effect '{shown}'"), &help);
            }
        }
        self.effects = effects;
    }

    fn target(&mut self, f: &mut Fields<'_>) {
        self.command(f);
        if let Some(address) = f.optional_text("webhook") {
            if !is_address(&address) {
                let what = "'webhook' must be an address that begins with https:// or http://".to_owned();
                f.refuse(Code::Type, "webhook", what, "write webhook: \"https://hooks.example.org/flyball\"");
            }
            self.webhook = Some(address);
        }
        f.optional_word("format", &mut self.format, None);
        self.secret_env = variable(f, "secret_env");
        if f.has("email") {
            let mut email = Email::default();
            f.section("email", &mut email);
            self.email = Some(email);
        } else {
            f.knows("email");
        }
        let named: Vec<&str> = ["command", "webhook", "email"].into_iter().filter(|key| f.has(key)).collect();
        let help = "write one of command: [...], webhook: \"https://...\" and email: {...}";
        match named.as_slice() {
            [] => f.refuse(Code::Type, "command", "a delivery goes nowhere".to_owned(), help),
            [_] => {}
            [.., first, last] => {
                let article = |word: &str| if word == "email" { "an" } else { "a" };
                let what = format!("a delivery has {} {first} and {} {last}", article(first), article(last));
                f.refuse(Code::Contradiction, last, what, "write either the one or the other");
            }
        }
        for key in ["format", "secret_env"] {
            if f.has(key) && !f.has("webhook") {
                let what = format!("'{key}' belongs to a webhook");
                f.refuse(Code::Contradiction, key, what, "write webhook: \"https://...\" beside it");
            }
        }
        self.page(f);
    }

    fn command(&mut self, f: &mut Fields<'_>) {
        let Some(words) = f.list("command", &[]) else { return };
        let bad = |word: &String| word.contains('\0') || word.chars().count() > MAX_WORD_CHARS;
        if words.first().is_none_or(|program| program.trim().is_empty()) {
            let what = "'command' must name a program".to_owned();
            f.refuse(Code::Range, "command", what, "write command: [\"./label.sh\"]");
        } else if words.iter().any(bad) {
            let what = format!("a word of 'command' has more than {MAX_WORD_CHARS} characters, or a NUL");
            f.refuse(Code::Range, "command", what, "put the rest into a script");
        }
        f.at_most("command", words.len(), MAX_ITEMS);
        self.command = Some(words);
    }

    fn page(&mut self, f: &mut Fields<'_>) {
        self.page = f.optional_text("page");
        if self.page.as_deref().is_some_and(|page| !is_address(page)) {
            let what = "'page' must be an address that begins with https:// or http://".to_owned();
            f.refuse(Code::Type, "page", what, "write page: \"https://flyball.example.org\"");
        }
    }
}

impl Section for Draft {
    fn fields(&mut self, f: &mut Fields<'_>) {
        self.effects(f);
        self.target(f);
        f.count("attempts", &mut self.attempts, 1..=100, Stricter::Unknown);
        f.duration("timeout", &mut self.timeout_ms, Stricter::Unknown);
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            let what = "'timeout' is outside 1ms to 1h".to_owned();
            f.refuse(Code::Range, "timeout", what, "write a duration such as 10s");
        }
    }
}

/// `https://host…` or `http://host…`, without blanks.
fn is_address(address: &str) -> bool {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let named = host.is_some_and(|host| host.chars().any(char::is_alphanumeric));
    named && address.is_ascii() && !address.bytes().any(|b| b.is_ascii_whitespace() || b.is_ascii_control())
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
