//! Positions of keys: dotted paths, lines and columns.

use std::collections::BTreeMap;

/// A position in a text. Line and column start at 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl SourcePosition {
    pub(super) fn new(line: usize, column: usize) -> SourcePosition {
        SourcePosition {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// The position of each key, by dotted path: `budgets.session.runtime`, `rules.0.when`, `nodes."a.b".turns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPositions(BTreeMap<String, SourcePosition>);

impl KeyPositions {
    /// The position of a key, or of its nearest parent that has one.
    pub fn find(&self, path: &[String]) -> Option<SourcePosition> {
        (0..=path.len()).rev().find_map(|n| self.0.get(&join_path(path.get(..n)?)).copied())
    }

    pub(super) fn insert(&mut self, path: &[String], place: SourcePosition) {
        self.0.insert(join_path(path), place);
    }

    /// The positions below `path`, relative to it.
    pub(super) fn subtree(&self, path: &[String]) -> KeyPositions {
        let own = join_path(path);
        let prefix = format!("{own}.");
        let mut below = BTreeMap::new();
        for (key, place) in &self.0 {
            if *key == own {
                below.insert(String::new(), *place);
            } else if let Some(rest) = key.strip_prefix(&prefix) {
                below.insert(rest.to_owned(), *place);
            }
        }
        KeyPositions(below)
    }
}

/// Joins a path into one string. Ambiguous parts are quoted.
pub(super) fn join_path<S: AsRef<str>>(path: &[S]) -> String {
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

/// The inverse of [`join_path`]: `None` if a quote is not closed or a part is empty.
pub(super) fn split_path(text: &str) -> Option<Vec<String>> {
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
pub(super) struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        LineIndex { text, starts }
    }

    pub(super) fn position(&self, offset: usize) -> SourcePosition {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|n| self.starts.get(n)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |part| part.chars().count());
        SourcePosition::new(line.max(1), column + 1)
    }
}

#[cfg(test)]
#[path = "positions_tests.rs"]
mod tests;
