//! Text from transcripts made harmless: whatever an agent, a tool or a file's name says, it is shown and never run.

/// A text as the inside of an element or of an attribute in double quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            // A number and its percent sign stay on one line.
            '%' if safe.ends_with(' ') => {
                safe.pop();
                safe.push_str("\u{a0}%");
            }
            // Not allowed in a page, or turning the direction of writing around.
            c if c.is_control() => safe.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                safe.push('\u{fffd}')
            }
            c => safe.push(c),
        }
    }
    safe
}
