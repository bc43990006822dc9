//! Reads, checks, lists and prints a section of the policy from one description of its keys.
//!
//! A section declares each key once (`settings.rs`). [`SectionReader`] takes the written value if there is one,
//! reports any problem with it, and emits the effective value.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::guard_mode::Limit;
use super::policy_error::PolicyErrorCode;
use super::tighten::SectionFindings;
use super::units;
use super::values::{
    Keyword, PolicyProblem, StricterDirection, describe_value, keyword_of, parse_flag, parse_number,
};
use crate::suggest::closest;

/// Range of counts. A higher limit would be the same as none.
pub(crate) const COUNT_RANGE: RangeInclusive<u64> = 1..=1_000_000_000;
/// Range of tokens and other large amounts.
pub(crate) const AMOUNT_RANGE: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
/// Maximum length of a text or name in a policy.
const MAX_TEXT_CHARS: usize = 2_000;

/// Maximum number of names in one list.
const MAX_NAMES: usize = 128;

fn parse_name(value: &Value) -> Option<String> {
    let name = value.as_str()?.trim();
    (!name.is_empty() && name.len() <= crate::limits::NAME_BYTES).then(|| name.to_owned())
}

/// A part of the policy with a fixed set of keys.
pub(crate) trait PolicySection {
    /// Declares each key with its slot and range.
    fn read_keys(&mut self, f: &mut SectionReader<'_>);
}

/// Reads the keys of one section.
pub(crate) struct SectionReader<'a> {
    pub(crate) source: Option<&'a Map<String, Value>>,
    /// Emit only values that were written, not inherited ones.
    pub(crate) partial: bool,
    effective: Map<String, Value>,
    pub(crate) known_keys: Vec<&'static str>,
    /// The keys of the section that may be set here; `None` = all.
    pub(crate) only: Option<&'static [&'static str]>,
    pub(crate) path: Vec<String>,
    pub(crate) findings: &'a mut SectionFindings,
}

/// Reads `source` into `section` and returns the effective values.
pub(crate) fn read_section(
    section: &mut dyn PolicySection,
    source: Option<&Value>,
    path: Vec<String>,
    partial: bool,
    found: &mut SectionFindings,
) -> Value {
    read_part(section, None, source, path, partial, found)
}

/// Like [`read_section`], for some keys of the section.
pub(crate) fn read_part(
    section: &mut dyn PolicySection,
    only: Option<&'static [&'static str]>,
    source: Option<&Value>,
    path: Vec<String>,
    partial: bool,
    found: &mut SectionFindings,
) -> Value {
    let source = match source {
        None | Some(Value::Null) => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => {
            found.problems.push(PolicyProblem {
                code: PolicyErrorCode::Type,
                message: format!("'{}' must be a map of keys, not {}", path.join("."), describe_value(other)),
                help: section_help(&path),
                path: path.clone(),
                as_written: false,
            });
            None
        }
    };
    let mut fields = SectionReader {
        source,
        partial,
        effective: Map::new(),
        known_keys: Vec::new(),
        only,
        path,
        findings: found,
    };
    section.read_keys(&mut fields);
    fields.report_unknown();
    Value::Object(fields.effective)
}

/// The keys of a section.
pub(crate) fn section_keys(section: &mut dyn PolicySection) -> Vec<&'static str> {
    let mut findings = SectionFindings::default();
    let mut reader = SectionReader {
        source: None,
        partial: false,
        effective: Map::new(),
        known_keys: Vec::new(),
        only: None,
        path: Vec::new(),
        findings: &mut findings,
    };
    section.read_keys(&mut reader);
    reader.known_keys
}

fn section_help(path: &[String]) -> String {
    match path.first().map(String::as_str) {
        Some("guards") if path.len() == 1 => "write preset: off to turn all guards off".to_owned(),
        Some("guards") => "write a mode (off, observe, warn, block, halt) or a map of keys".to_owned(),
        _ => "write a map of keys and values".to_owned(),
    }
}

