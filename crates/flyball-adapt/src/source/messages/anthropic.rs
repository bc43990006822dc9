//! Messages of Anthropic: blocks of text, calls and results.

use super::super::blocks::{Body, Content, joined};
use super::super::claude_code::Usage;
use super::super::fields::{Text, moment};
use super::super::talk::Used;
use super::{Role, Said, args};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Body<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
}

/// What an answer used.
pub(super) fn used(raw: &str) -> Used {
    serde_json::from_str::<Usage>(raw).unwrap_or_default().used()
}

/// Reads a message.
pub(super) fn said(raw: &str) -> Option<Said<'_>> {
    let message: Message<'_> = serde_json::from_str(raw).ok()?;
    let role = match &*message.role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "" => return None,
        _ => Role::Other,
    };
    let mut said = Said { role, at: moment(&message.timestamp), ..Said::default() };
    match message.content {
        Content::Text(text) => said.text = text.0,
        Content::Blocks(blocks) => {
            let text = joined(blocks.iter().filter_map(|block| block.words())).into_owned();
            said.text = Cow::Owned(text);
            for block in blocks {
                if block.is_call() {
                    said.calls.push((block.id.0, block.name.0, args(block.input)));
                } else if block.is_end() {
                    let call = block.tool_use_id.0.clone();
                    said.ends.push((call, block.end()));
                }
            }
        }
    }
    Some(said)
}
