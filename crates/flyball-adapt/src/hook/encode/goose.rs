//! goose: silence allows, exit code 2 with words on stderr refuses a call, and nothing else is listened to. `{}` would
//! be no decision at all.

use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(_event: &str, moment: Moment, reply: &Reply) -> Answer {
    let words = match &reply.notice {
        Some(notice) if reply.feedback.is_empty() => notice.as_str(),
        _ => reply.feedback.as_str(),
    };
    match (moment, reply.say) {
        (Moment::BeforeTool, Say::Ask | Say::Block | Say::Halt) => Answer { exit: 2, ..Answer::aside(words) },
        _ if words.is_empty() => Answer::silent(),
        // goose writes stderr into its log.
        _ => Answer::aside(words),
    }
}
