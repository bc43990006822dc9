//! Search in JSON: decodes and examines every string, with the names of values taken into account.

use super::byte_scan::{byte_at, run_end, string_end};
use super::decoded_view::DecodedView;
use super::kubernetes_secret;
use super::name_class::{NameClass, classify};
use super::{
    CUSTOM_KIND, SecretSpan, anchor_scan, anchors::Anchor, command_args, credential_formats, keyed,
    outside_replacements, token_formats,
};
use regex::Regex;
use std::borrow::Cow;

/// Maximum depth of nested JSON and other encodings.
const MAX_DECODE_DEPTH: usize = 8;
/// Maximum number of JSON fragments in other text.
const MAX_JSON_FRAGMENTS: usize = 16;
/// Maximum number of array strings that are examined as the words of a command.
const MAX_ARRAY_STRINGS: usize = 256;

/// Finds secrets and collects their positions in the original.
pub(super) struct SecretSearch<'a> {
    pub(super) builtin: bool,
    pub(super) patterns: &'a [Regex],
    pub(super) found: Vec<SecretSpan>,
}

/// An object or array that is being read.
#[derive(Default)]
struct SearchFrame {
    array: bool,
    /// Decoded name of the current object member.
    key: Option<Vec<u8>>,
    /// Name of this object or array in its parent.
    name: Vec<u8>,
    /// `"name": "DB_PASSWORD"`.
    pair_name: Option<Vec<u8>>,
    /// Location of the text of `"value": "…"`.
    pair_value: Option<(usize, usize)>,
    /// Program whose arguments are in an array of this object.
    program: Option<Vec<u8>>,
    /// Locations of the direct strings.
    strings: Vec<(usize, usize)>,
    /// Whether this is a manifest of kind `Secret`, and the locations of its values.
    secret: bool,
    values: Vec<(usize, usize)>,
    /// Whether the values are cookies.
    cookies: bool,
}

