//! Walks through JSON: every string is decoded and looked at, and the names beside values are known.

use super::manifest;
use super::names::{Class, classify};
use super::raw::{at, run, text_ends};
use super::view::View;
use super::{CUSTOM, Find, anchors::Anchor, keyed, known, outside_marks, scan, shapes, shell};
use regex::Regex;
use std::borrow::Cow;

/// How many times JSON inside JSON, and other encodings, are decoded.
const LAYERS: usize = 8;
/// Pieces of JSON inside other text that are looked at.
const FRAGMENTS: usize = 16;
/// Strings of an array that may be the words of a command.
const WORDS: usize = 256;

/// Looks for secrets and collects them, in places of the original.
pub(super) struct Search<'a> {
    pub(super) builtin: bool,
    pub(super) patterns: &'a [Regex],
    pub(super) found: Vec<Find>,
}

/// An object or an array that is being read.
#[derive(Default)]
struct Frame {
    array: bool,
    /// The name of the member of the object that is read now, decoded.
    key: Option<Vec<u8>>,
    /// The name under which this object or array stands.
    name: Vec<u8>,
    /// `"name": "DB_PASSWORD"`.
    pair_name: Option<Vec<u8>>,
    /// Where the text of `"value": "…"` is.
    pair_value: Option<(usize, usize)>,
    /// The program whose arguments are in an array of this object.
    program: Option<Vec<u8>>,
    /// Where the direct strings are.
    strings: Vec<(usize, usize)>,
    /// Whether this is a manifest of kind `Secret`, and where its values are.
    secret: bool,
    values: Vec<(usize, usize)>,
    /// Whether the values are cookies.
    cookies: bool,
}

