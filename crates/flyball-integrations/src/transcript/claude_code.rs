//! Claude Code session logs: JSON lines of many types, few of which are relevant.
//!
//! One answer of the model spans several lines with the same `message.id`, each with the usage of the whole answer;
//! they form one round, and the usage is counted once. Tool results are in lines of type `user`. Sub-agents (side
//! chains) become separate child sessions.

use super::anthropic_blocks::{BlockContent, MessageContent, joined};
use super::conversation::{AnswerUsage, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientCount, LenientFlag, LenientText, parse_timestamp};
use super::lines::{TranscriptReader, each_line_without_field};
use super::raw_json::FieldStripper;
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use crate::last_hit_map::LastHitMap;
use flyball::{EventKind, Fingerprint, MessageOrigin};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// Number of side-chain messages remembered for finding the chain of a line.
const MAX_LINKS: usize = 4096;

/// The key of a second copy of the tool result, which is skipped.
const DUPLICATE_RESULT_KEY: &str = "\"toolUseResult\":";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    subtype: LenientText<'a>,
    #[serde(borrow)]
    uuid: LenientText<'a>,
    #[serde(borrow)]
    parent_uuid: LenientText<'a>,
    #[serde(borrow)]
    session_id: LenientText<'a>,
    #[serde(borrow)]
    agent_id: LenientText<'a>,
    is_sidechain: LenientFlag,
    is_meta: LenientFlag,
    is_compact_summary: LenientFlag,
    is_api_error_message: LenientFlag,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow)]
    message: Option<ClaudeMessage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeMessage<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    model: LenientText<'a>,
    #[serde(borrow)]
    content: BlockContent<'a>,
    #[serde(borrow)]
    stop_reason: LenientText<'a>,
    usage: Option<ClaudeUsage>,
}

/// Token usage in Anthropic's format.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeUsage {
    input_tokens: LenientCount,
    output_tokens: LenientCount,
    cache_creation_input_tokens: LenientCount,
    cache_read_input_tokens: LenientCount,
}

impl ClaudeUsage {
    /// Converts to usage in which input includes cached tokens.
    pub(super) fn to_usage(&self) -> AnswerUsage {
        let (read, written) = (self.cache_read_input_tokens.0, self.cache_creation_input_tokens.0);
        AnswerUsage {
            tokens_in: self.input_tokens.0.saturating_add(read).saturating_add(written),
            tokens_out: self.output_tokens.0,
            cost_micro_usd: 0,
            cached: CachedTokens { read, written },
        }
    }
}

/// State while reading a file.
struct ClaudeSessions<'a> {
    name: &'a str,
    conversations: LastHitMap<Conversation>,
    /// The chain of each side-chain message without an agent id.
    chain_of_message: BTreeMap<Fingerprint, u64>,
    /// The same messages, oldest first.
    message_order: VecDeque<Fingerprint>,
    chain_count: u64,
    /// Whether the last line marked a compaction, so that the summary that follows belongs to it.
    compacted: bool,
}

/// Reads a session log.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::ClaudeCode, sink);
    let mut sessions = ClaudeSessions {
        name: reader.name,
        conversations: LastHitMap::default(),
        chain_of_message: BTreeMap::new(),
        message_order: VecDeque::new(),
        chain_count: 0,
        compacted: false,
    };
    let mut unread = FieldStripper::new(DUPLICATE_RESULT_KEY);
    each_line_without_field(&mut unread, &mut reader, &mut out, &mut |out, text| {
        sessions.handle_line(out, text)
    })?;
    for mut conversation in sessions.conversations.into_values() {
        conversation.finish(&mut out);
    }
    Ok(out.finish())
}

