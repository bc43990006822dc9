//! Codex replies. Unknown keys, `ask`, a bare `allow`, and `continue` before a call make the hook fail, and then the
//! call runs. So a denial contains only the denial, and a halt before a call is a denial of each call.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let notice = reply.notice.as_deref();
    let out = || HookOutputBuilder::default().with_some("systemMessage", notice);
    let context = || out().hook_specific(event, "additionalContext", &reply.feedback).build();
    match (phase, reply.verdict) {
        (_, HookVerdict::Allow) => out().build_or_silent(),
        (HookPhase::BeforeTool, HookVerdict::Warn) => context(),
        (HookPhase::BeforeTool, _) => {
            HookOutputBuilder::default().permission("deny", &reply.feedback_or_notice()).build()
        }
        (HookPhase::AfterTool | HookPhase::Stop, HookVerdict::Halt) => HookOutputBuilder::default()
            .with("continue", false)
            .with("stopReason", reply.notice_or_feedback())
            .build(),
        (HookPhase::AfterTool, HookVerdict::Block)
        | (HookPhase::Prompt, HookVerdict::Block | HookVerdict::Halt) => {
            out().with("decision", "block").with("reason", reply.feedback_or_notice()).build()
        }
        (HookPhase::AfterTool | HookPhase::Prompt | HookPhase::SessionStart, _) => context(),
        _ => out().build_or_silent(),
    }
}
