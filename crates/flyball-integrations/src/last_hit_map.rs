//! A map by name that remembers its last hit, for the sessions of a file, where consecutive lookups are usually for the
//! same name.

use std::collections::BTreeMap;

/// A map by name that remembers its last hit.
#[derive(Debug)]
pub(crate) struct LastHitMap<T> {
    index: BTreeMap<String, usize>,
    entries: Vec<(String, T)>,
    /// The index of the last hit.
    last_hit: usize,
}

impl<T> Default for LastHitMap<T> {
    fn default() -> Self {
        LastHitMap { index: BTreeMap::new(), entries: Vec::new(), last_hit: 0 }
    }
}

impl<T> LastHitMap<T> {
    /// Whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of this name.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.position(name)?;
        self.entries.get_mut(place).map(|(_, thing)| thing)
    }

    /// The value of this name, inserted if missing.
    pub(crate) fn get_or_insert_with(&mut self, name: &str, make: impl FnOnce() -> T) -> &mut T {
        let place = self.position(name).unwrap_or_else(|| {
            self.last_hit = self.entries.len();
            self.index.insert(name.to_owned(), self.last_hit);
            self.entries.push((name.to_owned(), make()));
            self.last_hit
        });
        &mut self.entries[place].1
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        if self.entries.get(self.last_hit).is_none_or(|(last, _)| last != name) {
            self.last_hit = *self.index.get(name)?;
        }
        Some(self.last_hit)
    }

    /// All values, sorted by name.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        let mut list = self.entries;
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        list.into_iter().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::LastHitMap;

    #[test]
    fn each_name_maps_to_one_value() {
        let mut all: LastHitMap<Vec<u32>> = LastHitMap::default();
        assert!(all.is_empty() && all.get_mut("b").is_none());
        for (name, number) in [("b", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("a", 6)] {
            all.get_or_insert_with(name, Vec::new).push(number);
        }
        assert!(all.get_mut("d").is_none() && !all.is_empty());
        assert_eq!(all.get_mut("c"), Some(&mut vec![5]));
        assert_eq!(all.into_values().collect::<Vec<_>>(), [vec![3, 6], vec![1, 2, 4], vec![5]]);
    }
}
