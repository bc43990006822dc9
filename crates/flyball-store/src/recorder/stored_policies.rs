//! Policies that stored sessions are pinned to, resolved once per recorder instead of once per rehydrated session.

use super::session_cache::PinnedPolicy;
use crate::error::StoreError;
use crate::record::SessionRow;
use flyball::PolicySource;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Maximum number of changed keys that an event lists.
const MAX_LISTED_KEYS: usize = 50;
/// Maximum number of cached policies. A store rarely uses more; beyond that, one is resolved again.
const MAX_POLICIES: usize = 64;

/// Resolved policies by the digest that they are stored under.
#[derive(Default)]
pub(super) struct StoredPolicies {
    by_digest: BTreeMap<String, Arc<StoredPolicy>>,
}

impl StoredPolicies {
    pub(super) fn get(&self, digest: &str) -> Option<Arc<StoredPolicy>> {
        self.by_digest.get(digest).cloned()
    }

    pub(super) fn insert(&mut self, policy: &Arc<StoredPolicy>) {
        if self.by_digest.len() >= MAX_POLICIES {
            self.by_digest.pop_first();
        }
        self.by_digest.insert(policy.stored_as.clone(), Arc::clone(policy));
    }
}

/// A policy read back from the store.
pub(super) struct StoredPolicy {
    pub(super) source: PolicySource,
    /// Its digest under the current rules; differs from the stored one if the rules have changed since.
    pub(super) digest: String,
    /// Digest that it is stored under.
    stored_as: String,
    text: String,
    /// Result of comparing it with the recorder's policy.
    successor: OnceLock<PolicySuccessor>,
}

/// The policy that sessions pinned to a [`StoredPolicy`] continue under.
#[derive(Clone)]
pub(super) struct PolicySuccessor {
    pub(super) source: PolicySource,
    digest: String,
    text: String,
    tightened: Vec<String>,
    waiting: Vec<String>,
}

impl StoredPolicy {
    pub(super) fn read(stored_as: &str, text: &str) -> Result<Self, flyball::Error> {
        let source = PolicySource::from_json(text)?;
        let text = source.to_json();
        let digest = super::policy_digest_of(&text);
        let stored_as = stored_as.to_owned();
        Ok(StoredPolicy { source, digest, stored_as, text, successor: OnceLock::new() })
    }

    /// This policy with the stricter values of `newer` (stored under `digest`). Each newer policy is compared once.
    pub(super) fn successor(
        &self,
        newer: &PolicySource,
        digest: &str,
    ) -> Result<&PolicySuccessor, StoreError> {
        if let Some(known) = self.successor.get() {
            return Ok(known);
        }
        let made = self.compare(newer, digest)?;
        Ok(self.successor.get_or_init(|| made))
    }

    fn compare(&self, newer: &PolicySource, digest: &str) -> Result<PolicySuccessor, StoreError> {
        if self.source.was_compared_with(digest) {
            let (source, digest, text) = (self.source.clone(), self.digest.clone(), self.text.clone());
            return Ok(PolicySuccessor { source, digest, text, tightened: Vec::new(), waiting: Vec::new() });
        }
        let change = self.source.tightened_by(newer, [&self.stored_as, digest]).map_err(|errors| {
            StoreError::corrupt(format!(
                "the stored policy {} can no longer be used: {errors}",
                self.stored_as
            ))
        })?;
        let text = change.source.to_json();
        Ok(PolicySuccessor {
            digest: super::policy_digest_of(&text),
            source: change.source,
            text,
            tightened: leaf_paths(&change.tightened),
            waiting: change.waiting.into_iter().take(MAX_LISTED_KEYS).collect(),
        })
    }
}

impl PolicySuccessor {
    /// The writes a session needs before it continues under this policy.
    pub(super) fn pin(&self, head: &SessionRow) -> PinnedPolicy {
        let changed = !self.tightened.is_empty() || !self.waiting.is_empty();
        let event = changed.then(|| {
            json!({
                "type": "policy.changed", "session": head.session,
                "tightened": self.tightened, "waiting": self.waiting,
            })
        });
        let text = (self.digest != head.policy).then(|| self.text.clone());
        PinnedPolicy { digest: self.digest.clone(), text, event }
    }
}

/// The dotted paths of the values in a tree, up to [`MAX_LISTED_KEYS`].
fn leaf_paths(tree: &Value) -> Vec<String> {
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
    found.truncate(MAX_LISTED_KEYS);
    found
}
