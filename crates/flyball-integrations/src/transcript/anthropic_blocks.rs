//! Message content in the format of Anthropic and Claude Code: a string or a list of blocks.

use super::bounds::fingerprint_letters;
use super::conversation::CallEnd;
use super::lenient_fields::{LenientFlag, LenientText};
use flyball::{DeniedBy, Fingerprint};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The `content` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageContent<T, B> {
    /// A string.
    Text(T),
    /// A list of blocks.
    Blocks(Vec<B>),
}

impl<T, B> Default for MessageContent<T, B> {
    fn default() -> Self {
        MessageContent::Blocks(Vec::new())
    }
}

/// The content of a message.
pub(super) type BlockContent<'a> = MessageContent<LenientText<'a>, ContentBlock<'a>>;

/// One content block. The fields depend on its type.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: LenientText<'a>,
    #[serde(borrow)]
    pub(super) text: LenientText<'a>,
    #[serde(borrow)]
    pub(super) id: LenientText<'a>,
    #[serde(borrow)]
    pub(super) name: LenientText<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: LenientText<'a>,
    #[serde(borrow)]
    pub(super) content: ResultContent<'a>,
    pub(super) is_error: LenientFlag,
    #[serde(borrow)]
    pub(super) source: Option<&'a RawValue>,
}

/// The content of a tool result.
pub(super) type ResultContent<'a> = MessageContent<LenientText<'a>, &'a RawValue>;

/// One part of a tool result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ResultPart<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    text: LenientText<'a>,
}

struct ContentVisitor<B>(std::marker::PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for ContentVisitor<B> {
    type Value = MessageContent<LenientText<'de>, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of blocks")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(MessageContent::Text(LenientText(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(MessageContent::Text(LenientText(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(MessageContent::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(MessageContent::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(MessageContent::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(MessageContent::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(MessageContent::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        while let Some(block) = access.next_element()? {
            blocks.push(block);
        }
        Ok(MessageContent::Blocks(blocks))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(MessageContent::default())
    }
}

impl<'de: 'a, 'a, B: Deserialize<'de>> Deserialize<'de> for MessageContent<LenientText<'a>, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(std::marker::PhantomData))
    }
}

impl<'a> ContentBlock<'a> {
    /// Whether the block is a tool call, of a client or server tool.
    pub(super) fn is_call(&self) -> bool {
        self.kind.ends_with("tool_use")
    }

    /// Whether the block is a tool result.
    pub(super) fn is_result(&self) -> bool {
        self.kind.ends_with("tool_result")
    }

    /// The block's text, or a marker for an image.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match &*self.kind {
            "text" => Some(Cow::Borrowed(&*self.text)),
            "image" | "document" => Some(Cow::Owned(content_marker(&self.kind, self.source))),
            _ => None,
        }
    }

    /// The outcome of the call.
    pub(super) fn into_call_end(self) -> CallEnd<'a> {
        let text = self.content.into_text();
        if !self.is_error.0 {
            return CallEnd::Ok(text);
        }
        match denied_by(&text) {
            Some(by) => CallEnd::Denied(by),
            None => CallEnd::Failed(text),
        }
    }
}

impl<'a> ResultContent<'a> {
    /// The text of a result; images become markers.
    fn into_text(self) -> Cow<'a, str> {
        match self {
            MessageContent::Text(text) => text.0,
            MessageContent::Blocks(parts) if parts.len() == 1 => part_text(parts[0]),
            MessageContent::Blocks(parts) => {
                Cow::Owned(parts.into_iter().map(part_text).collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

fn part_text(raw: &RawValue) -> Cow<'_, str> {
    let part: ResultPart<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    if part.text.is_empty() { Cow::Owned(content_marker(&part.kind, Some(raw))) } else { part.text.0 }
}

/// Joins the texts of a message.
pub(super) fn joined<'b>(words: impl Iterator<Item = Cow<'b, str>>) -> Cow<'b, str> {
    let mut all = Cow::Borrowed("");
    for text in words.filter(|text| !text.trim().is_empty()) {
        if all.is_empty() {
            all = text;
        } else {
            all.to_mut().push_str("\n\n");
            all.to_mut().push_str(&text);
        }
    }
    all
}

/// A marker for content that is not text; equal contents have equal markers.
fn content_marker(kind: &str, source: Option<&RawValue>) -> String {
    let print = Fingerprint::of_text(source.map_or("", RawValue::get));
    format!("[{kind} {}]", fingerprint_letters(print))
}

/// Who denied a call, if its result is a denial message and not tool output.
fn denied_by(text: &str) -> Option<DeniedBy> {
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if begins(&[
        "The user doesn't want to proceed with this tool use",
        "The user doesn't want to take this action right now",
        "[Request interrupted by user",
        "User rejected tool use",
    ]) {
        return Some(DeniedBy::Human);
    }
    let denied = begins(&["Permission to use "]) && text.contains("denied");
    let asked = begins(&["Claude requested permissions to "]) && text.contains("haven't granted");
    let hook = begins(&["Hook PreToolUse:"]) && text.contains("denied");
    (denied || asked || hook).then_some(DeniedBy::Policy)
}
