//! What a person must know of a session to act: the plan that waits, and the command to type next.

use crate::args::StoreArgs;
use crate::paint::{Style, paint_out};
use crate::words::{ago, line, moment, typed};
pub(crate) use flyball_view::{Plan, next};
use serde_json::Value;
use std::io::Write;

/// How many steps of a plan are shown.
const STEPS: usize = 20;
/// How much of a step or a question is shown.
const SHOWN: usize = 300;

/// Prints the question, the steps, who may answer and until when.
pub(crate) fn print_plan(plan: &Plan, out: &mut impl Write, now: u64) -> std::io::Result<()> {
    writeln!(out, "{}", paint_out(Style::Strong, "A plan waits for a yes"))?;
    writeln!(out, "  {}", line(&plan.question, SHOWN))?;
    print_steps(out, &plan.steps)?;
    if let Some(requester) = &plan.requester {
        writeln!(out, "  asked for by {}; only they may say yes", line(requester, 60))?;
    }
    match plan.expires {
        Some(expires) if now >= expires => {
            writeln!(out, "  a yes comes too late since {}: it must be asked again", moment(expires))?;
        }
        Some(expires) => {
            writeln!(out, "  a yes counts until {} ({})", moment(expires), ago(expires, now))?;
        }
        None => {}
    }
    if let Some(why) = plan.tampered {
        let text = format!("{why}: it will be set aside, and nothing of it runs");
        writeln!(out, "  {}", paint_out(Style::Bad, &text))?;
    }
    Ok(())
}

/// The steps of a plan, numbered.
pub(crate) fn print_steps(out: &mut impl Write, steps: &[Value]) -> std::io::Result<()> {
    for (at, step) in steps.iter().take(STEPS).enumerate() {
        let tool = step.get("tool").and_then(Value::as_str).unwrap_or("?");
        let args = step.get("args").map(Value::to_string).unwrap_or_default();
        writeln!(out, "  {}. {} {}", at + 1, line(tool, 60), line(&args, SHOWN))?;
    }
    if steps.len() > STEPS {
        writeln!(out, "  … and {} more", steps.len() - STEPS)?;
    }
    Ok(())
}

/// Prints what to type next, for the store that was named on the command line.
pub(crate) fn print_next(
    out: &mut impl Write,
    commands: &[String],
    store: &StoreArgs,
) -> std::io::Result<()> {
    for (at, command) in commands.iter().enumerate() {
        let release = |command: &String| command.starts_with("flyball release ");
        let after_release = at > 0 && commands.get(at - 1).is_some_and(release);
        let word = if at == 0 {
            "Next:"
        } else if after_release && release(command) {
            " and:"
        } else if after_release && command.starts_with("flyball resume ") {
            // A released run continues only when it is resumed.
            "then:"
        } else {
            "  or:"
        };
        writeln!(out, "{word} {}", whole(command, store))?;
    }
    Ok(())
}

/// A command with the store that was named on the command line; a password is left out.
pub(crate) fn whole(command: &str, store: &StoreArgs) -> String {
    let Some(flag) = &store.store else { return command.to_owned() };
    let mut url = flag.clone();
    if let Some((scheme, rest)) = flag.split_once("://")
        && let Some((user, place)) = rest.split_once('@')
    {
        let user = user.split(':').next().unwrap_or_default();
        url = format!("{scheme}://{user}@{place}");
    }
    format!("{command} --store {}", typed(&url))
}
