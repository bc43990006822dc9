//! OpenAI Responses items as messages.

use super::super::responses_items::{ResponsesItem, ResponsesRole, parse_item};
use super::{MessageRole, TranscriptMessage};

/// Parses an item.
pub(super) fn parse_message(raw: &str) -> Option<TranscriptMessage<'_>> {
    let mut said = TranscriptMessage::default();
    match parse_item(raw) {
        ResponsesItem::Message { role, text, .. } => {
            said.role = match role {
                ResponsesRole::User => MessageRole::User,
                ResponsesRole::Assistant => MessageRole::Assistant,
                ResponsesRole::System => MessageRole::Other,
            };
            said.text = text;
        }
        ResponsesItem::Called { call, tool, args } => {
            said.role = MessageRole::Assistant;
            said.calls.push((call, tool, args));
        }
        ResponsesItem::Finished { call, end } => {
            said.role = MessageRole::Tool;
            said.ends.push((call, end));
        }
        ResponsesItem::CalledAndFinished { call, tool, args, end } => {
            said.role = MessageRole::Tool;
            said.calls.push((call.clone(), tool, args));
            said.ends.push((call, end));
        }
        ResponsesItem::Ignored => {}
        ResponsesItem::Malformed => return None,
    }
    Some(said)
}
