//! Responses to calls that are not run.

use super::guard::{McpForward, McpGuard};
use super::message::error_result;
use crate::model_proxy::shell_quote;
use flyball::{Decision, Verdict};
use serde_json::json;

impl McpGuard {
    /// The response to a call that a guard denied.
    pub(super) fn refused(&self, id: &str, decision: &Decision) -> McpForward {
        let why = decision.trips.first().map(|trip| trip.message.clone()).unwrap_or_default();
        let text = decision.feedback.clone().unwrap_or(why);
        let stop = decision.trips.iter().any(|trip| trip.guard == "human");
        let text = match decision.decision {
            Verdict::Halt => format!(
                "[flyball] {text} The session is halted. A person can release it with: {}",
                self.release_command(stop)
            ),
            _ => format!("[flyball] {text}"),
        };
        McpForward::ToClient(error_result(id, &text))
    }

    /// The response to a call in a session that awaits a release. The governor allowed the call itself, so a denial is
    /// recorded; otherwise the session would wait for a result.
    pub(super) fn held(&self, id: &str, call: &str) -> McpForward {
        let event =
            json!({"type": "tool.denied", "id": format!("mcp-{call}-held"), "call": call, "by": "guard"});
        if let Err(error) = self.submit(event) {
            self.report_error(&error);
        }
        let text = format!(
            "[flyball] The session is on hold until a person releases it. Stop here. A person can release it with: {}",
            self.release_command(false)
        );
        McpForward::ToClient(error_result(id, &text))
    }

    /// The command that releases the session.
    fn release_command(&self, lifts_stop: bool) -> String {
        let stop = if lifts_stop { " --guard human" } else { "" };
        let store = &self.shared.config.store_flag;
        format!("flyball release {}{stop} --why 'REASON'{store}", shell_quote(&self.session))
    }
}
