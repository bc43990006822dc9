//! Bringing a session back: the snapshot, and the events after it folded again.

use super::cache::{Cache, Pinned};
use super::stored_policies::StoredPolicy;
use super::{PolicyChanges, Recorder, Refusal};
use crate::error::StoreError;
use crate::record::Loaded;
use flyball::{Event, Session, Sessions, State};
use std::sync::Arc;

impl Recorder {
    /// Makes sure that a session is in memory, if there is one.
    pub(super) fn ensure(&self, cache: &mut Cache, name: &str) -> Result<(), Refusal> {
        if cache.head(name).is_some() {
            return Ok(());
        }
        let Some(loaded) = self.journal.load(name)? else {
            cache.follow(name);
            return Ok(());
        };
        let head = loaded.head.clone();
        // Without a snapshot the events that were loaded are all there are.
        let ids: Option<Vec<String>> =
            (head.snapshot == 0).then(|| loaded.tail.iter().filter_map(|record| record.id.clone()).collect());
        let (session, pinned) = self.revive(loaded)?;
        cache.put(head, session, pinned);
        if let Some(ids) = ids {
            cache.follow(name);
            ids.iter().for_each(|id| cache.saw(name, id));
        }
        Ok(())
    }

    /// Folds the events after the snapshot under the policy that they were decided under, compares the decisions, and
    /// continues under the policy that the session is pinned to.
    fn revive(&self, loaded: Loaded) -> Result<(Session, Option<Pinned>), Refusal> {
        let Loaded { head, state, mut tail } = loaded;
        let old = if head.policy == self.digest || head.policy.is_empty() {
            None
        } else {
            Some(self.stored_policy(&head.policy)?)
        };
        // What an older Flyball decided is not decided anew, but its events are folded as they would be today.
        let same_rules = old.as_ref().is_none_or(|old| old.digest == head.policy);
        let source = old.as_ref().map_or(&self.source, |old| &old.source);
        let broken = |error: flyball::Error| {
            StoreError::corrupt(format!("session '{}' cannot be taken up: {}", head.session, error.what))
        };
        let mut session = if state.is_empty() {
            Session::new(source.base().clone())
        } else {
            match State::decode(&state) {
                Ok(state) => Session::resume(source, state).map_err(broken)?,
                Err(error) if same_rules => return Err(broken(error).into()),
                Err(error) => {
                    // Written in another layout: worked out again from the first event, if it is still there.
                    tail = self.journal.records(&head.session, 1, head.seq)?;
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
                if same_rules && decision.to_json() != record.decision {
                    let what = format!(
                        "event {} of session '{}' is decided otherwise when it is worked out again",
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
            PolicyChanges::Accept => Ok((Session::resume(&self.source, state).map_err(broken)?, None)),
            PolicyChanges::TightenOnly => {
                let next = old.succeeded_by(&self.source, &self.digest)?;
                let session = Session::pinned_to(next.source.clone(), state).map_err(broken)?;
                Ok((session, Some(next.pin(&head))))
            }
        }
    }

    /// The policy that is stored under a digest, resolved once for as long as it is in use.
    fn stored_policy(&self, digest: &str) -> Result<Arc<StoredPolicy>, Refusal> {
        if let Some(known) = super::lock(&self.stored_policies).get(digest) {
            return Ok(known);
        }
        let text = self.journal.policy(digest)?.ok_or_else(|| {
            StoreError::corrupt(format!("the policy {digest} that a session was decided under is not there"))
        })?;
        let read = Arc::new(StoredPolicy::read(digest, &text)?);
        super::lock(&self.stored_policies).insert(&read);
        Ok(read)
    }
}