impl ClaudeSessions<'_> {
    fn handle_line(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        if is_irrelevant(text) {
            return if text.ends_with('}') { LineOutcome::Skipped } else { LineOutcome::Malformed };
        }
        let Ok(line) = serde_json::from_str::<ClaudeLine<'_>>(text) else { return LineOutcome::Malformed };
        match &*line.kind {
            "user" => self.handle_user(out, line),
            "assistant" => self.handle_assistant(out, line),
            "system" => self.handle_system(out, &line),
            _ => LineOutcome::Skipped,
        }
    }

    fn handle_user(&mut self, out: &mut EventEmitter<'_>, mut line: ClaudeLine<'_>) -> LineOutcome {
        let Some(message) = line.message.take() else { return LineOutcome::Skipped };
        if line.is_compact_summary.0 {
            let already_recorded = std::mem::take(&mut self.compacted);
            if already_recorded {
                return LineOutcome::Skipped;
            }
            self.conversation(out, &line).push_kind(out, EventKind::Compaction {});
            return LineOutcome::Counted;
        }
        let blocks = match message.content {
            MessageContent::Text(text) => return self.handle_user_text(out, &line, text.0),
            MessageContent::Blocks(blocks) => blocks,
        };
        let conversation = self.conversation(out, &line);
        let (ends, words): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.is_result());
        let any = !ends.is_empty();
        for block in ends {
            let call = block.tool_use_id.clone();
            conversation.tool_finished(out, &call, block.into_call_end());
        }
        let text = joined(words.iter().filter_map(|block| block.text()));
        let step = self.handle_user_text(out, &line, text);
        if any { LineOutcome::Counted } else { step }
    }

    /// Handles user text: from a person, from the parent agent, or injected by Claude Code.
    fn handle_user_text(
        &mut self,
        out: &mut EventEmitter<'_>,
        line: &ClaudeLine<'_>,
        text: Cow<'_, str>,
    ) -> LineOutcome {
        if text.trim().is_empty() || line.is_meta.0 || is_echo(&text) {
            return LineOutcome::Skipped;
        }
        let origin =
            if is_side_chain(line) || is_notice(&text) { MessageOrigin::Agent } else { MessageOrigin::Human };
        self.conversation(out, line).user_message(out, text, origin);
        LineOutcome::Counted
    }

    fn handle_assistant(&mut self, out: &mut EventEmitter<'_>, mut line: ClaudeLine<'_>) -> LineOutcome {
        let Some(message) = line.message.take() else { return LineOutcome::Skipped };
        let conversation = self.conversation(out, &line);
        if line.is_api_error_message.0 {
            conversation.push_kind(out, EventKind::ApiRetry {});
            return LineOutcome::Counted;
        }
        if &*message.model != "<synthetic>" {
            conversation.set_model(&message.model);
        }
        match message.id.non_empty() {
            Some(id) => {
                conversation.set_answer(id);
                if let Some(usage) = &message.usage {
                    conversation.set_answer_usage(id, usage.to_usage());
                }
            }
            None => {
                if let Some(usage) = &message.usage {
                    conversation.add_usage(usage.to_usage());
                }
            }
        }
        let ended = matches!(&*message.stop_reason, "end_turn" | "stop_sequence");
        let blocks = match message.content {
            MessageContent::Text(text) => {
                conversation.assistant_message(out, text.0, ended);
                return LineOutcome::Counted;
            }
            MessageContent::Blocks(blocks) => blocks,
        };
        let calls = blocks.iter().any(|block| block.is_call());
        let text = joined(blocks.iter().filter_map(|block| block.text()));
        conversation.assistant_message(out, text, ended && !calls);
        for block in blocks {
            if block.is_call() {
                let args = block.input.map_or(Value::Null, |raw| bounds::args(raw.get()));
                conversation.tool_requested(out, &block.id, &block.name, args);
            } else if block.is_result() {
                let call = block.tool_use_id.clone();
                conversation.tool_finished(out, &call, block.into_call_end());
                // Results of server tools are in the same answer as the calls.
                if let Some(id) = message.id.non_empty() {
                    conversation.set_answer(id);
                }
            }
        }
        LineOutcome::Counted
    }

    fn handle_system(&mut self, out: &mut EventEmitter<'_>, line: &ClaudeLine<'_>) -> LineOutcome {
        let kind = match &*line.subtype {
            "compact_boundary" => EventKind::Compaction {},
            "api_error" => EventKind::ApiRetry {},
            "turn_duration" => {
                let session = self.conversation(out, line).session().to_owned();
                out.end_turn(&session);
                return LineOutcome::Skipped;
            }
            _ => return LineOutcome::Skipped,
        };
        self.compacted = kind == EventKind::Compaction {};
        self.conversation(out, line).push_kind(out, kind);
        LineOutcome::Counted
    }

    /// The session of a line; starts it if this is a sub-agent's first line.
    fn conversation(&mut self, out: &mut EventEmitter<'_>, line: &ClaudeLine<'_>) -> &mut Conversation {
        let main = line.session_id.non_empty().unwrap_or(self.name);
        let name = match (line.agent_id.non_empty(), line.is_sidechain.0) {
            (Some(agent), _) => Cow::Owned(format!("{main}/{agent}")),
            (None, true) => Cow::Owned(format!("{main}/side-{}", self.side_chain(line))),
            (None, false) => Cow::Borrowed(main),
        };
        let at = parse_timestamp(&line.timestamp);
        let conversation = self.conversations.get_or_insert_with(&name, || {
            let mut conversation = Conversation::new(&name);
            conversation.at = at;
            if is_side_chain(line) {
                conversation.session_started(out, Some(main));
            }
            conversation
        });
        conversation.at = at.or(conversation.at);
        conversation
    }

    /// The number of the side chain that a line continues or starts.
    fn side_chain(&mut self, line: &ClaudeLine<'_>) -> u64 {
        let print = |id: &str| Fingerprint::of_text(id);
        let own = line.uuid.non_empty().map(print);
        if let Some(chain) = own.and_then(|own| self.chain_of_message.get(&own)) {
            return *chain;
        }
        let parent = line.parent_uuid.non_empty().map(print);
        let chain =
            parent.and_then(|parent| self.chain_of_message.get(&parent).copied()).unwrap_or_else(|| {
                self.chain_count += 1;
                self.chain_count
            });
        if self.message_order.len() == MAX_LINKS
            && let Some(oldest) = self.message_order.pop_front()
        {
            self.chain_of_message.remove(&oldest);
        }
        if let Some(own) = own {
            self.chain_of_message.insert(own, chain);
            self.message_order.push_back(own);
        }
        chain
    }
}

fn is_side_chain(line: &ClaudeLine<'_>) -> bool {
    line.is_sidechain.0 || line.agent_id.non_empty().is_some()
}

/// Whether the first key shows that the line is neither a message nor a tool event.
fn is_irrelevant(text: &str) -> bool {
    let Some(kind) = text.strip_prefix(r#"{"type":""#) else { return false };
    !["user\"", "assistant\"", "system\""].iter().any(|wanted| kind.starts_with(wanted))
}

/// Whether a text is Claude Code's record of a slash command and not a message.
fn is_echo(text: &str) -> bool {
    ["<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>"]
        .iter()
        .any(|tag| text.starts_with(tag))
}

/// Whether a message comes from another agent or a background task and not from a person.
fn is_notice(text: &str) -> bool {
    ["<task-notification>", "<teammate-message", "<system-reminder>", "<agent-notification"]
        .iter()
        .any(|tag| text.starts_with(tag))
}
