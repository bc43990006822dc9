//! Splits a message into folded tokens with their positions, so that values keep their original spelling.

/// A word of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageToken {
    /// Folded text: lower case, without accents and apostrophes.
    pub(super) text: String,
    /// Start in the message, in bytes.
    pub(super) start: usize,
    /// End in the message, in bytes.
    pub(super) end: usize,
    /// Whether punctuation or a line break separates it from the previous word.
    pub(super) after_break: bool,
}

/// Tokenizes a message. Hyphens belong to a word; periods, slashes and colons only between digits: `2026-12-09`,
/// `9.12.2026`.
pub(super) fn tokenize(text: &str) -> Vec<MessageToken> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut found: Vec<MessageToken> = Vec::new();
    let mut open: Option<MessageToken> = None;
    let mut after_break = false;
    for (at, &(start, c)) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).map_or(' ', |(_, c)| *c);
        let after = chars.get(at + 1).map_or(' ', |(_, c)| *c);
        if is_word_char(before, c, after) {
            let word = open.get_or_insert_with(|| MessageToken {
                text: String::new(),
                start,
                end: start,
                after_break: std::mem::take(&mut after_break),
            });
            fold_into(c, &mut word.text);
            word.end = start + c.len_utf8();
            continue;
        }
        found.extend(open.take());
        after_break |= ",;.!?:\n\r()—–…¿¡".contains(c);
    }
    found.extend(open);
    found.retain(|word| !word.text.is_empty());
    found
}

fn is_word_char(before: char, c: char, after: char) -> bool {
    let inside = before.is_alphanumeric() && after.is_alphanumeric();
    match c {
        _ if c.is_alphanumeric() || is_accent(c) => true,
        '-' | '_' => inside,
        '\'' | '’' | 'ʼ' => inside,
        '.' | '/' | ':' => before.is_ascii_digit() && after.is_ascii_digit(),
        _ => false,
    }
}

fn is_accent(c: char) -> bool {
    ('\u{0300}'..='\u{036f}').contains(&c)
}

fn fold_into(c: char, out: &mut String) {
    for c in c.to_lowercase() {
        match c {
            'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' => out.push('a'),
            'é' | 'è' | 'ê' | 'ë' => out.push('e'),
            'í' | 'ì' | 'î' | 'ï' => out.push('i'),
            'ó' | 'ò' | 'ô' | 'ö' | 'õ' => out.push('o'),
            'ú' | 'ù' | 'û' | 'ü' => out.push('u'),
            'ñ' => out.push('n'),
            'ç' => out.push('c'),
            'ё' => out.push('е'),
            '\'' | '’' | 'ʼ' => {}
            _ if is_accent(c) => {}
            _ => out.push(c),
        }
    }
}

/// Folds a text for comparison: its words, separated by single spaces.
pub(super) fn fold(text: &str) -> String {
    let words = tokenize(text);
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Folds a phrase of the file for comparison; keeps a star at the end of a word.
pub(super) fn fold_phrase(text: &str) -> String {
    let word = |word: &str| {
        let star = if word.ends_with('*') { "*" } else { "" };
        format!("{}{star}", fold(word))
    };
    text.split_whitespace()
        .map(word)
        .filter(|word| word != "*" && !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Number of words that a phrase matches at the start of `words`; `None` if it does not match. A trailing `*` matches
/// any ending.
pub(super) fn phrase_at(words: &[MessageToken], phrase: &str) -> Option<usize> {
    let mut taken = 0;
    for part in phrase.split(' ').filter(|part| !part.is_empty()) {
        let word = words.get(taken)?;
        let fits = match part.strip_suffix('*') {
            Some(stem) => word.text.starts_with(stem),
            None => word.text == part,
        };
        if !fits {
            return None;
        }
        taken += 1;
    }
    (taken > 0).then_some(taken)
}

/// Longest matching phrase at the start of `words`.
pub(super) fn longest_match<'a>(
    words: &[MessageToken],
    phrases: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    phrases
        .into_iter()
        .filter_map(|phrase| Some((phrase_at(words, phrase)?, phrase)))
        .max_by_key(|(taken, _)| *taken)
}

/// Whether a phrase occurs anywhere in `words`.
pub(super) fn contains_phrase(words: &[MessageToken], phrase: &str) -> bool {
    (0..words.len()).any(|at| phrase_at(words.get(at..).unwrap_or_default(), phrase).is_some())
}

/// Whether two names are equal, ignoring inflected endings in Russian ("Мадрид", "Мадрида").
pub(super) fn is_same_name(one: &str, other: &str) -> bool {
    let (one, other) = (fold(one), fold(other));
    if one == other {
        return !one.is_empty();
    }
    let cyrillic = |text: &str| text.chars().any(|c| ('а'..='я').contains(&c));
    if !cyrillic(&one) || !cyrillic(&other) {
        return false;
    }
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let (short, long) = (one.chars().count(), other.chars().count());
    let (short, long) = (short.min(long), short.max(long));
    same >= 3 && same + 2 >= long && same + 1 >= short
}

#[cfg(test)]
mod tests {
    use super::{fold, is_same_name, phrase_at, tokenize};

    #[test]
    fn tokens_keep_their_spans_and_fold_accents() {
        let text = "¿Mañana, 9.12.2026? I don't know; task-1 «Ёлка»";
        let found = tokenize(text);
        let texts: Vec<&str> = found.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["manana", "9.12.2026", "i", "dont", "know", "task-1", "елка"]);
        let shown: Vec<&str> = found.iter().filter_map(|word| text.get(word.start..word.end)).collect();
        assert_eq!(shown, ["Mañana", "9.12.2026", "I", "don't", "know", "task-1", "Ёлка"]);
        let breaks: Vec<bool> = found.iter().map(|word| word.after_break).collect();
        assert_eq!(breaks, [true, true, true, false, false, true, false]);
        assert_eq!(fold("  SÍ,  señor! "), "si senor");
        assert_eq!(fold("e\u{301}l"), "el");
    }

    #[test]
    fn phrases_match_whole_words_or_stems() {
        let text = tokenize("Сколько стоит билет");
        assert_eq!(phrase_at(&text, "сколько стоит"), Some(2));
        assert_eq!(phrase_at(&text, "сколько сто*"), Some(2));
        assert_eq!(phrase_at(&text, "сколько сто"), None);
        assert_eq!(phrase_at(&text, ""), None);
    }

    #[test]
    fn inflected_russian_names_are_equal() {
        assert!(
            is_same_name("Мадрид", "мадрида")
                && is_same_name("Москва", "Москвы")
                && is_same_name("Lisbon", "LISBON")
        );
        assert!(
            !is_same_name("Мадрид", "Минск") && !is_same_name("Lisbon", "Lisbona") && !is_same_name("", "")
        );
        assert!(!is_same_name("Рим", "Римини"));
    }
}
