//! What people did to the rows by hand becomes an event, before anything else is decided.
//!
//! The confirmation row and the label are handles: somebody who deletes the row has taken the plan back, somebody who
//! takes the label off has released the session. A row that was changed is set aside and never run.

use super::batch::Work;
use super::cache::Cache;
use super::{Recorder, Refusal};
use crate::incoming::Incoming;
use flyball::Event;
use serde_json::{Value, json};

impl Recorder {
    /// Compares the handles of a session with what its head says of them.
    pub(super) fn reconcile(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        name: &str,
        at: Option<u64>,
    ) -> Result<(), Refusal> {
        let Some(head) = cache.head(name) else { return Ok(()) };
        let (pending, labelled) = (head.pending, head.glance.label.is_some());
        let there = self.journal.handles(name)?;
        if pending.is_some() && there.pending != pending {
            let changed = there.pending.is_some();
            let why = if changed {
                "the stored plan is not the one that was asked about"
            } else {
                "the stored plan was taken away"
            };
            let event =
                json!({"type": "confirmation.answered", "session": name, "value": "cancel", "why": why});
            self.inject(cache, work, event, at)?;
            if changed {
                self.draft(cache, work, name).aside = Some(why.to_owned());
            }
        }
        if labelled && !there.label {
            let why = "the label was taken off";
            // Only the block that the label stands for: no halt, and never a person's stop.
            let hold = cache.sessions.get(name).and_then(|session| session.state().label_hold());
            let guard = hold.map(|hold| hold.guard.to_owned());
            let mut event = json!({"type": "human.released", "session": name, "by": "label", "why": why, "label": "removed"});
            if let (Some(guard), Some(fields)) = (guard, event.as_object_mut()) {
                fields.insert("guard".to_owned(), Value::from(guard));
            }
            self.inject(cache, work, event, at)?;
        }
        Ok(())
    }

    pub(super) fn inject(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        event: Value,
        at: Option<u64>,
    ) -> Result<(), Refusal> {
        let text = event.to_string();
        let mut event = Event::from_json(&text)?;
        event.at = at;
        self.fold(cache, work, &Incoming { event, text }, None)?;
        Ok(())
    }
}
