//! Detects a transcript's format from its first bytes.

use super::TranscriptError;
use super::raw_json::{RawField, field, fields, items, unquote};
use flyball::{Error, ErrorCode};
use std::io::BufRead;

/// Number of bytes that are inspected.
pub(super) const HEAD_BYTES: usize = 64 * 1024;
/// Number of lines that are inspected.
const MAX_LINES: usize = 32;
/// Prefixes of Flyball's event types, so that a typo after the dot is reported as an event error.
const EVENT_TYPE_PREFIXES: [&str; 14] = [
    "session.",
    "user.",
    "assistant.",
    "turn.",
    "tool.",
    "transition.",
    "validation.",
    "operation.",
    "completion.",
    "gate.",
    "confirmation.",
    "question.",
    "api.",
    "human.",
];

/// A transcript format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TranscriptFormat {
    /// Flyball's own events as JSON lines.
    Flyball,
    /// Claude Code session logs, as JSON lines.
    ClaudeCode,
    /// Codex rollouts, as JSON lines.
    Codex,
    /// OpenAI Chat Completions: requests, responses, or a list of messages.
    OpenAiChat,
    /// OpenAI Responses: requests, responses, or a list of items.
    OpenAiResponses,
    /// Anthropic Messages: requests, responses, or a list of messages.
    Anthropic,
    /// Gemini CLI chats: a document or JSON lines.
    Gemini,
    /// opencode sessions: an export, or its storage files one per line.
    Opencode,
    /// SWE-agent and mini-swe-agent trajectories.
    SweAgent,
    /// OpenHands events: a list or JSON lines.
    OpenHands,
    /// The Agent Trajectory Interchange Format.
    Atif,
    /// OTLP traces as JSON: a document or JSON lines.
    OtlpJson,
    /// OTLP traces as protobuf.
    OtlpProtobuf,
}

impl TranscriptFormat {
    /// All formats.
    pub const ALL: [TranscriptFormat; 13] = [
        TranscriptFormat::Flyball,
        TranscriptFormat::ClaudeCode,
        TranscriptFormat::Codex,
        TranscriptFormat::OpenAiChat,
        TranscriptFormat::OpenAiResponses,
        TranscriptFormat::Anthropic,
        TranscriptFormat::Gemini,
        TranscriptFormat::Opencode,
        TranscriptFormat::SweAgent,
        TranscriptFormat::OpenHands,
        TranscriptFormat::Atif,
        TranscriptFormat::OtlpJson,
        TranscriptFormat::OtlpProtobuf,
    ];

