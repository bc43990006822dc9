//! opencode: what our own plugin reads; it throws, aborts or appends.

use super::Out;
use crate::hook::call::Moment;
use crate::hook::reply::{Answer, Reply, Say};

/// Writes a reply.
pub(super) fn write(_event: &str, moment: Moment, reply: &Reply) -> Answer {
    let say = match (moment, reply.say) {
        // A call cannot be made to wait for a person here.
        (Moment::BeforeTool, Say::Ask) => Say::Block,
        // What is over cannot be refused.
        (Moment::Permission | Moment::BeforeTool, say) | (_, say @ (Say::Allow | Say::Halt)) => say,
        _ => Say::Warn,
    };
    let message = (!reply.feedback.is_empty()).then_some(reply.feedback.as_str());
    let out = Out::default().with("verdict", say.as_str());
    out.maybe("message", message).maybe("notice", reply.notice.as_deref()).answer()
}
