//! Codex rollouts: JSON lines with timestamp, type and payload; older rollouts contain bare items.
//!
//! Model output and tool results are `response_item`s. `token_count` contains running totals, of which the differences
//! are counted. The calls of one answer precede their results.

use super::conversation::{AnswerUsage, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientCount, LenientFlag, LenientText, or_default, parse_timestamp};
use super::lines::{TranscriptReader, each_line};
use super::responses_items::{ResponsesItem, ResponsesRole, parse_item};
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary};
use flyball::{EventKind, MessageOrigin};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexLine<'a> {
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    record_type: LenientText<'a>,
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexMeta<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

/// The origin of a session; a sub-agent names its parent thread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSource<'a> {
    #[serde(borrow)]
    subagent: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSubagent<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    thread_spawn: CodexSpawn<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexSpawn<'a> {
    #[serde(borrow)]
    parent_thread_id: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexTurnContext<'a> {
    #[serde(borrow)]
    model: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    info: Option<CodexTokenInfo>,
    will_retry: LenientFlag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexTokenInfo {
    #[serde(deserialize_with = "or_default")]
    total_token_usage: CodexTokens,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CodexTokens {
    input_tokens: LenientCount,
    cached_input_tokens: LenientCount,
    output_tokens: LenientCount,
}

impl CodexTokens {
    fn to_usage(self) -> AnswerUsage {
        AnswerUsage {
            tokens_in: self.input_tokens.0,
            tokens_out: self.output_tokens.0,
            cost_micro_usd: 0,
            cached: CachedTokens { read: self.cached_input_tokens.0.min(self.input_tokens.0), written: 0 },
        }
    }
}

struct CodexRollout {
    conversation: Conversation,
    /// Whether the session has its own name.
    named: bool,
    /// Tokens counted so far.
    total: AnswerUsage,
}

/// Reads a rollout.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::Codex, sink);
    let mut rollout = CodexRollout {
        conversation: Conversation::new(reader.name),
        named: false,
        total: AnswerUsage::default(),
    };
    each_line(&mut reader, &mut out, &mut |out, text| rollout.handle_line(out, text))?;
    rollout.conversation.finish(&mut out);
    Ok(out.finish())
}

