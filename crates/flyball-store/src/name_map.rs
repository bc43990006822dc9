//! Name map: a hash map by session name without a default iterator.
//!
//! The order of a hash table differs from run to run, so nothing may depend on it. The only iterator is
//! [`NameMap::iter_unordered`], whose callers must sort.

#[allow(clippy::disallowed_types, reason = "the only use: lookups, never iteration in hash order")]
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Values by name.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "see the import")]
pub(crate) struct NameMap<V>(HashMap<String, V, NameHasherBuilder>);

/// A fast hash of names with a random seed: names come from outside, and could otherwise be chosen to collide.
#[derive(Debug, Clone)]
struct NameHasherBuilder(u64);

impl Default for NameHasherBuilder {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        NameHasherBuilder(*SEED.get_or_init(|| RandomState::new().hash_one("names")))
    }
}

impl BuildHasher for NameHasherBuilder {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

/// Hash of one name. Maps also write a terminator byte; with a single string it is not needed.
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

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        NameMap(Default::default())
    }
}

impl<V> NameMap<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.0.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.0.get_mut(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn insert(&mut self, name: String, value: V) {
        self.0.insert(name, value);
    }

    /// The value of this name, created if missing.
    pub(crate) fn get_or_default(&mut self, name: &str) -> &mut V
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

    /// All entries, in arbitrary order.
    pub(crate) fn iter_unordered(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}
