//! A provider that is a program: it gets the request on its standard input and prints the reply. For coding agents with
//! a command line, and for whatever speaks neither of the two protocols.
//!
//! Exit code 0 is an answer; 75 (`EX_TEMPFAIL`) asks for another try; anything else is a failure.

use super::Provider;
use super::config::{CommandConfig, PromptForm, ReplyForm, wrong};
use super::draft::{Draft, DraftCall, Tokens};
use super::error::{Code, ProviderError};
use super::fault::{Again, Fault, quote};
use super::limits::{EXIT_TRY_AGAIN, MAX_COMMAND_BYTES};
use super::message::{Message, Reply, Request, Stop};
use super::retry::{Progress, Try, cancelled, persist};
use super::secret::Key;
use crate::process::Cancel;
use crate::process::{End, Job, Ran, Stream, run};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A provider that is a program.
#[derive(Debug)]
pub(super) struct CommandProvider {
    name: String,
    config: CommandConfig,
}

/// A reply as a program prints it. Fields of its own are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Printed {
    text: String,
    calls: Vec<PrintedCall>,
    stop: Option<String>,
    usage: Option<PrintedUsage>,
    model: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PrintedCall {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PrintedUsage {
    tokens_in: u64,
    tokens_out: u64,
    cached_in: u64,
}

impl CommandProvider {
    pub(super) fn new(name: &str, config: &CommandConfig) -> Result<Self, ProviderError> {
        let place = format!("providers.{name}");
        if config.argv.first().is_none_or(String::is_empty) {
            return Err(wrong(name, &format!("{place}.argv is empty"), "write `argv: [program, argument]`"));
        }
        config.retry.check().map_err(|what| wrong(name, &format!("{place}: {what}"), "correct it"))?;
        Ok(CommandProvider { name: name.to_owned(), config: config.clone() })
    }

    fn program(&self) -> &str {
        self.config.argv.first().map_or("", String::as_str)
    }

    fn job(&self, request: &Request, this: Try) -> Job {
        let input = match self.config.input {
            PromptForm::Json => as_json(request, this).to_string(),
            PromptForm::Prompt => as_prompt(request),
        };
        let env = self.config.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        Job {
            argv: self.config.argv.clone(),
            dir: PathBuf::from(self.config.dir.as_deref().unwrap_or(".")),
            env: env.collect(),
            input: Some(input.into_bytes()),
            deadline: Some(this.left()),
            keep: MAX_COMMAND_BYTES,
        }
    }

    fn attempt(
        &self,
        request: &Request,
        cancel: &Cancel,
        this: Try,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, Fault> {
        let mut passing = Passing::default();
        let passes = self.config.output == ReplyForm::Text;
        let ran = run(&self.job(request, this), cancel, &mut |stream, bytes| {
            if passes && stream == Stream::Stdout {
                passing.pass(bytes, on_text);
            }
        });
        let ran =
            ran.map_err(|not| Fault::new(Code::Unreachable, Again::Never, not.what).advised(not.hint))?;
        match self.judged(&ran) {
            Ok(()) => {
                let draft = self.drafted(&ran.stdout_text())?;
                if !passes && !draft.text.is_empty() {
                    on_text(&draft.text);
                }
                Ok(draft.finish(request, self.model(), self.config.price.as_ref()))
            }
            Err(mut fault) => {
                let text = ran.stdout_text();
                if passes && !text.trim().is_empty() {
                    let draft = Draft { text, ..Draft::default() };
                    fault.partial =
                        Some(Box::new(draft.finish(request, self.model(), self.config.price.as_ref())));
                }
                Err(fault)
            }
        }
    }

    fn model(&self) -> &str {
        self.config.model.as_deref().unwrap_or_else(|| self.program())
    }

    /// How it ended, if not well.
    fn judged(&self, ran: &Ran) -> Result<(), Fault> {
        let program = self.program();
        let said = Key::default().scrub(&quote(&last_lines(&ran.stderr_text())));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let failed =
            |code, again, how: String| Err(Fault::new(code, again, format!("'{program}' {how}{said}")));
        match ran.end {
            End::Exit(0) if ran.dropped > 0 && ran.stdout.len() >= MAX_COMMAND_BYTES => {
                failed(Code::Malformed, Again::Never, format!("printed more than {MAX_COMMAND_BYTES} bytes"))
            }
            End::Exit(0) => Ok(()),
            End::Exit(EXIT_TRY_AGAIN) => {
                failed(Code::Overloaded, Again::Later, "asks for another try".to_owned())
            }
            End::Exit(code) => failed(Code::CommandFailed, Again::Never, format!("exited with {code}")),
            End::Signal(signal) => {
                failed(Code::CommandFailed, Again::Never, format!("was ended by signal {signal}"))
            }
            End::Deadline => failed(Code::Timeout, Again::Never, "took longer than the turn may".to_owned()),
            End::Cancelled => Err(cancelled()),
        }
    }

    fn drafted(&self, stdout: &str) -> Result<Draft, Fault> {
        let text = stdout.trim();
        let malformed = |what: String| {
            let what = format!("'{}' printed {what}", self.program());
            let advice =
                "print {\"text\": …, \"calls\": [{\"name\": …, \"args\": {…}}]}, or say `output: text`";
            Fault::new(Code::Malformed, Again::Never, what).advised(advice)
        };
        let plain = || Ok(Draft { text: text.to_owned(), ended: true, ..Draft::default() });
        let parsed = match self.config.output {
            ReplyForm::Text => return plain(),
            ReplyForm::Json => {
                serde_json::from_str(text).map_err(|error| malformed(format!("no JSON: {error}")))?
            }
            ReplyForm::Auto => serde_json::from_str(text).unwrap_or(Value::Null),
        };
        let is_reply = parsed.get("text").is_some() || parsed.get("calls").is_some();
        if !is_reply {
            let expected = "JSON with neither `text` nor `calls`".to_owned();
            return if self.config.output == ReplyForm::Json { Err(malformed(expected)) } else { plain() };
        }
        let printed: Printed =
            serde_json::from_value(parsed).map_err(|error| malformed(format!("no valid reply: {error}")))?;
        Ok(printed.drafted())
    }
}

impl Provider for CommandProvider {
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

impl Printed {
    fn drafted(self) -> Draft {
        let args = |args: &Value| if args.is_null() { String::new() } else { args.to_string() };
        let calls = (0..).zip(self.calls).map(|(index, call)| DraftCall {
            index,
            args: args(&call.args),
            id: call.id,
            name: call.name,
        });
        let tokens = |usage: PrintedUsage| Tokens {
            input: usage.tokens_in,
            output: usage.tokens_out,
            cached: usage.cached_in,
            cache_write: 0,
        };
        Draft {
            text: self.text,
            calls: calls.collect(),
            stop: self.stop.as_deref().map(Stop::from_word),
            tokens: self.usage.map(tokens),
            model: self.model,
            ended: true,
        }
    }
}

/// The request as JSON, with the time that is left in milliseconds.
fn as_json(request: &Request, this: Try) -> Value {
    let mut value = serde_json::to_value(request).unwrap_or_default();
    value["turn"] = json!(request.turn());
    value["deadline_ms"] = json!(u64::try_from(this.left().as_millis()).unwrap_or(u64::MAX));
    value
}

/// The conversation as plain text: a single message as it is, a longer one with who said what.
fn as_prompt(request: &Request) -> String {
    let mut parts: Vec<String> =
        request.system.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
    match request.messages.as_slice() {
        [Message::User { text }] => parts.push(text.clone()),
        messages => parts.extend(messages.iter().map(|message| match message {
            Message::User { text } => format!("User: {text}"),
            Message::Assistant { text, calls } => {
                let called = calls.iter().map(|call| format!("\nCalled {} with {}", call.name, call.args));
                format!("Assistant: {text}{}", called.collect::<String>())
            }
            Message::ToolResult { text, ok: true, .. } => format!("Tool result: {text}"),
            Message::ToolResult { text, ok: false, .. } => format!("Tool failure: {text}"),
        })),
    }
    parts.join("\n\n")
}

/// The end of what it said about itself: the last words are the telling ones.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" / ")
}

/// Passes bytes on as text, never with half a character.
#[derive(Default)]
struct Passing(Vec<u8>);

impl Passing {
    fn pass(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(text) => text.len(),
            // No end of a character in sight: it never was one.
            Err(error) if error.error_len().is_some() => self.0.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = self.0.drain(..whole).collect();
        if !text.is_empty() {
            on_text(&String::from_utf8_lossy(&text));
        }
    }
}
