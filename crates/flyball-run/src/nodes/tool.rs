//! One call of a tool: asked for, run, told.

use super::confirm::{self, Said};
use crate::engine::{CutOff, Outcome, Past, Stop, Turn};
use crate::tools::{CallOptions, Output};
use crate::workflow::OnInterrupt;
use crate::workflow::spec::Tool;
use flyball::output::OutputLimits;
use flyball::{Event, Kind, Verdict};
use serde_json::{Value, json};

/// The field of a request to edit that tells how the file was before.
const BEFORE: &str = "before";

/// Runs the tool that the file names.
pub(super) fn run(turn: &mut Turn<'_>, tool: &Tool) -> Result<Outcome, Stop> {
    let args = turn.walk.vars.fill_value(&tool.args);
    let call = format!("{}-{}", turn.node.name, turn.number());
    Ok(match invoke(turn, &call, &tool.tool, &args, None)? {
        Called::Ran { ok: true, text } => Outcome::success(text),
        Called::Ran { ok: false, text } | Called::Refused { text } => Outcome::failure(text),
    })
}

/// What became of a call.
pub(super) enum Called {
    /// It ran.
    Ran {
        /// Whether it did what it should.
        ok: bool,
        /// What it said.
        text: String,
    },
    /// The governor refused it; the words are for whoever asked.
    Refused {
        /// Why, and what to do.
        text: String,
    },
}

/// Asks whether a tool may be called, calls it, and tells what it said.
pub(super) fn invoke(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
    round: Option<u64>,
) -> Result<Called, Stop> {
    let kind = Kind::ToolRequested { call: Some(call.to_owned()), tool: tool.to_owned(), args: args.clone() };
    let mut asked = turn.event(kind);
    asked.round = round;
    perform_requested(turn, asked, (call, tool, args))
}

/// The same for a call that a person has agreed to in a dialog of the workflow.
pub(super) fn invoke_approved(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
) -> Result<Called, Stop> {
    let kind = Kind::ToolRequested { call: Some(call.to_owned()), tool: tool.to_owned(), args: args.clone() };
    let mut asked = turn.event(kind);
    asked.extra.insert(flyball::APPROVED_BY.to_owned(), json!("dialogue"));
    perform_requested(turn, asked, (call, tool, args))
}

/// Puts a request to the governor. If the tool needs an approval, a person is asked, and the request is put again.
fn request(turn: &mut Turn<'_>, asked: &Event) -> Result<Result<Past, String>, Stop> {
    loop {
        let past = turn.walk.ask(asked)?;
        if past.decision.decision < Verdict::Block {
            return Ok(Ok(past));
        }
        let pending = past.decision.state == flyball::Status::AwaitingConfirmation;
        if !(past.decision.lacks_approval() && pending) {
            let feedback = past.decision.feedback;
            return Ok(Err(feedback.unwrap_or_else(|| "Tool call blocked.".to_owned())));
        }
        if confirm::wait_for_answer(turn, past, "May this tool run?")? != Said::Yes {
            return Ok(Err("A person has refused this call. Find another way.".to_owned()));
        }
    }
}

