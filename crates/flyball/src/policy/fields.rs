//! One description of each section, used for everything: reading it, checking it, listing
//! its keys and printing its effective values.
//!
//! A section says its keys once (`fields_guards.rs`); [`Fields`] takes a written value where
//! there is one, reports what is wrong with it, and writes down what now holds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::Code;
use super::guards::Limit;
use super::tighten::Findings;
use super::units;
use super::values::{Problem, Stricter, Word, flag, kind, number, word_of};
use crate::suggest::closest;

/// Counts of acts: more than this is the same as no limit.
pub(super) const COUNT: RangeInclusive<u64> = 1..=1_000_000_000;
/// Tokens and other large amounts.
pub(super) const AMOUNT: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
/// Texts and names in a policy.
const MAX_TEXT_CHARS: usize = 2_000;

/// Names in one list.
const MAX_NAMES: usize = 128;

fn name_of(value: &Value) -> Option<String> {
    let name = value.as_str()?.trim();
    (!name.is_empty() && name.len() <= crate::limits::NAME_BYTES).then(|| name.to_owned())
}

/// A part of the policy that knows its keys.
pub(super) trait Section {
    /// Names each key with its slot and range.
    fn fields(&mut self, f: &mut Fields<'_>);
}

/// Walks the keys of one section.
pub(super) struct Fields<'a> {
    pub(super) source: Option<&'a Map<String, Value>>,
    /// Write down only what was written, not the values taken over from around.
    pub(super) partial: bool,
    out: Map<String, Value>,
    pub(super) known: Vec<&'static str>,
    pub(super) path: Vec<String>,
    pub(super) found: &'a mut Findings,
}

/// Reads `source` into `section` and returns the effective values.
pub(super) fn walk(
    section: &mut dyn Section,
    source: Option<&Value>,
    path: Vec<String>,
    partial: bool,
    found: &mut Findings,
) -> Value {
    let source = match source {
        None | Some(Value::Null) => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => {
            found.problems.push(Problem {
                code: Code::Type,
                what: format!("'{}' must be a map of keys, not {}", path.join("."), kind(other)),
                help: section_help(&path),
                path: path.clone(),
                as_written: false,
            });
            None
        }
    };
    let mut fields = Fields { source, partial, out: Map::new(), known: Vec::new(), path, found };
    section.fields(&mut fields);
    fields.report_unknown();
    Value::Object(fields.out)
}

fn section_help(path: &[String]) -> String {
    match path.first().map(String::as_str) {
        Some("guards") if path.len() == 1 => "to switch all guards off write preset: off".to_owned(),
        Some("guards") => "write a mode (off, observe, warn, block, halt) or a map of keys".to_owned(),
        _ => "write its keys, each with a value".to_owned(),
    }
}

