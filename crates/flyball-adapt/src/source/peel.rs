//! Takes JSON apart without understanding it: the fields of an object, the elements of a list, as slices of the text.
//!
//! It stops where the text ends, so that what stands before a cut can be used; and it looks at nothing twice, so that
//! a document is never held as a tree.

use memchr::memchr;
use memchr::memmem::Finder;

/// One field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// The key as it is written, escapes and all.
    pub(super) key: &'a str,
    /// The value as it is written; cut short if the text ends inside it.
    pub(super) value: &'a str,
    /// The value is all there.
    pub(super) whole: bool,
}

/// The fields of the object that a text begins with. The last one may be cut.
pub(super) fn fields(text: &str) -> Fields<'_> {
    let start = skip(text.as_bytes(), 0);
    let open = text.as_bytes().get(start) == Some(&b'{');
    Fields { text, at: open.then_some(start + 1) }
}

/// The elements of the list that a text begins with. An element that is cut is left out.
pub(super) fn items(text: &str) -> Items<'_> {
    let start = skip(text.as_bytes(), 0);
    let open = text.as_bytes().get(start) == Some(&b'[');
    Items { text, at: open.then_some(start + 1), cut: false }
}

/// The elements of the list that a text begins with, and what there is of one that is cut.
pub(super) fn pieces(text: &str) -> Items<'_> {
    Items { cut: true, ..items(text) }
}

/// The value of one field, if it is all there.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    fields(text).find(|field| field.key == key && field.whole).map(|field| field.value)
}

/// A text between quotes, as it is written; nothing if the value is something else.
pub(super) fn quoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Whether a text is one object or list from its first bracket to its last, and nothing more. What stands between may
/// still be wrong.
pub(super) fn is_whole(text: &str) -> bool {
    let bytes = text.as_bytes();
    let start = skip(bytes, 0);
    let container = matches!(bytes.get(start), Some(b'{' | b'['));
    container && value_end(bytes, start).is_some_and(|end| skip(bytes, end) == bytes.len())
}

/// A field of the outermost object of a line whose value nobody reads, however long it is.
pub(super) struct Unread {
    /// The key as it is written, with its quotes and its colon.
    key: Finder<'static>,
    kept: Vec<u8>,
}

impl Unread {
    /// A field, as `"key":` with its quotes and its colon.
    pub(super) fn new(key: &'static str) -> Self {
        Unread { key: Finder::new(key), kept: Vec::new() }
    }

    /// The line without the value; the line itself if there is none.
    pub(super) fn out_of<'a>(&'a mut self, line: &'a [u8]) -> &'a [u8] {
        let Some((start, end)) = self.place(line) else { return line };
        self.kept.clear();
        self.kept.extend_from_slice(line.get(..start).unwrap_or_default());
        self.kept.extend_from_slice(b"null");
        self.kept.extend_from_slice(line.get(end..).unwrap_or_default());
        &self.kept
    }

    /// Where the value begins and ends. A key with quotes of its own cannot stand inside of a string.
    fn place(&self, line: &[u8]) -> Option<(usize, usize)> {
        let key = self.key.find(line)?;
        let start = skip(line, key + self.key.needle().len());
        let end = value_end(line, start)?;
        // In an object further inside, something would follow after its end.
        (object_end(line, end)? == line.len()).then_some((start, end))
    }
}

/// Where the object ends that has a value up to `at`.
fn object_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = skip_commas(bytes, at);
        if bytes.get(at)? == &b'}' {
            return Some(at + 1);
        }
        let colon = skip(bytes, string_end(bytes, at)?);
        at = value_end(bytes, skip(bytes, colon + 1))?;
    }
}

/// Goes through the fields of an object.
pub(super) struct Fields<'a> {
    text: &'a str,
    at: Option<usize>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let bytes = self.text.as_bytes();
        let key_start = skip_commas(bytes, self.at.take()?);
        if bytes.get(key_start) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(bytes, key_start)?;
        let colon = skip(bytes, key_end);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let start = skip(bytes, colon + 1);
        let end = value_end(bytes, start);
        self.at = end;
        let key = self.text.get(key_start + 1..key_end - 1)?;
        let value = self.text.get(start..end.unwrap_or(bytes.len()))?;
        Some(Field { key, value, whole: end.is_some() })
    }
}

/// Goes through the elements of a list.
#[derive(Clone)]
pub(super) struct Items<'a> {
    text: &'a str,
    at: Option<usize>,
    /// An element that is cut is handed on, too.
    cut: bool,
}

impl<'a> Iterator for Items<'a> {
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
            None => self.text.get(start..).filter(|_| self.cut),
        }
    }
}

fn skip(bytes: &[u8], mut at: usize) -> usize {
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

/// Where the string that begins at `at` ends, behind its closing quote.
///
/// From quote to quote: there are fewer of them than of backslashes, and only those before a quote count.
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

/// Where the value that begins at `at` ends; nothing if the text ends first.
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
    use super::{Unread, fields, is_whole, items};

    #[test]
    fn a_cut_anywhere_gives_what_stands_before_it() {
        let text = r#" {"a": "x\"]}", "b":[1,{"c":"}"},"two"] ,"d":null}"#;
        let whole: Vec<_> = fields(text).map(|field| (field.key, field.value)).collect();
        assert_eq!(whole, [("a", r#""x\"]}""#), ("b", r#"[1,{"c":"}"},"two"]"#), ("d", "null")]);
        assert!(is_whole(text));
        for cut in 0..text.len() {
            let part = text.get(..cut).unwrap();
            assert!(!is_whole(part), "{part}");
            let some: Vec<_> = fields(part).filter(|field| field.whole).collect();
            assert!(some.iter().zip(&whole).all(|(field, (key, _))| field.key == *key), "{part}");
        }
        let list: Vec<_> = items(whole[1].1).collect();
        assert_eq!(list, ["1", r#"{"c":"}"}"#, r#""two""#]);
        assert_eq!(items(r#"[1,{"c":"}"},"tw"#).count(), 2);
    }

    #[test]
    fn a_quote_behind_backslashes_ends_a_string_or_not() {
        let cases =
            [(r#"{"a":"\\"}"#, r#""\\""#), (r#"{"a":"\\\""}"#, r#""\\\"""#), (r#"{"a":"","b":1}"#, "\"\"")];
        for (text, value) in cases {
            assert_eq!(fields(text).next().map(|field| field.value), Some(value), "{text}");
        }
    }

    #[test]
    fn what_nobody_reads_is_taken_out_of_the_outermost_object_only() {
        let mut unread = Unread::new("\"big\":");
        let mut rest = |text: &str| String::from_utf8(unread.out_of(text.as_bytes()).to_vec()).unwrap();
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
    fn what_is_no_json_ends_at_once() {
        for text in ["", "hello", "{", "[", "{]", "{\"a\"", "{\"a\":", "[,,", "]", "{\"a\":}", "[}]", "\"\\"]
        {
            assert!(fields(text).filter(|field| field.whole).count() == 0, "{text}");
            assert!(items(text).all(|item| !item.is_empty()), "{text}");
            assert!(!is_whole(text) || text.ends_with(['}', ']']), "{text}");
        }
    }
}
