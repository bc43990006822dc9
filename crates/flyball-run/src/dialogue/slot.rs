//! What a slot may hold: reading a value, and saying why it does not fit.

use super::dates::{day_at, number};
use super::words::{folded, folded_phrase, words};
use crate::fail::Failure;
use crate::workflow::spec::{Slot, SlotKind};
use flyball::confirm::{Answer, understand};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

/// The longest value.
const MAX_VALUE_CHARS: usize = 500;
/// The largest compiled pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// A slot that is ready to be used.
#[derive(Debug, Clone)]
pub struct Form {
    slot: Slot,
    pattern: Option<Regex>,
    /// The names by which people speak of it, folded.
    pub(super) names: Vec<String>,
    /// The words that stand before its value, folded.
    pub(super) marks: Vec<String>,
}

impl Form {
    /// Prepares a slot.
    ///
    /// # Errors
    /// If its pattern is no pattern (`workflow_bad_pattern`).
    pub fn new(slot: &Slot) -> Result<Self, Failure> {
        let compile = |pattern: &String| {
            let whole = format!("^(?:{pattern})$");
            RegexBuilder::new(&whole).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
                let what = format!("the pattern of slot '{}' cannot be used: {error}", slot.name);
                Failure::new("workflow_bad_pattern", what, "write a regular expression for the whole value")
            })
        };
        let named = [slot.name.replace('_', " ")];
        let spoken = slot.label.iter().flat_map(spellings);
        let names =
            named.iter().map(String::as_str).chain(spoken).chain(slot.also.iter().map(String::as_str));
        let mut names: Vec<String> = names.map(folded_phrase).filter(|name| !name.is_empty()).collect();
        let marks: Vec<String> =
            slot.after.iter().map(|mark| folded_phrase(mark)).filter(|mark| !mark.is_empty()).collect();
        // "From" stands before a value more often than it is the name of one.
        names.retain(|name| !marks.contains(name));
        names.sort();
        names.dedup();
        Ok(Form {
            slot: slot.clone(),
            pattern: slot.pattern.as_ref().map(compile).transpose()?,
            names,
            marks,
        })
    }

    /// The slot itself.
    #[must_use]
    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Whether any words at all would do.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.slot.kind == SlotKind::Text && self.pattern.is_none() && self.slot.values.is_empty()
    }

    /// The value that somebody's words stand for; nothing if they do not fit.
    #[must_use]
    pub fn check(&self, said: &str) -> Option<Value> {
        let said = said.trim();
        if said.is_empty() || said.chars().nth(MAX_VALUE_CHARS).is_some() {
            return None;
        }
        let value = match self.slot.kind {
            SlotKind::Text => json!(self.listed(said)?),
            SlotKind::Number => json!(whole_number(said)?),
            SlotKind::Date => json!(whole_day(said)?),
            SlotKind::YesNo => match understand(said) {
                Answer::Yes => json!(true),
                Answer::No => json!(false),
                _ => return None,
            },
        };
        let shown = show(&value);
        if self.slot.kind != SlotKind::Text && !self.slot.values.is_empty() {
            let listed = |known: &String| folded(known) == folded(&shown);
            if !self.slot.values.iter().any(listed) {
                return None;
            }
        }
        self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&shown)).then_some(value)
    }

    /// A listed value as the file spells it; the words themselves if there is no list.
    fn listed(&self, said: &str) -> Option<String> {
        if self.slot.values.is_empty() {
            return Some(said.to_owned());
        }
        let said = folded(said);
        self.slot.values.iter().find(|value| folded(value) == said).cloned()
    }
}

fn spellings(words: &crate::workflow::spec::Words) -> Vec<&str> {
    use crate::workflow::spec::Words;
    match words {
        Words::Same(text) => vec![text.as_str()],
        Words::ByLanguage(by) => {
            [&by.en, &by.ru, &by.es].into_iter().filter_map(|text| text.as_deref()).collect()
        }
    }
}

fn whole_number(said: &str) -> Option<i64> {
    if let Ok(number) = said.parse::<i64>() {
        return Some(number);
    }
    match words(said).as_slice() {
        [one] => number(&one.text),
        _ => None,
    }
}

fn whole_day(said: &str) -> Option<String> {
    let words = words(said);
    let (taken, day) = day_at(&words)?;
    day.filter(|_| taken == words.len()).map(|day| day.to_string())
}

/// A value in words.
#[must_use]
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Form;
    use crate::workflow::spec::Slot;
    use serde_json::{Value, json};

    fn form(slot: Value) -> Form {
        let mut slot = slot;
        slot["name"] = json!("x");
        slot["ask"] = json!("?");
        let slot: Slot = serde_json::from_value(slot).expect("a slot");
        Form::new(&slot).expect("a form")
    }

    #[test]
    fn each_kind_takes_what_it_is_for_and_nothing_else() {
        let text = form(json!({}));
        assert_eq!(text.check(" New York "), Some(json!("New York")));
        assert_eq!(text.check("  "), None);
        assert_eq!(text.check(&"a".repeat(501)), None);
        let seats = form(json!({"kind": "number", "pattern": "[1-9]"}));
        assert_eq!(seats.check("2"), Some(json!(2)));
        assert_eq!(seats.check("two"), Some(json!(2)));
        assert_eq!(seats.check("12"), None);
        assert_eq!(seats.check("-2"), None);
        assert_eq!(seats.check("2 or 3"), None);
        let day = form(json!({"kind": "date"}));
        assert_eq!(day.check("9 декабря 2026"), Some(json!("2026-12-09")));
        assert_eq!(day.check("2026-02-30"), None);
        assert_eq!(day.check("2026-12-09 or later"), None);
        let class = form(json!({"values": ["Economy", "First class"]}));
        assert_eq!(class.check("ECONOMY"), Some(json!("Economy")));
        assert_eq!(class.check("first  class"), Some(json!("First class")));
        assert_eq!(class.check("second"), None);
        let meal = form(json!({"kind": "yes_no"}));
        assert_eq!(meal.check("да"), Some(json!(true)));
        assert_eq!(meal.check("no, gracias"), Some(json!(false)));
        assert_eq!(meal.check("Скинь полный список задач."), None);
        let code = form(json!({"pattern": "[A-Z]{3}"}));
        assert_eq!(code.check("LIS"), Some(json!("LIS")));
        assert_eq!(code.check("LISB"), None);
    }

    #[test]
    fn a_pattern_that_is_none_is_told() {
        let slot = serde_json::from_value(json!({"name": "x", "ask": "?", "pattern": "("})).expect("a slot");
        assert_eq!(Form::new(&slot).expect_err("it is none").code, "workflow_bad_pattern");
    }
}
