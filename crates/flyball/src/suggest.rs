//! Spelling suggestions: the known word closest to the input.

/// Longer words are not compared: they are not misspellings.
const MAX_WORD: usize = 64;

/// The closest known word, if it is close enough.
#[must_use]
pub fn closest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = normalize_word(written);
    if plain.len() > MAX_WORD {
        return None;
    }
    let allowed = (plain.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|word| (distance(&plain, &self::normalize_word(word)), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, word)| word)
}

/// Ignores case and word separators, the most common differences.
fn normalize_word(word: &str) -> String {
    word.chars().filter(|c| *c != '_' && *c != '-' && *c != ' ').flat_map(char::to_lowercase).collect()
}

/// Edit distance with insertions, deletions, replacements and swaps of adjacent characters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], n: usize| row.get(n).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&row, j) + usize::from(x != y)).min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
#[path = "suggest_tests.rs"]
mod tests;
