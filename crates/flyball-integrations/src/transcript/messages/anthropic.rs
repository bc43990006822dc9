//! Anthropic messages: text blocks, calls and results.

use super::super::anthropic_blocks::{BlockContent, MessageContent, joined};
use super::super::claude_code::ClaudeUsage;
use super::super::conversation::AnswerUsage;
use super::super::lenient_fields::{LenientText, parse_timestamp};
use super::{MessageRole, TranscriptMessage, args};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicMessage<'a> {
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow)]
    content: BlockContent<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
}

/// Parses token usage.
pub(super) fn parse_usage(raw: &str) -> AnswerUsage {
    serde_json::from_str::<ClaudeUsage>(raw).unwrap_or_default().to_usage()
}

/// Parses a message.
pub(super) fn parse_message(raw: &str) -> Option<TranscriptMessage<'_>> {
    let message: AnthropicMessage<'_> = serde_json::from_str(raw).ok()?;
    let role = match &*message.role {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        "" => return None,
        _ => MessageRole::Other,
    };
    let mut said =
        TranscriptMessage { role, at: parse_timestamp(&message.timestamp), ..TranscriptMessage::default() };
    match message.content {
        MessageContent::Text(text) => said.text = text.0,
        MessageContent::Blocks(blocks) => {
            let text = joined(blocks.iter().filter_map(|block| block.text())).into_owned();
            said.text = Cow::Owned(text);
            for block in blocks {
                if block.is_call() {
                    said.calls.push((block.id.0, block.name.0, args(block.input)));
                } else if block.is_result() {
                    let call = block.tool_use_id.0.clone();
                    said.ends.push((call, block.into_call_end()));
                }
            }
        }
    }
    Some(said)
}