impl SectionReader<'_> {
    /// Whether a key of the section may be set here.
    pub(crate) fn takes(&self, key: &str) -> bool {
        self.only.is_none_or(|only| only.contains(&key))
    }

    pub(crate) fn written_value(&mut self, key: &'static str) -> Option<&Value> {
        self.known_keys.push(key);
        self.source?.get(key)
    }

    /// Declares a known key that was not written.
    pub(crate) fn declare_key(&mut self, key: &'static str) {
        self.known_keys.push(key);
    }

    /// Whether the key was written as an empty string.
    pub(crate) fn is_empty_text(&self, key: &str) -> bool {
        self.source.and_then(|map| map.get(key)).and_then(Value::as_str) == Some("")
    }

    /// Whether the key was written.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.source.is_some_and(|map| map.contains_key(key))
    }

    pub(crate) fn emit(&mut self, key: &str, value: Value) {
        if !self.partial || self.has(key) {
            self.effective.insert(key.to_owned(), value);
        }
    }

    fn add_problem(&mut self, code: PolicyErrorCode, key: &str, what: String, help: String) {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        self.findings.problems.push(PolicyProblem { code, path, as_written: false, message: what, help });
    }

    pub(crate) fn wrong_type(&mut self, key: &str, value: &Value, wanted: &str) {
        let what = format!("'{key}' must be {wanted}, not {}", describe_value(value));
        self.add_problem(PolicyErrorCode::Type, key, what, format!("write {wanted}"));
    }

    fn in_range(&mut self, key: &str, n: u64, range: &RangeInclusive<u64>, off: bool) -> bool {
        if range.contains(&n) {
            return true;
        }
        let what = format!("'{key}' must be between {} and {}, not {n}", range.start(), range.end());
        let mut help = format!("write a number from {} to {}", range.start(), range.end());
        if off {
            help.push_str(", or off for no limit");
        }
        self.add_problem(PolicyErrorCode::Range, key, what, help);
        false
    }

    /// Whether a written value replaces the current one. In a layer that may only tighten, a value that is not stricter
    /// is ignored and its path recorded.
    pub(crate) fn accepts(&mut self, key: &str, same: bool, stricter: bool) -> bool {
        !self.findings.only_tighten || self.tightens(&[key], same, stricter)
    }

    fn tightens(&mut self, inside: &[&str], same: bool, stricter: bool) -> bool {
        let mut path = self.path.clone();
        path.extend(inside.iter().map(|part| (*part).to_owned()));
        match (same, stricter) {
            (true, _) => self.findings.unchanged.push(path),
            (false, false) => self.findings.loosening.push(path),
            (false, true) => return true,
        }
        false
    }

    fn set_limit(&mut self, key: &str, slot: &mut Limit, new: Limit, stricter: StricterDirection) {
        if self.accepts(key, new == *slot, stricter.limit(new, *slot)) {
            *slot = new;
        }
    }

    fn set_number(&mut self, key: &str, slot: &mut u64, new: u64, stricter: StricterDirection) {
        if self.accepts(key, new == *slot, stricter.number(new, *slot)) {
            *slot = new;
        }
    }

    /// Reads a limit: a whole number, or `off`.
    pub(crate) fn limit(
        &mut self,
        key: &'static str,
        slot: &mut Limit,
        range: RangeInclusive<u64>,
        stricter: StricterDirection,
    ) {
        if let Some(value) = self.written_value(key).cloned() {
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(n) = parse_number(&value) {
                if self.in_range(key, n, &range, true) {
                    self.set_limit(key, slot, Some(n), stricter);
                }
            } else {
                self.wrong_type(key, &value, "a whole number, or off");
            }
        }
        self.emit(key, slot.map_or_else(|| Value::from("off"), Value::from));
    }

    /// Reads a whole number that cannot be off.
    pub(crate) fn count(
        &mut self,
        key: &'static str,
        slot: &mut u64,
        range: RangeInclusive<u64>,
        stricter: StricterDirection,
    ) {
        if let Some(value) = self.written_value(key).cloned() {
            if let Some(n) = parse_number(&value) {
                if self.in_range(key, n, &range, false) {
                    self.set_number(key, slot, n, stricter);
                }
            } else {
                self.wrong_type(key, &value, "a whole number");
            }
        }
        self.emit(key, Value::from(*slot));
    }

    /// Reads a duration that may be off.
    pub(crate) fn duration_limit(
        &mut self,
        key: &'static str,
        slot: &mut Limit,
        stricter: StricterDirection,
    ) {
        if let Some(value) = self.written_value(key).cloned() {
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(ms) =
                self.milliseconds(key, &value, "a duration such as 90s, 10m or 4h, or off")
            {
                self.set_limit(key, slot, (ms > 0).then_some(ms), stricter);
            }
        }
        self.emit(
            key,
            slot.map_or_else(|| Value::from("off"), |ms| Value::from(units::written_duration(ms))),
        );
    }

    /// Reads a duration that cannot be off; 0 means immediately.
    pub(crate) fn duration(&mut self, key: &'static str, slot: &mut u64, stricter: StricterDirection) {
        if let Some(value) = self.written_value(key).cloned()
            && let Some(ms) = self.milliseconds(key, &value, "a duration such as 90s, 10m or 4h")
        {
            self.set_number(key, slot, ms, stricter);
        }
        self.emit(key, Value::from(units::written_duration(*slot)));
    }

    fn milliseconds(&mut self, key: &str, value: &Value, wanted: &str) -> Option<u64> {
        let ms = match value {
            Value::Number(n) => n.as_u64(),
            Value::String(s) => units::parse_duration_ms(s),
            _ => None,
        };
        match ms {
            Some(ms) if ms > units::MAX_MS => {
                let what = format!("'{key}' must be at most 100 years");
                self.add_problem(PolicyErrorCode::Range, key, what, "write a shorter duration".to_owned());
                None
            }
            Some(ms) => Some(ms),
            None if value.is_string() => {
                let shown = describe_value(value);
                let what = format!("invalid duration {shown} for '{key}': expected e.g. 90s, 10m, 4h");
                self.add_problem(PolicyErrorCode::Type, key, what, format!("write {wanted}"));
                None
            }
            None => {
                self.wrong_type(key, value, wanted);
                None
            }
        }
    }

    /// Reads an amount in dollars, or `off`.
    pub(crate) fn cost(&mut self, key: &'static str, slot: &mut Limit, stricter: StricterDirection) {
        if let Some(value) = self.written_value(key).cloned() {
            let micro = match &value {
                Value::Number(n) => units::parse_micro_usd(&n.to_string()),
                Value::String(s) => units::parse_micro_usd(s),
                _ => None,
            };
            if units::is_off(&value) {
                self.set_limit(key, slot, None, stricter);
            } else if let Some(micro) = micro {
                if micro == 0 || micro > units::MAX_MICRO_USD {
                    let what = format!("'{key}' must be between 0.000001 and 1000000 dollars");
                    self.add_problem(
                        PolicyErrorCode::Range,
                        key,
                        what,
                        "write an amount in dollars such as 2.50, or off".to_owned(),
                    );
                } else {
                    self.set_limit(key, slot, Some(micro), stricter);
                }
            } else {
                self.wrong_type(key, &value, "an amount in dollars such as 2.50, or off");
            }
        }
        self.emit(key, slot.map_or_else(|| Value::from("off"), units::usd_value));
    }

    /// Reads true or false.
    pub(crate) fn flag(&mut self, key: &'static str, slot: &mut bool, stricter: StricterDirection) {
        if let Some(value) = self.written_value(key).cloned() {
            match parse_flag(&value) {
                Some(flag) if self.accepts(key, flag == *slot, stricter.flag(flag, *slot)) => *slot = flag,
                Some(_) => {}
                None => self.wrong_type(key, &value, "true or false"),
            }
        }
        self.emit(key, Value::Bool(*slot));
    }

    /// Reads one of a fixed set of keywords, ordered by their strictness.
    pub(crate) fn keyword<W: Keyword>(&mut self, key: &'static str, slot: &mut W) {
        if let Some(value) = self.written_value(key).cloned()
            && let Some(word) = self.parse_keyword::<W>(key, &value)
            && self.accepts(key, word == *slot, W::strictness(word) > W::strictness(*slot))
        {
            *slot = word;
        }
        self.emit(key, Value::from(keyword_of(*slot)));
    }

    /// Reads an optional keyword. `strictest` is stricter than any other value.
    pub(crate) fn optional_keyword<W: Keyword>(
        &mut self,
        key: &'static str,
        slot: &mut Option<W>,
        strictest: Option<W>,
    ) {
        if let Some(value) = self.written_value(key).cloned() {
            if let Some(word) = self.parse_keyword::<W>(key, &value)
                && self.accepts(key, Some(word) == *slot, Some(word) == strictest && *slot != strictest)
            {
                *slot = Some(word);
            }
            self.emit(key, slot.map_or(Value::Null, |word| Value::from(keyword_of(word))));
        }
    }

    fn parse_keyword<W: Keyword>(&mut self, key: &str, value: &Value) -> Option<W> {
        let text = match value {
            Value::Bool(false) => "off",
            Value::String(text) => text.trim(),
            _ => "",
        };
        let found = W::KEYWORDS.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = W::KEYWORDS.iter().map(|(word, _)| *word).collect();
            let what = format!("'{key}' cannot be {}", describe_value(value));
            let help = closest(text, words.iter().copied()).map_or_else(
                || format!("write one of {}", words.join(", ")),
                |word| format!("did you mean '{word}'? Expected one of {}", words.join(", ")),
            );
            self.add_problem(PolicyErrorCode::Type, key, what, help);
        }
        found.map(|(_, value)| *value)
    }

    /// Reads a text. Texts have no order of strictness, so every change counts as loosening.
    pub(crate) fn text(&mut self, key: &'static str, slot: &mut String) {
        if let Some(value) = self.written_value(key).cloned() {
            match value {
                Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => {
                    if self.accepts(key, text == *slot, false) {
                        *slot = text;
                    }
                }
                other => self.wrong_type(key, &other, "a string of at most 2000 characters"),
            }
        }
        self.emit(key, Value::from(slot.as_str()));
    }

    /// Reads a map of texts, which have no order of strictness. Names that are not written keep their text.
    pub(crate) fn texts(&mut self, key: &'static str, slot: &mut BTreeMap<String, String>) {
        if let Some(value) = self.written_value(key).cloned() {
            let Value::Object(map) = &value else {
                return self.wrong_type(key, &value, "a map of strings");
            };
            for (name, text) in map {
                match text {
                    Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => {
                        let same = slot.get(name) == Some(text);
                        if !self.findings.only_tighten || self.tightens(&[key, name], same, false) {
                            slot.insert(name.clone(), text.clone());
                        }
                    }
                    other => self.wrong_type(key, other, "a map of strings of at most 2000 characters"),
                }
            }
        }
        if !slot.is_empty() {
            let map = slot.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str())));
            self.emit(key, Value::Object(map.collect()));
        }
    }

    /// Reads a list of texts. Lists have no order of strictness, so every change counts as loosening.
    pub(crate) fn list(&mut self, key: &'static str, present: &[String]) -> Option<Vec<String>> {
        let value = self.written_value(key).cloned()?;
        let texts: Option<Vec<String>> = match &value {
            Value::Null => Some(Vec::new()),
            Value::Array(items) => items.iter().map(|v| v.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let Some(texts) = texts else {
            self.wrong_type(key, &value, "a list of strings");
            return None;
        };
        self.accepts(key, texts == present, false).then_some(texts)
    }

    /// Reads an optional list of allowed names. Fewer names are stricter.
    pub(crate) fn names(&mut self, key: &'static str, slot: &mut Option<Vec<String>>) {
        if let Some(value) = self.written_value(key).cloned() {
            let listed: Option<Vec<String>> = match &value {
                Value::Array(items) => items.iter().map(parse_name).collect(),
                _ => None,
            };
            match listed {
                None if value.is_null() => {}
                None => self.wrong_type(key, &value, "a list of names"),
                Some(names) => {
                    self.check_length(key, names.len(), MAX_NAMES);
                    let stricter =
                        slot.as_ref().is_none_or(|slot| names.iter().all(|name| slot.contains(name)));
                    if self.accepts(key, slot.as_ref() == Some(&names), stricter) {
                        *slot = Some(names);
                    }
                }
            }
        }
        if let Some(names) = slot {
            self.emit(key, Value::from(names.clone()));
        }
    }

    /// Emits a list.
    pub(crate) fn emit_list(&mut self, key: &str, texts: Vec<String>) {
        self.emit(key, Value::from(texts));
    }

    /// Emits a value unchanged.
    pub(crate) fn emit_value(&mut self, key: &str, value: Value) {
        self.emit(key, value);
    }

    /// Reads an optional text. Only for use inside lists, where no layer can tighten.
    pub(crate) fn optional_text(&mut self, key: &'static str) -> Option<String> {
        let value = self.written_value(key).cloned()?;
        match value {
            Value::String(text) if text.chars().count() <= MAX_TEXT_CHARS => Some(text),
            other => {
                self.wrong_type(key, &other, "a string of at most 2000 characters");
                None
            }
        }
    }

    /// Reports a list that is too long.
    pub(crate) fn check_length(&mut self, key: &str, len: usize, most: usize) {
        if len > most {
            let what = format!("'{key}' has {len} entries, but at most {most} are allowed");
            self.add_problem(PolicyErrorCode::Range, key, what, "remove some entries".to_owned());
        }
    }

    /// Reports a problem inside a key's value.
    pub(crate) fn report_at(&mut self, code: PolicyErrorCode, inside: &[&str], what: String, help: &str) {
        let mut path = self.path.clone();
        path.extend(inside.iter().map(|part| (*part).to_owned()));
        self.findings.problems.push(PolicyProblem {
            code,
            path,
            as_written: false,
            message: what,
            help: help.to_owned(),
        });
    }

    /// Reports a problem that the section itself found in a key's value.
    pub(crate) fn report(&mut self, code: PolicyErrorCode, key: &str, what: String, help: &str) {
        self.add_problem(code, key, what, help.to_owned());
    }
}
