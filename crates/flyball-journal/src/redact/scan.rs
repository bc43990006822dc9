//! Looks for the beginnings of secrets, as fast as the memory of the processor allows.
//!
//! Four tables, one for each of the first four bytes of an anchor, say in which groups of anchors a byte may stand.
//! Where the four agree, the anchors of the group are compared. No state is carried from byte to byte, so the processor
//! works on many places at once; and making the tables costs next to nothing, which matters for a process that looks
//! at one event and ends.

use super::known::Anchor;

/// Groups of anchors: one bit each.
const GROUPS: usize = 64;
/// Bytes of an anchor that the tables know.
const KNOWN: usize = 4;
/// Places that are looked at together.
const STEP: usize = 4;
/// For each byte, the groups in which it may stand.
type Table = [u64; 256];

/// Looks for anchors, whatever their case.
pub(super) struct Scanner {
    tables: [Table; KNOWN],
    groups: Vec<Vec<(String, Anchor)>>,
}

/// An anchor that was found.
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) anchor: Anchor,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl Scanner {
    /// Makes the tables.
    pub(super) fn new(anchors: Vec<(String, Anchor)>) -> Scanner {
        let mut scanner = Scanner { tables: [[0; 256]; KNOWN], groups: Vec::new() };
        for (word, anchor) in anchors {
            // All that begin alike are in one group, so that the longest can be found first.
            let alike = |other: &str| match (other.as_bytes(), word.as_bytes()) {
                ([a, b, ..], [c, d, ..]) => a.eq_ignore_ascii_case(c) && b.eq_ignore_ascii_case(d),
                _ => false,
            };
            let same = |group: &Vec<(String, Anchor)>| group.iter().any(|(other, _)| alike(other));
            let group = scanner.groups.iter().position(same).unwrap_or_else(|| {
                scanner.groups.push(Vec::new());
                scanner.groups.len() - 1
            });
            let bit = 1_u64 << (group % GROUPS);
            for (n, table) in scanner.tables.iter_mut().enumerate() {
                match word.as_bytes().get(n) {
                    Some(byte) => {
                        table[usize::from(byte.to_ascii_lowercase())] |= bit;
                        table[usize::from(byte.to_ascii_uppercase())] |= bit;
                    }
                    // A short anchor does not care what follows it.
                    None => table.iter_mut().for_each(|groups| *groups |= bit),
                }
            }
            if let Some(group) = scanner.groups.get_mut(group) {
                group.push((word, anchor));
            }
        }
        for group in &mut scanner.groups {
            group.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        }
        scanner
    }

    /// The next anchor at or behind a place.
    pub(super) fn next(&self, bytes: &[u8], from: usize) -> Option<Hit> {
        let mut place = from;
        while place < bytes.len() {
            // Several places at once, as long as none of them is of interest.
            let quiet = bytes.get(place..)?.windows(STEP + KNOWN - 1).step_by(STEP);
            place += STEP * quiet.take_while(|window| self.quiet(window)).count();
            for start in place..bytes.len().min(place + STEP) {
                if let Some(hit) = self.compare(bytes, start) {
                    return Some(hit);
                }
            }
            place += STEP;
        }
        None
    }

    /// Whether no anchor begins in the first places of the window.
    #[inline]
    fn quiet(&self, window: &[u8]) -> bool {
        let [a, b, c, d, e, f, g] = window else { return false };
        let all = self.groups_of([a, b, c, d])
            | self.groups_of([b, c, d, e])
            | self.groups_of([c, d, e, f])
            | self.groups_of([d, e, f, g]);
        all == 0
    }

    /// The groups of which an anchor may begin with these bytes.
    #[inline]
    fn groups_of(&self, bytes: [&u8; KNOWN]) -> u64 {
        let ([first, second, third, fourth], [a, b, c, d]) = (&self.tables, bytes);
        first[usize::from(*a)] & second[usize::from(*b)] & third[usize::from(*c)] & fourth[usize::from(*d)]
    }

    fn compare(&self, bytes: &[u8], start: usize) -> Option<Hit> {
        let byte = |n: usize| bytes.get(start + n).unwrap_or(&0);
        let mut groups = self.groups_of([byte(0), byte(1), byte(2), byte(3)]);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            for (word, anchor) in self.groups.iter().skip(group).step_by(GROUPS).flatten() {
                let end = start + word.len();
                let same = |text: &[u8]| text.eq_ignore_ascii_case(word.as_bytes());
                if bytes.get(start..end).is_some_and(same) {
                    return Some(Hit { start, end, anchor: *anchor });
                }
            }
            groups &= groups - 1;
        }
        None
    }
}
