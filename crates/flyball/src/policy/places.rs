//! Where a key was written: dotted paths, lines and columns.

use std::collections::BTreeMap;

/// A place in a text, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Place {
    pub(super) fn new(line: usize, column: usize) -> Place {
        Place {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// The place of each key, by dotted path: `budgets.session.runtime`, `rules.0.when`,
/// `nodes."a.b".turns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Place>);

impl Places {
    /// The place of a key, or of the nearest thing around it that has one.
    pub fn find(&self, path: &[String]) -> Option<Place> {
        (0..=path.len()).rev().find_map(|n| self.0.get(&join(path.get(..n)?)).copied())
    }

    pub(super) fn insert(&mut self, path: &[String], place: Place) {
        self.0.insert(join(path), place);
    }

    /// The places below `path`, with that path taken away.
    pub(super) fn below(&self, path: &[String]) -> Places {
        let own = join(path);
        let prefix = format!("{own}.");
        let mut below = BTreeMap::new();
        for (key, place) in &self.0 {
            if *key == own {
                below.insert(String::new(), *place);
            } else if let Some(rest) = key.strip_prefix(&prefix) {
                below.insert(rest.to_owned(), *place);
            }
        }
        Places(below)
    }
}

/// A path as one text. A part that would be ambiguous is put in quotes.
pub(super) fn join<S: AsRef<str>>(path: &[S]) -> String {
    let mut text = String::new();
    for part in path {
        let part = part.as_ref();
        if !text.is_empty() {
            text.push('.');
        }
        if part.is_empty() || part.contains(['.', '"', '=']) {
            text.push('"');
            text.push_str(part);
            text.push('"');
        } else {
            text.push_str(part);
        }
    }
    text
}

/// The opposite of [`join`]: `None` if a quote is left open or a part is empty.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted.split_once('"')?
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            rest.split_at_checked(end)?
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part.to_owned());
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix('.')?;
    }
}

/// Line and column of byte offsets in a text.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    pub(super) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|n| self.starts.get(n)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |part| part.chars().count());
        Place::new(line.max(1), column + 1)
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
