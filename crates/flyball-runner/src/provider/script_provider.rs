//! Scripted provider for examples and tests.
//!
//! The next reply depends on the conversation alone (the node, its turn, the number of replies in it), never on a
//! counter in memory: a resumed run gets the same replies.

use super::Provider;
use super::attempt_error::{AttemptError, Retryability};
use super::message::{ChatMessage, FinishReason, ModelReply, ModelRequest};
use super::provider_config::config_error;
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::reply_builder::{PartialToolCall, ReplyBuilder, ReportedTokens};
use super::retry::{AttemptInfo, ProviderProgress, cancelled_error, deadline_error, with_retries};
use super::script_config::{
    ScriptAnswer, ScriptCall, ScriptCondition, ScriptConfig, ScriptRepeat, ScriptReply,
};
use crate::process::CancelToken;
use regex::Regex;
use serde_json::Value;

const MODEL: &str = "script";

/// Provider with scripted replies.
#[derive(Debug)]
pub(super) struct ScriptProvider {
    name: String,
    config: ScriptConfig,
    /// Compiled regular expressions of the rules.
    patterns: Vec<Option<Regex>>,
}

impl ScriptProvider {
    pub(super) fn new(name: &str, config: &ScriptConfig) -> Result<Self, ProviderError> {
        let place = format!("providers.{name}");
        let mut patterns = Vec::new();
        for (index, rule) in config.rules.iter().enumerate() {
            let place = format!("{place}.rules[{index}].when");
            if rule.when == ScriptCondition::default() {
                return Err(config_error(
                    name,
                    &format!("{place} is empty"),
                    "add a condition, or use `otherwise`",
                ));
            }
            let compiled = rule.when.matches.as_deref().map(Regex::new).transpose();
            let broken =
                |_| config_error(name, &format!("{place}.matches is not a regular expression"), "fix it");
            patterns.push(compiled.map_err(broken)?);
        }
        for (node, script) in &config.nodes {
            if !script.turns.is_empty() && !script.replies.is_empty() {
                let what = format!("{place}.nodes.{node} has both `turns` and `replies`");
                return Err(config_error(name, &what, "remove one of them"));
            }
            if script.turns.iter().any(Vec::is_empty) {
                return Err(config_error(
                    name,
                    &format!("{place}.nodes.{node} has an empty turn"),
                    "add a reply",
                ));
            }
        }
        config.retry.check().map_err(|what| config_error(name, &format!("{place}: {what}"), "fix it"))?;
        Ok(ScriptProvider { name: name.to_owned(), config: config.clone(), patterns })
    }

    /// Reply to a request; a pure function of the request.
    fn answer_for(&self, request: &ModelRequest) -> Option<&ScriptAnswer> {
        let rules = self.config.rules.iter().zip(&self.patterns);
        let rule = rules
            .into_iter()
            .find(|(rule, pattern)| condition_matches(&rule.when, pattern.as_ref(), request));
        let reply = rule.map(|(rule, _)| &rule.reply).or_else(|| self.listed_reply(request));
        reply.or(self.config.otherwise.as_ref()).map(|reply| reply.0.as_ref())
    }

    fn listed_reply(&self, request: &ModelRequest) -> Option<&ScriptReply> {
        let round = request.round() - 1;
        let node = request.node.as_ref().and_then(|node| self.config.nodes.get(node));
        match node {
            None => self.nth_or_repeat(&self.config.replies, round),
            Some(node) if node.turns.is_empty() => self.nth_or_repeat(&node.replies, round),
            Some(node) => {
                let turn = usize::try_from(request.turn() - 1).unwrap_or(usize::MAX);
                self.nth_or_repeat(self.nth_or_repeat(&node.turns, turn)?, round)
            }
        }
    }

