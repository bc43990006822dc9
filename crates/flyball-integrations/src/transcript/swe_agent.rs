//! SWE-agent (`.traj`) and mini-swe-agent trajectories: one JSON document per run.
//!
//! SWE-agent writes each step as a thought, an action (a command line) and an observation. mini-swe-agent writes
//! messages: a command in a fenced block, and its result as the next user message.

use super::conversation::{AnswerUsage, CallEnd, Conversation};
use super::emitter::{EventEmitter, LineOutcome};
use super::lenient_fields::{LenientCount, LenientNumber, LenientText, or_default, parse_timestamp};
use super::lines::{TranscriptReader, each_value};
use super::raw_json::{field, fields, items};
use super::responses_items::{parse_arguments, text_of};
use super::{CachedTokens, TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary, bounds};
use flyball::MessageOrigin;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// SWE-agent commands that are separate tools; everything else runs in its shell.
const TOOLS: [&str; 18] = [
    "edit",
    "create",
    "open",
    "goto",
    "scroll_up",
    "scroll_down",
    "search_file",
    "search_dir",
    "find_file",
    "submit",
    "insert",
    "append",
    "undo_edit",
    "str_replace_editor",
    "str_replace",
    "view",
    "filemap",
    "exit_forfeit",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweStep<'a> {
    #[serde(borrow)]
    action: LenientText<'a>,
    #[serde(borrow)]
    observation: LenientText<'a>,
    #[serde(borrow)]
    thought: LenientText<'a>,
    #[serde(borrow)]
    response: LenientText<'a>,
    execution_time: LenientNumber,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweInfo<'a> {
    #[serde(deserialize_with = "or_default")]
    model_stats: SweStats,
    #[serde(borrow, deserialize_with = "or_default")]
    config: SweConfig<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweStats {
    instance_cost: LenientNumber,
    tokens_sent: LenientCount,
    tokens_received: LenientCount,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweConfig<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    model: SweModel<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweModel<'a> {
    #[serde(borrow)]
    model_name: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweMessage<'a> {
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<SweCall<'a>>>,
    #[serde(borrow)]
    tool_call_id: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweCall<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    function: SweFunction<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SweFunction<'a> {
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

struct SweRun {
    conversation: Conversation,
    /// Whether a mini-swe-agent command awaits its observation.
    awaiting_observation: bool,
}

/// Reads trajectories.
pub(super) fn read(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::SweAgent, sink);
    let (name, mut runs) = (reader.name, 0_u64);
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        runs += 1;
        let name = if runs == 1 { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}#{runs}")) };
        SweRun { conversation: Conversation::new(&name), awaiting_observation: false }
            .handle_trajectory(out, text)
    })?;
    Ok(out.finish())
}

