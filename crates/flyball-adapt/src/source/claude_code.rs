//! Sessions of Claude Code: one JSON object a line, many kinds of line, of which few are of interest.
//!
//! One answer of the model stands on several lines with the same `message.id`, each with the usage of the whole; they
//! are one round, and the usage is counted once. Results of tools stand in lines of type `user`. Sub-agents (side
//! chains) become sessions of their own below the main one.

use super::blocks::{Body, Content, joined};
use super::fields::{Count, Flag, Text, moment};
use super::lines::{Reader, each_line_without};
use super::outbox::{Outbox, Step};
use super::peel::Unread;
use super::talk::{Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use crate::named::Named;
use flyball::{Fingerprint, Kind, Origin};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// How many messages of side chains are remembered, to know which chain a line goes on with.
const LINKS: usize = 4096;

/// The result of a tool stands in a line twice: in its message, and here in pieces, which are not read.
const RESULT_AGAIN: &str = "\"toolUseResult\":";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    uuid: Text<'a>,
    #[serde(borrow)]
    parent_uuid: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    agent_id: Text<'a>,
    is_sidechain: Flag,
    is_meta: Flag,
    is_compact_summary: Flag,
    is_api_error_message: Flag,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    content: Body<'a>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
    usage: Option<Usage>,
}

/// What an answer used, as Anthropic counts it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
}

impl Usage {
    /// The same with the tokens of the cache among those of the input.
    pub(super) fn used(&self) -> Used {
        let (read, written) = (self.cache_read_input_tokens.0, self.cache_creation_input_tokens.0);
        Used {
            tokens_in: self.input_tokens.0.saturating_add(read).saturating_add(written),
            tokens_out: self.output_tokens.0,
            cost_micro_usd: 0,
            cached: Cached { read, written },
        }
    }
}

/// Everything that is known while a file is read.
struct Sessions<'a> {
    name: &'a str,
    talks: Named<Talk>,
    /// Messages of side chains that carry no agent's id, and the chain that each belongs to.
    links: BTreeMap<Fingerprint, u64>,
    /// The same messages, oldest first.
    linked: VecDeque<Fingerprint>,
    chains: u64,
    /// The last line was the mark of a compaction; the summary that follows is part of it.
    compacted: bool,
}

/// Reads a session.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::ClaudeCode, sink);
    let mut sessions = Sessions {
        name: reader.name,
        talks: Named::default(),
        links: BTreeMap::new(),
        linked: VecDeque::new(),
        chains: 0,
        compacted: false,
    };
    let mut unread = Unread::new(RESULT_AGAIN);
    each_line_without(&mut unread, &mut reader, &mut out, &mut |out, text| sessions.line(out, text))?;
    for mut talk in sessions.talks.into_values() {
        talk.closes(&mut out);
    }
    Ok(out.finish())
}

