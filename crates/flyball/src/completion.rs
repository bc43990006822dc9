//! The signal with which an agent says that it is done, and what a garbled one looks like.
//!
//! A signal is a name, alone or followed by one JSON object with options: `TASK_COMPLETE`,
//! `TASK_COMPLETE {"skip": ["lint"]}`, `EVENT:task.complete:{"note": "…"}`. Anything else that begins like a signal is
//! garbled: nobody knows what was meant, so it is a validation failure and never a completion.

use crate::backpressure::TASK_COMPLETE;
use serde_json::{Map, Value};

/// The most words of a request's name, and its longest form in bytes.
const NAME_WORDS: usize = 3;
const NAME_BYTES: usize = 128;

/// What a text says about being done.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// It does not contain the signal.
    Absent,
    /// The signal, with the options that follow it.
    Given(Map<String, Value>),
    /// Something that begins like the signal and is not one; the text says what is wrong with it.
    Garbled(String),
}

/// Looks for a completion signal in an answer of a model. The signal ends a line, or is followed by one JSON object. In
/// the middle of a sentence it is only mentioned.
#[must_use]
pub fn find_signal(text: &str, signal: &str) -> Signal {
    let mut found = Signal::Absent;
    for (at, _) in text.match_indices(signal) {
        let before = text.get(..at).unwrap_or_default();
        // Underscores may also be Markdown around the signal.
        let word_before = before.trim_end_matches('_').chars().next_back();
        if word_before.is_some_and(char::is_alphanumeric) {
            continue;
        }
        let rest = text.get(at + signal.len()..).unwrap_or_default();
        match read_rest(rest, starts_a_line(before), signal) {
            Signal::Absent => {}
            Signal::Given(options) => return Signal::Given(options),
            garbled @ Signal::Garbled(_) => found = garbled,
        }
    }
    found
}

/// What follows a signal.
fn read_rest(rest: &str, leads: bool, signal: &str) -> Signal {
    let line = rest.lines().next().unwrap_or_default();
    if line.chars().all(is_closing) {
        return Signal::Given(Map::new());
    }
    let options = rest.trim_start_matches(|c: char| c == ':' || c.is_whitespace() || is_closing(c));
    if options.starts_with('{') {
        return match options_of(options, true) {
            Ok(options) => Signal::Given(options),
            Err(error) => {
                Signal::Garbled(format!("the options after `{signal}` are not a JSON object: {error}"))
            }
        };
    }
    if leads || rest.chars().next().is_some_and(continues_a_word) {
        return Signal::Garbled(garbled(signal));
    }
    Signal::Absent
}

fn garbled(signal: &str) -> String {
    format!(
        "the completion signal is garbled: write `{signal}` alone at the end of a line, or followed by one JSON object"
    )
}

/// Checks the request of a `completion.requested` event.
///
/// # Errors
/// What is wrong with it, if it is garbled.
pub(crate) fn check_request(request: &str) -> Result<(), String> {
    let text = request.trim();
    let name = match text.find(['{', '[']) {
        Some(at) => {
            let (name, options) = text.split_at(at);
            options_of(options, false).map_err(|error| {
                format!("the options of the completion request are not a JSON object: {error}")
            })?;
            name.trim_end_matches(|c: char| c == ':' || c.is_whitespace())
        }
        None => text,
    };
    let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/-".contains(&b));
    let well_formed = !name.is_empty()
        && name.len() <= NAME_BYTES
        && name.split(' ').count() <= NAME_WORDS
        && name.split(' ').all(|word| !word.is_empty() && is_name(word));
    if !well_formed || name != TASK_COMPLETE && name.starts_with(TASK_COMPLETE) {
        return Err(garbled(TASK_COMPLETE));
    }
    Ok(())
}

/// A JSON object at the beginning of a text; only blanks and closing marks, or with `then_lines` other lines, may follow.
fn options_of(text: &str, then_lines: bool) -> Result<Map<String, Value>, String> {
    let mut reader = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match reader.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("nothing is there".to_owned()),
    };
    let rest = text.get(reader.byte_offset()..).unwrap_or_default();
    let same_line = if then_lines { rest.lines().next().unwrap_or_default() } else { rest };
    match value {
        Value::Object(options) if same_line.chars().all(is_closing) => Ok(options),
        Value::Object(_) => Err("other text follows it".to_owned()),
        _ => Err("it is something else".to_owned()),
    }
}

/// Whether only opening marks stand between the beginning of the line and this place.
fn starts_a_line(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars()
        .all(|c| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | '(' | '[' | '#' | '>' | '-'))
}

/// Marks that may close a sentence or a Markdown span after the signal.
fn is_closing(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | ')' | ']' | '.' | '!')
}

fn continues_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
