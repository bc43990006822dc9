//! One call of a tool: asked for, run, told.

use crate::engine::{CutOff, Outcome, Stop, Turn};
use crate::tools::Output;
use crate::workflow::spec::Tool;
use flyball::{Kind, Verdict};
use serde_json::{Value, json};

/// Runs the tool that the file names.
pub(super) fn run(turn: &mut Turn<'_>, tool: &Tool) -> Result<Outcome, Stop> {
    let args = turn.walk.vars.fill_value(&tool.args);
    let visit = turn.walk.visits.get(&turn.node.name).copied().unwrap_or(1);
    let call = format!("{}-{visit}", turn.node.name);
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
    let past = turn.walk.ask(&asked)?;
    if past.decision.decision >= Verdict::Block {
        let text = past.decision.feedback.unwrap_or_else(|| "Tool call blocked.".to_owned());
        return Ok(Called::Refused { text });
    }
    let output = perform(turn, tool, args)?;
    let kind = Kind::ToolFinished {
        call: Some(call.to_owned()),
        ok: Some(output.ok),
        output: json!(output.text),
        error: output.error.as_ref().map_or(Value::Null, |error| json!(error)),
        duration_ms: Some(output.duration_ms),
        tool: None,
        args: Value::Null,
    };
    let mut told = turn.event(kind);
    told.round = round;
    let past = turn.walk.tell(told)?;
    let Kind::ToolFinished { ok, output, error, .. } = past.event.kind else {
        return Ok(Called::Refused { text: String::new() });
    };
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let text =
        [words(&output), words(&error)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    Ok(Called::Ran { ok: ok.unwrap_or(false), text: text.join("\n") })
}

/// The call itself, unless it lies in the past.
fn perform(turn: &mut Turn<'_>, tool: &str, args: &Value) -> Result<Output, Stop> {
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
        again = world.may_call_again(tool) || turn.node.common.rerun == Some(true);
        match world.cut_off {
            _ if again => {}
            CutOff::Rerun => again = true,
            CutOff::Skip => return Ok(nothing(Some("it was cut off, and is taken as failed".to_owned()))),
            CutOff::Ask => return Err(Stop::CutOff { step: format!("{}: {tool}", turn.node.name) }),
        }
    }
    if again && tool == "edit" && already_edited(turn, args) {
        let mut done = nothing(None);
        done.text = "The edit was made.".to_owned();
        return Ok(done);
    }
    let output = turn.walk.world.toolbox.call(tool, args, turn.left(), &turn.walk.cancel);
    if turn.walk.cancel.is_cancelled() {
        return Err(Stop::Interrupted);
    }
    output.log.iter().for_each(|line| turn.walk.world.watcher.note(line));
    Ok(output)
}

/// Whether an edit that was cut off had been made: the old text is gone, and the new one is there.
fn already_edited(turn: &Turn<'_>, args: &Value) -> bool {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let (Some(path), Some(old), Some(new)) = (text("path"), text("old"), text("new")) else { return false };
    let asked = json!({ "path": path });
    let there = turn.walk.world.toolbox.call("read", &asked, None, &turn.walk.cancel);
    there.ok && !there.text.contains(old) && there.text.contains(new)
}
