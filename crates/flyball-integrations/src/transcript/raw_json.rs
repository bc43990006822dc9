//! Splits JSON into raw slices: the fields of an object and the elements of a list, without parsing the values.
//!
//! It stops at the end of the text, so that the part before a truncation can be used. It makes a single pass and never
//! builds a tree.

use memchr::memchr;
use memchr::memmem::Finder;

/// One field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawField<'a> {
    /// The raw key, with escapes.
    pub(super) key: &'a str,
    /// The raw value; truncated if the text ends inside it.
    pub(super) value: &'a str,
    /// Whether the value is complete.
    pub(super) complete: bool,
}

/// The fields of the object at the start of a text. The last one may be truncated.
pub(super) fn fields(text: &str) -> RawFields<'_> {
    let start = skip_whitespace(text.as_bytes(), 0);
    let open = text.as_bytes().get(start) == Some(&b'{');
    RawFields { text, at: open.then_some(start + 1) }
}

/// The elements of the list at the start of a text, without a truncated one.
pub(super) fn items(text: &str) -> RawItems<'_> {
    let start = skip_whitespace(text.as_bytes(), 0);
    let open = text.as_bytes().get(start) == Some(&b'[');
    RawItems { text, at: open.then_some(start + 1), yield_partial: false }
}

/// The elements of the list at the start of a text, including a truncated one.
pub(super) fn items_with_partial(text: &str) -> RawItems<'_> {
    RawItems { yield_partial: true, ..items(text) }
}

/// The value of a field, if it is complete.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    fields(text).find(|field| field.key == key && field.complete).map(|field| field.value)
}

/// The raw contents of a string; `None` for other values.
pub(super) fn unquote(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Whether a text is a single object or list with matching brackets. The contents may still be invalid.
pub(super) fn is_complete(text: &str) -> bool {
    let bytes = text.as_bytes();
    let start = skip_whitespace(bytes, 0);
    let container = matches!(bytes.get(start), Some(b'{' | b'['));
    container && value_end(bytes, start).is_some_and(|end| skip_whitespace(bytes, end) == bytes.len())
}

/// Strips an unused field of the outermost object of a line, however long its value is.
pub(super) struct FieldStripper {
    /// The raw key with quotes and colon.
    key: Finder<'static>,
    buffer: Vec<u8>,
}

impl FieldStripper {
    /// Creates a stripper for a field, given as `"key":` with quotes and colon.
    pub(super) fn new(key: &'static str) -> Self {
        FieldStripper { key: Finder::new(key), buffer: Vec::new() }
    }

    /// The line without the value, or the line itself if the field is missing.
    pub(super) fn strip<'a>(&'a mut self, line: &'a [u8]) -> &'a [u8] {
        let Some((start, end)) = self.value_range(line) else { return line };
        self.buffer.clear();
        self.buffer.extend_from_slice(line.get(..start).unwrap_or_default());
        self.buffer.extend_from_slice(b"null");
        self.buffer.extend_from_slice(line.get(end..).unwrap_or_default());
        &self.buffer
    }

    /// The range of the value. A key with unescaped quotes cannot occur inside a string.
    fn value_range(&self, line: &[u8]) -> Option<(usize, usize)> {
        let key = self.key.find(line)?;
        let start = skip_whitespace(line, key + self.key.needle().len());
        let end = value_end(line, start)?;
        // For a nested object, more text would follow its end.
        (object_end(line, end)? == line.len()).then_some((start, end))
    }
}

/// The end of the object whose value ends at `at`.
fn object_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = skip_commas(bytes, at);
        if bytes.get(at)? == &b'}' {
            return Some(at + 1);
        }
        let colon = skip_whitespace(bytes, string_end(bytes, at)?);
        at = value_end(bytes, skip_whitespace(bytes, colon + 1))?;
    }
}

/// Iterates over the fields of an object.
pub(super) struct RawFields<'a> {
    text: &'a str,
    at: Option<usize>,
}

impl<'a> Iterator for RawFields<'a> {
    type Item = RawField<'a>;

    fn next(&mut self) -> Option<RawField<'a>> {
        let bytes = self.text.as_bytes();
        let key_start = skip_commas(bytes, self.at.take()?);
        if bytes.get(key_start) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(bytes, key_start)?;
        let colon = skip_whitespace(bytes, key_end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let start = skip_whitespace(bytes, colon + 1);
        let end = value_end(bytes, start);
        self.at = end;
        let key = self.text.get(key_start + 1..key_end - 1)?;
        let value = self.text.get(start..end.unwrap_or(bytes.len()))?;
        Some(RawField { key, value, complete: end.is_some() })
    }
}

