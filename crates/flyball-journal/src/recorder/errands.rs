//! From the effects of a decision to errands: one for each place that the policy sends an effect to.

use super::Recorder;
use crate::courier::sink;
use crate::journal::{Errand, ErrandState};
use flyball::Decision;
use serde_json::{Value, json};

impl Recorder {
    /// The errands that follow on a decision.
    pub(super) fn errands(&self, decision: &Decision) -> Vec<Errand> {
        let deliveries = &self.source.base().journal.deliver;
        let mut all = Vec::new();
        if deliveries.is_empty() {
            return all;
        }
        for effect in &decision.effects {
            for delivery in deliveries.iter().filter(|delivery| delivery.wants(&effect.effect)) {
                let sink = sink(delivery);
                let key = format!("{}/{sink}", effect.key);
                let mut payload = json!(effect);
                if let Some(fields) = payload.as_object_mut() {
                    fields.insert("key".to_owned(), json!(key));
                    fields.insert("session".to_owned(), json!(decision.session));
                    fields.insert("seq".to_owned(), json!(decision.seq));
                    if effect.effect == "plan.approved" {
                        fields.insert("plan".to_owned(), self.plan(&decision.session));
                    }
                }
                all.push(Errand {
                    key,
                    session: decision.session.clone(),
                    effect: effect.effect.clone(),
                    sink,
                    payload: payload.to_string(),
                    state: ErrandState::Waiting,
                    attempts: 0,
                    due: 0,
                    error: None,
                });
            }
        }
        all
    }

    /// The plan that waits, for whoever is to run it: its row goes with this same commit.
    fn plan(&self, session: &str) -> Value {
        let row = self.journal.pending(session).ok().flatten();
        row.and_then(|row| serde_json::from_str(&row.pending_plan).ok()).unwrap_or_default()
    }
}