impl Fields<'_> {
    pub(super) fn take(&mut self, key: &'static str) -> Option<&Value> {
        self.known.push(key);
        self.source?.get(key)
    }

    /// A key that may be written, and was not.
    pub(super) fn knows(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Whether the key was written as a text of no characters.
    pub(super) fn is_empty_text(&self, key: &str) -> bool {
        self.source.and_then(|map| map.get(key)).and_then(Value::as_str) == Some("")
    }

    /// Whether the key was written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.source.is_some_and(|map| map.contains_key(key))
    }

    pub(super) fn put(&mut self, key: &str, value: Value) {
        if !self.partial || self.has(key) {
            self.out.insert(key.to_owned(), value);
        }
    }

    fn problem(&mut self, code: Code, key: &str, what: String, help: String) {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        self.found.problems.push(Problem { code, path, as_written: false, what, help });
    }

    pub(super) fn wrong_type(&mut self, key: &str, value: &Value, wanted: &str) {
        let what = format!("'{key}' must be {wanted}, not {}", kind(value));
        self.problem(Code::Type, key, what, format!("write {wanted}"));
    }

    fn in_range(&mut self, key: &str, n: u64, range: &RangeInclusive<u64>, off: bool) -> bool {
        if range.contains(&n) {
            return true;
        }
        let what = format!("'{key}' is {n}, outside {} to {}", range.start(), range.end());
        let mut help = format!("write a number from {} to {}", range.start(), range.end());
        if off {
            help.push_str(", or off for no limit");
        }
        self.problem(Code::Range, key, what, help);
        false
    }

    /// Whether a written value replaces the present one. Where a layer may only tighten, a value that is not stricter
    /// does not, and its path is noted.
    pub(super) fn admits(&mut self, key: &str, same: bool, stricter: bool) -> bool {
        !self.found.only_tighten || self.tightens(&[key], same, stricter)
    }

    fn tightens(&mut self, inside: &[&str], same: bool, stricter: bool) -> bool {
        let mut path = self.path.clone();
        path.extend(inside.iter().map(|part| (*part).to_owned()));
        match (same, stricter) {
            (true, _) => self.found.unchanged.push(path),
            (false, false) => self.found.loosening.push(path),
            (false, true) => return true,
        }
        false
    }

    fn set_limit(&mut self, key: &str, slot: &mut Limit, new: Limit, stricter: Stricter) {
        if self.admits(key, new == *slot, stricter.limit(new, *slot)) {
            *slot = new;
        }
    }

    fn set_number(&mut self, key: &str, slot: &mut u64, new: u64, stricter: Stricter) {
        if self.admits(key, new == *slot, stricter.number(new, *slot)) {
            *slot = new;
        }
    }

    /// A limit: a whole number, or `off`.
    pub(super) fn limit(
        &mut self,
        key: &'static str,
        slot: &mut Limit,
        range: RangeInclusive<u64>,
        stricter: Stricter,
    ) {
        if let Some(value) = self.take(key).cloned() {
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(n) = number(&value) {
                if self.in_range(key, n, &range, true) {
                    self.set_limit(key, slot, Some(n), stricter);
                }
            } else {
                self.wrong_type(key, &value, "a whole number, or off");
            }
        }
        self.put(key, slot.map_or_else(|| Value::from("off"), Value::from));
    }

    /// A whole number that cannot be off.
    pub(super) fn count(
        &mut self,
        key: &'static str,
        slot: &mut u64,
        range: RangeInclusive<u64>,
        stricter: Stricter,
    ) {
        if let Some(value) = self.take(key).cloned() {
            if let Some(n) = number(&value) {
                if self.in_range(key, n, &range, false) {
                    self.set_number(key, slot, n, stricter);
                }
            } else {
                self.wrong_type(key, &value, "a whole number");
            }
        }
        self.put(key, Value::from(*slot));
    }

    /// A duration that may be off.
    pub(super) fn duration_limit(&mut self, key: &'static str, slot: &mut Limit, stricter: Stricter) {
        if let Some(value) = self.take(key).cloned() {
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(ms) =
                self.milliseconds(key, &value, "a duration such as 90s, 10m or 4h, or off")
            {
                self.set_limit(key, slot, (ms > 0).then_some(ms), stricter);
            }
        }
        self.put(key, slot.map_or_else(|| Value::from("off"), |ms| Value::from(units::duration_text(ms))));
    }

    /// A duration that cannot be off; 0 means at once.
    pub(super) fn duration(&mut self, key: &'static str, slot: &mut u64, stricter: Stricter) {
        if let Some(value) = self.take(key).cloned()
            && let Some(ms) = self.milliseconds(key, &value, "a duration such as 90s, 10m or 4h")
        {
            self.set_number(key, slot, ms, stricter);
        }
        self.put(key, Value::from(units::duration_text(*slot)));
    }

    fn milliseconds(&mut self, key: &str, value: &Value, wanted: &str) -> Option<u64> {
        let ms = match value {
            Value::Number(n) => n.as_u64(),
            Value::String(s) => units::duration_ms(s),
            _ => None,
        };
        match ms {
            Some(ms) if ms > units::MAX_MS => {
                let what = format!("'{key}' is longer than 100 years");
                self.problem(Code::Range, key, what, "write a shorter duration".to_owned());
                None
            }
            Some(ms) => Some(ms),
            None => {
                self.wrong_type(key, value, wanted);
                None
            }
        }
    }

    /// Dollars, or `off`.
    pub(super) fn cost(&mut self, key: &'static str, slot: &mut Limit, stricter: Stricter) {
        if let Some(value) = self.take(key).cloned() {
            let micro = match &value {
                Value::Number(n) => units::micro_usd(&n.to_string()),
                Value::String(s) => units::micro_usd(s),
                _ => None,
            };
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(micro) = micro {
                if micro == 0 || micro > units::MAX_MICRO_USD {
                    let what = format!("'{key}' is outside 0.000001 to 1000000 dollars");
                    self.problem(Code::Range, key, what, "write dollars such as 2.50, or off".to_owned());
                } else {
                    self.set_limit(key, slot, Some(micro), stricter);
                }
            } else {
                self.wrong_type(key, &value, "an amount in dollars such as 2.50, or off");
            }
        }
        self.put(key, slot.map_or_else(|| Value::from("off"), units::usd_value));
    }

    /// True or false.
    pub(super) fn flag(&mut self, key: &'static str, slot: &mut bool, stricter: Stricter) {
        if let Some(value) = self.take(key).cloned() {
            match flag(&value) {
                Some(flag) if self.admits(key, flag == *slot, stricter.flag(flag, *slot)) => *slot = flag,
                Some(_) => {}
                None => self.wrong_type(key, &value, "true or false"),
            }
        }
        self.put(key, Value::Bool(*slot));
    }

    /// One of a few words. Their order is the type's.
    pub(super) fn word<W: Word>(&mut self, key: &'static str, slot: &mut W) {
        if let Some(value) = self.take(key).cloned()
            && let Some(word) = self.read_word::<W>(key, &value)
            && self.admits(key, word == *slot, W::strictness(word) > W::strictness(*slot))
        {
            *slot = word;
        }
        self.put(key, Value::from(word_of(*slot)));
    }

    /// One of a few words, or nothing. A word of `strictest` is stricter than any other.
    pub(super) fn optional_word<W: Word>(
        &mut self,
        key: &'static str,
        slot: &mut Option<W>,
        strictest: Option<W>,
    ) {
        if let Some(value) = self.take(key).cloned() {
            if let Some(word) = self.read_word::<W>(key, &value)
                && self.admits(key, Some(word) == *slot, Some(word) == strictest && *slot != strictest)
            {
                *slot = Some(word);
            }
            self.put(key, slot.map_or(Value::Null, |word| Value::from(word_of(word))));
        }
    }

    fn read_word<W: Word>(&mut self, key: &str, value: &Value) -> Option<W> {
        let text = match value {
            Value::Bool(false) => "off",
            Value::String(text) => text.trim(),
            _ => "",
        };
        let found = W::WORDS.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
            let what = format!("'{key}' cannot be {}", kind(value));
            let help = closest(text, words.iter().copied()).map_or_else(
                || format!("write one of {}", words.join(", ")),
                |word| format!("did you mean '{word}'? It is one of {}", words.join(", ")),
            );
            self.problem(Code::Type, key, what, help);
        }
        found.map(|(_, value)| *value)
    }

    /// A text. Texts have no direction: a change counts as loosening.
    pub(super) fn text(&mut self, key: &'static str, slot: &mut String) {
        if let Some(value) = self.take(key).cloned() {
            match value {
                Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => {
                    if self.admits(key, text == *slot, false) {
                        *slot = text;
                    }
                }
                other => self.wrong_type(key, &other, "a text of at most 2000 characters"),
            }
        }
        self.put(key, Value::from(slot.as_str()));
    }

    /// A map of texts without a direction; names that are not written stay.
    pub(super) fn texts(&mut self, key: &'static str, slot: &mut BTreeMap<String, String>) {
        if let Some(value) = self.take(key).cloned() {
            let Value::Object(map) = &value else {
                return self.wrong_type(key, &value, "a map of texts");
            };
            for (name, text) in map {
                match text {
                    Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => {
                        let same = slot.get(name) == Some(text);
                        if !self.found.only_tighten || self.tightens(&[key, name], same, false) {
                            slot.insert(name.clone(), text.clone());
                        }
                    }
                    other => self.wrong_type(key, other, "a map of texts of at most 2000 characters"),
                }
            }
        }
        if !slot.is_empty() {
            let map = slot.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str())));
            self.put(key, Value::Object(map.collect()));
        }
    }

    /// A list of texts. Without a direction: a list that differs from the present one counts as loosening.
    pub(super) fn list(&mut self, key: &'static str, present: &[String]) -> Option<Vec<String>> {
        let value = self.take(key).cloned()?;
        let texts: Option<Vec<String>> = match &value {
            Value::Null => Some(Vec::new()),
            Value::Array(items) => items.iter().map(|v| v.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let Some(texts) = texts else {
            self.wrong_type(key, &value, "a list of texts");
            return None;
        };
        self.admits(key, texts == present, false).then_some(texts)
    }

    /// A list of names that something is confined to, or nothing. Fewer names are stricter.
    pub(super) fn names(&mut self, key: &'static str, slot: &mut Option<Vec<String>>) {
        if let Some(value) = self.take(key).cloned() {
            let listed: Option<Vec<String>> = match &value {
                Value::Array(items) => items.iter().map(name_of).collect(),
                _ => None,
            };
            match listed {
                None if value.is_null() => {}
                None => self.wrong_type(key, &value, "a list of names"),
                Some(names) => {
                    self.at_most(key, names.len(), MAX_NAMES);
                    let stricter =
                        slot.as_ref().is_none_or(|slot| names.iter().all(|name| slot.contains(name)));
                    if self.admits(key, slot.as_ref() == Some(&names), stricter) {
                        *slot = Some(names);
                    }
                }
            }
        }
        if let Some(names) = slot {
            self.put(key, Value::from(names.clone()));
        }
    }

    /// Writes a list down.
    pub(super) fn put_list(&mut self, key: &str, texts: Vec<String>) {
        self.put(key, Value::from(texts));
    }

    /// Writes a value down as it is.
    pub(super) fn put_value(&mut self, key: &str, value: Value) {
        self.put(key, value);
    }

    /// A text that need not be there, without a direction. Only where no layer can tighten: inside lists.
    pub(super) fn optional_text(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key).cloned()?;
        match value {
            Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => Some(text),
            other => {
                self.wrong_type(key, &other, "a text of at most 2000 characters");
                None
            }
        }
    }

    /// Reports a list that is too long.
    pub(super) fn at_most(&mut self, key: &str, len: usize, most: usize) {
        if len > most {
            let what = format!("'{key}' has {len} entries, {most} are allowed");
            self.problem(Code::Range, key, what, "remove some".to_owned());
        }
    }

    /// Reports a problem with something inside a key's value.
    pub(super) fn refuse_at(&mut self, code: Code, inside: &[&str], what: String, help: &str) {
        let mut path = self.path.clone();
        path.extend(inside.iter().map(|part| (*part).to_owned()));
        self.found.problems.push(Problem { code, path, as_written: false, what, help: help.to_owned() });
    }

    /// Reports a problem with a key's value found by the section itself.
    pub(super) fn refuse(&mut self, code: Code, key: &str, what: String, help: &str) {
        self.problem(code, key, what, help.to_owned());
    }
}