    fn nth_or_repeat<'a, T>(&self, list: &'a [T], index: usize) -> Option<&'a T> {
        match self.config.repeat {
            ScriptRepeat::None => list.get(index),
            ScriptRepeat::Last => list.get(index).or(list.last()),
        }
    }

    fn model(&self) -> &str {
        self.config.model.as_deref().unwrap_or(MODEL)
    }

    fn exhausted_error(&self, request: &ModelRequest) -> AttemptError {
        let node = request.node.as_deref().map(|node| format!(" of node '{node}'")).unwrap_or_default();
        let (turn, round) = (request.turn(), request.round());
        let what = format!("the script has no reply {round} in turn {turn}{node}");
        AttemptError::new(ProviderErrorCode::ScriptExhausted, Retryability::Never, what)
    }

    fn attempt(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        this: AttemptInfo,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ModelReply, AttemptError> {
        let said = self.answer_for(request).ok_or_else(|| self.exhausted_error(request))?;
        if let Some(wait) = said.wait {
            // Bounded by the remaining time, after which a real provider would be abandoned.
            if cancel.wait_timeout(wait.0.min(this.remaining())) {
                return Err(cancelled_error());
            }
            if this.remaining().is_zero() {
                return Err(deadline_error());
            }
        }
        let fails = said.times.is_none_or(|times| this.number <= times);
        if let Some(failure) = said.fail.as_ref().filter(|_| fails) {
            let wait = failure.retry_after.map(|wait| wait.0);
            return Err(AttemptError::from_status(failure.status, &failure.message, wait));
        }
        let mut draft = reply_builder(said, request);
        let cut = said.cut_at.filter(|_| fails);
        if let Some(cut) = cut {
            draft.text = draft.text.chars().take(cut).collect();
            draft.calls.clear();
            draft.stop = None;
            draft.saw_end = false;
        }
        for word in draft.text.split_inclusive(' ') {
            on_text(word);
        }
        let reply = draft.build(request, self.model(), self.config.price.as_ref());
        match cut {
            None => Ok(reply),
            Some(_) => {
                let mut error = AttemptError::new(
                    ProviderErrorCode::Truncated,
                    Retryability::AfterPartial,
                    "the reply was truncated",
                );
                error.partial = (!reply.text.is_empty()).then(|| Box::new(reply));
                Err(error)
            }
        }
    }
}

impl Provider for ScriptProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask_with_progress(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        watch: &mut dyn FnMut(ProviderProgress<'_>),
    ) -> Result<ModelReply, ProviderError> {
        let mut attempt =
            |this: AttemptInfo, on_text: &mut dyn FnMut(&str)| self.attempt(request, cancel, this, on_text);
        with_retries(&self.name, &self.config.retry, request, cancel, watch, &mut attempt)
    }
}

fn reply_builder(said: &ScriptAnswer, request: &ModelRequest) -> ReplyBuilder {
    let tokens = said.usage.map(|usage| ReportedTokens {
        input: usage.tokens_in,
        output: usage.tokens_out,
        cached: usage.cached_in,
        cache_write: 0,
    });
    let args = |call: &ScriptCall| match (&call.raw, &call.args) {
        (Some(raw), _) => raw.clone(),
        (None, Value::Null) => String::new(),
        (None, args) => args.to_string(),
    };
    let calls = said.calls.iter().enumerate().map(|(index, call)| PartialToolCall {
        index: index as u64,
        id: call.id.clone().unwrap_or_else(|| request.call_id(index)),
        name: call.tool.clone(),
        args: args(call),
    });
    ReplyBuilder {
        text: said.text.clone(),
        calls: calls.collect(),
        stop: said.stop.as_deref().map(FinishReason::from_wire),
        tokens,
        model: None,
        saw_end: true,
    }
}

/// Whether all parts of a condition hold.
fn condition_matches(when: &ScriptCondition, pattern: Option<&Regex>, request: &ModelRequest) -> bool {
    let spoke = request.messages.iter().rposition(ChatMessage::is_assistant);
    let last = request.messages.get(spoke.map_or(0, |at| at + 1)..).unwrap_or_default();
    let says = |test: &dyn Fn(&str) -> bool| last.iter().any(|message| test(message.text()));
    let failed = last.iter().any(|message| matches!(message, ChatMessage::ToolResult { ok: false, .. }));
    let called = |tool: &String| {
        let calls = match spoke.and_then(|at| request.messages.get(at)) {
            Some(ChatMessage::Assistant { calls, .. }) => calls.as_slice(),
            _ => &[],
        };
        let of_tool = |id: &String| calls.iter().any(|call| call.id == *id && call.name == *tool);
        last.iter().any(|message| matches!(message, ChatMessage::ToolResult { call, .. } if of_tool(call)))
    };
    when.contains.as_ref().is_none_or(|text| says(&|said| said.contains(text.as_str())))
        && pattern.is_none_or(|pattern| says(&|said| pattern.is_match(said)))
        && when.tool_failed.is_none_or(|wanted| wanted == failed)
        && when.tool.as_ref().is_none_or(called)
        && when.node.as_ref().is_none_or(|node| request.node.as_ref() == Some(node))
        && when.turn.is_none_or(|turn| turn == request.turn())
        && when.round.is_none_or(|round| round == request.round() as u64)
}
