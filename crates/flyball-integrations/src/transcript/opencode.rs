//! opencode sessions: output of `opencode export`, concatenated storage files, or lines of `opencode run --format
//! json`.
//!
//! An answer is a list of parts; one message may contain several answers, each between `step-start` and `step-finish`.

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{
    LenientCount, LenientFlag, LenientNumber, LenientText, or_default, timestamp_from_number,
};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{field, fields, items};
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::{DeniedBy, EventKind, MessageOrigin};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Number of messages remembered for finding the message of a part. A storage dump lists all messages first.
const MAX_MESSAGES: usize = 100_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeInfo<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow, rename = "sessionID")]
    session: LenientText<'a>,
    #[serde(borrow, rename = "parentID")]
    parent: LenientText<'a>,
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow, rename = "modelID")]
    model: LenientText<'a>,
    summary: LenientFlag,
    #[serde(deserialize_with = "or_default")]
    time: OpencodeTimes,
    tokens: Option<OpencodeTokens>,
    cost: LenientNumber,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeTimes {
    created: LenientNumber,
    start: LenientNumber,
    end: LenientNumber,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeTokens {
    input: LenientCount,
    output: LenientCount,
    reasoning: LenientCount,
    #[serde(deserialize_with = "or_default")]
    cache: OpencodeCache,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeCache {
    read: LenientCount,
    write: LenientCount,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodePart<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow, rename = "messageID")]
    message: LenientText<'a>,
    #[serde(borrow)]
    text: LenientText<'a>,
    synthetic: LenientFlag,
    #[serde(borrow, rename = "callID")]
    call: LenientText<'a>,
    #[serde(borrow)]
    tool: LenientText<'a>,
    #[serde(borrow)]
    state: Option<OpencodeToolState<'a>>,
    tokens: Option<OpencodeTokens>,
    cost: LenientNumber,
    #[serde(borrow)]
    reason: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpencodeToolState<'a> {
    #[serde(borrow)]
    status: LenientText<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    output: LenientText<'a>,
    #[serde(borrow)]
    error: LenientText<'a>,
    #[serde(deserialize_with = "or_default")]
    time: OpencodeTimes,
}

struct OpencodeSessions<'a> {
    name: &'a str,
    conversations: BTreeMap<String, Conversation>,
    /// Sessions created by another session.
    children: Vec<String>,
    /// Message ids, and whether the message is the user's. Ids increase with time, so the first one is the oldest.
    messages: BTreeMap<String, bool>,
}

/// Reads sessions.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::Opencode, sink);
    let mut sessions = OpencodeSessions {
        name: reader.name,
        conversations: BTreeMap::new(),
        children: Vec::new(),
        messages: BTreeMap::new(),
    };
    each_value(&mut reader, &mut out, &mut |out, text, _| sessions.handle_value(out, text))?;
    for conversation in sessions.conversations.values_mut() {
        conversation.finish(&mut out);
    }
    Ok(out.finish())
}

