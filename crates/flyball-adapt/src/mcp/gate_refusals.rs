//! What a client is told about a call that does not run.

use super::gate::{Act, Gate};
use super::message::refusal;
use crate::model_proxy::quoted;
use flyball::{Decision, Verdict};
use serde_json::json;

impl Gate {
    /// The answer to a call that the guards refuse.
    pub(super) fn refused(&self, id: &str, decision: &Decision) -> Act {
        let why = decision.trips.first().map(|trip| trip.message.clone()).unwrap_or_default();
        let text = decision.feedback.clone().unwrap_or(why);
        let stop = decision.trips.iter().any(|trip| trip.guard == "human");
        let text = match decision.decision {
            Verdict::Halt => format!(
                "[flyball] {text} The session is halted; a person can let it go on with: {}",
                self.release_command(stop)
            ),
            _ => format!("[flyball] {text}"),
        };
        Act::ToClient(refusal(id, &text))
    }

    /// The answer to a call of a session that waits for a release. The governor has judged the call by itself; that it
    /// does not run all the same is recorded as a refusal, so that its end is not waited for.
    pub(super) fn held(&self, id: &str, call: &str) -> Act {
        let event =
            json!({"type": "tool.denied", "id": format!("mcp-{call}-held"), "call": call, "by": "guard"});
        if let Err(trouble) = self.submit(event) {
            self.complain(&trouble);
        }
        let text = format!(
            "[flyball] The session waits until a person releases it. Stop here. A person can release it with: {}",
            self.release_command(false)
        );
        Act::ToClient(refusal(id, &text))
    }

    /// The command that lets the session continue.
    fn release_command(&self, lifts_stop: bool) -> String {
        let stop = if lifts_stop { " --guard human" } else { "" };
        let store = &self.shared.setting.store_flag;
        format!("flyball release {}{stop} --why 'REASON'{store}", quoted(&self.session))
    }
}
