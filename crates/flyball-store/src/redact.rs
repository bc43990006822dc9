//! Redaction of secrets in events, before anything else sees them.
//!
//! Secrets are detected in decoded text and replaced in the raw JSON line, so escapes cannot hide them and no
//! recognized secret reaches a parser, a store or a screen. A replacement lies inside one JSON string, covers only
//! whole escape sequences, and names the kind of secret: `[redacted:github-token]`. Numbers and the structure of the
//! JSON are unchanged.
//!
//! A scanner looks for anchors (`ghp_`, `password`, `://`); only where it finds one do detailed rules examine the
//! line. A missed secret is preferred to corrupted text: a value next to `password` must not look like code, a
//! reference or a word of prose.

mod anchor_scan;
mod anchors;
mod byte_scan;
mod command_args;
mod credential_formats;
mod decoded_view;
mod keyed;
mod kubernetes_secret;
mod name_class;
mod secret_search;
mod token_formats;
mod value;

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use decoded_view::DecodedView;
use secret_search::SecretSearch;

/// Maximum number of passes. A replacement may uncover an adjacent secret.
const MAX_PASSES: usize = 4;
/// Maximum compiled size of a pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Prefix of every replacement.
pub(crate) const REPLACEMENT_PREFIX: &str = "[redacted:";
/// Maximum length of a replacement.
const MAX_REPLACEMENT_BYTES: usize = 48;
/// Kind of matches of the policy's own patterns.
const CUSTOM_KIND: &str = "custom";

/// A part of the line that is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SecretSpan {
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
    /// Creates a redactor for the built-in formats (`defaults`) and additional regular expressions.
    ///
    /// # Errors
    /// If a pattern is invalid or too large: its number, counted from 1, and the reason in one line.
    pub fn new(defaults: bool, patterns: &[String]) -> Result<Redactor, String> {
        let compiled = patterns.iter().enumerate().map(|(index, pattern)| {
            let regex = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
            regex.map_err(|error| {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
                format!("cannot use pattern {}: {why}", index + 1)
            })
        });
        Ok(Redactor { defaults, patterns: compiled.collect::<Result<_, String>>()? })
    }

    /// Redacts a line; borrows it if there are no secrets. Idempotent.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut now = Cow::Borrowed(text);
        for _ in 0..MAX_PASSES {
            let Some(next) = self.redact_once(&now) else { break };
            now = Cow::Owned(next);
        }
        now
    }

    fn redact_once(&self, text: &str) -> Option<String> {
        if self.patterns.is_empty() && !(self.defaults && anchor_scan::may_contain_secret(text.as_bytes())) {
            return None;
        }
        let mut search = SecretSearch { builtin: self.defaults, patterns: &self.patterns, found: Vec::new() };
        search.search_text(&DecodedView::whole(text), 0);
        let found = merge_spans(text, search.found);
        (!found.is_empty()).then(|| replace_spans(text, &found))
    }
}

/// Sorts and merges the spans, aligned to character boundaries.
fn merge_spans(text: &str, mut found: Vec<SecretSpan>) -> Vec<SecretSpan> {
    found.sort_by_key(|find| (find.start, std::cmp::Reverse(find.end)));
    let mut joined: Vec<SecretSpan> = Vec::new();
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

/// The parts of `from..to` that are not already replacements.
fn outside_replacements(text: &str, from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut at = from;
    let near = text.floor_char_boundary(from.saturating_sub(MAX_REPLACEMENT_BYTES));
    let far = text.ceil_char_boundary(to.saturating_add(REPLACEMENT_PREFIX.len()));
    for (mark, _) in text.get(near..far).unwrap_or_default().match_indices(REPLACEMENT_PREFIX) {
        let mark = near + mark;
        let inside =
            text.as_bytes().iter().skip(mark).take(MAX_REPLACEMENT_BYTES).position(|byte| *byte == b']');
        let end = mark + inside.map_or(REPLACEMENT_PREFIX.len(), |n| n + 1);
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

fn replace_spans(text: &str, found: &[SecretSpan]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for find in found {
        out.push_str(text.get(at..find.start).unwrap_or_default());
        out.push_str(REPLACEMENT_PREFIX);
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
