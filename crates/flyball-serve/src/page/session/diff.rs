//! What differs between two texts, word by word: small and bounded, for a person to look at.

use maud::{Markup, html};

/// How many words of each side are compared; what comes after is left out.
const WORDS: usize = 600;

/// A piece of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// Both texts as one, with what is gone and what is new marked.
pub(super) fn marked(before: &str, after: &str) -> Markup {
    html! {
        @for piece in pieces(before, after) {
            @match piece {
                Piece::Same(text) => { (text) }
                Piece::Gone(text) => del { (text) },
                Piece::New(text) => ins { (text) },
            }
        }
    }
}

/// The longest common run of words, and what is around it.
pub(super) fn pieces<'a>(before: &'a str, after: &'a str) -> Vec<Piece<'a>> {
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
                out.push(Piece::Same(a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), Some(_)) if longest[i + 1][j] >= longest[i][j + 1] => {
                out.push(Piece::Gone(a));
                i += 1;
            }
            (_, Some(b)) => {
                out.push(Piece::New(b));
                j += 1;
            }
            (Some(a), None) => {
                out.push(Piece::Gone(a));
                i += 1;
            }
            (None, None) => return out,
        }
    }
}

/// Words, the signs between them and the spaces, each as a piece of its own.
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
        if all.len() >= WORDS {
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
    //! What is gone and what is new, and that nothing is lost on the way.

    use super::{Piece, pieces};

    #[test]
    fn words_that_differ_are_marked_and_the_others_are_not() {
        let found = pieces("port 8080 in use", "port 8081 in use");
        assert!(found.contains(&Piece::Gone("8080")) && found.contains(&Piece::New("8081")), "{found:?}");
        assert_eq!(found.iter().filter(|piece| matches!(piece, Piece::Same(_))).count(), 6);
    }

    #[test]
    fn each_side_can_be_put_together_again() {
        let (old, new) = ("{\"a\": [1, 2]}", "{\"a\": [1, 3], \"b\": ü}");
        let found = pieces(old, new);
        let side = |skip: fn(&Piece<'_>) -> bool| {
            let kept = found.iter().filter(|piece| !skip(piece));
            kept.map(|piece| match piece {
                Piece::Same(text) | Piece::Gone(text) | Piece::New(text) => *text,
            })
            .collect::<String>()
        };
        assert_eq!(side(|piece| matches!(piece, Piece::New(_))), old);
        assert_eq!(side(|piece| matches!(piece, Piece::Gone(_))), new);
        assert_eq!(pieces("", ""), []);
    }
}
