//! Gemini CLI replies. Gemini reads JSON regardless of the exit code, so every reply is an object. It has no field for
//! model feedback before a call; the feedback is sent with the call's result.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};
use serde_json::json;

/// Encodes a reply.
pub(super) fn write(event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let notice = reply.notice.as_deref();
    let out = || HookOutputBuilder::default().with_some("systemMessage", notice);
    let deny = || out().with("decision", "deny").with("reason", reply.feedback_or_notice()).build();
    let context = || {
        let own = json!({"hookEventName": event, "additionalContext": reply.feedback});
        out().with("hookSpecificOutput", own).build()
    };
    match (phase, reply.verdict) {
        (HookPhase::BeforeTool | HookPhase::AfterTool | HookPhase::Stop, HookVerdict::Halt) => {
            HookOutputBuilder::default()
                .with("continue", false)
                .with("stopReason", reply.notice_or_feedback())
                .build()
        }
        (HookPhase::BeforeTool, HookVerdict::Ask) => {
            let shown = notice.unwrap_or(&reply.feedback);
            HookOutputBuilder::default().with("decision", "ask").with("systemMessage", shown).build()
        }
        (HookPhase::BeforeTool, HookVerdict::Warn) => {
            HookOutputBuilder::default().with("systemMessage", format!("Flyball: {}", reply.feedback)).build()
        }
        (HookPhase::BeforeTool | HookPhase::Prompt, HookVerdict::Block | HookVerdict::Halt) => deny(),
        (HookPhase::AfterTool | HookPhase::Prompt | HookPhase::SessionStart, say)
            if say != HookVerdict::Allow =>
        {
            context()
        }
        _ => out().build(),
    }
}