impl Search<'_> {
    /// Looks through a text: JSON, if it is JSON.
    pub(super) fn text(&mut self, view: &View<'_>, layer: usize) {
        if layer >= LAYERS {
            return;
        }
        let json = (self.promising(view) || !self.patterns.is_empty()) && is_json(view.bytes());
        // A pattern is for the strings of an event, not for its JSON.
        if layer > 0 || !json {
            self.custom(view);
        }
        if json {
            self.json(view, layer);
        } else {
            self.builtin(view, layer);
        }
    }

    fn promising(&self, view: &View<'_>) -> bool {
        self.builtin && scan::promising(view.bytes())
    }

    /// Looks through a text with the built-in rules: as JSON, if it is JSON or holds some.
    fn builtin(&mut self, view: &View<'_>, layer: usize) {
        if layer >= LAYERS || !self.promising(view) {
            return;
        }
        let mut from = 0;
        for _ in 0..FRAGMENTS {
            let Some((start, end)) = fragment(view.bytes(), from) else { break };
            if end > start {
                self.json(&view.part(start, end), layer + 1);
            }
            from = end.max(start + 1);
        }
        self.plain(view, layer);
    }

    fn custom(&mut self, view: &View<'_>) {
        if self.patterns.is_empty() {
            return;
        }
        let Ok(text) = std::str::from_utf8(view.bytes()) else { return };
        for pattern in self.patterns {
            for hit in pattern.find_iter(text).filter(|hit| !hit.is_empty()) {
                for (start, end) in outside_marks(text, hit.start(), hit.end()) {
                    self.found.push(Find { start: view.origin(start), end: view.origin(end), kind: CUSTOM });
                }
            }
        }
    }

    fn push(&mut self, view: &View<'_>, find: Find) {
        let text = view.bytes().get(find.start..find.end).unwrap_or_default();
        let marked = text.windows(super::MARK.len()).any(|part| part == super::MARK.as_bytes());
        if find.start < find.end && !marked {
            let (start, end) = (view.origin(find.start), view.origin(find.end));
            self.found.push(Find { start, end, kind: find.kind });
        }
    }

    /// Looks through a text that is not JSON, and through what its other encodings hide.
    fn plain(&mut self, view: &View<'_>, layer: usize) {
        let bytes = view.bytes();
        let (mut done, mut from) = (0, 0);
        let (mut escapes, mut percents) = (false, false);
        let mut vain = known::Vain::default();
        let (mut command, mut manifest) = (0, 0);
        while let Some(hit) = scan::next(bytes, from) {
            from = hit.start + 1;
            let find = match hit.anchor {
                Anchor::Escape => {
                    escapes |= matches!(at(bytes, hit.end), b'2'..=b'7');
                    None
                }
                Anchor::Percent => {
                    percents |= at(bytes, hit.end).is_ascii_hexdigit();
                    None
                }
                Anchor::Command if hit.start >= command => {
                    let (finds, end) = shell::find(bytes, hit.start);
                    command = end;
                    finds.into_iter().for_each(|find| self.push(view, find));
                    None
                }
                Anchor::Command => None,
                Anchor::Piped => {
                    if let Some(find) = shell::piped(bytes, hit.start, hit.end) {
                        self.push(view, find);
                    }
                    None
                }
                Anchor::Word if manifest::is_kind(bytes, hit.start, hit.end) => {
                    if hit.start >= manifest {
                        let (finds, end) = manifest::find(bytes, hit.start);
                        manifest = end;
                        finds.into_iter().for_each(|find| self.push(view, find));
                    }
                    None
                }
                Anchor::Word => keyed::find(bytes, hit.start, hit.end),
                other => known::find(bytes, other, hit.start, hit.end, &mut vain)
                    .or_else(|| shapes::find(bytes, other, hit.start, hit.end)),
            };
            if let Some(find) = find.filter(|find| find.start >= done && find.start < find.end) {
                done = find.end;
                from = from.max(done);
                self.push(view, find);
            }
        }
        if escapes && layer + 1 < LAYERS {
            self.plain(&view.without_unicode_escapes(), layer + 1);
        }
        if percents && layer + 1 < LAYERS {
            self.plain(&view.without_percent_escapes(), layer + 1);
        }
    }

    fn json(&mut self, view: &View<'_>, layer: usize) {
        let bytes = view.bytes();
        let mut frames: Vec<Frame> = Vec::new();
        let mut place = 0;
        while place < bytes.len() {
            match at(bytes, place) {
                open @ (b'{' | b'[') => {
                    let parent = frames.last();
                    let name =
                        parent.and_then(|frame| frame.key.clone().or_else(|| Some(frame.name.clone())));
                    let name = name.unwrap_or_default();
                    let program = parent.filter(|_| open == b'[').and_then(|frame| frame.program.clone());
                    let cookies =
                        parent.is_some_and(|frame| frame.cookies) || name.eq_ignore_ascii_case(b"cookies");
                    frames.push(Frame { array: open == b'[', name, program, cookies, ..Frame::default() });
                }
                b'}' | b']' => {
                    if let Some(frame) = frames.pop() {
                        self.close(view, &frame, frames.last_mut(), layer);
                    }
                    if let Some(parent) = frames.last_mut().filter(|frame| !frame.array) {
                        parent.key = None;
                    }
                }
                b'"' => {
                    let start = place + 1;
                    let end = text_ends(bytes, start, 0, usize::MAX).unwrap_or(bytes.len());
                    self.string(view, &mut frames, (start, end), layer);
                    place = end;
                }
                b',' => {
                    if let Some(frame) = frames.last_mut().filter(|frame| !frame.array) {
                        frame.key = None;
                    }
                }
                _ => {}
            }
            place += 1;
        }
    }

    /// A string of JSON: the name of a member, or a value.
    fn string(&mut self, view: &View<'_>, frames: &mut [Frame], (start, end): (usize, usize), layer: usize) {
        let bytes = view.bytes();
        let after = run(bytes, end + 1, |byte| byte.is_ascii_whitespace());
        let inside = view.json_string(start, end);
        let mut top = frames.last_mut();
        if let Some(frame) = top.as_deref_mut().filter(|frame| !frame.array && frame.key.is_none())
            && at(bytes, after) == b':'
        {
            self.builtin(&inside, layer + 1);
            frame.key = Some(inside.bytes().to_vec());
            return;
        }
        if self.builtin
            && let Some(frame) = top
        {
            let name = frame.key.clone().unwrap_or_else(|| frame.name.clone());
            if let Some(find) = keyed::member(&name, inside.bytes(), layer == 0) {
                self.push(&inside, find);
            }
            frame.note(&name, inside.bytes(), (start, end));
        }
        self.text(&inside, layer + 1);
    }

    /// The end of an object or an array: what only its parts together say.
    fn close(&mut self, view: &View<'_>, frame: &Frame, parent: Option<&mut Frame>, layer: usize) {
        if !self.builtin {
            return;
        }
        let texts: Vec<View<'_>> =
            frame.strings.iter().map(|(start, end)| view.json_string(*start, *end)).collect();
        if let Some(parent) = parent.filter(|parent| !parent.array)
            && matches!(parent.key.as_deref(), Some(b"data" | b"stringData"))
            && !frame.array
        {
            parent.values.extend(&frame.strings);
        }
        if frame.secret {
            for (start, end) in &frame.values {
                let inside = view.json_string(*start, *end);
                self.push(&inside, Find { start: 0, end: inside.bytes().len(), kind: "secret" });
            }
        }
        if let (Some(name), Some((start, end))) = (&frame.pair_name, frame.pair_value) {
            let inside = view.json_string(start, end);
            let find = keyed::member(name, inside.bytes(), layer == 0);
            let find = find.or_else(|| frame.cookies.then(|| whole(&inside)).flatten());
            find.into_iter().for_each(|find| self.push(&inside, find));
        } else if let (true, Some((start, end))) = (classify(&frame.name).is_some(), frame.pair_value) {
            // `"db_password": {"value": "…"}`
            let inside = view.json_string(start, end);
            let find = keyed::member(&frame.name, inside.bytes(), layer == 0);
            find.into_iter().for_each(|find| self.push(&inside, find));
        } else if frame.cookies && !frame.array {
            for inside in &texts {
                whole(inside).into_iter().for_each(|find| self.push(inside, find));
            }
        }
        if frame.array {
            self.array(frame, &texts, layer);
        }
    }

    /// The words of a command, `["--password", "…"]`, or a name and its value: `["Cookie", "a=1"]`.
    fn array(&mut self, frame: &Frame, texts: &[View<'_>], layer: usize) {
        if let [name, value] = texts
            && is_header(name.bytes(), value.bytes())
            && let Some(find) = keyed::member(name.bytes(), value.bytes(), layer == 0)
        {
            self.push(value, find);
        }
        for pair in texts.windows(2) {
            let [option, value] = pair else { continue };
            let name = option.bytes().iter().skip_while(|byte| **byte == b'-').copied().collect::<Vec<u8>>();
            let is_option = option.bytes().starts_with(b"-") && !value.bytes().starts_with(b"-");
            if is_option
                && classify(&name).is_some_and(|class| matches!(class, Class::Strong(_) | Class::Token))
                && let Some(find) = keyed::member(&name, value.bytes(), true)
            {
                self.push(value, find);
            }
        }
        let program = frame.program.as_deref();
        let words: Vec<Cow<'_, [u8]>> = program
            .into_iter()
            .map(Cow::Borrowed)
            .chain(texts.iter().take(WORDS).map(|view| Cow::Borrowed(view.bytes())))
            .collect();
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let skip = usize::from(program.is_some());
        // The program may stand behind others: `["sudo", "curl", …]`.
        for first in 0..words.len().min(4) {
            for part in shell::secrets(words.get(first..).unwrap_or_default()) {
                let Some(view) = (first + part.word).checked_sub(skip).and_then(|n| texts.get(n)) else {
                    continue;
                };
                self.push(view, Find { start: part.start, end: part.end, kind: part.kind });
            }
        }
    }
}

