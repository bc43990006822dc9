//! A message cut into words that can be compared, each with its place, so that a value keeps its own spelling.

/// A word of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower case, without accents and apostrophes.
    pub(super) text: String,
    /// Where it begins in the message, in bytes.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// A comma, a full stop, a line break or the like stands between it and the word before.
    pub(super) after_break: bool,
}

/// The words of a message. Hyphens belong to a word, points, slashes and colons only between digits: `2026-12-09`,
/// `9.12.2026`.
pub(super) fn words(text: &str) -> Vec<Word> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut found: Vec<Word> = Vec::new();
    let mut open: Option<Word> = None;
    let mut after_break = false;
    for (at, &(start, c)) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).map_or(' ', |(_, c)| *c);
        let after = chars.get(at + 1).map_or(' ', |(_, c)| *c);
        if belongs(before, c, after) {
            let word = open.get_or_insert_with(|| Word {
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

fn belongs(before: char, c: char, after: char) -> bool {
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

/// A text folded for comparison: its words with one blank between.
pub(super) fn folded(text: &str) -> String {
    let words = words(text);
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A phrase of the file folded for comparison; a star at the end of a word stays.
pub(super) fn folded_phrase(text: &str) -> String {
    let word = |word: &str| {
        let star = if word.ends_with('*') { "*" } else { "" };
        format!("{}{star}", folded(word))
    };
    text.split_whitespace()
        .map(word)
        .filter(|word| word != "*" && !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many words a phrase takes at the start of `words`; nothing if it is not there. A word of the phrase that ends
/// in `*` stands for all words that begin with it.
pub(super) fn phrase_at(words: &[Word], phrase: &str) -> Option<usize> {
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

/// The longest of several phrases at the start of `words`.
pub(super) fn longest<'a>(
    words: &[Word],
    phrases: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    phrases
        .into_iter()
        .filter_map(|phrase| Some((phrase_at(words, phrase)?, phrase)))
        .max_by_key(|(taken, _)| *taken)
}

/// Whether a phrase stands anywhere in `words`.
pub(super) fn holds(words: &[Word], phrase: &str) -> bool {
    (0..words.len()).any(|at| phrase_at(words.get(at..).unwrap_or_default(), phrase).is_some())
}

/// Whether two words or names are the same; in Russian, also with another ending ("Мадрид", "Мадрида").
pub(super) fn alike(one: &str, other: &str) -> bool {
    let (one, other) = (folded(one), folded(other));
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
    use super::{alike, folded, phrase_at, words};

    #[test]
    fn words_keep_their_place_and_are_compared_without_accents() {
        let text = "¿Mañana, 9.12.2026? I don't know; task-1 «Ёлка»";
        let found = words(text);
        let texts: Vec<&str> = found.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["manana", "9.12.2026", "i", "dont", "know", "task-1", "елка"]);
        let shown: Vec<&str> = found.iter().filter_map(|word| text.get(word.start..word.end)).collect();
        assert_eq!(shown, ["Mañana", "9.12.2026", "I", "don't", "know", "task-1", "Ёлка"]);
        let breaks: Vec<bool> = found.iter().map(|word| word.after_break).collect();
        assert_eq!(breaks, [true, true, true, false, false, true, false]);
        assert_eq!(folded("  SÍ,  señor! "), "si senor");
        assert_eq!(folded("e\u{301}l"), "el");
    }

    #[test]
    fn a_phrase_is_whole_words_or_a_stem() {
        let text = words("Сколько стоит билет");
        assert_eq!(phrase_at(&text, "сколько стоит"), Some(2));
        assert_eq!(phrase_at(&text, "сколько сто*"), Some(2));
        assert_eq!(phrase_at(&text, "сколько сто"), None);
        assert_eq!(phrase_at(&text, ""), None);
    }

    #[test]
    fn a_name_with_another_ending_is_the_same_name() {
        assert!(alike("Мадрид", "мадрида") && alike("Москва", "Москвы") && alike("Lisbon", "LISBON"));
        assert!(!alike("Мадрид", "Минск") && !alike("Lisbon", "Lisbona") && !alike("", ""));
        assert!(!alike("Рим", "Римини"));
    }
}
