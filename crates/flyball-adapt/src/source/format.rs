//! Which tool wrote a transcript: known from its first bytes.

use super::Broken;
use super::peel::{Field, field, fields, items, quoted};
use flyball::{Code, Error};
use std::io::BufRead;

/// How much of the beginning is looked at.
pub(super) const HEAD_BYTES: usize = 64 * 1024;
/// How many lines of it are looked at.
const LINES: usize = 32;
/// What the types of Flyball's events begin with; a mistake behind the dot is told as one.
const OURS: [&str; 14] = [
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

/// A format that transcripts come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Flyball's own events, one JSON object a line.
    Flyball,
    /// Session logs of Claude Code, one JSON object a line.
    ClaudeCode,
    /// Rollouts of Codex, one JSON object a line.
    Codex,
    /// Messages of OpenAI's chat completions: requests, answers, or a list.
    OpenAiChat,
    /// Items of OpenAI's Responses: requests, answers, or a list.
    OpenAiResponses,
    /// Messages of Anthropic: requests, answers, or a list.
    Anthropic,
    /// Chats of Gemini CLI, a document or one JSON object a line.
    Gemini,
    /// Sessions of opencode: an export, or the files of its storage one a line.
    Opencode,
    /// Trajectories of SWE-agent and mini-swe-agent.
    SweAgent,
    /// Events of OpenHands: a list, or one JSON object a line.
    OpenHands,
    /// The Agent Trajectory Interchange Format.
    Atif,
    /// Traces in OTLP as JSON: a document, or one a line.
    OtlpJson,
    /// Traces in OTLP as protobuf.
    OtlpProtobuf,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 13] = [
        Format::Flyball,
        Format::ClaudeCode,
        Format::Codex,
        Format::OpenAiChat,
        Format::OpenAiResponses,
        Format::Anthropic,
        Format::Gemini,
        Format::Opencode,
        Format::SweAgent,
        Format::OpenHands,
        Format::Atif,
        Format::OtlpJson,
        Format::OtlpProtobuf,
    ];

    /// The name as it is typed after `--format`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Flyball => "flyball",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::OpenAiChat => "openai-chat",
            Format::OpenAiResponses => "openai-responses",
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini-cli",
            Format::Opencode => "opencode",
            Format::SweAgent => "swe-agent",
            Format::OpenHands => "openhands",
            Format::Atif => "atif",
            Format::OtlpJson => "otlp-json",
            Format::OtlpProtobuf => "otlp-protobuf",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Finds out the format from the first bytes, without taking them: from as many as the reader holds ready.
///
/// # Errors
/// If they cannot be read, or look like no format that is known.
pub fn detect(input: &mut dyn BufRead) -> Result<Format, Broken> {
    let head = input.fill_buf().map_err(|error| Broken {
        line: 1,
        error: Error::new(Code::BrokenLine, error.to_string(), "check that the file can be read"),
    })?;
    look(head).ok_or_else(unknown)
}

/// Nothing that is known.
pub(super) fn unknown() -> Broken {
    let names = Format::ALL.map(Format::name).join(", ");
    Broken {
        line: 0,
        error: Error::new(
            Code::UnknownFormat,
            format!("the first lines look like none of these: {names}"),
            "name the format with --format, or write one Flyball event a line",
        ),
    }
}

/// What the first bytes look like. An empty file is one of Flyball without events.
pub(super) fn look(head: &[u8]) -> Option<Format> {
    let head = head.get(..HEAD_BYTES).unwrap_or(head);
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    if super::otlp::looks_like_protobuf(head) {
        return Some(Format::OtlpProtobuf);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start();
    if text.is_empty() {
        return Some(Format::Flyball);
    }
    if text.starts_with('[') {
        // The first element may be longer than what is looked at.
        let first = text.get(1..).unwrap_or_default().trim_start();
        return surest(items(text).take(LINES).chain(std::iter::once(first)));
    }
    let mut lines = text.lines();
    let first = lines.next()?;
    if first.trim_end().ends_with('}') {
        return surest(std::iter::once(first).chain(lines.take(LINES)));
    }
    surest(std::iter::once(text))
}

/// A guess: the format, and whether another line could change it.
type Guess = (Format, bool);

/// The first guess that is sure; if none is, the first.
fn surest<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Format> {
    let mut best = None;
    for guess in texts.filter_map(entry) {
        if guess.1 {
            return Some(guess.0);
        }
        best = best.or(Some(guess.0));
    }
    best
}

/// The keys of an object, and what of them is looked at more closely.
struct Keys<'a>(Vec<Field<'a>>);

impl<'a> Keys<'a> {
    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|field| field.key == key)
    }

    fn value(&self, key: &str) -> &'a str {
        self.0.iter().find(|field| field.key == key).map_or("", |field| field.value)
    }

    fn text(&self, key: &str) -> &'a str {
        quoted(self.value(key)).unwrap_or_default()
    }
}

/// What one object looks like.
fn entry(text: &str) -> Option<Guess> {
    let keys = Keys(fields(text).take(64).collect());
    if keys.0.is_empty() {
        return None;
    }
    let known = own(&keys).or_else(|| trajectory(&keys)).or_else(|| coding_agent(&keys));
    let known = known.map(|format| (format, true));
    known.or_else(|| messages(&keys, text))
}