impl CodexRollout {
    fn handle_line(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let Ok(line) = serde_json::from_str::<CodexLine<'_>>(text) else { return LineOutcome::Malformed };
        if let Some(at) = parse_timestamp(&line.timestamp) {
            self.conversation.at = Some(at);
        }
        let payload = line.payload.map(RawValue::get);
        match (&*line.kind, payload) {
            ("session_meta", Some(payload)) => self.handle_meta(out, payload),
            ("turn_context", Some(payload)) => {
                let Ok(context) = serde_json::from_str::<CodexTurnContext<'_>>(payload) else {
                    return LineOutcome::Malformed;
                };
                self.conversation.set_model(&context.model);
                LineOutcome::Skipped
            }
            ("event_msg", Some(payload)) => self.handle_event(out, payload),
            ("response_item", Some(payload)) => self.handle_item(out, payload),
            ("compacted", _) => {
                self.conversation.push_kind(out, EventKind::Compaction {});
                LineOutcome::Counted
            }
            (_, Some(_)) => LineOutcome::Skipped,
            // The older format: a first line that names the session, then bare items.
            ("", None) if line.record_type.is_empty() => self.start_session(out, &line.id, None),
            ("", None) => LineOutcome::Skipped,
            (_, None) => self.handle_item(out, text),
        }
    }

    fn handle_meta(&mut self, out: &mut EventEmitter<'_>, payload: &str) -> LineOutcome {
        let Ok(meta) = serde_json::from_str::<CodexMeta<'_>>(payload) else { return LineOutcome::Malformed };
        let source = meta.source.and_then(|raw| serde_json::from_str::<CodexSource<'_>>(raw.get()).ok());
        let spawned = source.and_then(|source| source.subagent);
        let spawned = spawned.and_then(|raw| serde_json::from_str::<CodexSubagent<'_>>(raw.get()).ok());
        let parent = spawned.as_ref().and_then(|spawned| spawned.thread_spawn.parent_thread_id.non_empty());
        self.start_session(out, &meta.id, parent)
    }

    /// Starts the named session. A session that continues another one names that one later, but keeps its own name.
    fn start_session(&mut self, out: &mut EventEmitter<'_>, id: &str, parent: Option<&str>) -> LineOutcome {
        if self.named || id.is_empty() {
            return LineOutcome::Skipped;
        }
        self.named = true;
        let at = self.conversation.at;
        self.conversation = Conversation::new(id);
        self.conversation.at = at;
        self.conversation.session_started(out, parent);
        LineOutcome::Counted
    }

    fn handle_event(&mut self, out: &mut EventEmitter<'_>, payload: &str) -> LineOutcome {
        if is_irrelevant(payload) {
            return LineOutcome::Skipped;
        }
        let Ok(message) = serde_json::from_str::<CodexEvent<'_>>(payload) else {
            return LineOutcome::Malformed;
        };
        match &*message.kind {
            "token_count" => {
                let Some(info) = message.info else { return LineOutcome::Skipped };
                let total = info.total_token_usage.to_usage();
                // Totals may restart when a session is resumed.
                let anew = total.tokens_in < self.total.tokens_in;
                let before = if anew { AnswerUsage::default() } else { self.total };
                self.conversation.add_usage_to_last(out, total.since(&before));
                self.total = total;
                self.conversation.new_answer();
                LineOutcome::Counted
            }
            "task_complete" | "turn_complete" => {
                out.end_turn(self.conversation.session());
                LineOutcome::Skipped
            }
            "stream_error" => {
                self.conversation.push_kind(out, EventKind::ApiRetry {});
                LineOutcome::Counted
            }
            "error" if message.will_retry.0 => {
                self.conversation.push_kind(out, EventKind::ApiRetry {});
                LineOutcome::Counted
            }
            _ => LineOutcome::Skipped,
        }
    }

    fn handle_item(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        match parse_item(text) {
            ResponsesItem::Message { role: ResponsesRole::User, text, .. } => {
                if is_injected(&text) {
                    return LineOutcome::Skipped;
                }
                let origin = if is_notice(&text) { MessageOrigin::Agent } else { MessageOrigin::Human };
                self.conversation.user_message(out, text, origin);
            }
            ResponsesItem::Message { role: ResponsesRole::Assistant, text, is_final } => {
                self.conversation.assistant_message(out, text, is_final)
            }
            ResponsesItem::Called { call, tool, args } => {
                self.conversation.tool_requested(out, &call, &tool, args)
            }
            ResponsesItem::Finished { call, end } => self.conversation.tool_finished(out, &call, end),
            ResponsesItem::CalledAndFinished { call, tool, args, end } => {
                self.conversation.tool_requested(out, &call, &tool, args);
                self.conversation.tool_finished(out, &call, end);
            }
            ResponsesItem::Message { .. } | ResponsesItem::Ignored => return LineOutcome::Skipped,
            ResponsesItem::Malformed => return LineOutcome::Malformed,
        }
        LineOutcome::Counted
    }
}

/// Whether an event only repeats items; these are frequent and recognized without parsing.
fn is_irrelevant(payload: &str) -> bool {
    let Some(kind) = payload.strip_prefix(r#"{"type":""#) else { return false };
    !["token_count", "task_", "turn_", "stream_", "error"].iter().any(|wanted| kind.starts_with(wanted))
}

/// Whether a text was injected by Codex before the user's message.
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

/// Whether a message comes from another agent and not from a person.
fn is_notice(text: &str) -> bool {
    text.trim_start().starts_with("<subagent_notification>")
}
