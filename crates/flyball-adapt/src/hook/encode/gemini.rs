//! Gemini CLI: reads JSON whatever the exit code, so every answer is an object. Before a call there is no place for
//! words to the model; they come with its result.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};
use serde_json::json;

/// Writes a reply.
pub(super) fn write(event: &str, moment: Moment, reply: &Reply) -> Answer {
    let notice = reply.notice.as_deref();
    let out = || Out::default().maybe("systemMessage", notice);
    let deny = || out().with("decision", "deny").with("reason", reply.both()).answer();
    let context = || {
        let own = json!({"hookEventName": event, "additionalContext": reply.feedback});
        out().with("hookSpecificOutput", own).answer()
    };
    match (moment, reply.say) {
        (Moment::BeforeTool | Moment::AfterTool | Moment::Stop, Say::Halt) => {
            Out::default().with("continue", false).with("stopReason", reply.why_stopped()).answer()
        }
        (Moment::BeforeTool, Say::Ask) => {
            let shown = notice.unwrap_or(&reply.feedback);
            Out::default().with("decision", "ask").with("systemMessage", shown).answer()
        }
        (Moment::BeforeTool, Say::Warn) => {
            Out::default().with("systemMessage", format!("Flyball: {}", reply.feedback)).answer()
        }
        (Moment::BeforeTool | Moment::Prompt, Say::Block | Say::Halt) => deny(),
        (Moment::AfterTool | Moment::Prompt | Moment::SessionStart, say) if say != Say::Allow => context(),
        _ => out().answer(),
    }
}
