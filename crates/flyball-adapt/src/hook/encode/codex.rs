//! Codex: unknown keys, `ask`, a bare `allow`, and `continue` before a call make the hook fail, and then the call runs.
//! So a refusal carries nothing but itself, and a halt before a call is a refusal, again and again.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(event: &str, moment: Moment, reply: &Reply) -> Answer {
    let notice = reply.notice.as_deref();
    let out = || Out::default().maybe("systemMessage", notice);
    let context = || out().own(event, "additionalContext", &reply.feedback).answer();
    match (moment, reply.say) {
        (_, Say::Allow) => out().or_silent(),
        (Moment::BeforeTool, Say::Warn) => context(),
        (Moment::BeforeTool, _) => Out::default().permission("deny", &reply.both()).answer(),
        (Moment::AfterTool | Moment::Stop, Say::Halt) => {
            Out::default().with("continue", false).with("stopReason", reply.why_stopped()).answer()
        }
        (Moment::AfterTool, Say::Block) | (Moment::Prompt, Say::Block | Say::Halt) => {
            out().with("decision", "block").with("reason", reply.both()).answer()
        }
        (Moment::AfterTool | Moment::Prompt | Moment::SessionStart, _) => context(),
        _ => out().or_silent(),
    }
}
