//! Redacts what looks like a secret from an event, before anything else sees it.
//!
//! A secret is looked for in decoded text and replaced in the raw line of JSON, so no spelling hides it and nothing
//! that was recognized reaches a parser, a store or a screen. A replacement lies inside one JSON string, covers whole
//! escape sequences only, and says what was there: `[redacted:github-token]`. Numbers and the shape of the JSON stay as
//! they were.
//!
//! A scanner looks for the beginnings of secrets (`ghp_`, `password`, `://`); only where it finds one is the line read
//! more closely, by hand-written rules. Better a secret missed than a text spoilt: a value beside `password` must not
//! look like code, a reference or a word of prose.

mod anchors;
mod keyed;
mod known;
mod manifest;
mod names;
mod raw;
mod scan;
mod shapes;
mod shell;
mod value;
mod view;
mod walk;

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use view::View;
use walk::Search;

/// Rounds until nothing more is found; a replacement may uncover what stood beside it.
const ROUNDS: usize = 4;
/// The most memory that a pattern may take when compiled.
const PATTERN_BYTES: usize = 1024 * 1024;
/// What every replacement begins with.
pub(crate) const MARK: &str = "[redacted:";
/// The longest replacement.
const MARK_BYTES: usize = 48;
/// The kind of what was found by a pattern of the policy.
const CUSTOM: &str = "custom";

/// A stretch of the line that is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Find {
    start: usize,
    end: usize,
    kind: &'static str,
}

/// Finds secrets in events and other text.
#[derive(Debug)]
pub struct Redactor {
    defaults: bool,
    patterns: Vec<Regex>,
}

impl Redactor {
    /// Makes a redactor that knows the usual secrets (`defaults`) and those of some regular expressions.
    ///
    /// # Errors
    /// If a pattern is no regular expression or too large: which one, counted from 1, and why, in one line.
    pub fn new(defaults: bool, patterns: &[String]) -> Result<Redactor, String> {
        let compiled = patterns.iter().enumerate().map(|(index, pattern)| {
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
            regex.map_err(|error| {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
                format!("pattern {} cannot be used: {why}", index + 1)
            })
        });
        Ok(Redactor { defaults, patterns: compiled.collect::<Result<_, String>>()? })
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
        if self.patterns.is_empty() && !(self.defaults && scan::promising(text.as_bytes())) {
            return None;
        }
        let mut search = Search { builtin: self.defaults, patterns: &self.patterns, found: Vec::new() };
        search.text(&View::whole(text), 0);
        let found = joined(text, search.found);
        (!found.is_empty()).then(|| replaced(text, &found))
    }
}

/// The finds in order and without overlaps, at boundaries of characters.
fn joined(text: &str, mut found: Vec<Find>) -> Vec<Find> {
    found.sort_by_key(|find| (find.start, std::cmp::Reverse(find.end)));
    let mut joined: Vec<Find> = Vec::new();
    for mut find in found {
        find.start = text.floor_char_boundary(find.start);
        find.end = text.ceil_char_boundary(find.end);
        match joined.last_mut() {
            Some(last) if find.start < last.end => last.end = last.end.max(find.end),
            _ => joined.push(find),
        }
    }
    joined
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

#[cfg(test)]
#[path = "redact_shapes_tests.rs"]
mod shapes_tests;
