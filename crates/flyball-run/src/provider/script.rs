//! A provider that says what a script tells it to, for examples and tests.
//!
//! Which answer comes next follows from the conversation alone (the node, its turn, how often the model has spoken in
//! it), never from a counter in memory: a run that was killed and resumed gets the same answers.

use super::Provider;
use super::config::wrong;
use super::draft::{Draft, DraftCall, Tokens};
use super::error::{Code, ProviderError};
use super::fault::{Again, Fault};
use super::message::{Message, Reply, Request, Stop};
use super::retry::{Progress, Try, cancelled, out_of_time, persist};
use super::script_config::{Repeat, Said, ScriptCall, ScriptConfig, ScriptReply, When};
use crate::process::Cancel;
use regex::Regex;
use serde_json::Value;

const MODEL: &str = "script";

/// A scripted provider.
#[derive(Debug)]
pub(super) struct ScriptProvider {
    name: String,
    config: ScriptConfig,
    /// The regular expressions of the rules, compiled.
    patterns: Vec<Option<Regex>>,
}

impl ScriptProvider {
    pub(super) fn new(name: &str, config: &ScriptConfig) -> Result<Self, ProviderError> {
        let place = format!("providers.{name}");
        let mut patterns = Vec::new();
        for (index, rule) in config.rules.iter().enumerate() {
            let place = format!("{place}.rules[{index}].when");
            if rule.when == When::default() {
                return Err(wrong(
                    name,
                    &format!("{place} is empty"),
                    "say when it holds, or use `otherwise`",
                ));
            }
            let compiled = rule.when.matches.as_deref().map(Regex::new).transpose();
            let broken = |_| wrong(name, &format!("{place}.matches is no regular expression"), "correct it");
            patterns.push(compiled.map_err(broken)?);
        }
        for (node, script) in &config.nodes {
            if !script.turns.is_empty() && !script.replies.is_empty() {
                let what = format!("{place}.nodes.{node} has both `turns` and `replies`");
                return Err(wrong(name, &what, "keep one of them"));
            }
            if script.turns.iter().any(Vec::is_empty) {
                return Err(wrong(
                    name,
                    &format!("{place}.nodes.{node} has an empty turn"),
                    "give it a reply",
                ));
            }
        }
        config.retry.check().map_err(|what| wrong(name, &format!("{place}: {what}"), "correct it"))?;
        Ok(ScriptProvider { name: name.to_owned(), config: config.clone(), patterns })
    }

    /// The answer to a request: a function of the request and nothing else.
    fn find(&self, request: &Request) -> Option<&Said> {
        let rules = self.config.rules.iter().zip(&self.patterns);
        let rule = rules.into_iter().find(|(rule, pattern)| holds(&rule.when, pattern.as_ref(), request));
        let reply = rule.map(|(rule, _)| &rule.reply).or_else(|| self.listed(request));
        reply.or(self.config.otherwise.as_ref()).map(|reply| reply.0.as_ref())
    }

    fn listed(&self, request: &Request) -> Option<&ScriptReply> {
        let round = request.round() - 1;
        let node = request.node.as_ref().and_then(|node| self.config.nodes.get(node));
        match node {
            None => self.nth(&self.config.replies, round),
            Some(node) if node.turns.is_empty() => self.nth(&node.replies, round),
            Some(node) => {
                let turn = usize::try_from(request.turn() - 1).unwrap_or(usize::MAX);
                self.nth(self.nth(&node.turns, turn)?, round)
            }
        }
    }