    /// The name used with `--format`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TranscriptFormat::Flyball => "flyball",
            TranscriptFormat::ClaudeCode => "claude-code",
            TranscriptFormat::Codex => "codex",
            TranscriptFormat::OpenAiChat => "openai-chat",
            TranscriptFormat::OpenAiResponses => "openai-responses",
            TranscriptFormat::Anthropic => "anthropic",
            TranscriptFormat::Gemini => "gemini-cli",
            TranscriptFormat::Opencode => "opencode",
            TranscriptFormat::SweAgent => "swe-agent",
            TranscriptFormat::OpenHands => "openhands",
            TranscriptFormat::Atif => "atif",
            TranscriptFormat::OtlpJson => "otlp-json",
            TranscriptFormat::OtlpProtobuf => "otlp-protobuf",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TranscriptFormat> {
        TranscriptFormat::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Detects the format from the bytes in the reader's buffer, without consuming them.
///
/// # Errors
/// If they cannot be read, or match no known format.
pub fn detect_format(input: &mut dyn BufRead) -> Result<TranscriptFormat, TranscriptError> {
    let head = input.fill_buf().map_err(|error| TranscriptError {
        line: 1,
        error: Error::new(ErrorCode::InvalidJson, error.to_string(), "check that the file can be read"),
    })?;
    guess_format(head).ok_or_else(unknown_format)
}

/// The error for an unknown format.
pub(super) fn unknown_format() -> TranscriptError {
    let names = TranscriptFormat::ALL.map(TranscriptFormat::name).join(", ");
    TranscriptError {
        line: 0,
        error: Error::new(
            ErrorCode::UnknownFormat,
            format!("the first lines match none of these formats: {names}"),
            "name the format with --format, or write one Flyball event per line",
        ),
    }
}

/// Guesses the format from the first bytes. An empty file is a Flyball transcript without events.
pub(super) fn guess_format(head: &[u8]) -> Option<TranscriptFormat> {
    let head = head.get(..HEAD_BYTES).unwrap_or(head);
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    if super::otlp::looks_like_protobuf(head) {
        return Some(TranscriptFormat::OtlpProtobuf);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start();
    if text.is_empty() {
        return Some(TranscriptFormat::Flyball);
    }
    if text.starts_with('[') {
        // The first element may be longer than the inspected part.
        let first = text.get(1..).unwrap_or_default().trim_start();
        return best_guess(items(text).take(MAX_LINES).chain(std::iter::once(first)));
    }
    let mut lines = text.lines();
    let first = lines.next()?;
    if first.trim_end().ends_with('}') {
        return best_guess(std::iter::once(first).chain(lines.take(MAX_LINES)));
    }
    best_guess(std::iter::once(text))
}

/// A guess: the format, and whether another line could change it.
type FormatGuess = (TranscriptFormat, bool);

/// The first certain guess, or else the first one.
fn best_guess<'a>(texts: impl Iterator<Item = &'a str>) -> Option<TranscriptFormat> {
    let mut best = None;
    for guess in texts.filter_map(guess_entry) {
        if guess.1 {
            return Some(guess.0);
        }
        best = best.or(Some(guess.0));
    }
    best
}

/// The keys of an object and selected values.
struct ObjectKeys<'a>(Vec<RawField<'a>>);

impl<'a> ObjectKeys<'a> {
    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|field| field.key == key)
    }

    fn value(&self, key: &str) -> &'a str {
        self.0.iter().find(|field| field.key == key).map_or("", |field| field.value)
    }

    fn text(&self, key: &str) -> &'a str {
        unquote(self.value(key)).unwrap_or_default()
    }
}

/// Guesses the format from one object.
fn guess_entry(text: &str) -> Option<FormatGuess> {
    let keys = ObjectKeys(fields(text).take(64).collect());
    if keys.0.is_empty() {
        return None;
    }
    let known =
        flyball_format(&keys).or_else(|| trajectory_format(&keys)).or_else(|| coding_agent_format(&keys));
    let known = known.map(|format| (format, true));
    known.or_else(|| messages_format(&keys, text))
}

fn flyball_format(keys: &ObjectKeys<'_>) -> Option<TranscriptFormat> {
    let kind = keys.text("type");
    let of_ours = match kind {
        "compaction" => !keys.has("uuid") && !keys.has("sessionID"),
        "progress" => keys.has("signal"),
        _ => {
            EVENT_TYPE_PREFIXES.iter().any(|root| kind.starts_with(root))
                && !keys.has("part")
                && !keys.has("properties")
        }
    };
    of_ours.then_some(TranscriptFormat::Flyball)
}

/// Formats that are identified by a key.
fn trajectory_format(keys: &ObjectKeys<'_>) -> Option<TranscriptFormat> {
    if keys.has("resourceSpans") || keys.has("resource_spans") {
        return Some(TranscriptFormat::OtlpJson);
    }
    if keys.text("schema_version").starts_with("ATIF") {
        return Some(TranscriptFormat::Atif);
    }
    if keys.has("sessionId") && keys.has("projectHash") {
        return Some(TranscriptFormat::Gemini);
    }
    let info = keys.value("info");
    let mini =
        keys.text("trajectory_format").starts_with("mini-swe-agent") || info.contains("\"mini_version\"");
    if mini || keys.has("trajectory") && (keys.has("info") || keys.has("history") || keys.has("environment"))
    {
        return Some(TranscriptFormat::SweAgent);
    }
    let opencode = keys.has("sessionID") || keys.text("id").starts_with("ses_");
    if opencode || keys.has("messages") && field(info, "id").is_some_and(|id| id.starts_with("\"ses_")) {
        return Some(TranscriptFormat::Opencode);
    }
    let acts = keys.has("action") || keys.has("observation");
    let older = acts && keys.has("source") && keys.has("id");
    let newer = keys.has("source") && keys.has("timestamp") && keys.text("kind").ends_with("Event");
    let history = ["history", "events"].iter().any(|key| {
        let first = items(keys.value(key)).next().unwrap_or_default();
        let first = items(first).next().unwrap_or(first);
        fields(first).any(|field| field.key == "source")
    });
    (older || newer || history).then_some(TranscriptFormat::OpenHands)
}

