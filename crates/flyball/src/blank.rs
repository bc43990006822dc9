//! Detection of blank text: empty, or only invisible characters.

/// Whether a text has no visible character. A blank answer or reason is never accepted.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::is_blank;

    #[test]
    fn text_without_a_visible_character_is_blank() {
        for text in ["", " ", "\t\r\n", "\u{a0}", "\u{200b}\u{feff}", "\u{0}\u{7f}", "\u{202e} \u{2060}"] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["y", " no ", ".", "да", "\u{200b}ok", "👍"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
