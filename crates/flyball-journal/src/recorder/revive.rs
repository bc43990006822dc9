//! Bringing a session back: the snapshot, and the events after it folded again.

use super::cache::{Cache, Pinned};
use super::{PolicyChanges, Recorder, Refusal};
use crate::error::StoreError;
use crate::record::{Head, Loaded};
use flyball::{Event, PolicySource, Session, Sessions, State};
use serde_json::{Value, json};

/// How many keys of a changed policy an event names.
const LISTED: usize = 50;

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
            Some(self.kept(&head.policy)?)
        };
        // What an older Flyball decided is not decided anew, but its events are folded as they would be today.
        let same_rules = old.as_ref().is_none_or(|old| super::digest(&old.to_json()) == head.policy);
        let source = old.as_ref().unwrap_or(&self.source);
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
                let (source, pinned) = self.pin(old, &head)?;
                Ok((Session::pinned_to(source, state).map_err(broken)?, Some(pinned)))
            }
        }
    }

    /// The policy of a session that started under another one than ours: its own, and what ours says more strictly. Ours
    /// is compared with it once; the outcome is an event of the session.
    fn pin(&self, old: PolicySource, head: &Head) -> Result<(PolicySource, Pinned), Refusal> {
        if old.was_compared_with(&self.digest) {
            let text = old.to_json();
            let digest = super::digest(&text);
            let stored = digest == head.policy;
            return Ok((old, Pinned { digest, text: (!stored).then_some(text), event: None }));
        }
        let change = old.tightened_by(&self.source, [&head.policy, &self.digest]).map_err(|errors| {
            StoreError::corrupt(format!(
                "the policy of session '{}' cannot be used any more: {errors}",
                head.session
            ))
        })?;
        let text = change.source.to_json();
        let tightened = leaves(&change.tightened);
        let changes = !tightened.is_empty() || !change.waiting.is_empty();
        let waiting: Vec<&String> = change.waiting.iter().take(LISTED).collect();
        let event = changes.then(|| {
            json!({"type": "policy.changed", "session": head.session, "tightened": tightened, "waiting": waiting})
        });
        Ok((change.source, Pinned { digest: super::digest(&text), text: Some(text), event }))
    }

    fn kept(&self, digest: &str) -> Result<PolicySource, Refusal> {
        let text = self.journal.policy(digest)?.ok_or_else(|| {
            StoreError::corrupt(format!("the policy {digest} that a session was decided under is not there"))
        })?;
        Ok(PolicySource::from_json(&text)?)
    }
}

/// The dotted paths of the values of a tree, as far as they are listed.
fn leaves(tree: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(inner, &path, found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    walk(tree, "", &mut found);
    found.truncate(LISTED);
    found
}