fn coding_agent_format(keys: &ObjectKeys<'_>) -> Option<TranscriptFormat> {
    let kind = keys.text("type");
    let rollout = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
    if keys.has("timestamp") && keys.has("type") && (keys.has("payload") || rollout.contains(&kind)) {
        return Some(TranscriptFormat::Codex);
    }
    let old_codex = keys.has("instructions") && keys.has("timestamp") && keys.has("id") && !keys.has("type");
    if old_codex || keys.text("record_type") == "state" {
        return Some(TranscriptFormat::Codex);
    }
    let linked = keys.has("uuid") || keys.has("leafUuid") || keys.has("parentUuid");
    let named = keys.has("sessionId") && !kind.is_empty();
    let snapshot = kind == "file-history-snapshot";
    // The first line may be truncated before its type.
    let begun = keys.has("parentUuid") && keys.has("isSidechain");
    if begun || keys.has("type") && (linked || named || snapshot) {
        return Some(TranscriptFormat::ClaudeCode);
    }
    None
}

fn messages_format(keys: &ObjectKeys<'_>, text: &str) -> Option<FormatGuess> {
    let list = keys.value("messages");
    if list.starts_with('[') {
        if let Some(format) = items(list).take(MAX_LINES).find_map(message_format) {
            return Some((format, true));
        }
        let anthropic = ["anthropic_version", "stop_sequences", "system"].iter().any(|key| keys.has(key));
        return Some((
            if anthropic { TranscriptFormat::Anthropic } else { TranscriptFormat::OpenAiChat },
            anthropic,
        ));
    }
    if keys.has("choices") && keys.has("model") {
        return Some((TranscriptFormat::OpenAiChat, true));
    }
    if keys.text("type") == "message" && keys.has("stop_reason") {
        return Some((TranscriptFormat::Anthropic, true));
    }
    let responses = keys.text("object") == "response" || keys.has("previous_response_id");
    if responses || keys.has("input") && keys.has("model") {
        return Some((TranscriptFormat::OpenAiResponses, true));
    }
    if keys.has("request") || keys.has("response") {
        let inner = |key| fields(keys.value(key)).next().and_then(|_| guess_entry(keys.value(key)));
        return match (inner("request"), inner("response")) {
            (_, Some(guess)) if guess.1 => Some(guess),
            (request, response) => request.or(response),
        };
    }
    if let Some(format) = message_format(text) {
        return Some((format, true));
    }
    keys.has("role").then_some((TranscriptFormat::OpenAiChat, false))
}

/// Guesses the format from one message.
fn message_format(text: &str) -> Option<TranscriptFormat> {
    let keys = ObjectKeys(fields(text).take(64).collect());
    let item = ["function_call", "function_call_output", "reasoning", "custom_tool_call", "local_shell_call"];
    if item.contains(&keys.text("type")) {
        return Some(TranscriptFormat::OpenAiResponses);
    }
    if keys.has("role") && (keys.has("tool_calls") || keys.has("tool_call_id") || keys.has("function_call")) {
        return Some(TranscriptFormat::OpenAiChat);
    }
    if matches!(keys.text("role"), "tool" | "function" | "system") {
        return Some(TranscriptFormat::OpenAiChat);
    }
    items(keys.value("content")).find_map(|block| match field(block, "type").and_then(unquote)? {
        "tool_use" | "tool_result" | "thinking" | "server_tool_use" => Some(TranscriptFormat::Anthropic),
        "input_text" | "output_text" => Some(TranscriptFormat::OpenAiResponses),
        "image_url" | "input_audio" => Some(TranscriptFormat::OpenAiChat),
        _ => None,
    })
}
