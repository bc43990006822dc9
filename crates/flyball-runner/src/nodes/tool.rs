//! Tool calls: request, run, record.

use super::confirm::{self, ConfirmAnswer};
use crate::engine::{InterruptedStepPolicy, NodeOutcome, RecordedEvent, RunStop, Turn};
use crate::tools::{ToolCallOptions, ToolOutput};
use crate::workflow::OnInterrupt;
use crate::workflow::spec::ToolNode;
use flyball::output::OutputLimits;
use flyball::{Event, EventKind, Verdict};
use serde_json::{Value, json};

/// Field of an edit request with the digest of the file before the edit.
const DIGEST_BEFORE_FIELD: &str = "before";

/// Runs the configured tool.
pub(super) fn run(turn: &mut Turn<'_>, tool: &ToolNode) -> Result<NodeOutcome, RunStop> {
    let args = turn.walk.vars.render_value(&tool.args);
    let call = format!("{}-{}", turn.node.name, turn.number());
    Ok(match invoke(turn, &call, &tool.tool, &args, None)? {
        ToolCallOutcome::Ran { ok: true, text } => NodeOutcome::success(text),
        ToolCallOutcome::Ran { ok: false, text } | ToolCallOutcome::Refused { text } => {
            NodeOutcome::failed(text)
        }
    })
}

/// Outcome of a call.
pub(super) enum ToolCallOutcome {
    /// The tool ran.
    Ran {
        /// Whether it succeeded.
        ok: bool,
        /// Its output.
        text: String,
    },
    /// The governor denied it.
    Refused {
        /// Feedback for the caller.
        text: String,
    },
}

/// Requests permission for a tool call, runs it, and records the result.
pub(super) fn invoke(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
    round: Option<u64>,
) -> Result<ToolCallOutcome, RunStop> {
    let kind =
        EventKind::ToolRequested { call: Some(call.to_owned()), tool: tool.to_owned(), args: args.clone() };
    let mut asked = turn.event(kind);
    asked.round = round;
    perform_requested(turn, asked, (call, tool, args))
}

/// Like [`invoke`], for a call that a person approved in a workflow dialogue.
pub(super) fn invoke_approved(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
) -> Result<ToolCallOutcome, RunStop> {
    let kind =
        EventKind::ToolRequested { call: Some(call.to_owned()), tool: tool.to_owned(), args: args.clone() };
    let mut asked = turn.event(kind);
    asked.extra.insert(flyball::APPROVED_BY.to_owned(), json!("dialogue"));
    perform_requested(turn, asked, (call, tool, args))
}

/// Submits a request to the governor. If the tool needs approval, asks a person and submits it again.
fn request_tool(turn: &mut Turn<'_>, asked: &Event) -> Result<Result<RecordedEvent, String>, RunStop> {
    loop {
        let past = turn.walk.request(asked)?;
        if past.decision.decision < Verdict::Block {
            return Ok(Ok(past));
        }
        let pending = past.decision.state == flyball::SessionPhase::AwaitingConfirmation;
        if !(past.decision.lacks_approval() && pending) {
            let feedback = past.decision.feedback;
            return Ok(Err(feedback.unwrap_or_else(|| "Tool call blocked.".to_owned())));
        }
        if confirm::wait_for_answer(turn, past, "Allow this tool to run?")? != ConfirmAnswer::Yes {
            return Ok(Err("A person denied this call. Try another approach.".to_owned()));
        }
    }
}

