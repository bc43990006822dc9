//! Reconciliation: an operator's direct edits to rows become events before anything else is decided.
//!
//! Operators may edit the confirmation row and the label directly. Deleting the row revokes the plan; removing the
//! label releases the session. A row that was changed is quarantined and never run.

use super::commit::PendingCommit;
use super::session_cache::SessionCache;
use super::{RecordError, Recorder};
use crate::submission::Submission;
use flyball::Event;
use serde_json::{Value, json};

impl Recorder {
    /// Compares the operator rows of a session with its session row.
    pub(super) fn reconcile(
        &self,
        cache: &mut SessionCache,
        commit: &mut PendingCommit,
        name: &str,
        at: Option<u64>,
    ) -> Result<(), RecordError> {
        let Some(head) = cache.head(name) else { return Ok(()) };
        let (pending, labelled) = (head.pending, head.summary.label.is_some());
        let there = self.store.operator_rows(name)?;
        if pending.is_some() && there.pending != pending {
            let changed = there.pending.is_some();
            let why = if changed {
                "the stored plan is not the one that was asked about"
            } else {
                "the stored plan was taken away"
            };
            let event =
                json!({"type": "confirmation.answered", "session": name, "value": "cancel", "why": why});
            self.record_event(cache, commit, event, at)?;
            if changed {
                self.change_builder(cache, commit, name).quarantine_reason = Some(why.to_owned());
            }
        }
        if labelled && !there.label {
            let why = "the label was taken off";
            // Releases only the block that set the label: never a halt or an operator's stop.
            let hold = cache.sessions.get(name).and_then(|session| session.state().label_hold());
            let guard = hold.map(|hold| hold.guard.to_owned());
            let mut event = json!({"type": "human.released", "session": name, "by": "label", "why": why, "label": "removed"});
            if let (Some(guard), Some(fields)) = (guard, event.as_object_mut()) {
                fields.insert("guard".to_owned(), Value::from(guard));
            }
            self.record_event(cache, commit, event, at)?;
        }
        Ok(())
    }

    pub(super) fn record_event(
        &self,
        cache: &mut SessionCache,
        work: &mut PendingCommit,
        event: Value,
        at: Option<u64>,
    ) -> Result<(), RecordError> {
        let text = event.to_string();
        let mut event = Event::from_json(&text)?;
        event.at = at;
        self.apply_event(cache, work, &Submission { event, text }, None)?;
        Ok(())
    }
}
