//! Tool calls: request, run, record.

use super::confirm::{self, ConfirmAnswer};
use crate::engine::{
    Effect, GIVEN_UP, NodeOutcome, RecordedEvent, Recovery, ReplayLog, RunOnce, RunStop, Step, Turn,
};
use crate::tools::{ToolCallOptions, ToolOutput};
use crate::workflow::spec::ToolNode;
use flyball::output::OutputLimits;
use flyball::{Event, EventKind, Verdict};
use serde_json::{Value, json};

/// Field of an edit request with the digest of the file before the edit.
const DIGEST_BEFORE_FIELD: &str = "before";

/// A tool call.
pub(super) struct ToolCall<'c> {
    /// Id; programs get it as an idempotency key.
    pub(super) id: &'c str,
    pub(super) tool: &'c str,
    pub(super) args: &'c Value,
    /// Number of the model's reply that asked for it.
    pub(super) round: Option<u64>,
    /// Whether a person approved it in a workflow dialogue.
    pub(super) approved: bool,
}

/// Runs the configured tool.
pub(super) fn run(turn: &mut Turn<'_>, tool: &ToolNode) -> Result<NodeOutcome, RunStop> {
    let args = turn.walk.vars.render_value(&tool.args);
    let id = format!("{}-{}", turn.node.name, turn.number());
    let call = ToolCall { id: &id, tool: &tool.tool, args: &args, round: None, approved: false };
    Ok(invoke(turn, &call)?.map_or_else(NodeOutcome::failed, NodeOutcome::success))
}

/// Requests permission for a tool call, runs it, and records the result. Returns its output, or the feedback of a failed
/// or denied call.
pub(super) fn invoke(turn: &mut Turn<'_>, call: &ToolCall<'_>) -> Result<Result<String, String>, RunStop> {
    let may_rerun = turn.walk.context.can_rerun_tool(call.tool) || turn.node.common.rerun == Some(true);
    let step = Step {
        kind: "tool",
        result: Some("tool.finished"),
        report: None,
        once: Some(RunOnce { tool: Some(call.tool), may_rerun }),
    };
    let past = loop {
        let requested = match request_tool(turn, call)? {
            Ok(requested) => requested,
            Err(feedback) => return Ok(Err(feedback)),
        };
        match turn.attempt(&step, |turn, crashed| execute(turn, call, &requested.event, crashed.recovery))? {
            Effect::Result(past) => break past,
            Effect::NoResult => return Err(RunStop::Skipped),
            Effect::OutOfBudget => {}
        }
    };
    let EventKind::ToolFinished { ok, output, error, .. } = past.event.kind else {
        return Ok(Err(String::new()));
    };
    let texts = [output.as_str(), error.as_str()];
    let texts: Vec<&str> = texts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let text = texts.join("\n");
    Ok(if ok == Some(true) { Ok(text) } else { Err(text) })
}

/// Submits a request to the governor. If the tool needs approval, asks a person and submits it again. Returns the
/// feedback for a denied call.
fn request_tool(turn: &mut Turn<'_>, call: &ToolCall<'_>) -> Result<Result<RecordedEvent, String>, RunStop> {
    let mut asked = turn.event(EventKind::ToolRequested {
        call: Some(call.id.to_owned()),
        tool: call.tool.to_owned(),
        args: call.args.clone(),
    });
    asked.round = call.round;
    if call.approved {
        asked.extra.insert(flyball::APPROVED_BY.to_owned(), json!("dialogue"));
    }
    if let Some(now) = snapshot_edited_file(turn, call) {
        asked.extra.insert(DIGEST_BEFORE_FIELD.to_owned(), json!(now.digest));
    }
    loop {
        let past = turn.walk.request(&asked, ReplayLog::record)?;
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

/// Runs the call, or settles one that a crash interrupted.
fn execute(
    turn: &mut Turn<'_>,
    call: &ToolCall<'_>,
    requested: &Event,
    recovery: Option<Recovery>,
) -> Result<Effect, RunStop> {
    let settled = |text: &str, error: Option<&str>| ToolOutput {
        ok: error.is_none(),
        text: text.to_owned(),
        error: error.map(str::to_owned),
        code: None,
        duration_ms: 0,
        log: Vec::new(),
    };
    let output = match recovery {
        Some(Recovery::GiveUp) => settled("", Some(GIVEN_UP)),
        Some(Recovery::Repeat) if already_edited(turn, call, requested) => {
            settled("The edit was made.", None)
        }
        _ => run_tool(turn, call)?,
    };
    if !output.ok && turn.is_out_of_budget() {
        return Ok(Effect::OutOfBudget);
    }
    let (said, error) = split_output_and_error(&output);
    let mut finished = turn.event(EventKind::ToolFinished {
        call: Some(call.id.to_owned()),
        ok: Some(output.ok),
        output: said,
        error,
        duration_ms: Some(output.duration_ms),
        tool: None,
        args: Value::Null,
    });
    finished.round = call.round;
    if !output.log.is_empty() {
        finished.extra.insert("large".to_owned(), json!(true));
    }
    Ok(Effect::Result(finished))
}

fn run_tool(turn: &Turn<'_>, call: &ToolCall<'_>) -> Result<ToolOutput, RunStop> {
    let mut about = turn.about();
    about.push(("FLYBALL_CALL".to_owned(), call.id.to_owned()));
    let context = &turn.walk.context;
    let guards = context.sink.policy().guards_for_output(Some(call.tool), Some(&turn.node.name));
    let options = ToolCallOptions { env: &about, limits: Some(OutputLimits::from(&guards.large_response)) };
    let output = context.toolbox.call_with(call.tool, call.args, turn.left(), &turn.walk.cancel, &options);
    if turn.walk.cancel.is_cancelled() {
        return Err(RunStop::Interrupted);
    }
    output.log.iter().for_each(|line| context.listener.on_note(line));
    Ok(output)
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

/// Whether an interrupted edit was applied: the file has changed and contains the new text.
fn already_edited(turn: &Turn<'_>, call: &ToolCall<'_>, requested: &Event) -> bool {
    let before = requested.extra.get(DIGEST_BEFORE_FIELD).and_then(Value::as_str);
    let (Some(now), Some(before)) = (snapshot_edited_file(turn, call), before) else { return false };
    let new = call.args.get("new").and_then(Value::as_str).unwrap_or_default();
    now.digest != before && now.text.contains(new)
}

/// Current contents of a file.
struct FileSnapshot {
    text: String,
    digest: String,
}

/// Snapshot of the file that an edit targets; `None` for other calls.
fn snapshot_edited_file(turn: &Turn<'_>, call: &ToolCall<'_>) -> Option<FileSnapshot> {
    let path = call.args.get("path").filter(|_| call.tool == "edit")?.as_str()?;
    let bytes = std::fs::read(turn.walk.context.workspace.join(path)).ok()?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    Some(FileSnapshot { text: String::from_utf8_lossy(&bytes).into_owned(), digest })
}