fn perform_requested(
    turn: &mut Turn<'_>,
    mut asked: Event,
    (call, tool, args): (&str, &str, &Value),
) -> Result<Called, Stop> {
    let round = asked.round;
    let output = loop {
        if turn.walk.lane.is_live() && tool == "edit" {
            asked.extra.extend(contents(turn, args).map(|now| (BEFORE.to_owned(), json!(now.digest))));
        }
        let past = match request(turn, &asked)? {
            Ok(past) => past,
            Err(text) => return Ok(Called::Refused { text }),
        };
        if !turn.was_interrupted() {
            let before = past.event.extra.get(BEFORE).and_then(Value::as_str);
            let output = perform(turn, call, tool, args, before)?;
            if output.ok || !turn.walk.lane.is_live() || !turn.is_out_of_budget() {
                break output;
            }
        }
        turn.interrupted("tool")?;
    };
    let large = !output.log.is_empty();
    let (said, error) = told_apart(&output);
    let kind = Kind::ToolFinished {
        call: Some(call.to_owned()),
        ok: Some(output.ok),
        output: said,
        error,
        duration_ms: Some(output.duration_ms),
        tool: None,
        args: Value::Null,
    };
    let mut told = turn.event(kind);
    told.round = round;
    if large {
        told.extra.insert("large".to_owned(), json!(true));
    }
    let past = turn.walk.tell(told)?;
    let Kind::ToolFinished { ok, output, error, .. } = past.event.kind else {
        return Ok(Called::Refused { text: String::new() });
    };
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let text =
        [words(&output), words(&error)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    Ok(Called::Ran { ok: ok.unwrap_or(false), text: text.join("\n") })
}

/// The output and the error of a call. A program that failed says why in what it printed; its exit status alone is the same
/// for every failure, and guards compare errors.
fn told_apart(output: &Output) -> (Value, Value) {
    let Some(error) = &output.error else { return (json!(output.text), Value::Null) };
    if output.code != Some("exit_code") {
        return (json!(output.text), json!(error));
    }
    let status = error.split(';').next().unwrap_or(error).trim_start_matches("the ");
    let printed = output.text.trim_end();
    let error = if printed.is_empty() { status.to_owned() } else { format!("{printed}\n{status}") };
    (Value::Null, json!(error))
}

/// The call itself, unless it lies in the past.
fn perform(
    turn: &mut Turn<'_>,
    call: &str,
    tool: &str,
    args: &Value,
    before: Option<&str>,
) -> Result<Output, Stop> {
    let nothing = |error: Option<String>| Output {
        ok: error.is_none(),
        text: String::new(),
        error,
        code: None,
        duration_ms: 0,
        log: Vec::new(),
    };
    let world = &turn.walk.world;
    if !turn.walk.lane.is_live() {
        return Ok(nothing(None));
    }
    let mut again = false;
    if turn.walk.lane.was_cut_off() {
        world.watcher.note(&format!("a call of '{tool}' was under way when the run was cut off"));
        let on_interrupt = turn.node.common.on_interrupt;
        again = world.may_call_again(tool)
            || turn.node.common.rerun == Some(true)
            || on_interrupt == Some(OnInterrupt::Repeat);
        match world.cut_off {
            CutOff::Rerun => again = true,
            _ if on_interrupt == Some(OnInterrupt::Skip) => return Err(Stop::Skipped),
            _ if again => {}
            CutOff::Skip => return Ok(nothing(Some("it was cut off, and is taken as failed".to_owned()))),
            CutOff::Ask => return Err(Stop::CutOff { step: format!("{}: {tool}", turn.node.name) }),
        }
    }
    if again && tool == "edit" && already_edited(turn, args, before) {
        let mut done = nothing(None);
        done.text = "The edit was made.".to_owned();
        return Ok(done);
    }
    // The name of the call is a key for programs that must not do the same thing twice.
    let mut about = turn.about();
    about.push(("FLYBALL_CALL".to_owned(), call.to_owned()));
    let world = &turn.walk.world;
    let guards = world.book.policy().guards_for_output(Some(tool), Some(&turn.node.name));
    let options = CallOptions { env: &about, limits: Some(OutputLimits::from(&guards.large_response)) };
    let output = world.toolbox.call_with(tool, args, turn.left(), &turn.walk.cancel, &options);
    if turn.walk.cancel.is_cancelled() {
        return Err(Stop::Interrupted);
    }
    output.log.iter().for_each(|line| turn.walk.world.watcher.note(line));
    Ok(output)
}

/// Whether an edit that was cut off had been made: the file is not as it was before, and the new text is in it.
fn already_edited(turn: &Turn<'_>, args: &Value, before: Option<&str>) -> bool {
    let (Some(now), Some(before)) = (contents(turn, args), before) else { return false };
    let new = args.get("new").and_then(Value::as_str).unwrap_or_default();
    now.digest != before && now.text.contains(new)
}

/// A file as it is now.
struct Contents {
    text: String,
    digest: String,
}

/// The file that an edit is about.
fn contents(turn: &Turn<'_>, args: &Value) -> Option<Contents> {
    let path = args.get("path").and_then(Value::as_str)?;
    let bytes = std::fs::read(turn.walk.world.workspace.join(path)).ok()?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    Some(Contents { text: String::from_utf8_lossy(&bytes).into_owned(), digest })
}
