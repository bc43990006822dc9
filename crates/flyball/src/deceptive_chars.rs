//! Characters that can deceive a reader of a terminal or a page, and a safe spelling for them.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character changes how the text around it is displayed: control characters, bidirectional controls,
/// invisible characters, line separators. Includes line breaks and tabs.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes such characters as JSON does (`\u202e`), so that JSON stays valid. Line breaks and tabs are kept.
#[must_use]
pub fn escape_deceptive(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_deceptive(c) && !matches!(c, '\n' | '\t');
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || matches!(byte, b'\n' | b'\t'))
        || !text.chars().any(hidden)
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::{escape_deceptive, is_deceptive};

    #[test]
    fn deceptive_characters_are_escaped() {
        assert_eq!(escape_deceptive("plain\n\ttext é 漢字"), "plain\n\ttext é 漢字");
        assert_eq!(escape_deceptive("a\u{1b}[31mb\u{9b}c\u{7f}"), "a\\u001b[31mb\\u009bc\\u007f");
        assert_eq!(escape_deceptive("x\u{202e}y\u{2066}\u{200f}\u{feff}"), "x\\u202ey\\u2066\\u200f\\ufeff");
        assert_eq!(escape_deceptive("tag\u{e0041}"), "tag\\udb40\\udc41");
        assert!(is_deceptive('\r') && is_deceptive('\u{2028}') && !is_deceptive(' '));
    }
}