impl SecretSearch<'_> {
    /// Searches a text, as JSON if it is JSON.
    pub(super) fn search_text(&mut self, view: &DecodedView<'_>, layer: usize) {
        if layer >= MAX_DECODE_DEPTH {
            return;
        }
        let json = (self.may_contain_secret(view) || !self.patterns.is_empty()) && is_json(view.bytes());
        // Patterns apply to the strings of an event, not to its JSON.
        if layer > 0 || !json {
            self.search_patterns(view);
        }
        if json {
            self.search_json(view, layer);
        } else {
            self.search_builtin(view, layer);
        }
    }

    fn may_contain_secret(&self, view: &DecodedView<'_>) -> bool {
        self.builtin && anchor_scan::may_contain_secret(view.bytes())
    }

    /// Searches a text with the built-in rules, as JSON if it is or contains JSON.
    fn search_builtin(&mut self, view: &DecodedView<'_>, layer: usize) {
        if layer >= MAX_DECODE_DEPTH || !self.may_contain_secret(view) {
            return;
        }
        let mut from = 0;
        for _ in 0..MAX_JSON_FRAGMENTS {
            let Some((start, end)) = next_json_fragment(view.bytes(), from) else { break };
            if end > start {
                self.search_json(&view.slice(start, end), layer + 1);
            }
            from = end.max(start + 1);
        }
        self.search_plain(view, layer);
    }

    fn search_patterns(&mut self, view: &DecodedView<'_>) {
        if self.patterns.is_empty() {
            return;
        }
        let Ok(text) = std::str::from_utf8(view.bytes()) else { return };
        for pattern in self.patterns {
            for hit in pattern.find_iter(text).filter(|hit| !hit.is_empty()) {
                for (start, end) in outside_replacements(text, hit.start(), hit.end()) {
                    self.found.push(SecretSpan {
                        start: view.origin(start),
                        end: view.origin(end),
                        kind: CUSTOM_KIND,
                    });
                }
            }
        }
    }

    fn push(&mut self, view: &DecodedView<'_>, find: SecretSpan) {
        let text = view.bytes().get(find.start..find.end).unwrap_or_default();
        let marked = text
            .windows(super::REPLACEMENT_PREFIX.len())
            .any(|part| part == super::REPLACEMENT_PREFIX.as_bytes());
        if find.start < find.end && !marked {
            let (start, end) = (view.origin(find.start), view.origin(find.end));
            self.found.push(SecretSpan { start, end, kind: find.kind });
        }
    }

    /// Searches a text that is not JSON, and its other encodings.
    fn search_plain(&mut self, view: &DecodedView<'_>, layer: usize) {
        let bytes = view.bytes();
        let (mut done, mut from) = (0, 0);
        let (mut escapes, mut percents) = (false, false);
        let mut vain = token_formats::RejectedUpTo::default();
        let (mut command, mut manifest) = (0, 0);
        while let Some(hit) = anchor_scan::next_anchor(bytes, from) {
            from = hit.start + 1;
            let find = match hit.anchor {
                Anchor::Escape => {
                    escapes |= matches!(byte_at(bytes, hit.end), b'2'..=b'7');
                    None
                }
                Anchor::Percent => {
                    percents |= byte_at(bytes, hit.end).is_ascii_hexdigit();
                    None
                }
                Anchor::Command if hit.start >= command => {
                    let (finds, end) = command_args::find(bytes, hit.start);
                    command = end;
                    finds.into_iter().for_each(|find| self.push(view, find));
                    None
                }
                Anchor::Command => None,
                Anchor::PipedCommand => {
                    if let Some(find) = command_args::find_piped_password(bytes, hit.start, hit.end) {
                        self.push(view, find);
                    }
                    None
                }
                Anchor::SecretName if kubernetes_secret::is_secret_kind(bytes, hit.start, hit.end) => {
                    if hit.start >= manifest {
                        let (finds, end) = kubernetes_secret::find(bytes, hit.start);
                        manifest = end;
                        finds.into_iter().for_each(|find| self.push(view, find));
                    }
                    None
                }
                Anchor::SecretName => keyed::find(bytes, hit.start, hit.end),
                other => token_formats::find(bytes, other, hit.start, hit.end, &mut vain)
                    .or_else(|| credential_formats::find(bytes, other, hit.start, hit.end)),
            };
            if let Some(find) = find.filter(|find| find.start >= done && find.start < find.end) {
                done = find.end;
                from = from.max(done);
                self.push(view, find);
            }
        }
        if escapes && layer + 1 < MAX_DECODE_DEPTH {
            self.search_plain(&view.decode_unicode_escapes(), layer + 1);
        }
        if percents && layer + 1 < MAX_DECODE_DEPTH {
            self.search_plain(&view.decode_percent_escapes(), layer + 1);
        }
    }

    fn search_json(&mut self, view: &DecodedView<'_>, layer: usize) {
        let bytes = view.bytes();
        let mut frames: Vec<SearchFrame> = Vec::new();
        let mut place = 0;
        while place < bytes.len() {
            match byte_at(bytes, place) {
                open @ (b'{' | b'[') => {
                    let parent = frames.last();
                    let name =
                        parent.and_then(|frame| frame.key.clone().or_else(|| Some(frame.name.clone())));
                    let name = name.unwrap_or_default();
                    let program = parent.filter(|_| open == b'[').and_then(|frame| frame.program.clone());
                    let cookies =
                        parent.is_some_and(|frame| frame.cookies) || name.eq_ignore_ascii_case(b"cookies");
                    frames.push(SearchFrame {
                        array: open == b'[',
                        name,
                        program,
                        cookies,
                        ..SearchFrame::default()
                    });
                }
                b'}' | b']' => {
                    if let Some(frame) = frames.pop() {
                        self.close_frame(view, &frame, frames.last_mut(), layer);
                    }
                    if let Some(parent) = frames.last_mut().filter(|frame| !frame.array) {
                        parent.key = None;
                    }
                }
                b'"' => {
                    let start = place + 1;
                    let end = string_end(bytes, start, 0, usize::MAX).unwrap_or(bytes.len());
                    self.search_string(view, &mut frames, (start, end), layer);
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

    /// Searches a JSON string: a member name or a value.
    fn search_string(
        &mut self,
        view: &DecodedView<'_>,
        frames: &mut [SearchFrame],
        (start, end): (usize, usize),
        layer: usize,
    ) {
        let bytes = view.bytes();
        let after = run_end(bytes, end + 1, |byte| byte.is_ascii_whitespace());
        let inside = view.decode_json_string(start, end);
        let mut top = frames.last_mut();
        if let Some(frame) = top.as_deref_mut().filter(|frame| !frame.array && frame.key.is_none())
            && byte_at(bytes, after) == b':'
        {
            self.search_builtin(&inside, layer + 1);
            frame.key = Some(inside.bytes().to_vec());
            return;
        }
        if self.builtin
            && let Some(frame) = top
        {
            let name = frame.key.clone().unwrap_or_else(|| frame.name.clone());
            if let Some(find) = keyed::find_in_member(&name, inside.bytes(), layer == 0) {
                self.push(&inside, find);
            }
            frame.record_value(&name, inside.bytes(), (start, end));
        }
        self.search_text(&inside, layer + 1);
    }

    /// Closes an object or array: applies the rules that need all its parts.
    fn close_frame(
        &mut self,
        view: &DecodedView<'_>,
        frame: &SearchFrame,
        parent: Option<&mut SearchFrame>,
        layer: usize,
    ) {
        if !self.builtin {
            return;
        }
        let texts: Vec<DecodedView<'_>> =
            frame.strings.iter().map(|(start, end)| view.decode_json_string(*start, *end)).collect();
        if let Some(parent) = parent.filter(|parent| !parent.array)
            && matches!(parent.key.as_deref(), Some(b"data" | b"stringData"))
            && !frame.array
        {
            parent.values.extend(&frame.strings);
        }
        if frame.secret {
            for (start, end) in &frame.values {
                let inside = view.decode_json_string(*start, *end);
                self.push(&inside, SecretSpan { start: 0, end: inside.bytes().len(), kind: "secret" });
            }
        }
        if let (Some(name), Some((start, end))) = (&frame.pair_name, frame.pair_value) {
            let inside = view.decode_json_string(start, end);
            let find = keyed::find_in_member(name, inside.bytes(), layer == 0);
            let find = find.or_else(|| frame.cookies.then(|| whole_span(&inside)).flatten());
            find.into_iter().for_each(|find| self.push(&inside, find));
        } else if let (true, Some((start, end))) = (classify(&frame.name).is_some(), frame.pair_value) {
            // `"db_password": {"value": "…"}`
            let inside = view.decode_json_string(start, end);
            let find = keyed::find_in_member(&frame.name, inside.bytes(), layer == 0);
            find.into_iter().for_each(|find| self.push(&inside, find));
        } else if frame.cookies && !frame.array {
            for inside in &texts {
                whole_span(inside).into_iter().for_each(|find| self.push(inside, find));
            }
        }
        if frame.array {
            self.search_array(frame, &texts, layer);
        }
    }

    /// The words of a command, `["--password", "…"]`, or a name and its value: `["Cookie", "a=1"]`.
    fn search_array(&mut self, frame: &SearchFrame, texts: &[DecodedView<'_>], layer: usize) {
        if let [name, value] = texts
            && is_header(name.bytes(), value.bytes())
            && let Some(find) = keyed::find_in_member(name.bytes(), value.bytes(), layer == 0)
        {
            self.push(value, find);
        }
        for pair in texts.windows(2) {
            let [option, value] = pair else { continue };
            let name = option.bytes().iter().skip_while(|byte| **byte == b'-').copied().collect::<Vec<u8>>();
            let is_option = option.bytes().starts_with(b"-") && !value.bytes().starts_with(b"-");
            if is_option
                && classify(&name)
                    .is_some_and(|class| matches!(class, NameClass::Strong(_) | NameClass::Token))
                && let Some(find) = keyed::find_in_member(&name, value.bytes(), true)
            {
                self.push(value, find);
            }
        }
        let program = frame.program.as_deref();
        let words: Vec<Cow<'_, [u8]>> = program
            .into_iter()
            .map(Cow::Borrowed)
            .chain(texts.iter().take(MAX_ARRAY_STRINGS).map(|view| Cow::Borrowed(view.bytes())))
            .collect();
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let skip = usize::from(program.is_some());
        // The program may follow others: `["sudo", "curl", …]`.
        for first in 0..words.len().min(4) {
            for part in command_args::find_secret_args(words.get(first..).unwrap_or_default()) {
                let Some(view) = (first + part.word).checked_sub(skip).and_then(|n| texts.get(n)) else {
                    continue;
                };
                self.push(view, SecretSpan { start: part.start, end: part.end, kind: part.kind });
            }
        }
    }
}

impl SearchFrame {
    /// Records a value that its neighbors may mark as a secret.
    fn record_value(&mut self, name: &[u8], text: &[u8], place: (usize, usize)) {
        if self.strings.len() < MAX_ARRAY_STRINGS {
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

/// Whether two strings of an array are a name and its value, not two names.
fn is_header(name: &[u8], value: &[u8]) -> bool {
    match classify(name) {
        Some(NameClass::Authorization | NameClass::Cookie | NameClass::SetCookie) => true,
        Some(_) => value.iter().any(u8::is_ascii_digit) && classify(value).is_none(),
        None => false,
    }
}

/// The whole text, if it is long enough.
fn whole_span(view: &DecodedView<'_>) -> Option<SecretSpan> {
    (view.bytes().len() >= 6).then(|| SecretSpan { start: 0, end: view.bytes().len(), kind: "cookie" })
}

/// Start and end of the next JSON fragment in other text. Both are equal if it turns out not to be JSON.
fn next_json_fragment(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let begins = |pair: &[u8]| matches!(pair, [b'{', b'"'] | [b'[', b'{' | b'[' | b'"']);
    let start = from + bytes.get(from..)?.windows(2).position(begins)?;
    let mut values =
        serde_json::Deserializer::from_slice(bytes.get(start..)?).into_iter::<serde::de::IgnoredAny>();
    let whole = values.next().is_some_and(|value| value.is_ok());
    Some((start, start + if whole { values.byte_offset() } else { 0 }))
}

/// Whether a text is a JSON object or array, or a string that contains one.
fn is_json(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[' | b'"'))
        && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}
