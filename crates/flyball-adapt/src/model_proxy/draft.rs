//! An answer while it comes in: put together from a copy of the bytes, which go their way untouched.

use super::dialect::Dialect;
use super::entry::{Call, Entry, arguments};
use super::sse::Sse;
use serde_json::Value;

/// The largest answer that is looked into; a longer one goes its way unseen.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The most calls of one answer.
const MOST_CALLS: usize = 256;

/// The tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All that went in, cached or not.
    pub input: u64,
    /// What came out.
    pub output: u64,
    /// Of those that went in: read from the provider's cache.
    pub cached: u64,
    /// Of those that went in: written to it.
    pub written: u64,
}

/// A call while it comes in.
#[derive(Debug, Clone, Default)]
pub(super) struct DraftCall {
    /// Which one it is, in the provider's count.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as they came.
    pub(super) args: String,
}

/// What is known of an answer so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// The provider's name for the answer.
    pub(super) id: String,
    /// The model that gave it.
    pub(super) model: String,
    pub(super) text: String,
    pub(super) calls: Vec<DraftCall>,
    pub(super) tokens: Option<Tokens>,
    /// The model has stopped; only numbers may follow.
    pub(super) stopped: bool,
    /// It is complete.
    pub(super) ended: bool,
}

impl Draft {
    /// The call with this number, a new one if there is none; `None` if there are too many.
    pub(super) fn call(&mut self, index: u64) -> Option<&mut DraftCall> {
        if let Some(at) = self.calls.iter().position(|call| call.index == index) {
            return self.calls.get_mut(at);
        }
        if self.calls.len() >= MOST_CALLS {
            return None;
        }
        self.calls.push(DraftCall { index, ..DraftCall::default() });
        self.calls.last_mut()
    }

    /// The answer as an entry of the conversation.
    pub(super) fn entry(&self) -> Option<Entry> {
        let calls = self.calls.iter().filter(|call| !call.name.is_empty());
        let calls = calls.map(|call| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            args: arguments(&call.args),
        });
        Entry::answer(self.text.clone(), calls.collect())
    }

    /// How much was said, for an estimate where the provider tells no tokens.
    pub(super) fn chars(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.chars().count() + call.args.chars().count());
        self.text.chars().count() + calls.sum::<usize>()
    }
}

/// How an answer is written.
#[derive(Debug)]
enum Shape {
    /// Nobody knows yet: servers write the wrong content type, so the first byte tells.
    New,
    /// Events of a stream.
    Stream(Sse),
    /// One JSON object.
    Whole(Vec<u8>),
    /// Too long.
    Unseen,
}

/// Looks into the copy of an answer.
#[derive(Debug)]
pub(super) struct Tap {
    dialect: Dialect,
    shape: Shape,
    seen: usize,
    draft: Draft,
}

impl Tap {
    /// A tap for an answer.
    pub(super) fn new(dialect: Dialect) -> Self {
        Tap { dialect, shape: Shape::New, seen: 0, draft: Draft::default() }
    }

    /// Takes the next bytes. `true` if the answer says itself that it is complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.seen = self.seen.saturating_add(bytes.len());
        if self.seen > MOST_BYTES {
            self.shape = Shape::Unseen;
        }
        if let (Shape::New, Some(first)) = (&self.shape, bytes.trim_ascii_start().first()) {
            self.shape =
                if *first == b'{' { Shape::Whole(Vec::new()) } else { Shape::Stream(Sse::default()) };
        }
        match &mut self.shape {
            Shape::Stream(sse) => {
                let (dialect, draft) = (self.dialect, &mut self.draft);
                sse.push(bytes, &mut |data| dialect.streamed(draft, data));
            }
            Shape::Whole(all) => all.extend_from_slice(bytes),
            Shape::New | Shape::Unseen => {}
        }
        self.draft.ended
    }

    /// Nothing more comes: what was answered, if it could be understood.
    pub(super) fn finish(self) -> Option<Draft> {
        let mut draft = self.draft;
        match self.shape {
            Shape::Stream(_) => draft.ended |= draft.stopped,
            Shape::Whole(all) => {
                let body: Value = serde_json::from_slice(&all).ok()?;
                self.dialect.whole(&mut draft, &body);
            }
            Shape::New | Shape::Unseen => return None,
        }
        Some(draft)
    }
}