/// Iterates over the elements of a list.
#[derive(Clone)]
pub(super) struct RawItems<'a> {
    text: &'a str,
    at: Option<usize>,
    /// Whether a truncated element is returned too.
    yield_partial: bool,
}

impl<'a> Iterator for RawItems<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let start = skip_commas(bytes, self.at.take()?);
        if matches!(bytes.get(start), None | Some(b']')) {
            return None;
        }
        let end = value_end(bytes, start);
        self.at = end;
        match end {
            Some(end) => self.text.get(start..end),
            None => self.text.get(start..).filter(|_| self.yield_partial),
        }
    }
}

fn skip_whitespace(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

fn skip_commas(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b',') {
        at += 1;
    }
    at
}

/// The end of the string that starts at `at`, after its closing quote.
///
/// Searches for quotes, which are rarer than backslashes; only backslashes before a quote matter.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr(b'"', bytes.get(from..)?)?;
        let escapes = bytes.get(from..found)?.iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes.is_multiple_of(2) {
            return Some(found + 1);
        }
        from = found + 1;
    }
}

/// The end of the value that starts at `at`; `None` if the text ends first.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => container_end(bytes, at),
        b'}' | b']' | b',' | b':' => None,
        _ => {
            let rest = bytes.get(at..)?;
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            rest.iter().position(ends).map(|length| at + length)
        }
    }
}

fn container_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, start);
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldStripper, fields, is_complete, items};

    #[test]
    fn truncated_json_yields_the_fields_before_the_cut() {
        let text = r#" {"a": "x\"]}", "b":[1,{"c":"}"},"two"] ,"d":null}"#;
        let whole: Vec<_> = fields(text).map(|field| (field.key, field.value)).collect();
        assert_eq!(whole, [("a", r#""x\"]}""#), ("b", r#"[1,{"c":"}"},"two"]"#), ("d", "null")]);
        assert!(is_complete(text));
        for cut in 0..text.len() {
            let part = text.get(..cut).unwrap();
            assert!(!is_complete(part), "{part}");
            let some: Vec<_> = fields(part).filter(|field| field.complete).collect();
            assert!(some.iter().zip(&whole).all(|(field, (key, _))| field.key == *key), "{part}");
        }
        let list: Vec<_> = items(whole[1].1).collect();
        assert_eq!(list, ["1", r#"{"c":"}"}"#, r#""two""#]);
        assert_eq!(items(r#"[1,{"c":"}"},"tw"#).count(), 2);
    }

    #[test]
    fn escaped_quotes_do_not_end_a_string() {
        let cases =
            [(r#"{"a":"\\"}"#, r#""\\""#), (r#"{"a":"\\\""}"#, r#""\\\"""#), (r#"{"a":"","b":1}"#, "\"\"")];
        for (text, value) in cases {
            assert_eq!(fields(text).next().map(|field| field.value), Some(value), "{text}");
        }
    }

    #[test]
    fn only_the_outermost_field_is_stripped() {
        let mut unread = FieldStripper::new("\"big\":");
        let mut rest = |text: &str| String::from_utf8(unread.strip(text.as_bytes()).to_vec()).unwrap();
        assert_eq!(rest(r#"{"a":1,"big":{"x":"}\"","y":[1]},"b":"\\"}"#), r#"{"a":1,"big":null,"b":"\\"}"#);
        assert_eq!(rest(r#"{"big": "long", "b": [true]}"#), r#"{"big": null, "b": [true]}"#);
        assert_eq!(rest(r#"{"a":{},"big":17}"#), r#"{"a":{},"big":null}"#);
        for same in [
            r#"{"in":{"big":1,"c":2},"b":1}"#,
            r#"{"in":{"big":1}}"#,
            r#"{"list":[{"big":"x"}]}"#,
            r#"{"a":"\"big\":1"}"#,
            r#"{"a":1,"big":"cut"#,
            r#"{"a":1,"big":{"x":1},"b"#,
            r#"{"a":1,"big":}"#,
            r#"{"a":1}"#,
            r#""big":"#,
        ] {
            assert_eq!(rest(same), same);
        }
    }

    #[test]
    fn invalid_json_yields_nothing() {
        for text in ["", "hello", "{", "[", "{]", "{\"a\"", "{\"a\":", "[,,", "]", "{\"a\":}", "[}]", "\"\\"]
        {
            assert!(fields(text).filter(|field| field.complete).count() == 0, "{text}");
            assert!(items(text).all(|item| !item.is_empty()), "{text}");
            assert!(!is_complete(text) || text.ends_with(['}', ']']), "{text}");
        }
    }
}
