//! HTML escaping: text from agents, tools and file names is displayed, never interpreted.

/// Escapes a text for element content or a double-quoted attribute.
pub(super) fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            // Keep a number and its percent sign on one line.
            '%' if safe.ends_with(' ') => {
                safe.pop();
                safe.push_str("\u{a0}%");
            }
            // Control characters are not allowed in a page, and bidi controls reverse the text direction.
            c if c.is_control() => safe.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                safe.push('\u{fffd}')
            }
            c => safe.push(c),
        }
    }
    safe
}
