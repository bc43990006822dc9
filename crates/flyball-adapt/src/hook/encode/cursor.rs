//! Cursor: `permission` before a call, `continue` on a prompt, nothing that would start another turn on `stop`.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(_event: &str, moment: Moment, reply: &Reply) -> Answer {
    let decided = |word: &str| {
        let out = Out::default().with("permission", word).maybe("user_message", reply.notice.as_deref());
        out.with("agent_message", reply.both()).answer()
    };
    let quiet = || {
        let stderr = reply.notice.as_ref().map(|notice| format!("{notice}\n")).unwrap_or_default();
        Answer { stderr, ..Out::default().answer() }
    };
    match (moment, reply.say) {
        (_, Say::Allow) => quiet(),
        (Moment::BeforeTool, Say::Warn) => decided("allow"),
        (Moment::BeforeTool, Say::Ask) => decided("ask"),
        (Moment::BeforeTool, Say::Block | Say::Halt) => decided("deny"),
        (Moment::Prompt, Say::Block | Say::Halt) => {
            Out::default().with("continue", false).with("user_message", reply.why_stopped()).answer()
        }
        (Moment::Prompt, _) => {
            Out::default().with("continue", true).with("user_message", reply.why_stopped()).answer()
        }
        (Moment::AfterTool | Moment::SessionStart, _) => {
            Out::default().with("additional_context", reply.both()).answer()
        }
        _ => quiet(),
    }
}