impl SweRun {
    fn handle_trajectory(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let value = |key: &str| fields(text).find(|field| field.key == key).map(|field| field.value);
        let info = field(text, "info").and_then(|info| serde_json::from_str::<SweInfo<'_>>(info).ok());
        let info = info.unwrap_or_default();
        self.conversation.set_model(&info.config.model.model_name);
        let (steps, mini) = match (value("trajectory"), value("messages")) {
            (Some(steps), _) => (steps, false),
            (None, Some(messages)) => (messages, true),
            (None, None) => return LineOutcome::Skipped,
        };
        for step in items(steps) {
            out.next_entry();
            let step = if mini { self.handle_message(out, step) } else { self.handle_step(out, step) };
            out.count_entry(step);
        }
        let stats = &info.model_stats;
        self.conversation.add_usage_to_last(
            out,
            AnswerUsage {
                tokens_in: stats.tokens_sent.0,
                tokens_out: stats.tokens_received.0,
                cost_micro_usd: bounds::micro_dollars(stats.instance_cost.0),
                cached: CachedTokens::default(),
            },
        );
        LineOutcome::Counted
    }

    fn handle_step(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let Ok(step) = serde_json::from_str::<SweStep<'_>>(text) else { return LineOutcome::Malformed };
        self.conversation.new_answer();
        let said = if step.thought.trim().is_empty() { step.response } else { step.thought };
        let action = step.action.trim();
        self.conversation.assistant_message(out, said.0, action.is_empty());
        if action.is_empty() {
            return LineOutcome::Counted;
        }
        let (tool, args) = action_call(action);
        self.conversation.tool_requested(out, "", tool, args);
        let took = step.execution_time.0;
        let took = (took > 0.0).then(|| bounds::milliseconds(took));
        self.conversation.tool_finished_in(out, "", CallEnd::Ok(step.observation.0), took);
        LineOutcome::Counted
    }

    fn handle_message(&mut self, out: &mut EventEmitter<'_>, text: &str) -> LineOutcome {
        let Ok(message) = serde_json::from_str::<SweMessage<'_>>(text) else { return LineOutcome::Malformed };
        let said = message.content.map_or(Cow::Borrowed(""), |content| text_of(content.get()));
        self.conversation.at = parse_timestamp(&message.timestamp).or(self.conversation.at);
        match &*message.role {
            "user" if self.awaiting_observation => {
                self.awaiting_observation = false;
                self.conversation.tool_finished(out, "", command_end(said));
            }
            "user" => self.conversation.user_message(out, said, MessageOrigin::Human),
            "tool" => self.conversation.tool_finished(out, &message.tool_call_id, command_end(said)),
            "assistant" => {
                self.conversation.new_answer();
                let calls = message.tool_calls.unwrap_or_default();
                let fenced = fenced_command(&said).filter(|_| calls.is_empty()).map(str::to_owned);
                self.conversation.assistant_message(out, said, calls.is_empty() && fenced.is_none());
                for call in calls {
                    let args =
                        call.function.arguments.map_or(Value::Null, |args| parse_arguments(args.get()));
                    self.conversation.tool_requested(out, &call.id, &call.function.name, args);
                }
                if let Some(fenced) = fenced {
                    self.conversation.tool_requested(
                        out,
                        "",
                        "bash",
                        json!({"command": bounds::text(fenced.into())}),
                    );
                    self.awaiting_observation = true;
                }
            }
            _ => return LineOutcome::Skipped,
        }
        LineOutcome::Counted
    }
}

/// The tool and arguments of an action.
fn action_call(action: &str) -> (&str, Value) {
    let (first, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
    if !TOOLS.contains(&first) {
        return ("bash", json!({"command": bounds::text(action.into())}));
    }
    let rest = rest.trim();
    if first == "str_replace_editor" {
        let mut parts = rest.splitn(3, char::is_whitespace);
        let mut next = || parts.next().unwrap_or_default();
        let (what, path) = (next(), next());
        return (first, json!({"command": what, "path": path, "rest": bounds::text(next().into())}));
    }
    (first, if rest.is_empty() { json!({}) } else { json!({"args": bounds::text(rest.into())}) })
}

/// The command in a message: its only fenced block.
fn fenced_command(text: &str) -> Option<&str> {
    let start = ["```bash\n", "```mswea_bash_command\n", "```sh\n"]
        .iter()
        .find_map(|fence| text.find(fence).map(|at| at + fence.len()))?;
    let rest = text.get(start..)?;
    rest.get(..rest.find("```")?).map(str::trim).filter(|command| !command.is_empty())
}

/// The outcome of a command, whose exit code precedes its output.
fn command_end(text: Cow<'_, str>) -> CallEnd<'_> {
    let code = text.trim_start().strip_prefix("<returncode>").and_then(|rest| rest.split('<').next());
    match code.and_then(|code| code.trim().parse::<i64>().ok()) {
        Some(0) | None => CallEnd::Ok(text),
        Some(_) => CallEnd::Failed(text),
    }
}
