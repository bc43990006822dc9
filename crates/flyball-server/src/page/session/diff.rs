//! A word-level diff of two texts, small and bounded.

use maud::{Markup, html};

/// Maximum number of words compared per side; the rest is left out.
const MAX_WORDS: usize = 600;

/// A piece of the diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffPiece<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Both texts merged, with removed and added words marked.
pub(super) fn marked_diff(before: &str, after: &str) -> Markup {
    html! {
        @for piece in diff_pieces(before, after) {
            @match piece {
                DiffPiece::Same(text) => { (text) }
                DiffPiece::Removed(text) => del { (text) },
                DiffPiece::Added(text) => ins { (text) },
            }
        }
    }
}

/// The pieces of a diff based on the longest common subsequence of words.
pub(super) fn diff_pieces<'a>(before: &'a str, after: &'a str) -> Vec<DiffPiece<'a>> {
    let (old, new) = (words(before), words(after));
    let mut longest = vec![vec![0_u16; new.len() + 1]; old.len() + 1];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            longest[i][j] =
                if a == b { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    loop {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => {
                out.push(DiffPiece::Same(a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), Some(_)) if longest[i + 1][j] >= longest[i][j + 1] => {
                out.push(DiffPiece::Removed(a));
                i += 1;
            }
            (_, Some(b)) => {
                out.push(DiffPiece::Added(b));
                j += 1;
            }
            (Some(a), None) => {
                out.push(DiffPiece::Removed(a));
                i += 1;
            }
            (None, None) => return out,
        }
    }
}

/// Splits a text into words, whitespace and single symbols.
fn words(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut all = Vec::new();
    let mut from = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let now = kind(c);
        if at > 0 && (before != Some(now) || now == 2) {
            all.push(text.get(from..at).unwrap_or_default());
            from = at;
        }
        before = Some(now);
        if all.len() >= MAX_WORDS {
            return all;
        }
    }
    if from < text.len() {
        all.push(text.get(from..).unwrap_or_default());
    }
    all
}

#[cfg(test)]
mod tests {
    //! Removed and added words are marked, and nothing is lost.

    use super::{DiffPiece, diff_pieces};

    #[test]
    fn differing_words_are_marked() {
        let found = diff_pieces("port 8080 in use", "port 8081 in use");
        assert!(
            found.contains(&DiffPiece::Removed("8080")) && found.contains(&DiffPiece::Added("8081")),
            "{found:?}"
        );
        assert_eq!(found.iter().filter(|piece| matches!(piece, DiffPiece::Same(_))).count(), 6);
    }

    #[test]
    fn diff_pieces_reconstruct_both_sides() {
        let (old, new) = ("{\"a\": [1, 2]}", "{\"a\": [1, 3], \"b\": ü}");
        let found = diff_pieces(old, new);
        let side = |skip: fn(&DiffPiece<'_>) -> bool| {
            let kept = found.iter().filter(|piece| !skip(piece));
            kept.map(|piece| match piece {
                DiffPiece::Same(text) | DiffPiece::Removed(text) | DiffPiece::Added(text) => *text,
            })
            .collect::<String>()
        };
        assert_eq!(side(|piece| matches!(piece, DiffPiece::Added(_))), old);
        assert_eq!(side(|piece| matches!(piece, DiffPiece::Removed(_))), new);
        assert_eq!(diff_pieces("", ""), []);
    }
}
