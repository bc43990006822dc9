//! An answer being received: built from a copy of the bytes, which are forwarded unchanged.

use super::entry::{ConversationEntry, ProxyToolCall, parse_arguments};
use super::protocol::ProxyProtocol;
use super::sse::SseDataReader;
use serde_json::Value;

/// Maximum size of an inspected answer, in bytes; a longer one is forwarded without inspection.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of calls in one answer.
const MAX_CALLS: usize = 256;

/// Token counts reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyTokens {
    /// All input tokens, cached or not.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_written: u64,
}

/// A call being received.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialCall {
    /// The provider's index of the call.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments received so far.
    pub(super) args: String,
}

/// The part of an answer received so far.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialAnswer {
    /// The provider's id of the answer.
    pub(super) id: String,
    /// The model that produced it.
    pub(super) model: String,
    pub(super) text: String,
    pub(super) calls: Vec<PartialCall>,
    pub(super) tokens: Option<ProxyTokens>,
    /// Whether the model has stopped; only usage may follow.
    pub(super) stopped: bool,
    /// Whether the answer is complete.
    pub(super) complete: bool,
}

impl PartialAnswer {
    /// The call with this index, created if missing; `None` if there are too many calls.
    pub(super) fn call(&mut self, index: u64) -> Option<&mut PartialCall> {
        if let Some(at) = self.calls.iter().position(|call| call.index == index) {
            return self.calls.get_mut(at);
        }
        if self.calls.len() >= MAX_CALLS {
            return None;
        }
        self.calls.push(PartialCall { index, ..PartialCall::default() });
        self.calls.last_mut()
    }

    /// The answer as a conversation entry.
    pub(super) fn to_entry(&self) -> Option<ConversationEntry> {
        let calls = self.calls.iter().filter(|call| !call.name.is_empty());
        let calls = calls.map(|call| ProxyToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            args: parse_arguments(&call.args),
        });
        ConversationEntry::answer(self.text.clone(), calls.collect())
    }

    /// Length of the answer in characters, for estimates if the provider reports no usage.
    pub(super) fn char_count(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.chars().count() + call.args.chars().count());
        self.text.chars().count() + calls.sum::<usize>()
    }
}

/// The format of an answer.
#[derive(Debug)]
enum AnswerShape {
    /// Not known yet. The first byte decides, because some servers send a wrong content type.
    Unknown,
    /// Server-sent events.
    Stream(SseDataReader),
    /// One JSON object.
    Json(Vec<u8>),
    /// Too long.
    TooLarge,
}

/// Inspects a copy of an answer.
#[derive(Debug)]
pub(super) struct AnswerTap {
    protocol: ProxyProtocol,
    shape: AnswerShape,
    bytes_seen: usize,
    answer: PartialAnswer,
}

impl AnswerTap {
    /// Creates a tap for an answer.
    pub(super) fn new(protocol: ProxyProtocol) -> Self {
        AnswerTap { protocol, shape: AnswerShape::Unknown, bytes_seen: 0, answer: PartialAnswer::default() }
    }

    /// Consumes bytes. Returns `true` once the answer is complete according to its content.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes_seen = self.bytes_seen.saturating_add(bytes.len());
        if self.bytes_seen > MAX_ANSWER_BYTES {
            self.shape = AnswerShape::TooLarge;
        }
        if let (AnswerShape::Unknown, Some(first)) = (&self.shape, bytes.trim_ascii_start().first()) {
            self.shape = if *first == b'{' {
                AnswerShape::Json(Vec::new())
            } else {
                AnswerShape::Stream(SseDataReader::default())
            };
        }
        match &mut self.shape {
            AnswerShape::Stream(sse) => {
                let (protocol, draft) = (self.protocol, &mut self.answer);
                sse.push(bytes, &mut |data| protocol.apply_stream_event(draft, data));
            }
            AnswerShape::Json(all) => all.extend_from_slice(bytes),
            AnswerShape::Unknown | AnswerShape::TooLarge => {}
        }
        self.answer.complete
    }

    /// Returns the answer at the end of the body, if it could be parsed.
    pub(super) fn finish(self) -> Option<PartialAnswer> {
        let mut draft = self.answer;
        match self.shape {
            AnswerShape::Stream(_) => draft.complete |= draft.stopped,
            AnswerShape::Json(all) => {
                let body: Value = serde_json::from_slice(&all).ok()?;
                self.protocol.apply_full_answer(&mut draft, &body);
            }
            AnswerShape::Unknown | AnswerShape::TooLarge => return None,
        }
        Some(draft)
    }
}