    fn nth<'a, T>(&self, list: &'a [T], index: usize) -> Option<&'a T> {
        match self.config.repeat {
            Repeat::None => list.get(index),
            Repeat::Last => list.get(index).or(list.last()),
        }
    }

    fn model(&self) -> &str {
        self.config.model.as_deref().unwrap_or(MODEL)
    }

    fn exhausted(&self, request: &Request) -> Fault {
        let node = request.node.as_deref().map(|node| format!(" of node '{node}'")).unwrap_or_default();
        let (turn, round) = (request.turn(), request.round());
        let what = format!("the script has no answer {round} in turn {turn}{node}");
        Fault::new(Code::ScriptExhausted, Again::Never, what)
    }

    fn attempt(
        &self,
        request: &Request,
        cancel: &Cancel,
        this: Try,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, Fault> {
        let said = self.find(request).ok_or_else(|| self.exhausted(request))?;
        if let Some(wait) = said.wait {
            // Never longer than the turn has, as a real one would be given up.
            if cancel.wait(wait.0.min(this.left())) {
                return Err(cancelled());
            }
            if this.left().is_zero() {
                return Err(out_of_time());
            }
        }
        let goes_wrong = said.times.is_none_or(|times| this.number <= times);
        if let Some(failure) = said.fail.as_ref().filter(|_| goes_wrong) {
            let wait = failure.retry_after.map(|wait| wait.0);
            return Err(Fault::of_status(failure.status, &failure.message, wait));
        }
        let mut draft = drafted(said, request);
        let cut = said.cut_at.filter(|_| goes_wrong);
        if let Some(cut) = cut {
            draft.text = draft.text.chars().take(cut).collect();
            draft.calls.clear();
            draft.stop = None;
            draft.ended = false;
        }
        for word in draft.text.split_inclusive(' ') {
            on_text(word);
        }
        let reply = draft.finish(request, self.model(), self.config.price.as_ref());
        match cut {
            None => Ok(reply),
            Some(_) => {
                let mut fault = Fault::new(Code::Truncated, Again::Midway, "the answer broke off");
                fault.partial = (!reply.text.is_empty()).then(|| Box::new(reply));
                Err(fault)
            }
        }
    }
}

impl Provider for ScriptProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask_watched(
        &self,
        request: &Request,
        cancel: &Cancel,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Reply, ProviderError> {
        let mut attempt =
            |this: Try, on_text: &mut dyn FnMut(&str)| self.attempt(request, cancel, this, on_text);
        persist(&self.name, &self.config.retry, request, cancel, watch, &mut attempt)
    }
}

fn drafted(said: &Said, request: &Request) -> Draft {
    let tokens = said.usage.map(|usage| Tokens {
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
    let calls = said.calls.iter().enumerate().map(|(index, call)| DraftCall {
        index: index as u64,
        id: call.id.clone().unwrap_or_else(|| request.call_id(index)),
        name: call.tool.clone(),
        args: args(call),
    });
    Draft {
        text: said.text.clone(),
        calls: calls.collect(),
        stop: said.stop.as_deref().map(Stop::from_word),
        tokens,
        model: None,
        ended: true,
    }
}

/// Whether all that a rule wants holds.
fn holds(when: &When, pattern: Option<&Regex>, request: &Request) -> bool {
    let spoke = request.messages.iter().rposition(Message::is_assistant);
    let last = request.messages.get(spoke.map_or(0, |at| at + 1)..).unwrap_or_default();
    let says = |test: &dyn Fn(&str) -> bool| last.iter().any(|message| test(message.text()));
    let failed = last.iter().any(|message| matches!(message, Message::ToolResult { ok: false, .. }));
    let called = |tool: &String| {
        let calls = match spoke.and_then(|at| request.messages.get(at)) {
            Some(Message::Assistant { calls, .. }) => calls.as_slice(),
            _ => &[],
        };
        let of_tool = |id: &String| calls.iter().any(|call| call.id == *id && call.name == *tool);
        last.iter().any(|message| matches!(message, Message::ToolResult { call, .. } if of_tool(call)))
    };
    when.contains.as_ref().is_none_or(|text| says(&|said| said.contains(text.as_str())))
        && pattern.is_none_or(|pattern| says(&|said| pattern.is_match(said)))
        && when.tool_failed.is_none_or(|wanted| wanted == failed)
        && when.tool.as_ref().is_none_or(called)
        && when.node.as_ref().is_none_or(|node| request.node.as_ref() == Some(node))
        && when.turn.is_none_or(|turn| turn == request.turn())
        && when.round.is_none_or(|round| round == request.round() as u64)
}
