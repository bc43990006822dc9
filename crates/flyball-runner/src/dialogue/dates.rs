//! Parses dates and small numbers as people write them in English, Russian and Spanish.
//!
//! Dates without a year and words like "tomorrow" are not supported: they depend on the clock, and a resumed run must
//! get the same date.

use super::tokens::MessageToken;
use jiff::civil::Date;

#[rustfmt::skip] // one language per line
const MONTHS: [[&str; 12]; 3] = [
    ["jan*", "feb*", "mar*", "apr*", "may", "jun*", "jul*", "aug*", "sep*", "oct*", "nov*", "dec*"],
    ["янв*", "фев*", "март*", "апр*", "мая", "июн*", "июл*", "авг*", "сен*", "окт*", "ноя*", "дек*"],
    ["ene*", "feb*", "mar*", "abr*", "may*", "jun*", "jul*", "ago*", "sep*", "oct*", "nov*", "dic*"],
];

/// Number words starting at zero, without "a" and "una", which are articles.
#[rustfmt::skip]
const NUMBERS: [&[&str]; 13] = [
    &["zero", "ноль", "cero"], &["one", "один", "одна", "одно", "uno"], &["two", "два", "две", "двое", "dos"],
    &["three", "три", "трое", "tres"], &["four", "четыре", "четверо", "cuatro"], &["five", "пять", "cinco"],
    &["six", "шесть", "seis"], &["seven", "семь", "siete"], &["eight", "восемь", "ocho"],
    &["nine", "девять", "nueve"], &["ten", "десять", "diez"], &["eleven", "одиннадцать", "once"],
    &["twelve", "двенадцать", "doce"],
];

/// Number that a word denotes.
pub(super) fn parse_number_word(word: &str) -> Option<i64> {
    if let Ok(number) = word.parse::<i64>() {
        return word.chars().next().is_some_and(|c| c.is_ascii_digit()).then_some(number);
    }
    let at = NUMBERS.iter().position(|names| names.contains(&word))?;
    i64::try_from(at).ok()
}

/// A date at the start of `words` and the number of words it takes. The inner `None` means that it looks like a date
/// but is not valid.
pub(super) fn date_at(words: &[MessageToken]) -> Option<(usize, Option<Date>)> {
    let first = words.first()?.text.as_str();
    if let Some(parts) = parse_numeric_date(first) {
        return Some((1, to_date(parts)));
    }
    parse_written_date(words).map(|(taken, parts)| (taken, to_date(parts)))
}

fn to_date((year, month, day): (i64, i64, i64)) -> Option<Date> {
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Parses `2026-12-09`, `2026/12/09`, `9.12.2026`. Rejects `9/12/2026`, which is ambiguous between countries.
fn parse_numeric_date(word: &str) -> Option<(i64, i64, i64)> {
    let split = |mark: char| -> Option<[i64; 3]> {
        let parts: Vec<i64> = word.split(mark).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let year_first = |parts: &[i64; 3]| parts[0] >= 1000;
    if let Some([year, month, day]) = split('-').filter(year_first).or_else(|| split('/').filter(year_first))
    {
        return Some((year, month, day));
    }
    let [day, month, year] = split('.')?;
    (year >= 1000).then_some((year, month, day))
}

/// Parses `9 December 2026`, `December 9, 2026`, `9 декабря 2026`, `9 de diciembre de 2026`.
fn parse_written_date(words: &[MessageToken]) -> Option<(usize, (i64, i64, i64))> {
    let text = |at: usize| words.get(at).map(|word| word.text.as_str());
    let skip = |at: usize| at + usize::from(matches!(text(at), Some("de" | "del" | "of")));
    let ordinal = |at: usize| -> Option<i64> {
        let word = text(at)?;
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic() || c == '-');
        (word.len() - digits.len() <= 4).then(|| digits.parse().ok()).flatten()
    };
    let year = |at: usize| text(at)?.parse::<i64>().ok().filter(|year| (1000..10_000).contains(year));
    if let Some(day) = ordinal(0) {
        let at = skip(1);
        let month = parse_month(text(at)?)?;
        let at = skip(at + 1);
        return Some((at + 1, (year(at)?, month, day)));
    }
    let month = parse_month(text(0)?)?;
    Some((3, (year(2)?, month, ordinal(1)?)))
}

fn parse_month(word: &str) -> Option<i64> {
    let fits = |name: &&str| match name.strip_suffix('*') {
        Some(stem) => word.starts_with(stem),
        None => word == *name,
    };
    let at = MONTHS.iter().find_map(|names| names.iter().position(&fits))?;
    i64::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::{date_at, parse_number_word};
    use crate::dialogue::tokens::tokenize;

    fn read(text: &str) -> String {
        match date_at(&tokenize(text)) {
            None => "none".to_owned(),
            Some((_, None)) => "wrong".to_owned(),
            Some((taken, Some(day))) => format!("{day} {taken}"),
        }
    }

    #[test]
    fn dates_are_parsed_in_common_notations() {
        for (text, expected) in [
            ("2026-12-09", "2026-12-09 1"),
            ("2026/12/09 please", "2026-12-09 1"),
            ("9.12.2026", "2026-12-09 1"),
            ("9 December 2026", "2026-12-09 3"),
            ("9th of Dec, 2026", "2026-12-09 4"),
            ("December 9, 2026", "2026-12-09 3"),
            ("9 декабря 2026 года", "2026-12-09 3"),
            ("1 мая 2026", "2026-05-01 3"),
            ("9 de diciembre de 2026", "2026-12-09 5"),
            ("2026-02-31", "wrong"),
            ("31 апреля 2026", "wrong"),
            ("9/12/2026", "none"),
            ("9 December", "none"),
            ("tomorrow", "none"),
            ("12", "none"),
            ("", "none"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn number_words_are_parsed_in_three_languages() {
        for (word, expected) in [
            ("2", Some(2)),
            ("007", Some(7)),
            ("two", Some(2)),
            ("двое", Some(2)),
            ("dos", Some(2)),
            ("doce", Some(12)),
            ("una", None),
            ("2a", None),
            ("2026-12-09", None),
            ("+5", None),
        ] {
            assert_eq!(parse_number_word(word), expected, "{word}");
        }
    }
}
