//! goose replies: no output allows, exit code 2 with a message on stderr denies a call. goose ignores everything else,
//! and `{}` is not a decision.

use crate::hook::invocation::HookPhase;
use crate::hook::reply::{HookOutput, HookReply, HookVerdict};

/// Encodes a reply.
pub(super) fn write(_event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let words = match &reply.notice {
        Some(notice) if reply.feedback.is_empty() => notice.as_str(),
        _ => reply.feedback.as_str(),
    };
    match (phase, reply.verdict) {
        (HookPhase::BeforeTool, HookVerdict::Ask | HookVerdict::Block | HookVerdict::Halt) => {
            HookOutput { exit: 2, ..HookOutput::from_stderr(words) }
        }
        _ if words.is_empty() => HookOutput::silent(),
        // goose writes stderr to its log.
        _ => HookOutput::from_stderr(words),
    }
}
