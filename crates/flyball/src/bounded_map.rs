//! Bounded map: the newest N keys with their values; inserting beyond that evicts the oldest key.
//!
//! Lookup is a binary search over sorted keys, so the cost of an event does not grow with the session.

use crate::fingerprint::Fingerprint;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::collections::VecDeque;

/// At most N keys with their values. Encoded as pairs, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoundedMap<V, const N: usize> {
    sorted: Vec<(Fingerprint, V)>,
    order: VecDeque<Fingerprint>,
}

impl<V, const N: usize> Default for BoundedMap<V, N> {
    fn default() -> Self {
        BoundedMap { sorted: Vec::new(), order: VecDeque::new() }
    }
}

impl<V: Default, const N: usize> BoundedMap<V, N> {
    fn position(&self, key: Fingerprint) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&key, |(known, _)| *known)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: Fingerprint) -> Option<&V> {
        let at = self.position(key).ok()?;
        self.sorted.get(at).map(|(_, value)| value)
    }

    /// Whether the key is known.
    pub(crate) fn contains(&self, key: Fingerprint) -> bool {
        self.position(key).is_ok()
    }

    /// The value of a key, inserted if new. If the map is full, the oldest key is evicted.
    pub(crate) fn entry(&mut self, key: Fingerprint) -> &mut V {
        let at = match self.position(key) {
            Ok(at) => at,
            Err(at) => self.insert_new(key, at),
        };
        &mut self.sorted[at].1
    }

    /// Inserts a key at a position; returns its final position.
    fn insert_new(&mut self, key: Fingerprint, at: usize) -> usize {
        let oldest = if self.order.len() >= N { self.order.pop_front() } else { None };
        self.order.push_back(key);
        let new = (key, V::default());
        let Some(old) = oldest.and_then(|oldest| self.position(oldest).ok()) else {
            self.sorted.insert(at, new);
            return at;
        };
        // The new entry replaces the old one, and only the entries between them shift.
        self.sorted[old] = new;
        if old < at {
            self.sorted[old..at].rotate_left(1);
            at - 1
        } else {
            self.sorted[at..=old].rotate_right(1);
            at
        }
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: Fingerprint) {
        if let Ok(at) = self.position(key) {
            self.sorted.remove(at);
            self.order.retain(|known| *known != key);
        }
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        self.order.clear();
    }

    /// The keys with their values, oldest first.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Fingerprint, &V)> {
        self.order.iter().filter_map(|key| Some((*key, self.get(*key)?)))
    }

    /// The values, oldest first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.pairs().map(|(_, value)| value)
    }

    /// Whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }
}

impl<V: Default + Serialize, const N: usize> Serialize for BoundedMap<V, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pairs = serializer.serialize_seq(Some(self.order.len()))?;
        for key in &self.order {
            if let Some(value) = self.get(*key) {
                pairs.serialize_element(&(key, value))?;
            }
        }
        pairs.end()
    }
}

impl<'de, V: Default + Deserialize<'de>, const N: usize> Deserialize<'de> for BoundedMap<V, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs: Vec<(Fingerprint, V)> = Vec::deserialize(deserializer)?;
        let mut memory = BoundedMap::default();
        for (key, value) in pairs.into_iter().take(N) {
            *memory.entry(key) = value;
        }
        Ok(memory)
    }
}

/// Appends to a list of at most `most` elements; the oldest is dropped.
pub(crate) fn push_bounded<T>(list: &mut Vec<T>, element: T, most: usize) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(element);
}

/// Truncates a text to at most `bytes` bytes, at a character boundary.
pub(crate) fn truncate_bytes(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while end > 0 && !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{BoundedMap, truncate_bytes};
    use crate::fingerprint::Fingerprint;

    #[test]
    fn oldest_key_is_evicted() {
        let mut memory: BoundedMap<u32, 3> = BoundedMap::default();
        let key = |n: u8| Fingerprint::of(&[n]);
        for n in 0..5 {
            *memory.entry(key(n)) += u32::from(n);
        }
        assert_eq!(memory.len(), 3);
        assert!(!memory.contains(key(1)));
        assert_eq!(memory.get(key(4)), Some(&4));
        memory.remove(key(3));
        *memory.entry(key(2)) += 1;
        assert_eq!(memory.get(key(2)), Some(&3));
        assert_eq!(memory.len(), 2);
    }

    #[test]
    fn newest_keys_and_values_are_kept_in_any_order() {
        let key = |n: u64| Fingerprint::of(&n.to_le_bytes());
        let mut memory: BoundedMap<u64, 16> = BoundedMap::default();
        let mut newest: Vec<(u64, u64)> = Vec::new();
        for step in 0..2_000_u64 {
            let n = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
            *memory.entry(key(n)) += step;
            match newest.iter_mut().find(|(known, _)| *known == n) {
                Some((_, value)) => *value += step,
                None => newest.push((n, step)),
            }
            newest.drain(..newest.len().saturating_sub(16));
            for n in 0..64 {
                let known = newest.iter().find(|(known, _)| *known == n).map(|(_, value)| value);
                assert_eq!(memory.get(key(n)), known, "key {n} after step {step}");
            }
        }
        assert!(memory.sorted.is_sorted_by_key(|(key, _)| *key));
    }

    #[test]
    fn truncation_respects_character_boundaries() {
        assert_eq!(truncate_bytes("задача", 5), "за");
        assert_eq!(truncate_bytes("abc", 5), "abc");
    }
}