impl Sessions<'_> {
    fn line(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        if is_of_no_interest(text) {
            return if text.ends_with('}') { Step::Nothing } else { Step::Bad };
        }
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return Step::Bad };
        match &*line.kind {
            "user" => self.user(out, line),
            "assistant" => self.assistant(out, line),
            "system" => self.system(out, &line),
            _ => Step::Nothing,
        }
    }

    fn user(&mut self, out: &mut Outbox<'_>, mut line: Line<'_>) -> Step {
        let Some(message) = line.message.take() else { return Step::Nothing };
        if line.is_compact_summary.0 {
            let told = std::mem::take(&mut self.compacted);
            if told {
                return Step::Nothing;
            }
            self.talk(out, &line).notes(out, Kind::Compaction {});
            return Step::Took;
        }
        let blocks = match message.content {
            Content::Text(text) => return self.told(out, &line, text.0),
            Content::Blocks(blocks) => blocks,
        };
        let talk = self.talk(out, &line);
        let (ends, words): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.is_end());
        let any = !ends.is_empty();
        for block in ends {
            let call = block.tool_use_id.clone();
            talk.ended(out, &call, block.end());
        }
        let text = joined(words.iter().filter_map(|block| block.words()));
        let step = self.told(out, &line, text);
        if any { Step::Took } else { step }
    }

    /// Somebody spoke: a person, the parent agent, or the tool itself on behalf of one.
    fn told(&mut self, out: &mut Outbox<'_>, line: &Line<'_>, text: Cow<'_, str>) -> Step {
        if text.trim().is_empty() || line.is_meta.0 || is_echo(&text) {
            return Step::Nothing;
        }
        let origin = if is_side(line) || is_notice(&text) { Origin::Agent } else { Origin::Human };
        self.talk(out, line).hears(out, text, origin);
        Step::Took
    }

    fn assistant(&mut self, out: &mut Outbox<'_>, mut line: Line<'_>) -> Step {
        let Some(message) = line.message.take() else { return Step::Nothing };
        let talk = self.talk(out, &line);
        if line.is_api_error_message.0 {
            talk.notes(out, Kind::ApiRetry {});
            return Step::Took;
        }
        if &*message.model != "<synthetic>" {
            talk.by(&message.model);
        }
        match message.id.some() {
            Some(id) => {
                talk.answers(id);
                if let Some(usage) = &message.usage {
                    talk.answer_used(id, usage.used());
                }
            }
            None => {
                if let Some(usage) = &message.usage {
                    talk.uses(usage.used());
                }
            }
        }
        let ended = matches!(&*message.stop_reason, "end_turn" | "stop_sequence");
        let blocks = match message.content {
            Content::Text(text) => {
                talk.says(out, text.0, ended);
                return Step::Took;
            }
            Content::Blocks(blocks) => blocks,
        };
        let calls = blocks.iter().any(|block| block.is_call());
        let text = joined(blocks.iter().filter_map(|block| block.words()));
        talk.says(out, text, ended && !calls);
        for block in blocks {
            if block.is_call() {
                let args = block.input.map_or(Value::Null, |raw| bounds::args(raw.get()));
                talk.calls(out, &block.id, &block.name, args);
            } else if block.is_end() {
                let call = block.tool_use_id.clone();
                talk.ended(out, &call, block.end());
                // The provider's own tools end inside the answer that asked for them.
                if let Some(id) = message.id.some() {
                    talk.answers(id);
                }
            }
        }
        Step::Took
    }

    fn system(&mut self, out: &mut Outbox<'_>, line: &Line<'_>) -> Step {
        let kind = match &*line.subtype {
            "compact_boundary" => Kind::Compaction {},
            "api_error" => Kind::ApiRetry {},
            "turn_duration" => {
                let session = self.talk(out, line).session().to_owned();
                out.end_turn(&session);
                return Step::Nothing;
            }
            _ => return Step::Nothing,
        };
        self.compacted = kind == Kind::Compaction {};
        self.talk(out, line).notes(out, kind);
        Step::Took
    }

    /// The session that a line belongs to, begun if it is a sub-agent's first.
    fn talk(&mut self, out: &mut Outbox<'_>, line: &Line<'_>) -> &mut Talk {
        let main = line.session_id.some().unwrap_or(self.name);
        let name = match (line.agent_id.some(), line.is_sidechain.0) {
            (Some(agent), _) => Cow::Owned(format!("{main}/{agent}")),
            (None, true) => Cow::Owned(format!("{main}/side-{}", self.chain(line))),
            (None, false) => Cow::Borrowed(main),
        };
        let at = moment(&line.timestamp);
        let talk = self.talks.or_make(&name, || {
            let mut talk = Talk::new(&name);
            talk.at = at;
            if is_side(line) {
                talk.starts(out, Some(main));
            }
            talk
        });
        talk.at = at.or(talk.at);
        talk
    }

    /// The number of the side chain that a line goes on with, or begins.
    fn chain(&mut self, line: &Line<'_>) -> u64 {
        let print = |id: &str| Fingerprint::of_text(id);
        let own = line.uuid.some().map(print);
        if let Some(chain) = own.and_then(|own| self.links.get(&own)) {
            return *chain;
        }
        let parent = line.parent_uuid.some().map(print);
        let chain = parent.and_then(|parent| self.links.get(&parent).copied()).unwrap_or_else(|| {
            self.chains += 1;
            self.chains
        });
        if self.linked.len() == LINKS
            && let Some(oldest) = self.linked.pop_front()
        {
            self.links.remove(&oldest);
        }
        if let Some(own) = own {
            self.links.insert(own, chain);
            self.linked.push_back(own);
        }
        chain
    }
}

fn is_side(line: &Line<'_>) -> bool {
    line.is_sidechain.0 || line.agent_id.some().is_some()
}

/// A line whose first key already says that it is neither spoken nor done.
fn is_of_no_interest(text: &str) -> bool {
    let Some(kind) = text.strip_prefix(r#"{"type":""#) else { return false };
    !["user\"", "assistant\"", "system\""].iter().any(|wanted| kind.starts_with(wanted))
}

/// What Claude Code writes down of its own commands is no message.
fn is_echo(text: &str) -> bool {
    ["<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>"]
        .iter()
        .any(|tag| text.starts_with(tag))
}

/// A message of another agent or of a task in the background, not of a person.
fn is_notice(text: &str) -> bool {
    ["<task-notification>", "<teammate-message", "<system-reminder>", "<agent-notification"]
        .iter()
        .any(|tag| text.starts_with(tag))
}
