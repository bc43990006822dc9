//! Normalizes a conversation for the wire protocols: each tool call is followed by its result.
//!
//! A stored conversation may have gaps: the run was killed between a call and its result, or a person wrote in between.
//! A call without a result gets a placeholder, and a result without a call becomes a message. Nothing is dropped.

use super::message::{ChatMessage, ModelToolCall};
use std::borrow::Cow;

/// Result of a call that has none.
const MISSING_RESULT_TEXT: &str = "no result: the call was interrupted or not run";
/// Text of an empty result.
const EMPTY_OUTPUT_TEXT: &str = "(no output)";
/// Text of an empty failure.
const EMPTY_FAILURE_TEXT: &str = "the tool failed without a message";

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConversationPart<'a> {
    /// From a person.
    User(Cow<'a, str>),
    /// From the model, each call with its result.
    Assistant {
        /// Text; may be empty if there are calls.
        text: &'a str,
        /// Calls with their results.
        calls: Vec<(&'a ModelToolCall, ToolCallResult<'a>)>,
    },
}

/// Result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolCallResult<'a> {
    /// Whether it succeeded.
    pub(super) ok: bool,
    /// Output of the tool; never empty.
    pub(super) text: &'a str,
}

/// Pairs each call with its result.
pub(super) fn pair_calls_with_results(messages: &[ChatMessage]) -> Vec<ConversationPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = messages;
    while let Some((first, after)) = rest.split_first() {
        let ChatMessage::Assistant { text, calls } = first else {
            parts.extend(message_part(first));
            rest = after;
            continue;
        };
        // Results are among the messages before the model's next message.
        let until = after.iter().position(ChatMessage::is_assistant).unwrap_or(after.len());
        let (window, later) = after.split_at_checked(until).unwrap_or((after, &[]));
        let mut left: Vec<&ChatMessage> = window.iter().collect();
        let calls: Vec<_> = calls.iter().map(|call| (call, take_result(&mut left, &call.id))).collect();
        if !text.trim().is_empty() || !calls.is_empty() {
            parts.push(ConversationPart::Assistant { text, calls });
        }
        parts.extend(left.into_iter().filter_map(message_part));
        rest = later;
    }
    parts
}

/// Removes the result of a call from the messages that follow it.
fn take_result<'a>(left: &mut Vec<&'a ChatMessage>, id: &str) -> ToolCallResult<'a> {
    let at = left.iter().position(|m| matches!(m, ChatMessage::ToolResult { call, .. } if call == id));
    match at.map(|at| left.remove(at)) {
        Some(ChatMessage::ToolResult { text, ok, .. }) => {
            ToolCallResult { ok: *ok, text: result_text(text, *ok) }
        }
        _ => ToolCallResult { ok: false, text: MISSING_RESULT_TEXT },
    }
}

fn result_text(text: &str, ok: bool) -> &str {
    match (text.trim().is_empty(), ok) {
        (false, _) => text,
        (true, true) => EMPTY_OUTPUT_TEXT,
        (true, false) => EMPTY_FAILURE_TEXT,
    }
}

/// A standalone message; `None` if it is empty.
fn message_part(message: &ChatMessage) -> Option<ConversationPart<'_>> {
    match message {
        ChatMessage::User { text } if !text.trim().is_empty() => {
            Some(ConversationPart::User(Cow::Borrowed(text)))
        }
        ChatMessage::ToolResult { call, text, ok } => {
            let how = if *ok { "result" } else { "failure" };
            Some(ConversationPart::User(Cow::Owned(format!(
                "Late {how} of call {call}: {}",
                result_text(text, *ok)
            ))))
        }
        ChatMessage::User { .. } | ChatMessage::Assistant { .. } => None,
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
