//! Things by name, where the next one asked for is most often the one that was asked for last: the sessions of a file.

use std::collections::BTreeMap;

/// Things by name.
#[derive(Debug)]
pub(crate) struct Named<T> {
    places: BTreeMap<String, usize>,
    list: Vec<(String, T)>,
    /// The place that was asked for last.
    last: usize,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named { places: BTreeMap::new(), list: Vec::new(), last: 0 }
    }
}

impl<T> Named<T> {
    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The thing of this name.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.place(name)?;
        self.list.get_mut(place).map(|(_, thing)| thing)
    }

    /// The thing of this name, made if need be.
    pub(crate) fn or_make(&mut self, name: &str, make: impl FnOnce() -> T) -> &mut T {
        let place = self.place(name).unwrap_or_else(|| {
            self.last = self.list.len();
            self.places.insert(name.to_owned(), self.last);
            self.list.push((name.to_owned(), make()));
            self.last
        });
        &mut self.list[place].1
    }

    fn place(&mut self, name: &str) -> Option<usize> {
        if self.list.get(self.last).is_none_or(|(last, _)| last != name) {
            self.last = *self.places.get(name)?;
        }
        Some(self.last)
    }

    /// All of them, in the order of their names.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        let mut list = self.list;
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        list.into_iter().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::Named;

    #[test]
    fn each_name_has_one_thing_in_whatever_order_they_are_asked_for() {
        let mut all: Named<Vec<u32>> = Named::default();
        assert!(all.is_empty() && all.get_mut("b").is_none());
        for (name, number) in [("b", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("a", 6)] {
            all.or_make(name, Vec::new).push(number);
        }
        assert!(all.get_mut("d").is_none() && !all.is_empty());
        assert_eq!(all.get_mut("c"), Some(&mut vec![5]));
        assert_eq!(all.into_values().collect::<Vec<_>>(), [vec![3, 6], vec![1, 2, 4], vec![5]]);
    }
}
