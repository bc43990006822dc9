//! Command provider: a program that reads the request on standard input and prints the reply. For coding agents with a
//! command line, and anything else that speaks neither HTTP protocol.
//!
//! Exit code 0 means a reply, 75 (`EX_TEMPFAIL`) requests a retry, and anything else is a failure.

use super::Provider;
use super::attempt_error::{AttemptError, Retryability, quote};
use super::limits::{EX_TEMPFAIL, MAX_COMMAND_BYTES};
use super::message::{ChatMessage, FinishReason, ModelReply, ModelRequest};
use super::provider_config::{CommandInputFormat, CommandOutputFormat, CommandProviderConfig, config_error};
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::provider_key::ProviderKey;
use super::reply_builder::{PartialToolCall, ReplyBuilder, ReportedTokens};
use super::retry::{AttemptInfo, ProviderProgress, cancelled_error, with_retries};
use crate::process::CancelToken;
use crate::process::{OutputStream, ProcessEnd, ProcessOutput, ProcessSpec, run};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Provider backed by a program.
#[derive(Debug)]
pub(super) struct CommandProvider {
    name: String,
    config: CommandProviderConfig,
}

/// Reply printed by a program. Unknown fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommandReply {
    text: String,
    calls: Vec<CommandReplyCall>,
    stop: Option<String>,
    usage: Option<CommandReplyUsage>,
    model: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CommandReplyCall {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommandReplyUsage {
    tokens_in: u64,
    tokens_out: u64,
    cached_in: u64,
}

impl CommandProvider {
    pub(super) fn new(name: &str, config: &CommandProviderConfig) -> Result<Self, ProviderError> {
        let place = format!("providers.{name}");
        if config.argv.first().is_none_or(String::is_empty) {
            return Err(config_error(
                name,
                &format!("{place}.argv is empty"),
                "write `argv: [program, argument]`",
            ));
        }
        config.retry.check().map_err(|what| config_error(name, &format!("{place}: {what}"), "fix it"))?;
        Ok(CommandProvider { name: name.to_owned(), config: config.clone() })
    }

    fn program(&self) -> &str {
        self.config.argv.first().map_or("", String::as_str)
    }

    fn process_spec(&self, request: &ModelRequest, this: AttemptInfo) -> ProcessSpec {
        let input = match self.config.input {
            CommandInputFormat::Json => request_json(request, this).to_string(),
            CommandInputFormat::Prompt => request_prompt(request),
        };
        let env = self.config.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        ProcessSpec {
            argv: self.config.argv.clone(),
            dir: PathBuf::from(self.config.dir.as_deref().unwrap_or(".")),
            env: env.collect(),
            input: Some(input.into_bytes()),
            deadline: Some(this.remaining()),
            max_kept_bytes: MAX_COMMAND_BYTES,
        }
    }

    fn attempt(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        this: AttemptInfo,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ModelReply, AttemptError> {
        let mut forwarder = Utf8Forwarder::default();
        let streams = self.config.output == CommandOutputFormat::Text;
        let ran = run(&self.process_spec(request, this), cancel, &mut |stream, bytes| {
            if streams && stream == OutputStream::Stdout {
                forwarder.forward(bytes, on_text);
            }
        });
        let ran = ran.map_err(|error| {
            AttemptError::new(ProviderErrorCode::Unreachable, Retryability::Never, error.message)
                .with_help(error.help)
        })?;
        match self.outcome_for(&ran) {
            Ok(()) => {
                let draft = self.parse_reply(&ran.stdout_text())?;
                if !streams && !draft.text.is_empty() {
                    on_text(&draft.text);
                }
                Ok(draft.build(request, self.model(), self.config.price.as_ref()))
            }
            Err(mut error) => {
                let text = ran.stdout_text();
                if streams && !text.trim().is_empty() {
                    let draft = ReplyBuilder { text, ..ReplyBuilder::default() };
                    error.partial =
                        Some(Box::new(draft.build(request, self.model(), self.config.price.as_ref())));
                }
                Err(error)
            }
        }
    }

    fn model(&self) -> &str {
        self.config.model.as_deref().unwrap_or_else(|| self.program())
    }

    /// Error if the program did not exit with 0.
    fn outcome_for(&self, ran: &ProcessOutput) -> Result<(), AttemptError> {
        let program = self.program();
        let said = ProviderKey::default().scrub(&quote(&last_lines(&ran.stderr_text())));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let failed = |code, again, how: String| {
            Err(AttemptError::new(code, again, format!("'{program}' {how}{said}")))
        };
        match ran.end {
            ProcessEnd::Exit(0) if ran.dropped_bytes > 0 && ran.stdout.len() >= MAX_COMMAND_BYTES => failed(
                ProviderErrorCode::Malformed,
                Retryability::Never,
                format!("printed more than {MAX_COMMAND_BYTES} bytes"),
            ),
            ProcessEnd::Exit(0) => Ok(()),
            ProcessEnd::Exit(EX_TEMPFAIL) => {
                failed(ProviderErrorCode::Overloaded, Retryability::Later, "requested a retry".to_owned())
            }
            ProcessEnd::Exit(code) => failed(
                ProviderErrorCode::CommandFailed,
                Retryability::Never,
                format!("exited with code {code}"),
            ),
            ProcessEnd::Signal(signal) => failed(
                ProviderErrorCode::CommandFailed,
                Retryability::Never,
                format!("was killed by signal {signal}"),
            ),
            ProcessEnd::DeadlineExceeded => failed(
                ProviderErrorCode::Timeout,
                Retryability::Never,
                "exceeded the time left in the turn".to_owned(),
            ),
            ProcessEnd::Cancelled => Err(cancelled_error()),
        }
    }

    fn parse_reply(&self, stdout: &str) -> Result<ReplyBuilder, AttemptError> {
        let text = stdout.trim();
        let malformed = |what: String| {
            let what = format!("'{}' printed {what}", self.program());
            let advice =
                "print {\"text\": …, \"calls\": [{\"name\": …, \"args\": {…}}]}, or set `output: text`";
            AttemptError::new(ProviderErrorCode::Malformed, Retryability::Never, what).with_help(advice)
        };
        let plain = || Ok(ReplyBuilder { text: text.to_owned(), saw_end: true, ..ReplyBuilder::default() });
        let parsed = match self.config.output {
            CommandOutputFormat::Text => return plain(),
            CommandOutputFormat::Json => {
                serde_json::from_str(text).map_err(|error| malformed(format!("invalid JSON: {error}")))?
            }
            CommandOutputFormat::Auto => serde_json::from_str(text).unwrap_or(Value::Null),
        };
        let is_reply = parsed.get("text").is_some() || parsed.get("calls").is_some();
        if !is_reply {
            let expected = "JSON with neither `text` nor `calls`".to_owned();
            return if self.config.output == CommandOutputFormat::Json {
                Err(malformed(expected))
            } else {
                plain()
            };
        }
        let printed: CommandReply = serde_json::from_value(parsed)
            .map_err(|error| malformed(format!("an invalid reply: {error}")))?;
        Ok(printed.into_builder())
    }
}

impl Provider for CommandProvider {
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

impl CommandReply {
    fn into_builder(self) -> ReplyBuilder {
        let args = |args: &Value| if args.is_null() { String::new() } else { args.to_string() };
        let calls = (0..).zip(self.calls).map(|(index, call)| PartialToolCall {
            index,
            args: args(&call.args),
            id: call.id,
            name: call.name,
        });
        let tokens = |usage: CommandReplyUsage| ReportedTokens {
            input: usage.tokens_in,
            output: usage.tokens_out,
            cached: usage.cached_in,
            cache_write: 0,
        };
        ReplyBuilder {
            text: self.text,
            calls: calls.collect(),
            stop: self.stop.as_deref().map(FinishReason::from_wire),
            tokens: self.usage.map(tokens),
            model: self.model,
            saw_end: true,
        }
    }
}

/// The request as JSON, with the remaining time in milliseconds.
fn request_json(request: &ModelRequest, this: AttemptInfo) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    value["turn"] = json!(request.turn());
    value["deadline_ms"] = json!(u64::try_from(this.remaining().as_millis()).unwrap_or(u64::MAX));
    value
}

/// The conversation as plain text: a single message as is, otherwise with speaker labels.
fn request_prompt(request: &ModelRequest) -> String {
    let mut parts: Vec<String> =
        request.system.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
    match request.messages.as_slice() {
        [ChatMessage::User { text }] => parts.push(text.clone()),
        messages => parts.extend(messages.iter().map(|message| match message {
            ChatMessage::User { text } => format!("User: {text}"),
            ChatMessage::Assistant { text, calls } => {
                let called = calls.iter().map(|call| format!("\nCalled {} with {}", call.name, call.args));
                format!("Assistant: {text}{}", called.collect::<String>())
            }
            ChatMessage::ToolResult { text, ok: true, .. } => format!("Tool result: {text}"),
            ChatMessage::ToolResult { text, ok: false, .. } => format!("Tool failure: {text}"),
        })),
    }
    parts.join("\n\n")
}

/// Last lines of stderr, which usually contain the cause.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" / ")
}

/// Forwards bytes as text without splitting a character.
#[derive(Default)]
struct Utf8Forwarder(Vec<u8>);

impl Utf8Forwarder {
    fn forward(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(text) => text.len(),
            // Invalid UTF-8, not a partial character: forward it lossily.
            Err(error) if error.error_len().is_some() => self.0.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = self.0.drain(..whole).collect();
        if !text.is_empty() {
            on_text(&String::from_utf8_lossy(&text));
        }
    }
}
