//! Claude Code replies. `allow` writes nothing, because an explicit `allow` would skip the user's own permission
//! prompt.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let notice = reply.notice.as_deref();
    let out = || HookOutputBuilder::default().with_some("systemMessage", notice);
    let stop = || {
        HookOutputBuilder::default().with("continue", false).with("stopReason", reply.notice_or_feedback())
    };
    let context = || out().hook_specific(event, "additionalContext", &reply.feedback).build();
    match (phase, reply.verdict) {
        (_, HookVerdict::Allow) => out().build_or_silent(),
        (HookPhase::BeforeTool, HookVerdict::Warn) => context(),
        (HookPhase::BeforeTool, HookVerdict::Ask) => out().permission("ask", &reply.feedback).build(),
        (HookPhase::BeforeTool, HookVerdict::Block) => out().permission("deny", &reply.feedback).build(),
        // If the stop is overridden, the call is still denied.
        (HookPhase::BeforeTool, HookVerdict::Halt) => stop().permission("deny", &reply.feedback).build(),
        (HookPhase::AfterTool, HookVerdict::Block) if event == "PostToolUse" => {
            out().with("decision", "block").with("reason", reply.feedback.as_str()).build()
        }
        (HookPhase::AfterTool | HookPhase::AfterBatch | HookPhase::Stop, HookVerdict::Halt) => stop().build(),
        (HookPhase::AfterTool | HookPhase::AfterBatch, _) => context(),
        (HookPhase::Prompt, HookVerdict::Block | HookVerdict::Halt) => {
            out().with("decision", "block").with("reason", reply.feedback.as_str()).build()
        }
        (HookPhase::Prompt | HookPhase::SessionStart, _) => context(),
        // Ending a turn is never blocked; the other events accept no reply.
        _ => out().build_or_silent(),
    }
}
