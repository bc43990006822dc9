//! Completion signals of agents, and detection of malformed ones.
//!
//! A signal is a name, alone or followed by one JSON object with options: `TASK_COMPLETE`, `TASK_COMPLETE {"skip":
//! ["lint"]}`, `EVENT:task.complete:{"note": "…"}`. Anything else that starts like a signal is malformed: its meaning
//! is unknown, so it is a validation failure and never a completion.

use crate::backpressure::TASK_COMPLETE;
use serde_json::{Map, Value};

/// Maximum length of a request's name, in words and bytes.
const MAX_NAME_WORDS: usize = 3;
const MAX_NAME_BYTES: usize = 128;

/// Completion signal found in a text.
#[derive(Debug, Clone, PartialEq)]
pub enum CompletionSignal {
    /// No signal.
    Absent,
    /// The signal, with the options that follow it.
    Present(Map<String, Value>),
    /// A malformed signal, with the error.
    Garbled(String),
}

/// Finds a completion signal in a model response. A signal ends a line or is followed by one JSON object; in the middle
/// of a sentence it is only a mention.
#[must_use]
pub fn find_signal(text: &str, signal: &str) -> CompletionSignal {
    let mut found = CompletionSignal::Absent;
    for (at, _) in text.match_indices(signal) {
        let before = text.get(..at).unwrap_or_default();
        // Underscores may be Markdown emphasis around the signal.
        let word_before = before.trim_end_matches('_').chars().next_back();
        if word_before.is_some_and(char::is_alphanumeric) {
            continue;
        }
        let rest = text.get(at + signal.len()..).unwrap_or_default();
        match parse_after_signal(rest, is_line_start(before), signal) {
            CompletionSignal::Absent => {}
            CompletionSignal::Present(options) => return CompletionSignal::Present(options),
            garbled @ CompletionSignal::Garbled(_) => found = garbled,
        }
    }
    found
}

/// Parses the text after a signal.
fn parse_after_signal(rest: &str, leads: bool, signal: &str) -> CompletionSignal {
    let line = rest.lines().next().unwrap_or_default();
    if line.chars().all(is_closing_mark) {
        return CompletionSignal::Present(Map::new());
    }
    let options = rest.trim_start_matches(|c: char| c == ':' || c.is_whitespace() || is_closing_mark(c));
    if options.starts_with('{') {
        return match parse_options(options, true) {
            Ok(options) => CompletionSignal::Present(options),
            Err(error) => CompletionSignal::Garbled(format!(
                "the options after `{signal}` are not a JSON object: {error}"
            )),
        };
    }
    if leads || rest.chars().next().is_some_and(is_word_char) {
        return CompletionSignal::Garbled(garbled_text(signal));
    }
    CompletionSignal::Absent
}

fn garbled_text(signal: &str) -> String {
    format!(
        "the completion signal is garbled: write `{signal}` alone at the end of a line, or followed by one JSON object"
    )
}

/// Checks the request of a `completion.requested` event.
///
/// # Errors
/// If it is malformed, the error.
pub(crate) fn check_request(request: &str) -> Result<(), String> {
    let text = request.trim();
    let name = match text.find(['{', '[']) {
        Some(at) => {
            let (name, options) = text.split_at(at);
            parse_options(options, false).map_err(|error| {
                format!("the options of the completion request are not a JSON object: {error}")
            })?;
            name.trim_end_matches(|c: char| c == ':' || c.is_whitespace())
        }
        None => text,
    };
    let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/-".contains(&b));
    let well_formed = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.split(' ').count() <= MAX_NAME_WORDS
        && name.split(' ').all(|word| !word.is_empty() && is_name(word));
    if !well_formed || name != TASK_COMPLETE && name.starts_with(TASK_COMPLETE) {
        return Err(garbled_text(TASK_COMPLETE));
    }
    Ok(())
}

/// Parses a JSON object at the start of a text. Only whitespace and closing marks may follow, or, with `then_lines`,
/// further lines.
fn parse_options(text: &str, then_lines: bool) -> Result<Map<String, Value>, String> {
    let mut reader = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match reader.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("nothing follows".to_owned()),
    };
    let rest = text.get(reader.byte_offset()..).unwrap_or_default();
    let same_line = if then_lines { rest.lines().next().unwrap_or_default() } else { rest };
    match value {
        Value::Object(options) if same_line.chars().all(is_closing_mark) => Ok(options),
        Value::Object(_) => Err("extra text after the object".to_owned()),
        _ => Err("found another JSON type".to_owned()),
    }
}

/// Whether only opening marks precede this position in its line.
fn is_line_start(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars()
        .all(|c| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | '(' | '[' | '#' | '>' | '-'))
}

/// Whether a character may close a sentence or a Markdown span after the signal.
fn is_closing_mark(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | ')' | ']' | '.' | '!')
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
