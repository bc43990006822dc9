//! opencode replies, read by our plugin, which throws, aborts or appends.

use super::HookOutputBuilder;
use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(_event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let verdict = match (phase, reply.verdict) {
        // The plugin cannot wait for a person before a call.
        (HookPhase::BeforeTool, HookVerdict::Ask) => HookVerdict::Block,
        // A finished action cannot be denied.
        (HookPhase::Permission | HookPhase::BeforeTool, verdict)
        | (_, verdict @ (HookVerdict::Allow | HookVerdict::Halt)) => verdict,
        _ => HookVerdict::Warn,
    };
    let message = (!reply.feedback.is_empty()).then_some(reply.feedback.as_str());
    let out = HookOutputBuilder::default().with("verdict", verdict.as_str());
    out.with_some("message", message).with_some("notice", reply.notice.as_deref()).build()
}
