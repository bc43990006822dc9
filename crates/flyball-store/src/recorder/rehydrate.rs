//! Rehydration: restores a session from its snapshot and folds the events after it.

use super::session_cache::{PinnedPolicy, SessionCache};
use super::stored_policies::StoredPolicy;
use super::{PolicyChangeMode, RecordError, Recorder};
use crate::error::StoreError;
use crate::record::LoadedSession;
use flyball::{Event, Session, SessionState, Sessions};
use std::sync::Arc;

impl Recorder {
    /// Loads a session into memory, if it exists.
    pub(super) fn ensure_loaded(&self, cache: &mut SessionCache, name: &str) -> Result<(), RecordError> {
        if cache.head(name).is_some() {
            return Ok(());
        }
        let Some(loaded) = self.store.load(name)? else {
            cache.track_ids(name);
            return Ok(());
        };
        let head = loaded.head.clone();
        // Without a snapshot, the loaded events are all events.
        let ids: Option<Vec<String>> = (head.snapshot_seq == 0)
            .then(|| loaded.tail.iter().filter_map(|record| record.id.clone()).collect());
        let (session, pinned) = self.rehydrate(loaded)?;
        cache.insert(head, session, pinned);
        if let Some(ids) = ids {
            cache.track_ids(name);
            ids.iter().for_each(|id| cache.add_id(name, id));
        }
        Ok(())
    }

    /// Folds the events after the snapshot under the policy they were decided under, compares the decisions, and
    /// continues under the policy that the session is pinned to.
    fn rehydrate(&self, loaded: LoadedSession) -> Result<(Session, Option<PinnedPolicy>), RecordError> {
        let LoadedSession { head, state, mut tail } = loaded;
        let old = if head.policy == self.policy_digest || head.policy.is_empty() {
            None
        } else {
            Some(self.stored_policy(&head.policy)?)
        };
        // Decisions of an older Flyball are kept, but its events are folded under the current rules.
        let same_rules = old.as_ref().is_none_or(|old| old.digest == head.policy);
        let source = old.as_ref().map_or(&self.policy_source, |old| &old.source);
        let broken = |error: flyball::Error| {
            StoreError::corrupt(format!("session '{}' cannot be loaded: {}", head.session, error.message))
        };
        let mut session = if state.is_empty() {
            Session::new(source.base().clone())
        } else {
            match SessionState::decode(&state) {
                Ok(state) => Session::resume(source, state).map_err(broken)?,
                Err(error) if same_rules => return Err(broken(error).into()),
                Err(error) => {
                    // Written in another layout: recompute from the first event, if it is still stored.
                    tail = self.store.records(&head.session, 1, head.seq)?;
                    if tail.len() as u64 != head.seq {
                        return Err(broken(error).into());
                    }
                    Session::new(source.base().clone())
                }
            }
        };
        if !tail.is_empty() {
            let mut sessions = Sessions::new(source.clone());
            sessions.insert(head.session.clone(), session);
            for record in &tail {
                let mut event = Event::from_json(&record.text).map_err(broken)?;
                event.at = record.at;
                let decision = sessions.step(&event).map_err(broken)?;
                if same_rules && decision.to_json() != record.decision_json {
                    let what = format!(
                        "event {} of session '{}' gets a different decision when it is replayed",
                        record.seq, head.session
                    );
                    return Err(StoreError::corrupt(what).into());
                }
            }
            session = sessions
                .remove(&head.session)
                .ok_or_else(|| StoreError::corrupt(format!("session '{}' has no state", head.session)))?;
        }
        let Some(old) = old else { return Ok((session, None)) };
        let state = session.state().clone();
        match self.options.policy_changes {
            PolicyChangeMode::Accept => {
                Ok((Session::resume(&self.policy_source, state).map_err(broken)?, None))
            }
            PolicyChangeMode::TightenOnly => {
                let next = old.successor(&self.policy_source, &self.policy_digest)?;
                let session = Session::pinned_to(next.source.clone(), state).map_err(broken)?;
                Ok((session, Some(next.pin(&head))))
            }
        }
    }

    /// The policy stored under a digest, resolved once while it is in use.
    fn stored_policy(&self, digest: &str) -> Result<Arc<StoredPolicy>, RecordError> {
        if let Some(known) = super::lock(&self.stored_policies).get(digest) {
            return Ok(known);
        }
        let text = self
            .store
            .policy(digest)?
            .ok_or_else(|| StoreError::corrupt(format!("the policy {digest} of a session is missing")))?;
        let read = Arc::new(StoredPolicy::read(digest, &text)?);
        super::lock(&self.stored_policies).insert(&read);
        Ok(read)
    }
}
