//! Parses and validates slot values.

use super::dates::{date_at, parse_number_word};
use super::tokens::{fold, fold_phrase, tokenize};
use crate::run_error::RunError;
use crate::workflow::spec::{SlotKind, SlotSpec};
use flyball::confirm::{ConfirmationAnswer, classify_answer};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

/// Maximum length of a value.
const MAX_VALUE_CHARS: usize = 500;
/// Maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// A slot with its compiled pattern and names.
#[derive(Debug, Clone)]
pub struct SlotMatcher {
    slot: SlotSpec,
    pattern: Option<Regex>,
    /// Names that people use for it, folded.
    pub(super) names: Vec<String>,
    /// Words before its value, folded.
    pub(super) prefixes: Vec<String>,
}

impl SlotMatcher {
    /// Compiles a slot.
    ///
    /// # Errors
    /// `workflow_bad_pattern` if its pattern is invalid.
    pub fn new(slot: &SlotSpec) -> Result<Self, RunError> {
        let compile = |pattern: &String| {
            let whole = format!("^(?:{pattern})$");
            RegexBuilder::new(&whole).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
                let what = format!("invalid pattern of slot '{}': {error}", slot.name);
                RunError::new(
                    "workflow_bad_pattern",
                    what,
                    "write a regular expression that matches the whole value",
                )
            })
        };
        let named = [slot.name.replace('_', " ")];
        let spoken = slot.label.iter().flat_map(label_texts);
        let names =
            named.iter().map(String::as_str).chain(spoken).chain(slot.also.iter().map(String::as_str));
        let mut names: Vec<String> = names.map(fold_phrase).filter(|name| !name.is_empty()).collect();
        let prefixes: Vec<String> =
            slot.after.iter().map(|prefix| fold_phrase(prefix)).filter(|prefix| !prefix.is_empty()).collect();
        // A word like "from" is more often a prefix than a name.
        names.retain(|name| !prefixes.contains(name));
        names.sort();
        names.dedup();
        Ok(SlotMatcher {
            slot: slot.clone(),
            pattern: slot.pattern.as_ref().map(compile).transpose()?,
            names,
            prefixes,
        })
    }

    /// The slot definition.
    #[must_use]
    pub const fn slot(&self) -> &SlotSpec {
        &self.slot
    }

    /// Whether any text is valid.
    #[must_use]
    pub fn accepts_any_text(&self) -> bool {
        self.slot.kind == SlotKind::Text && self.pattern.is_none() && self.slot.values.is_empty()
    }

    /// Parses a value; `None` if it is invalid.
    #[must_use]
    pub fn parse_value(&self, said: &str) -> Option<Value> {
        let said = said.trim();
        if said.is_empty() || said.chars().nth(MAX_VALUE_CHARS).is_some() {
            return None;
        }
        let value = match self.slot.kind {
            SlotKind::Text => json!(self.match_listed(said)?),
            SlotKind::Number => json!(parse_whole_number(said)?),
            SlotKind::Date => json!(parse_whole_date(said)?),
            SlotKind::YesNo => match classify_answer(said) {
                ConfirmationAnswer::Yes => json!(true),
                ConfirmationAnswer::No => json!(false),
                _ => return None,
            },
        };
        let shown = value_text(&value);
        if self.slot.kind != SlotKind::Text && !self.slot.values.is_empty() {
            let listed = |known: &String| fold(known) == fold(&shown);
            if !self.slot.values.iter().any(listed) {
                return None;
            }
        }
        self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&shown)).then_some(value)
    }

    /// A listed value in its configured spelling, or the text itself if there is no list.
    fn match_listed(&self, said: &str) -> Option<String> {
        if self.slot.values.is_empty() {
            return Some(said.to_owned());
        }
        let said = fold(said);
        self.slot.values.iter().find(|value| fold(value) == said).cloned()
    }
}

fn label_texts(words: &crate::workflow::spec::LocalizedText) -> Vec<&str> {
    use crate::workflow::spec::LocalizedText;
    match words {
        LocalizedText::Single(text) => vec![text.as_str()],
        LocalizedText::ByLanguage(by) => {
            [&by.en, &by.ru, &by.es].into_iter().filter_map(|text| text.as_deref()).collect()
        }
    }
}

fn parse_whole_number(said: &str) -> Option<i64> {
    if let Ok(number) = said.parse::<i64>() {
        return Some(number);
    }
    match tokenize(said).as_slice() {
        [one] => parse_number_word(&one.text),
        _ => None,
    }
}

fn parse_whole_date(said: &str) -> Option<String> {
    let words = tokenize(said);
    let (taken, day) = date_at(&words)?;
    day.filter(|_| taken == words.len()).map(|day| day.to_string())
}

/// A value as text.
#[must_use]
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::SlotMatcher;
    use crate::workflow::spec::SlotSpec;
    use serde_json::{Value, json};

    fn matcher(slot: Value) -> SlotMatcher {
        let mut slot = slot;
        slot["name"] = json!("x");
        slot["ask"] = json!("?");
        let slot: SlotSpec = serde_json::from_value(slot).expect("a slot");
        SlotMatcher::new(&slot).expect("a valid slot")
    }

    #[test]
    fn slot_kinds_accept_only_matching_values() {
        let text = matcher(json!({}));
        assert_eq!(text.parse_value(" New York "), Some(json!("New York")));
        assert_eq!(text.parse_value("  "), None);
        assert_eq!(text.parse_value(&"a".repeat(501)), None);
        let seats = matcher(json!({"kind": "number", "pattern": "[1-9]"}));
        assert_eq!(seats.parse_value("2"), Some(json!(2)));
        assert_eq!(seats.parse_value("two"), Some(json!(2)));
        assert_eq!(seats.parse_value("12"), None);
        assert_eq!(seats.parse_value("-2"), None);
        assert_eq!(seats.parse_value("2 or 3"), None);
        let day = matcher(json!({"kind": "date"}));
        assert_eq!(day.parse_value("9 декабря 2026"), Some(json!("2026-12-09")));
        assert_eq!(day.parse_value("2026-02-30"), None);
        assert_eq!(day.parse_value("2026-12-09 or later"), None);
        let class = matcher(json!({"values": ["Economy", "First class"]}));
        assert_eq!(class.parse_value("ECONOMY"), Some(json!("Economy")));
        assert_eq!(class.parse_value("first  class"), Some(json!("First class")));
        assert_eq!(class.parse_value("second"), None);
        let meal = matcher(json!({"kind": "yes_no"}));
        assert_eq!(meal.parse_value("да"), Some(json!(true)));
        assert_eq!(meal.parse_value("no, gracias"), Some(json!(false)));
        assert_eq!(meal.parse_value("Скинь полный список задач."), None);
        let code = matcher(json!({"pattern": "[A-Z]{3}"}));
        assert_eq!(code.parse_value("LIS"), Some(json!("LIS")));
        assert_eq!(code.parse_value("LISB"), None);
    }

    #[test]
    fn invalid_pattern_is_an_error() {
        let slot = serde_json::from_value(json!({"name": "x", "ask": "?", "pattern": "("})).expect("a slot");
        assert_eq!(SlotMatcher::new(&slot).expect_err("an invalid pattern").code, "workflow_bad_pattern");
    }
}
