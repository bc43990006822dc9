//! Finding a session's things by its name, quickly: a hash table that nobody can walk through by chance.
//!
//! The order of a hash table differs from run to run, so that nothing may depend on it. This one has no iterator but
//! [`Lookup::in_no_order`], whose users must put things in order themselves.

#[allow(
    clippy::disallowed_types,
    reason = "the one place: it is looked into, and never walked in its own order"
)]
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Things by name.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "see the import")]
pub(crate) struct Lookup<V>(HashMap<String, V, Names>);

/// A quick hash of names, begun from a number that nobody outside can know: names come from outside, and could
/// otherwise be chosen to fall together.
#[derive(Debug, Clone)]
struct Names(u64);

impl Default for Names {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Names(*SEED.get_or_init(|| RandomState::new().hash_one("names")))
    }
}

impl BuildHasher for Names {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

/// The hash of one name. Maps also write a byte that marks the end of a text; there is only one text, and it is not
/// needed.
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

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
