//! The ids that a session has had, in little room: what is not here is surely new, and the store need not be asked.

use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many ids are kept one by one.
const FEW: usize = 256;
/// The size of the first filter that takes over then, in bits; each further one has twice as many.
const BITS: u64 = 1 << 16;
/// How many bits of a filter there are for one id: one in a hundred new ids is taken for one that was here.
const BITS_FOR_ONE: u64 = 10;
/// How many bits an id sets.
const MARKS: u64 = 4;
/// The most filters. A session with more ids than they are made for asks the store more and more often.
const FILTERS: usize = 5;

/// Ids, as hashes.
#[derive(Debug)]
pub(super) enum Seen {
    /// All of them.
    Few(BTreeSet<u64>),
    /// An id that is in none of the filters was never here. The last one takes the new ones.
    Many(Vec<Filter>),
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
            Seen::Many(filters) => filters.iter().all(|filter| filter.lacks(hash)),
        }
    }

    /// An id is here.
    pub(super) fn add(&mut self, id: &str) {
        let hash = xxh3_64(id.as_bytes());
        match self {
            Seen::Few(all) => {
                all.insert(hash);
                if all.len() > FEW {
                    let mut first = Filter::new(BITS);
                    all.iter().for_each(|hash| first.add(*hash));
                    *self = Seen::Many(vec![first]);
                }
            }
            Seen::Many(filters) => {
                let full = filters.last().filter(|last| last.is_full()).map(Filter::bits);
                if let Some(bits) = full.filter(|_| filters.len() < FILTERS) {
                    filters.push(Filter::new(bits * 2));
                }
                if let Some(last) = filters.last_mut() {
                    last.add(hash);
                }
            }
        }
    }
}

/// A set that may take a hash for one of its own, but never the other way round.
#[derive(Debug)]
pub(super) struct Filter {
    words: Vec<u64>,
    count: u64,
}

impl Filter {
    fn new(bits: u64) -> Self {
        Filter { words: vec![0; usize::try_from(bits / 64).unwrap_or(0)], count: 0 }
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    fn is_full(&self) -> bool {
        self.count * BITS_FOR_ONE >= self.bits()
    }

    fn lacks(&self, hash: u64) -> bool {
        self.marks(hash).any(|(word, bit)| self.words.get(word).is_some_and(|word| word & bit == 0))
    }

    fn add(&mut self, hash: u64) {
        for (word, bit) in self.marks(hash) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= bit;
            }
        }
        self.count += 1;
    }

    /// The bits of a hash: one half of it says where they begin, the other how far they lie apart.
    fn marks(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (start, stride, bits) = (hash & 0xffff_ffff, (hash >> 32) | 1, self.bits().max(1));
        (0..MARKS).map(move |mark| {
            let place = (start + mark * stride) % bits;
            (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_never_said_to_be_new_and_most_of_the_rest_is() {
        let mut seen = Seen::default();
        for (count, few) in [(200, 0), (10_000, 300), (100_000, 500)] {
            (0..count).for_each(|number| seen.add(&format!("e{number}")));
            assert!((0..count).all(|number| !seen.lacks(&format!("e{number}"))));
            let known = (count..count + 10_000).filter(|number| !seen.lacks(&format!("e{number}"))).count();
            assert!(known <= few, "{known} of 10,000 new ids are taken for known ones after {count}");
        }
    }

    #[test]
    fn the_filters_do_not_grow_for_ever() {
        let mut seen = Seen::default();
        (0..400_000).for_each(|number| seen.add(&format!("e{number}")));
        let Seen::Many(filters) = seen else { panic!("these are many") };
        assert_eq!(filters.len(), FILTERS);
    }
}
