//! Assembles a [`ModelReply`] from its parts.

use super::limits::{CHARS_PER_TOKEN, MAX_CALLS};
use super::message::{FinishReason, MalformedCall, ModelReply, ModelRequest, ModelToolCall, ModelUsage};
use super::price::TokenPrice;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Finish reason of a truncated reply.
const INCOMPLETE: &str = "incomplete";

/// A reply being received.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplyBuilder {
    pub(super) text: String,
    pub(super) calls: Vec<PartialToolCall>,
    pub(super) stop: Option<FinishReason>,
    pub(super) tokens: Option<ReportedTokens>,
    pub(super) model: Option<String>,
    /// Whether the end marker of the stream was seen.
    pub(super) saw_end: bool,
}

/// A tool call being received.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialToolCall {
    /// Index assigned by the provider.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// Raw arguments so far.
    pub(super) args: String,
}

/// Token counts reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReportedTokens {
    /// All input tokens, cached or not.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: u64,
    pub(super) cache_write: u64,
}

impl ReplyBuilder {
    /// The call with this index; created if new.
    pub(super) fn call_mut(&mut self, index: u64) -> Result<&mut PartialToolCall, String> {
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None if self.calls.len() >= MAX_CALLS => return Err(format!("more than {MAX_CALLS} tool calls")),
            None => {
                self.calls.push(PartialToolCall { index, ..PartialToolCall::default() });
                self.calls.len() - 1
            }
        };
        self.calls.get_mut(at).ok_or_else(|| "internal error: tool call not found".to_owned())
    }

    /// Appends text.
    pub(super) fn push_text(&mut self, text: &str, on_text: &mut dyn FnMut(&str)) {
        if !text.is_empty() {
            self.text.push_str(text);
            on_text(text);
        }
    }

    /// Builds the reply, possibly partial.
    pub(super) fn build(self, request: &ModelRequest, model: &str, price: Option<&TokenPrice>) -> ModelReply {
        let usage = self.usage(request, price);
        let mut reply = ModelReply {
            text: self.text,
            usage,
            model: self.model.unwrap_or_else(|| model.to_owned()),
            ..ModelReply::default()
        };
        let mut ids = BTreeSet::new();
        for (index, call) in self.calls.into_iter().enumerate() {
            // Some servers omit ids or repeat them.
            let id =
                if call.id.is_empty() || ids.contains(&call.id) { request.call_id(index) } else { call.id };
            ids.insert(id.clone());
            match parse_arguments(&call.name, &call.args) {
                Ok(args) => reply.calls.push(ModelToolCall { id, name: call.name, args }),
                Err(error) => {
                    reply.malformed.push(MalformedCall { id, name: call.name, raw: call.args, error });
                }
            }
        }
        let called = !reply.calls.is_empty() || !reply.malformed.is_empty();
        reply.stop = match self.stop {
            // Some servers report a normal end even with tool calls.
            Some(FinishReason::End) if called => FinishReason::ToolCalls,
            Some(stop) => stop,
            None if !self.saw_end => FinishReason::Other(INCOMPLETE.to_owned()),
            None if called => FinishReason::ToolCalls,
            None => FinishReason::End,
        };
        reply
    }

    fn usage(&self, request: &ModelRequest, price: Option<&TokenPrice>) -> ModelUsage {
        let mut usage = match self.tokens {
            Some(tokens) => ModelUsage {
                tokens_in: tokens.input,
                tokens_out: tokens.output,
                cached_in: tokens.cached,
                cache_write_in: tokens.cache_write,
                ..ModelUsage::default()
            },
            None => {
                let said =
                    self.calls.iter().map(|call| call.name.chars().count() + call.args.chars().count());
                let said = self.text.chars().count() + said.sum::<usize>();
                let tokens_out = (said as u64).div_ceil(CHARS_PER_TOKEN);
                ModelUsage {
                    tokens_in: request.estimate_tokens(),
                    tokens_out,
                    estimated: true,
                    ..ModelUsage::default()
                }
            }
        };
        usage.cost_micros = price.map(|price| price.cost_micros(&usage));
        usage
    }
}

/// Parses arguments as an object; empty text means no arguments.
fn parse_arguments(name: &str, raw: &str) -> Result<Value, String> {
    if name.is_empty() {
        return Err("the call names no tool".to_owned());
    }
    if raw.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(raw) {
        Ok(args @ Value::Object(_)) => Ok(args),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}
