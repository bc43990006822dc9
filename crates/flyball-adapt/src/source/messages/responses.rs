//! Items of OpenAI's Responses, as messages.

use super::super::items::{Item, Words, item};
use super::{Role, Said};

/// Reads an item.
pub(super) fn said(raw: &str) -> Option<Said<'_>> {
    let mut said = Said::default();
    match item(raw) {
        Item::Said { role, text, .. } => {
            said.role = match role {
                Words::User => Role::User,
                Words::Assistant => Role::Assistant,
                Words::System => Role::Other,
            };
            said.text = text;
        }
        Item::Called { call, tool, args } => {
            said.role = Role::Assistant;
            said.calls.push((call, tool, args));
        }
        Item::Ended { call, end } => {
            said.role = Role::Tool;
            said.ends.push((call, end));
        }
        Item::CalledAndEnded { call, tool, args, end } => {
            said.role = Role::Tool;
            said.calls.push((call.clone(), tool, args));
            said.ends.push((call, end));
        }
        Item::Nothing => {}
        Item::Bad => return None,
    }
    Some(said)
}
