//! The content of a message as Anthropic writes it, and Claude Code after it: a text, or a list of blocks.

use super::bounds::letters;
use super::fields::{Flag, Text};
use super::talk::End;
use flyball::{Denier, Fingerprint};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What stands in `content`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content<T, B> {
    /// A text.
    Text(T),
    /// A list of blocks.
    Blocks(Vec<B>),
}

impl<T, B> Default for Content<T, B> {
    fn default() -> Self {
        Content::Blocks(Vec::new())
    }
}

/// The content of a message.
pub(super) type Body<'a> = Content<Text<'a>, Block<'a>>;

/// One block of a message. Which fields are there depends on its type.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Outcome<'a>,
    pub(super) is_error: Flag,
    #[serde(borrow)]
    pub(super) source: Option<&'a RawValue>,
}

/// The content of a tool's result.
pub(super) type Outcome<'a> = Content<Text<'a>, &'a RawValue>;

/// One part of a tool's result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
}

struct ContentVisitor<B>(std::marker::PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for ContentVisitor<B> {
    type Value = Content<Text<'de>, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of blocks")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        while let Some(block) = access.next_element()? {
            blocks.push(block);
        }
        Ok(Content::Blocks(blocks))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }
}

impl<'de: 'a, 'a, B: Deserialize<'de>> Deserialize<'de> for Content<Text<'a>, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(std::marker::PhantomData))
    }
}

impl<'a> Block<'a> {
    /// The agent wants a tool, its own or one of the provider.
    pub(super) fn is_call(&self) -> bool {
        self.kind.ends_with("tool_use")
    }

    /// A call ended.
    pub(super) fn is_end(&self) -> bool {
        self.kind.ends_with("tool_result")
    }

    /// What stands for a block in a message: its text, or a mark for a picture.
    pub(super) fn words(&self) -> Option<Cow<'_, str>> {
        match &*self.kind {
            "text" => Some(Cow::Borrowed(&*self.text)),
            "image" | "document" => Some(Cow::Owned(mark(&self.kind, self.source))),
            _ => None,
        }
    }

    /// How the call ended.
    pub(super) fn end(self) -> End<'a> {
        let text = self.content.words();
        if !self.is_error.0 {
            return End::Ok(text);
        }
        match refusal(&text) {
            Some(by) => End::Denied(by),
            None => End::Failed(text),
        }
    }
}

impl<'a> Outcome<'a> {
    /// The text of a result; pictures are told apart by a mark.
    fn words(self) -> Cow<'a, str> {
        match self {
            Content::Text(text) => text.0,
            Content::Blocks(parts) if parts.len() == 1 => part(parts[0]),
            Content::Blocks(parts) => Cow::Owned(parts.into_iter().map(part).collect::<Vec<_>>().join("\n")),
        }
    }
}

fn part(raw: &RawValue) -> Cow<'_, str> {
    let part: Part<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    if part.text.is_empty() { Cow::Owned(mark(&part.kind, Some(raw))) } else { part.text.0 }
}

/// All that a message says, in one text.
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

/// A mark that stands for what is no text: equal for equal contents.
fn mark(kind: &str, source: Option<&RawValue>) -> String {
    let print = Fingerprint::of_text(source.map_or("", RawValue::get));
    format!("[{kind} {}]", letters(print))
}

/// Who refused a call, if its result is a refusal and nothing that the tool said.
fn refusal(text: &str) -> Option<Denier> {
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if begins(&[
        "The user doesn't want to proceed with this tool use",
        "The user doesn't want to take this action right now",
        "[Request interrupted by user",
        "User rejected tool use",
    ]) {
        return Some(Denier::Human);
    }
    let denied = begins(&["Permission to use "]) && text.contains("denied");
    let asked = begins(&["Claude requested permissions to "]) && text.contains("haven't granted");
    let hook = begins(&["Hook PreToolUse:"]) && text.contains("denied");
    (denied || asked || hook).then_some(Denier::Policy)
}
