//! Times, ages, amounts and names as a person reads and types them.

use jiff::Timestamp;

/// Units of a span of time, the longest first: milliseconds, the letter that is typed, the word that is shown.
const UNITS: [(u64, char, &str); 5] = [
    (7 * 24 * 60 * 60 * 1000, 'w', "week"),
    (24 * 60 * 60 * 1000, 'd', "day"),
    (60 * 60 * 1000, 'h', "hour"),
    (60 * 1000, 'm', "minute"),
    (1000, 's', "second"),
];

/// A span of time in its largest fitting unit: `3 minutes`.
pub(crate) fn span(ms: u64) -> String {
    for (unit, letter, word) in UNITS {
        // Weeks are for typing; people read days.
        if letter != 'w' && ms >= unit {
            return plural(ms / unit, word);
        }
    }
    "less than a second".to_owned()
}

/// How long ago something was, or how far ahead it lies.
pub(crate) fn ago(at: u64, now: u64) -> String {
    if at > now.saturating_add(2000) {
        return format!("in {}", span(at - now));
    }
    match now.saturating_sub(at) {
        0..1000 => "just now".to_owned(),
        passed => format!("{} ago", span(passed)),
    }
}

/// A moment in UTC: `2025-10-11 12:40:05 UTC`.
pub(crate) fn moment(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    time.map_or_else(|| "at no time".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Reads an age: `30d`, `12h`, `90m`, `45s`, `2w`.
pub(crate) fn age(text: &str) -> Option<u64> {
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
pub(crate) fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// Money from millionths of a dollar.
pub(crate) fn dollars(micro: u64) -> String {
    format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100)
}

/// One line, cut to a readable length, without characters that could play tricks on a terminal.
pub(crate) fn line(text: &str, most: usize) -> String {
    let mut line: String = text.chars().map(|c| if tricky(c) { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters, and those that turn the direction of writing around.
fn tricky(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name as it must be typed in a shell.
pub(crate) fn typed(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.:/@%+=,".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Rows with a heading, each column as wide as its widest entry; the last one is not filled up.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |text: &str| text.chars().count();
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

    use super::{age, ago, line, span, typed};

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
    fn names_are_typed_so_that_a_shell_takes_them() {
        assert_eq!(typed("telegram:916542313"), "telegram:916542313");
        assert_eq!(typed("a b's"), r"'a b'\''s'");
        assert_eq!(typed("-x"), "'-x'");
        assert_eq!(line("a\u{1b}[31mb\n\u{202e}c", 20), "a [31mb c");
    }
}