impl OpencodeSessions<'_> {
    fn handle_value(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let keys = |key: &str| fields(text).any(|field| field.key == key);
        if keys("messages") || keys("parts") {
            return self.handle_export(out, text);
        }
        if let Some(part) = field(text, "part") {
            return self.handle_part(out, part, field(text, "sessionID"), true);
        }
        if keys("messageID") {
            return self.handle_part(out, text, field(text, "sessionID"), false);
        }
        let Ok(info) = serde_json::from_str::<OpencodeInfo<'_>>(text) else { return LineOutcome::Malformed };
        if info.role.is_empty() {
            self.handle_session(out, &info)
        } else {
            self.handle_message(out, &info, true)
        }
    }

    /// Handles a whole session, or one message with its parts.
    fn handle_export(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let info = field(text, "info").unwrap_or("{}");
        let Ok(info) = serde_json::from_str::<OpencodeInfo<'_>>(info) else { return LineOutcome::Malformed };
        if info.role.is_empty() {
            self.handle_session(out, &info);
            let messages = fields(text).find(|field| field.key == "messages");
            for message in items(messages.map_or("", |field| field.value)) {
                out.next_entry();
                let step = self.handle_export(out, message);
                out.count_entry(step);
            }
            return LineOutcome::Counted;
        }
        let parts = fields(text).find(|field| field.key == "parts").map_or("", |field| field.value);
        let stepped = items(parts).any(|part| field(part, "type") == Some("\"step-finish\""));
        self.handle_message(out, &info, stepped);
        let session = (!info.session.is_empty()).then(|| Value::from(&*info.session).to_string());
        for part in items(parts) {
            self.handle_part(out, part, session.as_deref(), false);
        }
        LineOutcome::Counted
    }

    fn handle_session(&mut self, out: &mut EventEmitter<'_>, info: &OpencodeInfo<'_>) -> LineOutcome {
        if info.id.is_empty() || self.conversations.contains_key(&*info.id) {
            return LineOutcome::Skipped;
        }
        let mut conversation = Conversation::new(&info.id);
        conversation.at = timestamp_from_number(info.time.created.0);
        let Some(parent) = info.parent.non_empty() else {
            self.conversations.insert(info.id.to_string(), conversation);
            return LineOutcome::Skipped;
        };
        conversation.session_started(out, Some(parent));
        self.children.push(info.id.to_string());
        self.conversations.insert(info.id.to_string(), conversation);
        LineOutcome::Counted
    }

    /// Handles the start of a message. Usage is taken from its steps if they report it.
    fn handle_message(
        &mut self,
        out: &mut EventEmitter<'_>,
        info: &OpencodeInfo<'_>,
        stepped: bool,
    ) -> LineOutcome {
        let user = &*info.role == "user";
        if self.messages.len() == MAX_MESSAGES {
            self.messages.pop_first();
        }
        self.messages.insert(info.id.to_string(), user);
        let conversation = self.conversation(&info.session);
        conversation.at = timestamp_from_number(info.time.created.0).or(conversation.at);
        if user {
            return LineOutcome::Skipped;
        }
        conversation.set_model(&info.model);
        conversation.new_answer();
        if info.summary.0 {
            conversation.push_kind(out, EventKind::Compaction {});
        }
        if let Some(tokens) = info.tokens.as_ref().filter(|_| !stepped) {
            conversation.add_usage(tokens.to_usage(info.cost.0));
        }
        LineOutcome::Counted
    }

    fn handle_part(
        &mut self,
        out: &mut EventEmitter<'_>,
        text: &str,
        session: Option<&str>,
        live: bool,
    ) -> LineOutcome {
        let Ok(part) = serde_json::from_str::<OpencodePart<'_>>(text) else { return LineOutcome::Malformed };
        let user = self.messages.get(&*part.message).is_some_and(|user| *user) && !live;
        let session =
            session.and_then(|raw| serde_json::from_str::<LenientText<'_>>(raw).ok()).unwrap_or_default();
        let child = self.children.iter().any(|name| *name == *session);
        let conversation = self.conversation(&session);
        match &*part.kind {
            "text" if user => {
                if part.synthetic.0 || part.text.trim().is_empty() {
                    return LineOutcome::Skipped;
                }
                conversation.user_message(
                    out,
                    part.text.0,
                    if child { MessageOrigin::Agent } else { MessageOrigin::Human },
                );
            }
            "text" => conversation.assistant_message(out, part.text.0, false),
            "tool" => return emit_tool(conversation, out, part),
            "step-start" => conversation.new_answer(),
            "step-finish" => {
                if let Some(tokens) = &part.tokens {
                    conversation.add_usage_to_last(out, tokens.to_usage(part.cost.0));
                }
                if &*part.reason == "stop" {
                    out.end_turn(conversation.session());
                }
                conversation.new_answer();
            }
            "compaction" => conversation.push_kind(out, EventKind::Compaction {}),
            "retry" => conversation.push_kind(out, EventKind::ApiRetry {}),
            _ => return LineOutcome::Skipped,
        }
        LineOutcome::Counted
    }

    fn conversation(&mut self, session: &str) -> &mut Conversation {
        let name = match session {
            "" => self.conversations.keys().next().cloned().unwrap_or_else(|| self.name.to_owned()),
            session => session.to_owned(),
        };
        self.conversations.entry(name).or_insert_with_key(|name| Conversation::new(name))
    }
}

impl OpencodeTokens {
    fn to_usage(&self, cost: f64) -> AnswerUsage {
        let (read, written) = (self.cache.read.0, self.cache.write.0);
        AnswerUsage {
            tokens_in: self.input.0.saturating_add(read).saturating_add(written),
            tokens_out: self.output.0.saturating_add(self.reasoning.0),
            cost_micro_usd: bounds::micro_dollars(cost),
            cached: CachedTokens { read, written },
        }
    }
}

fn emit_tool(
    conversation: &mut Conversation,
    out: &mut EventEmitter<'_>,
    part: OpencodePart<'_>,
) -> LineOutcome {
    let Some(state) = part.state else { return LineOutcome::Skipped };
    let ended = match &*state.status {
        "completed" => Some(CallEnd::Ok(state.output.0)),
        "error" => Some(match denied_by(&state.error) {
            Some(by) => CallEnd::Denied(by),
            None => CallEnd::Failed(state.error.0),
        }),
        _ => None,
    };
    conversation.at = timestamp_from_number(state.time.start.0).or(conversation.at);
    let args = state.input.map_or(Value::Null, |input| bounds::args(input.get()));
    conversation.tool_requested(out, &part.call, &part.tool, args);
    if let Some(end) = ended {
        let started = conversation.at;
        conversation.at = timestamp_from_number(state.time.end.0).or(conversation.at);
        let took = conversation.at.zip(started).map(|(end, start)| end.saturating_sub(start));
        conversation.tool_finished_in(out, &part.call, end, took);
        // All calls of one step belong to the same answer, regardless of the order in which they end.
        conversation.same_answer();
    }
    LineOutcome::Counted
}

fn denied_by(text: &str) -> Option<DeniedBy> {
    if text.starts_with("The user rejected permission") {
        return Some(DeniedBy::Human);
    }
    text.starts_with("The user has specified a rule which prevents").then_some(DeniedBy::Policy)
}
