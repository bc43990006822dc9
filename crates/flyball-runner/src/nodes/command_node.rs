//! Command node: runs a program, such as the command line of a coding agent. Exit code 0 means success.

use crate::engine::{Effect, GIVEN_UP, NodeOutcome, NodeStatus, Recovery, RunOnce, RunStop, Step, Turn};
use crate::process::{self, ProcessEnd, ProcessSpec};
use crate::workflow::spec::{CommandLine, CommandNode};

/// Runs the program; the end of the turn records the outcome.
pub(super) fn run(turn: &mut Turn<'_>, command: &CommandNode) -> Result<NodeOutcome, RunStop> {
    let mut outcome = NodeOutcome::success("");
    let step = Step {
        kind: "command",
        result: None,
        report: None,
        once: Some(RunOnce { tool: None, may_rerun: turn.node.may_rerun() }),
    };
    turn.step(&step, |turn, crashed| {
        outcome = match crashed.recovery {
            Some(Recovery::GiveUp) => NodeOutcome::failed(GIVEN_UP),
            _ => match run_once(turn, command)? {
                Some(outcome) => outcome,
                None => return Ok(Effect::OutOfBudget),
            },
        };
        Ok(Effect::NoResult)
    })?;
    Ok(outcome)
}

/// Runs the program once; `None` if a budget interrupted it.
fn run_once(turn: &Turn<'_>, command: &CommandNode) -> Result<Option<NodeOutcome>, RunStop> {
    let vars = &turn.walk.vars;
    let argv = match &command.run {
        CommandLine::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), vars.render(line)],
        CommandLine::Argv(words) => words.iter().map(|word| vars.render(word)).collect(),
    };
    let mut job = ProcessSpec::new(argv, &turn.walk.context.workspace);
    job.env = turn.walk.context.passed_env(&command.pass_env);
    job.env.extend(command.env.iter().map(|(name, value)| (name.clone(), vars.render(value))));
    job.env.extend(turn.about());
    job.input = command.input.as_ref().map(|input| vars.render(input).into_bytes());
    job.deadline = turn.left();
    let (world, session, node) = (&turn.walk.context, turn.walk.log.session(), &turn.node.name);
    let ran = process::run(&job, &turn.walk.cancel, &mut |_, bytes| {
        world.listener.on_output(session, node, &process::lossy_text(bytes));
    });
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            return Ok(Some(NodeOutcome::failed(format!(
                "{} ({}): {}",
                error.message, error.code, error.help
            ))));
        }
    };
    let mut output = ran.stdout_text();
    let errors = ran.stderr_text();
    if !errors.is_empty() {
        output.push_str(&errors);
    }
    let output = output.trim_end().to_owned();
    Ok(Some(match ran.end {
        ProcessEnd::Exit(0) => NodeOutcome::success(output),
        ProcessEnd::Exit(code) => {
            let status = if command.partial.contains(&code) {
                NodeStatus::PartialSuccess
            } else if command.unclear.contains(&code) {
                NodeStatus::Unclear
            } else {
                NodeStatus::Failure
            };
            NodeOutcome::success(output).with_status(status)
        }
        ProcessEnd::Signal(signal) => {
            NodeOutcome::failed(format!("{output}\nkilled by signal {signal}").trim().to_owned())
        }
        ProcessEnd::DeadlineExceeded if turn.is_out_of_budget() => return Ok(None),
        ProcessEnd::DeadlineExceeded => {
            NodeOutcome::failed(format!("{output}\nkilled at its deadline").trim().to_owned())
        }
        ProcessEnd::Cancelled => return Err(RunStop::Interrupted),
    }))
}
