//! Turns a decision's effects into outbox messages: one for each sink that the policy configures.

use super::Recorder;
use crate::dispatcher::sink_id;
use crate::event_store::{OutboxMessage, OutboxState};
use flyball::Decision;
use serde_json::{Value, json};

impl Recorder {
    /// The outbox messages of a decision.
    pub(super) fn outbox_messages(&self, decision: &Decision) -> Vec<OutboxMessage> {
        let deliveries = &self.policy_source.base().journal.deliver;
        let mut all = Vec::new();
        if deliveries.is_empty() {
            return all;
        }
        for effect in &decision.effects {
            for delivery in deliveries.iter().filter(|delivery| delivery.matches(&effect.effect)) {
                let sink = sink_id(delivery);
                let key = format!("{}/{sink}", effect.key);
                let mut payload = json!(effect);
                if let Some(fields) = payload.as_object_mut() {
                    fields.insert("key".to_owned(), json!(key));
                    fields.insert("session".to_owned(), json!(decision.session));
                    fields.insert("seq".to_owned(), json!(decision.seq));
                    if effect.effect == "plan.approved" {
                        fields.insert("plan".to_owned(), self.pending_plan(&decision.session));
                    }
                }
                all.push(OutboxMessage {
                    key,
                    session: decision.session.clone(),
                    effect: effect.effect.clone(),
                    sink,
                    payload: payload.to_string(),
                    state: OutboxState::Waiting,
                    attempts: 0,
                    due: 0,
                    error: None,
                });
            }
        }
        all
    }

    /// The pending plan, for the sink that runs it. Its row is part of the same commit.
    fn pending_plan(&self, session: &str) -> Value {
        let row = self.store.pending(session).ok().flatten();
        row.and_then(|row| serde_json::from_str(&row.pending_plan).ok()).unwrap_or_default()
    }
}