impl Frame {
    /// Remembers a value for what its neighbors say about it.
    fn note(&mut self, name: &[u8], text: &[u8], place: (usize, usize)) {
        if self.strings.len() < WORDS {
            self.strings.push(place);
        }
        if self.array {
            return;
        }
        let is = |words: &[&str]| words.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
        if is(&["name", "key", "header", "variable", "field"]) && text.len() <= 128 {
            self.pair_name = Some(text.to_vec());
        } else if is(&["value", "val", "default"]) {
            self.pair_value = Some(place);
        } else if is(&["command", "cmd", "program", "executable", "bin"]) && text.len() <= 128 {
            self.program = Some(text.to_vec());
        }
        self.secret |= is(&["kind"]) && text == b"Secret";
    }
}

/// Whether two strings of an array are a name and its value, and not two names.
fn is_header(name: &[u8], value: &[u8]) -> bool {
    match classify(name) {
        Some(Class::Authorization | Class::Cookie | Class::SetCookie) => true,
        Some(_) => value.iter().any(u8::is_ascii_digit) && classify(value).is_none(),
        None => false,
    }
}

/// All of a text, if it is long enough to be worth it.
fn whole(view: &View<'_>) -> Option<Find> {
    (view.bytes().len() >= 6).then(|| Find { start: 0, end: view.bytes().len(), kind: "cookie" })
}

/// The next place where JSON may begin inside other text, and where it ends; it ends where it begins if it is none.
fn fragment(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let begins = |pair: &[u8]| matches!(pair, [b'{', b'"'] | [b'[', b'{' | b'[' | b'"']);
    let start = from + bytes.get(from..)?.windows(2).position(begins)?;
    let mut values =
        serde_json::Deserializer::from_slice(bytes.get(start..)?).into_iter::<serde::de::IgnoredAny>();
    let whole = values.next().is_some_and(|value| value.is_ok());
    Some((start, start + if whole { values.byte_offset() } else { 0 }))
}

/// Whether a text is an object or an array of JSON, or a string that holds one.
fn is_json(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[' | b'"'))
        && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}
