//! Copilot CLI: flat answers before a call, context after it; a halt interrupts where a permission is asked for, and
//! is a refusal of every call elsewhere. What nobody reads on stdout goes to stderr.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(_event: &str, moment: Moment, reply: &Reply) -> Answer {
    let aside = || match (&reply.notice, reply.feedback.as_str()) {
        (Some(notice), _) => Answer::aside(notice),
        (None, "") => Answer::silent(),
        (None, feedback) => Answer::aside(feedback),
    };
    let decided = |word: &str| {
        let answer = Out::default()
            .with("permissionDecision", word)
            .with("permissionDecisionReason", reply.both())
            .answer();
        let stderr = reply.notice.as_ref().map(|notice| format!("{notice}\n")).unwrap_or_default();
        Answer { stderr, ..answer }
    };
    match (moment, reply.say) {
        (_, Say::Allow) => aside(),
        (Moment::BeforeTool, Say::Ask) => decided("ask"),
        (Moment::BeforeTool, Say::Block | Say::Halt) => decided("deny"),
        (Moment::AfterTool, _) => Out::default().with("additionalContext", reply.both()).answer(),
        (Moment::Permission, Say::Halt) => {
            let out = Out::default().with("behavior", "deny").with("message", reply.why_stopped());
            out.with("interrupt", true).answer()
        }
        // The user is asked anyway.
        (Moment::Permission, _) => Answer::silent(),
        _ => aside(),
    }
}
