//! Compact set of a session's ids: an id that is not in it is certainly new, without a store lookup.

use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many ids are kept exactly.
const MAX_EXACT_IDS: usize = 256;
/// Size of the first Bloom filter in bits. Each further one is twice as large.
const FIRST_FILTER_BITS: u64 = 1 << 16;
/// Bits per id: about one in a hundred new ids is a false positive.
const BITS_PER_ID: u64 = 10;
/// Bits that an id sets.
const HASHES_PER_ID: u64 = 4;
/// Maximum number of filters. A session with more ids than they are sized for queries the store more often.
const MAX_FILTERS: usize = 5;

/// A set of hashed ids.
#[derive(Debug)]
pub(super) enum SeenIds {
    /// All ids.
    Exact(BTreeSet<u64>),
    /// An id in none of the filters is new. New ids go into the last one.
    Bloom(Vec<BloomFilter>),
}

impl Default for SeenIds {
    fn default() -> Self {
        SeenIds::Exact(BTreeSet::new())
    }
}

impl SeenIds {
    /// Whether an id is certainly not in the set.
    pub(super) fn lacks(&self, id: &str) -> bool {
        let hash = xxh3_64(id.as_bytes());
        match self {
            SeenIds::Exact(all) => !all.contains(&hash),
            SeenIds::Bloom(filters) => filters.iter().all(|filter| filter.lacks(hash)),
        }
    }

    /// Adds an id.
    pub(super) fn insert(&mut self, id: &str) {
        let hash = xxh3_64(id.as_bytes());
        match self {
            SeenIds::Exact(all) => {
                all.insert(hash);
                if all.len() > MAX_EXACT_IDS {
                    let mut first = BloomFilter::new(FIRST_FILTER_BITS);
                    all.iter().for_each(|hash| first.insert(*hash));
                    *self = SeenIds::Bloom(vec![first]);
                }
            }
            SeenIds::Bloom(filters) => {
                let full = filters.last().filter(|last| last.is_full()).map(BloomFilter::bits);
                if let Some(bits) = full.filter(|_| filters.len() < MAX_FILTERS) {
                    filters.push(BloomFilter::new(bits * 2));
                }
                if let Some(last) = filters.last_mut() {
                    last.insert(hash);
                }
            }
        }
    }
}

/// A set with false positives but no false negatives.
#[derive(Debug)]
pub(super) struct BloomFilter {
    words: Vec<u64>,
    count: u64,
}

impl BloomFilter {
    fn new(bits: u64) -> Self {
        BloomFilter { words: vec![0; usize::try_from(bits / 64).unwrap_or(0)], count: 0 }
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    fn is_full(&self) -> bool {
        self.count * BITS_PER_ID >= self.bits()
    }

    fn lacks(&self, hash: u64) -> bool {
        self.bit_positions(hash).any(|(word, bit)| self.words.get(word).is_some_and(|word| word & bit == 0))
    }

    fn insert(&mut self, hash: u64) {
        for (word, bit) in self.bit_positions(hash) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= bit;
            }
        }
        self.count += 1;
    }

    /// Bit positions of a hash (double hashing): one half is the start, the other the step.
    fn bit_positions(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (start, stride, bits) = (hash & 0xffff_ffff, (hash >> 32) | 1, self.bits().max(1));
        (0..HASHES_PER_ID).map(move |mark| {
            let place = (start + mark * stride) % bits;
            (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_ids_are_never_new_and_false_positives_are_rare() {
        let mut seen = SeenIds::default();
        for (count, few) in [(200, 0), (10_000, 300), (100_000, 500)] {
            (0..count).for_each(|number| seen.insert(&format!("e{number}")));
            assert!((0..count).all(|number| !seen.lacks(&format!("e{number}"))));
            let known = (count..count + 10_000).filter(|number| !seen.lacks(&format!("e{number}"))).count();
            assert!(known <= few, "{known} of 10,000 new ids are false positives after {count}");
        }
    }

    #[test]
    fn filter_count_is_bounded() {
        let mut seen = SeenIds::default();
        (0..400_000).for_each(|number| seen.insert(&format!("e{number}")));
        let SeenIds::Bloom(filters) = seen else { panic!("expected Bloom filters") };
        assert_eq!(filters.len(), MAX_FILTERS);
    }
}
