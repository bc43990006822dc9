//! Claude Code: `allow` is silence, because a written `allow` would skip the user's own prompt.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(event: &str, moment: Moment, reply: &Reply) -> Answer {
    let notice = reply.notice.as_deref();
    let out = || Out::default().maybe("systemMessage", notice);
    let stop = || Out::default().with("continue", false).with("stopReason", reply.why_stopped());
    let context = || out().own(event, "additionalContext", &reply.feedback).answer();
    match (moment, reply.say) {
        (_, Say::Allow) => out().or_silent(),
        (Moment::BeforeTool, Say::Warn) => context(),
        (Moment::BeforeTool, Say::Ask) => out().permission("ask", &reply.feedback).answer(),
        (Moment::BeforeTool, Say::Block) => out().permission("deny", &reply.feedback).answer(),
        // Should the stop be overruled, the call is still refused.
        (Moment::BeforeTool, Say::Halt) => stop().permission("deny", &reply.feedback).answer(),
        (Moment::AfterTool, Say::Block) if event == "PostToolUse" => {
            out().with("decision", "block").with("reason", reply.feedback.as_str()).answer()
        }
        (Moment::AfterTool | Moment::AfterBatch | Moment::Stop, Say::Halt) => stop().answer(),
        (Moment::AfterTool | Moment::AfterBatch, _) => context(),
        (Moment::Prompt, Say::Block | Say::Halt) => {
            out().with("decision", "block").with("reason", reply.feedback.as_str()).answer()
        }
        (Moment::Prompt | Moment::SessionStart, _) => context(),
        // Whoever stops is let go, whatever was found; nothing else has an answer.
        _ => out().or_silent(),
    }
}
