//! Takes what looks like a secret out of an event, before anything else sees it.
//!
//! It works on the raw line of JSON, so nothing that was recognised ever reaches a parser, a store or a screen. A
//! replacement lies inside one JSON string, covers whole escape sequences only, and says what was there:
//! `[redacted:github-token]`. Numbers, keys of the event and the shape of the JSON stay as they were.
//!
//! A scanner looks for the beginnings of secrets (`ghp_`, `password`, `://`); only where one is found is the place
//! looked at more closely, by hand-written rules. Better a secret missed than a text spoilt: a value beside `password`
//! must not look like code, a reference or a word of prose.

mod keyed;
mod known;
mod raw;
mod scan;
mod value;

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use known::Anchor;
use scan::Scanner;

/// Rounds until nothing more is found; a replacement may uncover what stood beside it.
const ROUNDS: usize = 4;
/// The most memory that a pattern may take when compiled.
const PATTERN_BYTES: usize = 1024 * 1024;
/// What every replacement begins with.
const MARK: &str = "[redacted:";
/// The longest replacement.
const MARK_BYTES: usize = 48;
/// What was found by a pattern of the policy.
const CUSTOM: &str = "custom";

/// A stretch of the line that is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Find {
    start: usize,
    end: usize,
    kind: &'static str,
}

/// Finds secrets in the raw JSON of events.
#[derive(Debug)]
pub struct Redactor {
    scanner: Option<Box<Scanner>>,
    patterns: Vec<Regex>,
}

impl Redactor {
    /// Makes a redactor that knows the usual secrets (`defaults`) and those of some regular expressions.
    ///
    /// # Errors
    /// If a pattern is no regular expression or too large: which one, counted from 1, and why, in one line.
    pub fn new(defaults: bool, patterns: &[String]) -> Result<Redactor, String> {
        let scanner = defaults.then(|| Box::new(Scanner::new(known::anchors())));
        let compiled = patterns.iter().enumerate().map(|(index, pattern)| {
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
            regex.map_err(|error| {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
                format!("pattern {} cannot be used: {why}", index + 1)
            })
        });
        Ok(Redactor { scanner, patterns: compiled.collect::<Result<_, String>>()? })
    }

    /// The line without secrets; borrowed if there are none. Doing it again changes nothing.
    #[must_use]
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut now = Cow::Borrowed(text);
        for _ in 0..ROUNDS {
            let Some(next) = self.round(&now) else { break };
            now = Cow::Owned(next);
        }
        now
    }

    fn round(&self, text: &str) -> Option<String> {
        let found = self.known(text);
        let first = (!found.is_empty()).then(|| replaced(text, &found));
        let second = {
            let text = first.as_deref().unwrap_or(text);
            let found = self.custom(text);
            (!found.is_empty()).then(|| replaced(text, &found))
        };
        second.or(first)
    }

    /// What the built-in rules find, in order and without overlaps.
    fn known(&self, text: &str) -> Vec<Find> {
        let mut found: Vec<Find> = Vec::new();
        let Some(scanner) = &self.scanner else { return found };
        let bytes = text.as_bytes();
        let (mut done, mut from) = (0, 0);
        let mut vain = known::Vain::default();
        while let Some(hit) = scanner.next(bytes, from) {
            from = hit.start + 1;
            let find = match hit.anchor {
                Anchor::Word => keyed::find(bytes, hit.start, hit.end),
                other => known::find(bytes, other, hit.start, hit.end, &mut vain),
            };
            if let Some(find) = find.filter(|find| find.start >= done && find.start < find.end) {
                done = find.end;
                from = from.max(done);
                found.push(find);
            }
        }
        found
    }

    /// What the patterns find inside the values of strings, in order and without overlaps.
    fn custom(&self, text: &str) -> Vec<Find> {
        let mut found: Vec<Find> = Vec::new();
        if self.patterns.is_empty() {
            return found;
        }
        for (start, end) in raw::string_values(text.as_bytes()) {
            let Some(inside) = text.get(start..end) else { continue };
            for pattern in &self.patterns {
                let mut cursor = 0;
                for hit in pattern.find_iter(inside).filter(|hit| !hit.is_empty()) {
                    let (from, to) =
                        raw::whole_escapes(inside.as_bytes(), &mut cursor, hit.start(), hit.end());
                    found.extend(outside_marks(inside, from, to).into_iter().map(|(from, to)| Find {
                        start: start + from,
                        end: start + to,
                        kind: CUSTOM,
                    }));
                }
            }
        }
        found.sort_by_key(|find| (find.start, std::cmp::Reverse(find.end)));
        let mut joined: Vec<Find> = Vec::new();
        for find in found {
            match joined.last_mut() {
                Some(last) if find.start < last.end => last.end = last.end.max(find.end),
                _ => joined.push(find),
            }
        }
        joined
    }
}

/// The parts of `from..to` that are not already a replacement.
fn outside_marks(text: &str, from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut at = from;
    let near = text.floor_char_boundary(from.saturating_sub(MARK_BYTES));
    let far = text.ceil_char_boundary(to.saturating_add(MARK.len()));
    for (mark, _) in text.get(near..far).unwrap_or_default().match_indices(MARK) {
        let mark = near + mark;
        let inside = text.as_bytes().iter().skip(mark).take(MARK_BYTES).position(|byte| *byte == b']');
        let end = mark + inside.map_or(MARK.len(), |n| n + 1);
        if end <= at || mark >= to {
            continue;
        }
        if mark > at {
            parts.push((at, mark));
        }
        at = end;
    }
    if at < to {
        parts.push((at, to));
    }
    parts
}

fn replaced(text: &str, found: &[Find]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for find in found {
        out.push_str(text.get(at..find.start).unwrap_or_default());
        out.push_str(MARK);
        out.push_str(find.kind);
        out.push(']');
        at = find.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
