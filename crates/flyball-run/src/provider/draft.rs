//! An answer while it comes in, and how it becomes a [`Reply`].

use super::limits::{CHARS_A_TOKEN, MAX_CALLS};
use super::message::{Call, MalformedCall, Reply, Request, Stop, Usage};
use super::price::Price;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Why an answer that broke off stopped.
const INCOMPLETE: &str = "incomplete";

/// An answer while it comes in.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) calls: Vec<DraftCall>,
    pub(super) stop: Option<Stop>,
    pub(super) tokens: Option<Tokens>,
    pub(super) model: Option<String>,
    /// The end marker of the stream was seen.
    pub(super) ended: bool,
}

/// A tool call while it comes in.
#[derive(Debug, Clone, Default)]
pub(super) struct DraftCall {
    /// Which one it is, in the provider's count.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as they came.
    pub(super) args: String,
}

/// The tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    /// All that went in, cached or not.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: u64,
    pub(super) cache_write: u64,
}

impl Draft {
    /// The call with this number, a new one if there is none.
    pub(super) fn call(&mut self, index: u64) -> Result<&mut DraftCall, String> {
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None if self.calls.len() >= MAX_CALLS => return Err(format!("more than {MAX_CALLS} tool calls")),
            None => {
                self.calls.push(DraftCall { index, ..DraftCall::default() });
                self.calls.len() - 1
            }
        };
        self.calls.get_mut(at).ok_or_else(|| "a tool call without a place".to_owned())
    }

    /// The next piece of text.
    pub(super) fn say(&mut self, text: &str, on_text: &mut dyn FnMut(&str)) {
        if !text.is_empty() {
            self.text.push_str(text);
            on_text(text);
        }
    }

    /// The reply, or what there is of one.
    pub(super) fn finish(self, request: &Request, model: &str, price: Option<&Price>) -> Reply {
        let usage = self.usage(request, price);
        let mut reply = Reply {
            text: self.text,
            usage,
            model: self.model.unwrap_or_else(|| model.to_owned()),
            ..Reply::default()
        };
        let mut ids = BTreeSet::new();
        for (index, call) in self.calls.into_iter().enumerate() {
            // Some servers give no ids, or the same one twice.
            let id =
                if call.id.is_empty() || ids.contains(&call.id) { request.call_id(index) } else { call.id };
            ids.insert(id.clone());
            match arguments(&call.name, &call.args) {
                Ok(args) => reply.calls.push(Call { id, name: call.name, args }),
                Err(error) => {
                    reply.malformed.push(MalformedCall { id, name: call.name, raw: call.args, error });
                }
            }
        }
        let called = !reply.calls.is_empty() || !reply.malformed.is_empty();
        reply.stop = match self.stop {
            // Some servers say that they have simply ended.
            Some(Stop::End) if called => Stop::ToolCalls,
            Some(stop) => stop,
            None if !self.ended => Stop::Other(INCOMPLETE.to_owned()),
            None if called => Stop::ToolCalls,
            None => Stop::End,
        };
        reply
    }

    fn usage(&self, request: &Request, price: Option<&Price>) -> Usage {
        let mut usage = match self.tokens {
            Some(tokens) => Usage {
                tokens_in: tokens.input,
                tokens_out: tokens.output,
                cached_in: tokens.cached,
                cache_write_in: tokens.cache_write,
                ..Usage::default()
            },
            None => {
                let said =
                    self.calls.iter().map(|call| call.name.chars().count() + call.args.chars().count());
                let said = self.text.chars().count() + said.sum::<usize>();
                let tokens_out = (said as u64).div_ceil(CHARS_A_TOKEN);
                Usage { tokens_in: request.estimate(), tokens_out, estimated: true, ..Usage::default() }
            }
        };
        usage.cost_micros = price.map(|price| price.cost_micros(&usage));
        usage
    }
}

/// The arguments as an object; no arguments at all are an empty one.
fn arguments(name: &str, raw: &str) -> Result<Value, String> {
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