fn perform_requested(
    turn: &mut Turn<'_>,
    mut asked: Event,
    (call, tool, args): (&str, &str, &Value),
) -> Result<ToolCallOutcome, RunStop> {
    let round = asked.round;
    let output = loop {
        if turn.walk.log.is_live() && tool == "edit" {
            asked.extra.extend(
                snapshot_edited_file(turn, args)
                    .map(|now| (DIGEST_BEFORE_FIELD.to_owned(), json!(now.digest))),
            );
        }
        let past = match request_tool(turn, &asked)? {
            Ok(past) => past,
            Err(text) => return Ok(ToolCallOutcome::Refused { text }),
        };
        if !turn.was_interrupted() {
            let before = past.event.extra.get(DIGEST_BEFORE_FIELD).and_then(Value::as_str);
            let output = execute(turn, call, tool, args, before)?;
            if output.ok || !turn.walk.log.is_live() || !turn.is_out_of_budget() {
                break output;
            }
        }
        turn.interrupted("tool")?;
    };
    let large = !output.log.is_empty();
    let (said, error) = split_output_and_error(&output);
    let kind = EventKind::ToolFinished {
        call: Some(call.to_owned()),
        ok: Some(output.ok),
        output: said,
        error,
        duration_ms: Some(output.duration_ms),
        tool: None,
        args: Value::Null,
    };
    let mut finished = turn.event(kind);
    finished.round = round;
    if large {
        finished.extra.insert("large".to_owned(), json!(true));
    }
    let past = turn.walk.record_event(finished)?;
    let EventKind::ToolFinished { ok, output, error, .. } = past.event.kind else {
        return Ok(ToolCallOutcome::Refused { text: String::new() });
    };
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let text =
        [text_of(&output), text_of(&error)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    Ok(ToolCallOutcome::Ran { ok: ok.unwrap_or(false), text: text.join("\n") })
}

/// Splits the result of a call into output and error. For a failed program the error includes its output: the exit
/// status alone is the same for every failure, and guards compare errors.
fn split_output_and_error(output: &ToolOutput) -> (Value, Value) {
    let Some(error) = &output.error else { return (json!(output.text), Value::Null) };
    if output.code != Some("exit_code") {
        return (json!(output.text), json!(error));
    }
    let status = error.split(';').next().unwrap_or(error).trim_start_matches("the ");
    let printed = output.text.trim_end();
    let error = if printed.is_empty() { status.to_owned() } else { format!("{printed}\n{status}") };
    (Value::Null, json!(error))
}

/// Runs the call; skipped during replay.
fn execute(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
    before: Option<&str>,
) -> Result<ToolOutput, RunStop> {
    let nothing = |error: Option<String>| ToolOutput {
        ok: error.is_none(),
        text: String::new(),
        error,
        code: None,
        duration_ms: 0,
        log: Vec::new(),
    };
    let world = &turn.walk.context;
    if !turn.walk.log.is_live() {
        return Ok(nothing(None));
    }
    let mut again = false;
    if turn.walk.log.was_interrupted() {
        world.listener.on_note(&format!("a call to '{tool}' was running when the run was interrupted"));
        let on_interrupt = turn.node.common.on_interrupt;
        again = world.can_rerun_tool(tool)
            || turn.node.common.rerun == Some(true)
            || on_interrupt == Some(OnInterrupt::Repeat);
        match world.on_interrupted_step {
            InterruptedStepPolicy::Rerun => again = true,
            _ if on_interrupt == Some(OnInterrupt::Skip) => return Err(RunStop::Skipped),
            _ if again => {}
            InterruptedStepPolicy::Skip => {
                return Ok(nothing(Some("interrupted, and treated as failed".to_owned())));
            }
            InterruptedStepPolicy::Ask => {
                return Err(RunStop::StepOutcomeUnknown { step: format!("{}: {tool}", turn.node.name) });
            }
        }
    }
    if again && tool == "edit" && already_edited(turn, args, before) {
        let mut done = nothing(None);
        done.text = "The edit was made.".to_owned();
        return Ok(done);
    }
    // The call id serves as an idempotency key for programs.
    let mut about = turn.about();
    about.push(("FLYBALL_CALL".to_owned(), call.to_owned()));
    let world = &turn.walk.context;
    let guards = world.sink.policy().guards_for_output(Some(tool), Some(&turn.node.name));
    let options = ToolCallOptions { env: &about, limits: Some(OutputLimits::from(&guards.large_response)) };
    let output = world.toolbox.call_with(tool, args, turn.left(), &turn.walk.cancel, &options);
    if turn.walk.cancel.is_cancelled() {
        return Err(RunStop::Interrupted);
    }
    output.log.iter().for_each(|line| turn.walk.context.listener.on_note(line));
    Ok(output)
}

/// Whether an interrupted edit was applied: the file has changed and contains the new text.
fn already_edited(turn: &Turn<'_>, args: &Value, before: Option<&str>) -> bool {
    let (Some(now), Some(before)) = (snapshot_edited_file(turn, args), before) else { return false };
    let new = args.get("new").and_then(Value::as_str).unwrap_or_default();
    now.digest != before && now.text.contains(new)
}

/// Current contents of a file.
struct FileSnapshot {
    text: String,
    digest: String,
}

/// Snapshot of the file that an edit targets.
fn snapshot_edited_file(turn: &Turn<'_>, args: &Value) -> Option<FileSnapshot> {
    let path = args.get("path").and_then(Value::as_str)?;
    let bytes = std::fs::read(turn.walk.context.workspace.join(path)).ok()?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    Some(FileSnapshot { text: String::from_utf8_lossy(&bytes).into_owned(), digest })
}
