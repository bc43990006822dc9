//! Copilot CLI replies: a flat decision before a call, context after it. A halt interrupts on a permission request and
//! denies every call elsewhere. Text that Copilot does not read from stdout goes to stderr.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(_event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let aside = || match (&reply.notice, reply.feedback.as_str()) {
        (Some(notice), _) => HookOutput::from_stderr(notice),
        (None, "") => HookOutput::silent(),
        (None, feedback) => HookOutput::from_stderr(feedback),
    };
    let decided = |word: &str| {
        let answer = HookOutputBuilder::default()
            .with("permissionDecision", word)
            .with("permissionDecisionReason", reply.feedback_or_notice())
            .build();
        let stderr = reply.notice.as_ref().map(|notice| format!("{notice}\n")).unwrap_or_default();
        HookOutput { stderr, ..answer }
    };
    match (phase, reply.verdict) {
        (_, HookVerdict::Allow) => aside(),
        (HookPhase::BeforeTool, HookVerdict::Ask) => decided("ask"),
        (HookPhase::BeforeTool, HookVerdict::Block | HookVerdict::Halt) => decided("deny"),
        (HookPhase::AfterTool, _) => {
            HookOutputBuilder::default().with("additionalContext", reply.feedback_or_notice()).build()
        }
        (HookPhase::Permission, HookVerdict::Halt) => {
            let out = HookOutputBuilder::default()
                .with("behavior", "deny")
                .with("message", reply.notice_or_feedback());
            out.with("interrupt", true).build()
        }
        // Copilot asks the user anyway.
        (HookPhase::Permission, _) => HookOutput::silent(),
        _ => aside(),
    }
}
