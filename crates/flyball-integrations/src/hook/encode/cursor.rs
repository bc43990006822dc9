//! Cursor replies: `permission` before a call, `continue` on a prompt, and nothing on `stop` that would start another
//! turn.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(_event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let decided = |word: &str| {
        let out = HookOutputBuilder::default()
            .with("permission", word)
            .with_some("user_message", reply.notice.as_deref());
        out.with("agent_message", reply.feedback_or_notice()).build()
    };
    let quiet = || {
        let stderr = reply.notice.as_ref().map(|notice| format!("{notice}\n")).unwrap_or_default();
        HookOutput { stderr, ..HookOutputBuilder::default().build() }
    };
    match (phase, reply.verdict) {
        (_, HookVerdict::Allow) => quiet(),
        (HookPhase::BeforeTool, HookVerdict::Warn) => decided("allow"),
        (HookPhase::BeforeTool, HookVerdict::Ask) => decided("ask"),
        (HookPhase::BeforeTool, HookVerdict::Block | HookVerdict::Halt) => decided("deny"),
        (HookPhase::Prompt, HookVerdict::Block | HookVerdict::Halt) => HookOutputBuilder::default()
            .with("continue", false)
            .with("user_message", reply.notice_or_feedback())
            .build(),
        (HookPhase::Prompt, _) => HookOutputBuilder::default()
            .with("continue", true)
            .with("user_message", reply.notice_or_feedback())
            .build(),
        (HookPhase::AfterTool | HookPhase::SessionStart, _) => {
            HookOutputBuilder::default().with("additional_context", reply.feedback_or_notice()).build()
        }
        _ => quiet(),
    }
}
