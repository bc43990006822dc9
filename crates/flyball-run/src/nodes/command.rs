//! A program, or the command line of a coding agent: exit code 0 is success.

use crate::engine::{Outcome, Status, Stop, Turn};
use crate::process::{self, End, Job};
use crate::workflow::spec::{Command, Line};

/// Runs it.
pub(super) fn run(turn: &mut Turn<'_>, command: &Command) -> Result<Outcome, Stop> {
    loop {
        while turn.was_interrupted() {
            turn.interrupted("command")?;
        }
        if !turn.walk.lane.is_live() {
            // It is over: how it went is in the event that follows.
            return Ok(Outcome::success(""));
        }
        if let Some(outcome) = turn.walk.cut_off(turn.node)? {
            return Ok(outcome);
        }
        if let Some(outcome) = once(turn, command)? {
            return Ok(outcome);
        }
        turn.interrupted("command")?;
    }
}

/// Runs it once; nothing comes back if a budget cut it short.
fn once(turn: &Turn<'_>, command: &Command) -> Result<Option<Outcome>, Stop> {
    let vars = &turn.walk.vars;
    let argv = match &command.run {
        Line::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), vars.fill(line)],
        Line::Words(words) => words.iter().map(|word| vars.fill(word)).collect(),
    };
    let mut job = Job::new(argv, &turn.walk.world.workspace);
    job.env = turn.walk.world.passed(&command.pass_env);
    job.env.extend(command.env.iter().map(|(name, value)| (name.clone(), vars.fill(value))));
    job.env.extend(turn.about());
    job.input = command.input.as_ref().map(|input| vars.fill(input).into_bytes());
    job.deadline = turn.left();
    let (world, session, node) = (&turn.walk.world, turn.walk.lane.session(), &turn.node.name);
    let ran = process::run(&job, &turn.walk.cancel, &mut |_, bytes| {
        world.watcher.output(session, node, &process::text(bytes));
    });
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            return Ok(Some(Outcome::failure(format!("{} ({}): {}", error.what, error.code, error.hint))));
        }
    };
    let mut output = ran.stdout_text();
    let errors = ran.stderr_text();
    if !errors.is_empty() {
        output.push_str(&errors);
    }
    let output = output.trim_end().to_owned();
    Ok(Some(match ran.end {
        End::Exit(0) => Outcome::success(output),
        End::Exit(code) => {
            let status = if command.partial.contains(&code) {
                Status::PartialSuccess
            } else if command.unclear.contains(&code) {
                Status::Unclear
            } else {
                Status::Failure
            };
            Outcome::success(output).with_status(status)
        }
        End::Signal(signal) => {
            Outcome::failure(format!("{output}\nended by signal {signal}").trim().to_owned())
        }
        End::Deadline if turn.is_out_of_budget() => return Ok(None),
        End::Deadline => Outcome::failure(format!("{output}\nended at its deadline").trim().to_owned()),
        End::Cancelled => return Err(Stop::Interrupted),
    }))
}