fn own(keys: &Keys<'_>) -> Option<Format> {
    let kind = keys.text("type");
    let of_ours = match kind {
        "compaction" => !keys.has("uuid") && !keys.has("sessionID"),
        "progress" => keys.has("signal"),
        _ => OURS.iter().any(|root| kind.starts_with(root)) && !keys.has("part") && !keys.has("properties"),
    };
    of_ours.then_some(Format::Flyball)
}

/// Formats that carry their name in a key.
fn trajectory(keys: &Keys<'_>) -> Option<Format> {
    if keys.has("resourceSpans") || keys.has("resource_spans") {
        return Some(Format::OtlpJson);
    }
    if keys.text("schema_version").starts_with("ATIF") {
        return Some(Format::Atif);
    }
    if keys.has("sessionId") && keys.has("projectHash") {
        return Some(Format::Gemini);
    }
    let info = keys.value("info");
    let mini =
        keys.text("trajectory_format").starts_with("mini-swe-agent") || info.contains("\"mini_version\"");
    if mini || keys.has("trajectory") && (keys.has("info") || keys.has("history") || keys.has("environment"))
    {
        return Some(Format::SweAgent);
    }
    let opencode = keys.has("sessionID") || keys.text("id").starts_with("ses_");
    if opencode || keys.has("messages") && field(info, "id").is_some_and(|id| id.starts_with("\"ses_")) {
        return Some(Format::Opencode);
    }
    let acts = keys.has("action") || keys.has("observation");
    let older = acts && keys.has("source") && keys.has("id");
    let newer = keys.has("source") && keys.has("timestamp") && keys.text("kind").ends_with("Event");
    let history = ["history", "events"].iter().any(|key| {
        let first = items(keys.value(key)).next().unwrap_or_default();
        let first = items(first).next().unwrap_or(first);
        fields(first).any(|field| field.key == "source")
    });
    (older || newer || history).then_some(Format::OpenHands)
}

fn coding_agent(keys: &Keys<'_>) -> Option<Format> {
    let kind = keys.text("type");
    let rollout = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
    if keys.has("timestamp") && keys.has("type") && (keys.has("payload") || rollout.contains(&kind)) {
        return Some(Format::Codex);
    }
    let old_codex = keys.has("instructions") && keys.has("timestamp") && keys.has("id") && !keys.has("type");
    if old_codex || keys.text("record_type") == "state" {
        return Some(Format::Codex);
    }
    let linked = keys.has("uuid") || keys.has("leafUuid") || keys.has("parentUuid");
    let named = keys.has("sessionId") && !kind.is_empty();
    let snapshot = kind == "file-history-snapshot";
    // The first line may be cut before it comes to its type.
    let begun = keys.has("parentUuid") && keys.has("isSidechain");
    if begun || keys.has("type") && (linked || named || snapshot) {
        return Some(Format::ClaudeCode);
    }
    None
}

fn messages(keys: &Keys<'_>, text: &str) -> Option<Guess> {
    let list = keys.value("messages");
    if list.starts_with('[') {
        if let Some(format) = items(list).take(LINES).find_map(message) {
            return Some((format, true));
        }
        let anthropic = ["anthropic_version", "stop_sequences", "system"].iter().any(|key| keys.has(key));
        return Some((if anthropic { Format::Anthropic } else { Format::OpenAiChat }, anthropic));
    }
    if keys.has("choices") && keys.has("model") {
        return Some((Format::OpenAiChat, true));
    }
    if keys.text("type") == "message" && keys.has("stop_reason") {
        return Some((Format::Anthropic, true));
    }
    let responses = keys.text("object") == "response" || keys.has("previous_response_id");
    if responses || keys.has("input") && keys.has("model") {
        return Some((Format::OpenAiResponses, true));
    }
    if keys.has("request") || keys.has("response") {
        let inner = |key| fields(keys.value(key)).next().and_then(|_| entry(keys.value(key)));
        return match (inner("request"), inner("response")) {
            (_, Some(guess)) if guess.1 => Some(guess),
            (request, response) => request.or(response),
        };
    }
    if let Some(format) = message(text) {
        return Some((format, true));
    }
    keys.has("role").then_some((Format::OpenAiChat, false))
}

/// What one message looks like, if it shows.
fn message(text: &str) -> Option<Format> {
    let keys = Keys(fields(text).take(64).collect());
    let item = ["function_call", "function_call_output", "reasoning", "custom_tool_call", "local_shell_call"];
    if item.contains(&keys.text("type")) {
        return Some(Format::OpenAiResponses);
    }
    if keys.has("role") && (keys.has("tool_calls") || keys.has("tool_call_id") || keys.has("function_call")) {
        return Some(Format::OpenAiChat);
    }
    if matches!(keys.text("role"), "tool" | "function" | "system") {
        return Some(Format::OpenAiChat);
    }
    items(keys.value("content")).find_map(|block| match field(block, "type").and_then(quoted)? {
        "tool_use" | "tool_result" | "thinking" | "server_tool_use" => Some(Format::Anthropic),
        "input_text" | "output_text" => Some(Format::OpenAiResponses),
        "image_url" | "input_audio" => Some(Format::OpenAiChat),
        _ => None,
    })
}
