//! Rollouts of Codex: one JSON object a line, with a time, a type and a payload; older ones are bare items.
//!
//! Items of the model's answers and the results of tools are `response_item`s. Tokens come as running totals in
//! `token_count`, of which the differences are counted. Calls of one answer stand together before their results.

use super::fields::{Count, Flag, Text, moment, or_default};
use super::items::{Item, Words, item};
use super::lines::{Reader, each_line};
use super::outbox::{Outbox, Step};
use super::talk::{Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary};
use flyball::{Kind, Origin};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    record_type: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

/// Where a session comes from; a sub-agent names the thread that made it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    subagent: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subagent<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    thread_spawn: Spawn<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spawn<'a> {
    #[serde(borrow)]
    parent_thread_id: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TurnContext<'a> {
    #[serde(borrow)]
    model: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    info: Option<Info>,
    will_retry: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(deserialize_with = "or_default")]
    total_token_usage: Tokens,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Count,
    cached_input_tokens: Count,
    output_tokens: Count,
}

impl Tokens {
    fn used(&self) -> Used {
        Used {
            tokens_in: self.input_tokens.0,
            tokens_out: self.output_tokens.0,
            cost_micro_usd: 0,
            cached: Cached { read: self.cached_input_tokens.0.min(self.input_tokens.0), written: 0 },
        }
    }
}

struct Rollout {
    talk: Talk,
    /// The session has its own name.
    named: bool,
    /// Tokens that were counted so far.
    total: Used,
}

/// Reads a rollout.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::Codex, sink);
    let mut rollout = Rollout { talk: Talk::new(reader.name), named: false, total: Used::default() };
    each_line(&mut reader, &mut out, &mut |out, text| rollout.line(out, text))?;
    rollout.talk.closes(&mut out);
    Ok(out.finish())
}

impl Rollout {
    fn line(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return Step::Bad };
        if let Some(at) = moment(&line.timestamp) {
            self.talk.at = Some(at);
        }
        let payload = line.payload.map(RawValue::get);
        match (&*line.kind, payload) {
            ("session_meta", Some(payload)) => self.meta(out, payload),
            ("turn_context", Some(payload)) => {
                let Ok(context) = serde_json::from_str::<TurnContext<'_>>(payload) else { return Step::Bad };
                self.talk.by(&context.model);
                Step::Nothing
            }
            ("event_msg", Some(payload)) => self.event(out, payload),
            ("response_item", Some(payload)) => self.item(out, payload),
            ("compacted", _) => {
                self.talk.notes(out, Kind::Compaction {});
                Step::Took
            }
            (_, Some(_)) => Step::Nothing,
            // The older shape: a first line that names the session, then bare items.
            ("", None) if line.record_type.is_empty() => self.begin(out, &line.id, None),
            ("", None) => Step::Nothing,
            (_, None) => self.item(out, text),
        }
    }

    fn meta(&mut self, out: &mut Outbox<'_>, payload: &str) -> Step {
        let Ok(meta) = serde_json::from_str::<Meta<'_>>(payload) else { return Step::Bad };
        let source = meta.source.and_then(|raw| serde_json::from_str::<Source<'_>>(raw.get()).ok());
        let spawned = source.and_then(|source| source.subagent);
        let spawned = spawned.and_then(|raw| serde_json::from_str::<Subagent<'_>>(raw.get()).ok());
        let parent = spawned.as_ref().and_then(|spawned| spawned.thread_spawn.parent_thread_id.some());
        self.begin(out, &meta.id, parent)
    }

    /// The session has a name. A session that goes on from another names that one too, later; it keeps its own.
    fn begin(&mut self, out: &mut Outbox<'_>, id: &str, parent: Option<&str>) -> Step {
        if self.named || id.is_empty() {
            return Step::Nothing;
        }
        self.named = true;
        let at = self.talk.at;
        self.talk = Talk::new(id);
        self.talk.at = at;
        self.talk.starts(out, parent);
        Step::Took
    }

    fn event(&mut self, out: &mut Outbox<'_>, payload: &str) -> Step {
        if is_of_no_interest(payload) {
            return Step::Nothing;
        }
        let Ok(message) = serde_json::from_str::<Message<'_>>(payload) else { return Step::Bad };
        match &*message.kind {
            "token_count" => {
                let Some(info) = message.info else { return Step::Nothing };
                let total = info.total_token_usage.used();
                // A session that was taken up again may count anew.
                let anew = total.tokens_in < self.total.tokens_in;
                let before = if anew { Used::default() } else { self.total };
                self.talk.used(out, total.beyond(&before));
                self.total = total;
                self.talk.new_answer();
                Step::Took
            }
            "task_complete" | "turn_complete" => {
                out.end_turn(self.talk.session());
                Step::Nothing
            }
            "stream_error" => {
                self.talk.notes(out, Kind::ApiRetry {});
                Step::Took
            }
            "error" if message.will_retry.0 => {
                self.talk.notes(out, Kind::ApiRetry {});
                Step::Took
            }
            _ => Step::Nothing,
        }
    }

    fn item(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        match item(text) {
            Item::Said { role: Words::User, text, .. } => {
                if is_injected(&text) {
                    return Step::Nothing;
                }
                let origin = if is_notice(&text) { Origin::Agent } else { Origin::Human };
                self.talk.hears(out, text, origin);
            }
            Item::Said { role: Words::Assistant, text, is_final } => self.talk.says(out, text, is_final),
            Item::Called { call, tool, args } => self.talk.calls(out, &call, &tool, args),
            Item::Ended { call, end } => self.talk.ended(out, &call, end),
            Item::CalledAndEnded { call, tool, args, end } => {
                self.talk.calls(out, &call, &tool, args);
                self.talk.ended(out, &call, end);
            }
            Item::Said { .. } | Item::Nothing => return Step::Nothing,
            Item::Bad => return Step::Bad,
        }
        Step::Took
    }
}

/// Events that repeat what items say, and are many: known without being read.
fn is_of_no_interest(payload: &str) -> bool {
    let Some(kind) = payload.strip_prefix(r#"{"type":""#) else { return false };
    !["token_count", "task_", "turn_", "stream_", "error"].iter().any(|wanted| kind.starts_with(wanted))
}

/// What Codex itself puts before the user's words.
fn is_injected(text: &str) -> bool {
    [
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
        "<permissions instructions>",
        "<skill>",
        "<user_shell_command>",
        "<collaboration_mode>",
        "<model_switch>",
    ]
    .iter()
    .any(|tag| text.trim_start().starts_with(tag))
}

/// What another agent tells, not a person.
fn is_notice(text: &str) -> bool {
    text.trim_start().starts_with("<subagent_notification>")
}
