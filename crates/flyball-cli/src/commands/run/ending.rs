//! The last screen of a run: what happened, why, the evidence, and the commands that continue.

use super::lines::Lines;
use crate::args::StoreArgs;
use crate::paint::{Style, paint_out};
use crate::telling::whole;
use crate::words::{line, typed};
use flyball::Decision;
use flyball_journal::Desk;
use flyball_run::engine::{End, Stop};
use serde_json::json;
use std::io::Write;

/// Tells how it ended.
pub(super) fn tell(
    session: &str,
    end: &End,
    lines: &Lines,
    desk: Option<&dyn Desk>,
    store: &StoreArgs,
    as_json: bool,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        return writeln!(out, "{}", json!({"session": session, "end": word(end), "detail": detail(end)}));
    }
    let name = typed(session);
    let mut commands: Vec<String> = Vec::new();
    match end {
        End::Done => writeln!(out, "{} {session}", paint_out(Style::Good, "done"))?,
        End::Failed => writeln!(
            out,
            "{} {session}: it came to its end without success",
            paint_out(Style::Bad, "failed")
        )?,
        End::Stopped(Stop::Halted(decision)) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Bad, "halted"))?;
            why(&mut out, decision)?;
            let guard = decision.trips.first().map(|trip| trip.guard.clone()).unwrap_or_default();
            commands.push(format!("flyball explain {name}"));
            commands
                .push(format!("flyball release {name} --guard {guard} --why TEXT && flyball resume {name}"));
        }
        End::Stopped(Stop::Blocked { decision, alternatives }) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Bad, "blocked"))?;
            why(&mut out, decision)?;
            if !alternatives.is_empty() {
                writeln!(out, "  other ways from here: {}", alternatives.join(", "))?;
            }
            let guard = decision.trips.first().map(|trip| trip.guard.clone()).unwrap_or_default();
            commands.push(format!("flyball explain {name}"));
            commands
                .push(format!("flyball release {name} --guard {guard} --why TEXT && flyball resume {name}"));
        }
        End::Stopped(Stop::Gate(decision)) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Bad, "blocked by a gate"))?;
            why(&mut out, decision)?;
            commands.push(format!("flyball explain {name}"));
            commands.push(format!("flyball release {name} --guard gate --why TEXT && flyball resume {name}"));
        }
        End::Stopped(Stop::Asks(question)) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Warn, "waits for a person"))?;
            writeln!(out, "  {}", line(question, 2_000))?;
            commands.push(format!("flyball send {name} TEXT"));
        }
        End::Stopped(Stop::CutOff { step }) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Warn, "waits for a person"))?;
            writeln!(
                out,
                "  '{step}' was under way when the run was cut off, and nobody knows how far it came."
            )?;
            commands.push(format!("flyball resume {name} --rerun"));
            commands.push(format!("flyball resume {name} --skip"));
        }
        End::Stopped(Stop::Interrupted) => {
            writeln!(out, "\n{} {session}", paint_out(Style::Warn, "interrupted"))?;
            commands.push(format!("flyball resume {name}"));
        }
        End::Stopped(Stop::Failed(failure)) => {
            writeln!(out, "{} {failure}", paint_out(Style::Bad, "failed"))?
        }
    }
    for trend in lines.trends() {
        writeln!(out, "  {trend}")?;
    }
    if desk.is_some() && !commands.is_empty() {
        writeln!(out, "Next:")?;
        for command in commands {
            writeln!(out, "  {}", whole(&command, store))?;
        }
    }
    Ok(())
}

fn why(out: &mut impl Write, decision: &Decision) -> std::io::Result<()> {
    for trip in &decision.trips {
        let guard = paint_out(Style::Dim, &format!("({} / {})", trip.guard, trip.reason));
        writeln!(out, "  {} {guard}", line(&trip.message, 400))?;
    }
    let halted = decision.effects.iter().find(|effect| effect.effect == "loop.halted");
    if let Some(halted) = halted {
        writeln!(out, "  loop.halted")?;
        for (key, value) in &halted.fields {
            writeln!(out, "    {key}: {}", line(&value.to_string(), 300))?;
        }
    }
    Ok(())
}

fn word(end: &End) -> &'static str {
    match end {
        End::Done => "done",
        End::Failed => "failed",
        End::Stopped(Stop::Halted(_)) => "halted",
        End::Stopped(Stop::Blocked { .. }) => "blocked",
        End::Stopped(Stop::Gate(_)) => "gate",
        End::Stopped(Stop::Asks(_)) => "asks",
        End::Stopped(Stop::CutOff { .. }) => "cut_off",
        End::Stopped(Stop::Interrupted) => "interrupted",
        End::Stopped(Stop::Failed(_)) => "error",
    }
}

fn detail(end: &End) -> serde_json::Value {
    match end {
        End::Stopped(Stop::Halted(decision) | Stop::Gate(decision)) => json!(decision),
        End::Stopped(Stop::Blocked { decision, alternatives }) => {
            json!({"decision": decision, "alternatives": alternatives})
        }
        End::Stopped(Stop::Asks(question)) => json!(question),
        End::Stopped(Stop::CutOff { step }) => json!(step),
        _ => serde_json::Value::Null,
    }
}
