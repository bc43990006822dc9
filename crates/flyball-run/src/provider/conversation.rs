//! A conversation as every protocol wants it: each tool call with its result, right after it.
//!
//! What is stored may have gaps: a run was killed between a call and its result, or a person spoke in between. A call
//! without a result gets one that says so; a result without a call becomes a message; nothing is lost.

use super::message::{Call, Message};
use std::borrow::Cow;

/// What is told about a call that has no result.
const NOT_RUN: &str = "no result: the call was interrupted or not run";
/// What is told about a result without text.
const SILENT: &str = "(no output)";
/// What is told about a failed result without text.
const SILENT_FAILURE: &str = "the tool failed without saying why";

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part<'a> {
    /// From a person.
    User(Cow<'a, str>),
    /// From the model, each call with its result.
    Assistant {
        /// What it says; may be empty if there are calls.
        text: &'a str,
        /// The calls with their results.
        calls: Vec<(&'a Call, Outcome<'a>)>,
    },
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome<'a> {
    /// Whether it succeeded.
    pub(super) ok: bool,
    /// What the tool said; never empty.
    pub(super) text: &'a str,
}

/// Puts a conversation in order.
pub(super) fn ordered(messages: &[Message]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = messages;
    while let Some((first, after)) = rest.split_first() {
        let Message::Assistant { text, calls } = first else {
            parts.extend(spoken(first));
            rest = after;
            continue;
        };
        // The results are somewhere before the model speaks again.
        let until = after.iter().position(Message::is_assistant).unwrap_or(after.len());
        let (window, later) = after.split_at_checked(until).unwrap_or((after, &[]));
        let mut left: Vec<&Message> = window.iter().collect();
        let calls: Vec<_> = calls.iter().map(|call| (call, take_result(&mut left, &call.id))).collect();
        if !text.trim().is_empty() || !calls.is_empty() {
            parts.push(Part::Assistant { text, calls });
        }
        parts.extend(left.into_iter().filter_map(spoken));
        rest = later;
    }
    parts
}

/// The result of a call, taken out of the messages that follow it.
fn take_result<'a>(left: &mut Vec<&'a Message>, id: &str) -> Outcome<'a> {
    let at = left.iter().position(|m| matches!(m, Message::ToolResult { call, .. } if call == id));
    match at.map(|at| left.remove(at)) {
        Some(Message::ToolResult { text, ok, .. }) => Outcome { ok: *ok, text: said(text, *ok) },
        _ => Outcome { ok: false, text: NOT_RUN },
    }
}

fn said(text: &str, ok: bool) -> &str {
    match (text.trim().is_empty(), ok) {
        (false, _) => text,
        (true, true) => SILENT,
        (true, false) => SILENT_FAILURE,
    }
}

/// A message that stands for itself; an empty one says nothing and is left out.
fn spoken(message: &Message) -> Option<Part<'_>> {
    match message {
        Message::User { text } if !text.trim().is_empty() => Some(Part::User(Cow::Borrowed(text))),
        Message::ToolResult { call, text, ok } => {
            let how = if *ok { "result" } else { "failure" };
            Some(Part::User(Cow::Owned(format!("Late {how} of call {call}: {}", said(text, *ok)))))
        }
        Message::User { .. } | Message::Assistant { .. } => None,
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
