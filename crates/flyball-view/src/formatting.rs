//! Formatting and parsing of times, durations, amounts and names.

pub use crate::number_format::{
    format_amount, format_bytes, format_count, format_dollars, format_percent, permille,
};
pub use flyball::units::{coarse_duration, format_duration};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// An elapsed duration on a live screen, in whole seconds so that the text does not flicker.
pub fn running_duration(ms: u64) -> String {
    format_duration(ms - ms % 1_000)
}

/// A time relative to now, in the past or in the future.
pub fn relative_time(at: u64, now: u64) -> String {
    if at > now.saturating_add(2000) {
        return format!("in {}", coarse_duration(at - now));
    }
    match now.saturating_sub(at) {
        0..1000 => "just now".to_owned(),
        passed => format!("{} ago", coarse_duration(passed)),
    }
}

/// A time in UTC: `2025-10-11 12:40:05 UTC`.
pub fn utc_time(at: u64) -> String {
    format_time(at, TimeZone::UTC)
}

/// A time in the local zone (or `TZ`), with the zone's name: `2025-10-11 14:40:05 CEST`.
pub fn local_time(at: u64) -> String {
    format_time(at, TimeZone::system())
}

fn format_time(at: u64, zone: TimeZone) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    let text = time.map(|time| time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string());
    text.unwrap_or_else(|| "unknown time".to_owned())
}

/// A number and its noun, in the plural unless the number is 1.
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{} {word}s", format_count(count)) }
}

/// Text on one line, truncated, without control and bidirectional characters that could deceive a terminal user.
pub fn single_line(text: &str, most: usize) -> String {
    let mut line: String =
        text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One line of program output, without escape sequences and without text that a carriage return overwrote.
pub fn plain_output(text: &str, most: usize) -> String {
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
    single_line(&plain, most)
}

/// Number of terminal columns that a text occupies.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// Truncates a text to a number of terminal columns.
pub fn truncate_to_width(text: &str, most: usize) -> String {
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

/// Keeps the end of a text that is wider than a number of terminal columns.
pub fn keep_end(text: &str, most: usize) -> String {
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

/// Quotes a name for the shell.
pub use flyball::shell_word as typed;

/// Formats rows under a heading. Each column is as wide as its widest cell; the last one is not padded.
pub fn format_table(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = display_width;
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
    //! Parsing and formatting of ages, durations and names.

    use super::{
        display_width, keep_end, plain_output, plural, relative_time, single_line, truncate_to_width, typed,
        utc_time,
    };

    #[test]
    fn relative_times_use_the_largest_unit() {
        assert_eq!(relative_time(0, 7_200_000), "2 h ago");
        assert_eq!(relative_time(10_000, 0), "in 10 s");
    }

    #[test]
    fn times_name_their_zone() {
        assert_eq!(utc_time(1_760_186_405_000), "2025-10-11 12:40:05 UTC");
        assert_eq!(utc_time(u64::MAX), "unknown time");
        assert_eq!(plural(1_234, "event"), "1,234 events");
    }

    #[test]
    fn output_is_stripped_of_escapes_and_truncated() {
        assert_eq!(plain_output("\u{1b}[1;31merror\u{1b}[0m: no\r\n", 50), "error: no");
        assert_eq!(plain_output("10 %\r50 %\r100 %\r", 50), "100 %");
        assert_eq!(
            [truncate_to_width("abcdef", 6), truncate_to_width("abcdefg", 6), truncate_to_width("x", 0)],
            ["abcdef", "abcde…", ""]
        );
        assert_eq!(
            [keep_end("abcdef", 6), keep_end("abcdefg", 6), keep_end("日本語", 5)],
            ["abcdef", "…cdefg", "…本語"]
        );
        assert_eq!((truncate_to_width("日本語日本語", 6).as_str(), display_width("日本語")), ("日本…", 6));
    }

    #[test]
    fn names_are_shell_quoted() {
        assert_eq!(typed("telegram:916542313"), "telegram:916542313");
        assert_eq!(typed("a b's"), r"'a b'\''s'");
        assert_eq!(typed("-x"), "'-x'");
        assert_eq!(single_line("a\u{1b}[31mb\n\u{202e}c", 20), "a [31mb c");
    }
}
