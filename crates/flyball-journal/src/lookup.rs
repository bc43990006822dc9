//! Finding a session's things by its name, quickly: a hash table that nobody can walk through by chance.
//!
//! The order of a hash table differs from run to run, so that nothing may depend on it. This one has no iterator but
//! [`Lookup::in_no_order`], whose users must put things in order themselves.

#[allow(
    clippy::disallowed_types,
    reason = "the one place: it is looked into, and never walked in its own order"
)]
use std::collections::HashMap;

/// Things by name.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "see the import")]
pub(crate) struct Lookup<V>(HashMap<String, V>);

impl<V> Default for Lookup<V> {
    fn default() -> Self {
        Lookup(Default::default())
    }
}

impl<V> Lookup<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.0.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.0.get_mut(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn insert(&mut self, name: String, value: V) {
        self.0.insert(name, value);
    }

    /// The thing of this name, begun if need be.
    pub(crate) fn entry(&mut self, name: &str) -> &mut V
    where
        V: Default,
    {
        self.0.entry(name.to_owned()).or_default()
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<V> {
        self.0.remove(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Everything, in an order that means nothing.
    pub(crate) fn in_no_order(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}
