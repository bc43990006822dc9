//! Times, ages, amounts and names as a person reads and types them.

use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Units of a span of time, the longest first: milliseconds, the letter that is typed, the word that is shown.
const UNITS: [(u64, char, &str); 5] = [
    (7 * 24 * 60 * 60 * 1000, 'w', "week"),
    (24 * 60 * 60 * 1000, 'd', "day"),
    (60 * 60 * 1000, 'h', "hour"),
    (60 * 1000, 'm', "minute"),
    (1000, 's', "second"),
];

/// A span of time in its largest fitting unit: `3 minutes`.
pub fn span(ms: u64) -> String {
    for (unit, letter, word) in UNITS {
        // Weeks are for typing; people read days.
        if letter != 'w' && ms >= unit {
            return plural(ms / unit, word);
        }
    }
    "less than a second".to_owned()
}

/// A span of time in as few letters as a column has room for: `7s`, `5m`, `2h`, `3d`.
pub fn brief(ms: u64) -> String {
    for (unit, letter, _) in UNITS {
        if letter != 'w' && ms >= unit {
            return format!("{}{letter}", ms / unit);
        }
    }
    "0s".to_owned()
}

/// A span of time as a clock counts it: `0:07`, `12:30`, `4:00:00`.
pub fn counted(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// How long a step took: `0.4s`, `12.0s`, then as a clock counts it.
pub fn took(ms: u64) -> String {
    if ms < 60_000 { format!("{}.{}s", ms / 1000, ms % 1000 / 100) } else { counted(ms) }
}

/// How long ago something was, or how far ahead it lies.
pub fn ago(at: u64, now: u64) -> String {
    if at > now.saturating_add(2000) {
        return format!("in {}", span(at - now));
    }
    match now.saturating_sub(at) {
        0..1000 => "just now".to_owned(),
        passed => format!("{} ago", span(passed)),
    }
}

/// A moment in UTC: `2025-10-11 12:40:05 UTC`.
pub fn moment(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    time.map_or_else(|| "at no time".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Reads an age: `30d`, `12h`, `90m`, `45s`, `2w`.
pub fn age(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = text.chars().next_back()?;
    let (unit, ..) = UNITS.into_iter().find(|(_, letter, _)| *letter == unit)?;
    let count = text.get(..text.len() - 1)?;
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    count.parse::<u64>().ok()?.checked_mul(unit)
}

/// A number and its noun.
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// Money from millionths of a dollar.
pub fn dollars(micro: u64) -> String {
    format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100)
}

/// One line, cut to a readable length, without characters that could play tricks on a terminal.
pub fn line(text: &str, most: usize) -> String {
    let mut line: String =
        text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a program printed, one line of it: without colours and without what a carriage return has wiped out.
pub fn printed(text: &str, most: usize) -> String {
    let shown = text.trim_end_matches(['\r', '\n']).rsplit('\r').next().unwrap_or_default();
    let mut plain = String::with_capacity(shown.len());
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // An escape sequence ends with its first letter.
            while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else {
            plain.push(c);
        }
    }
    line(&plain, most)
}

/// How many columns of a terminal a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A text cut so that it takes no more columns of a terminal than this.
pub fn fitted(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|c| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= left;
            left = left.saturating_sub(wide);
            fits
        })
        .collect();
    if most > 0 {
        short.push('…');
    }
    short
}

/// The end of a text, if it takes more columns of a terminal than this.
pub fn ending(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let (mut wide, mut from) = (1, text.len());
    for (at, c) in text.char_indices().rev() {
        wide += c.width().unwrap_or(0);
        if wide > most {
            break;
        }
        from = at;
    }
    format!("…{}", text.get(from..).unwrap_or_default())
}

/// A name as it must be typed in a shell.
pub use flyball::shell_word as typed;

/// Rows with a heading, each column as wide as its widest entry; the last one is not filled up.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = columns;
    let mut widths: Vec<usize> = heading.iter().map(|text| width(text)).collect();
    for row in rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = width(cell).max(*most);
        }
    }
    let whole = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, most) in cells.zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(most.saturating_sub(width(cell)) + 2));
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![whole(&mut heading.iter().copied())];
    lines.extend(rows.iter().map(|row| whole(&mut row.iter().map(String::as_str))));
    lines
}

#[cfg(test)]
mod tests {
    //! Ages, spans and names, and what is not one.

    use super::{age, ago, brief, columns, counted, ending, fitted, line, printed, span, took, typed};

    #[test]
    fn ages_are_read_and_nonsense_is_not() {
        assert_eq!(age("30d"), Some(2_592_000_000));
        assert_eq!(age(" 90m "), Some(5_400_000));
        assert_eq!(age("0s"), Some(0));
        for bad in ["", "d", "30", "-1d", "+1d", "1.5h", "3 d", "30y", "99999999999999999w", "3д"] {
            assert_eq!(age(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        assert_eq!(span(59_999), "59 seconds");
        assert_eq!(span(60_000), "1 minute");
        assert_eq!(ago(0, 7_200_000), "2 hours ago");
        assert_eq!(ago(10_000, 0), "in 10 seconds");
    }

    #[test]
    fn short_times_fit_into_columns_and_gauges() {
        assert_eq!([brief(0), brief(7_900), brief(7_200_000), brief(864_000_000)], ["0s", "7s", "2h", "10d"]);
        assert_eq!([counted(7_000), counted(750_000), counted(14_400_000)], ["0:07", "12:30", "4:00:00"]);
        assert_eq!([took(94), took(1_469), took(60_000)], ["0.0s", "1.4s", "1:00"]);
    }

    #[test]
    fn output_is_shown_without_its_colours_and_fits() {
        assert_eq!(printed("\u{1b}[1;31merror\u{1b}[0m: no\r\n", 50), "error: no");
        assert_eq!(printed("10 %\r50 %\r100 %\r", 50), "100 %");
        assert_eq!([fitted("abcdef", 6), fitted("abcdefg", 6), fitted("x", 0)], ["abcdef", "abcde…", ""]);
        assert_eq!(
            [ending("abcdef", 6), ending("abcdefg", 6), ending("日本語", 5)],
            ["abcdef", "…cdefg", "…本語"]
        );
        assert_eq!((fitted("日本語日本語", 6).as_str(), columns("日本語")), ("日本…", 6));
    }

    #[test]
    fn names_are_typed_so_that_a_shell_takes_them() {
        assert_eq!(typed("telegram:916542313"), "telegram:916542313");
        assert_eq!(typed("a b's"), r"'a b'\''s'");
        assert_eq!(typed("-x"), "'-x'");
        assert_eq!(line("a\u{1b}[31mb\n\u{202e}c", 20), "a [31mb c");
    }
}
