//! The ids that a session has had, in little room: what is not here is surely new, and the store need not be asked.

use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many ids are kept one by one.
const FEW: usize = 256;
/// The size of the filter that takes over then, in bits; a power of two.
const BITS: u64 = 1 << 16;
/// How many bits an id sets.
const MARKS: u32 = 3;

/// Ids, as hashes.
#[derive(Debug)]
pub(super) enum Seen {
    /// All of them.
    Few(BTreeSet<u64>),
    /// A filter: an id whose bits are not all set was never here. It fills up with the years, and then says nothing.
    Many(Vec<u64>),
}

impl Default for Seen {
    fn default() -> Self {
        Seen::Few(BTreeSet::new())
    }
}

impl Seen {
    /// Whether an id was surely never here.
    pub(super) fn lacks(&self, id: &str) -> bool {
        let hash = xxh3_64(id.as_bytes());
        match self {
            Seen::Few(all) => !all.contains(&hash),
            Seen::Many(words) => {
                marks(hash).any(|(word, bit)| words.get(word).is_some_and(|word| word & bit == 0))
            }
        }
    }

    /// An id is here.
    pub(super) fn add(&mut self, id: &str) {
        let hash = xxh3_64(id.as_bytes());
        match self {
            Seen::Few(all) => {
                all.insert(hash);
                if all.len() > FEW {
                    let mut words = vec![0; usize::try_from(BITS / 64).unwrap_or(0)];
                    all.iter().for_each(|hash| mark(&mut words, *hash));
                    *self = Seen::Many(words);
                }
            }
            Seen::Many(words) => mark(words, hash),
        }
    }
}

fn mark(words: &mut [u64], hash: u64) {
    for (word, bit) in marks(hash) {
        if let Some(word) = words.get_mut(word) {
            *word |= bit;
        }
    }
}

/// The bits of an id: sixteen bits of its hash for each.
fn marks(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..MARKS).map(move |mark| {
        let place = (hash >> (16 * mark)) % BITS;
        (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_never_said_to_be_new_and_most_of_the_rest_is() {
        let mut seen = Seen::default();
        (0..10_000).for_each(|number| seen.add(&format!("e{number}")));
        assert!((0..10_000).all(|number| !seen.lacks(&format!("e{number}"))));
        let surely_new = (10_000..20_000).filter(|number| seen.lacks(&format!("e{number}"))).count();
        assert!(surely_new > 8_000, "{surely_new}");
    }
}
