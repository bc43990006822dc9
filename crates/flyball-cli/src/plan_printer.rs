//! Prints the plan awaiting approval and the commands to run next.

use crate::args::StoreArgs;
use crate::color::{TextStyle, style_stdout};
use crate::formatting::{local_time, relative_time, single_line, typed};
pub(crate) use flyball_view::{PlanView, next_commands};
use serde_json::Value;
use std::io::Write;

/// Maximum number of plan steps shown.
const MAX_STEPS: usize = 20;
/// Maximum length of a step or question.
const MAX_STEP_CHARS: usize = 300;

/// Prints the question, the steps, who may approve, and the deadline.
pub(crate) fn print_plan(plan: &PlanView, out: &mut impl Write, now: u64) -> std::io::Result<()> {
    writeln!(out, "{}", style_stdout(TextStyle::Heading, "Plan awaiting approval"))?;
    writeln!(out, "  {}", single_line(&plan.question, MAX_STEP_CHARS))?;
    print_steps(out, &plan.steps)?;
    if let Some(requester) = &plan.requester {
        writeln!(out, "  requested by {}; only they may approve it", single_line(requester, 60))?;
    }
    match plan.expires_at {
        Some(expires) if now >= expires => {
            writeln!(out, "  approval expired at {}: the plan must be proposed again", local_time(expires))?;
        }
        Some(expires) => {
            writeln!(
                out,
                "  approval is possible until {} ({})",
                local_time(expires),
                relative_time(expires, now)
            )?;
        }
        None => {}
    }
    if let Some(why) = plan.tampered {
        let text = format!("{why}: the plan will be discarded and none of it runs");
        writeln!(out, "  {}", style_stdout(TextStyle::Error, &text))?;
    }
    Ok(())
}

/// The steps of a plan, numbered.
pub(crate) fn print_steps(out: &mut impl Write, steps: &[Value]) -> std::io::Result<()> {
    for (at, step) in steps.iter().take(MAX_STEPS).enumerate() {
        let tool = step.get("tool").and_then(Value::as_str).unwrap_or("?");
        let args = step.get("args").map(Value::to_string).unwrap_or_default();
        writeln!(out, "  {}. {} {}", at + 1, single_line(tool, 60), single_line(&args, MAX_STEP_CHARS))?;
    }
    if steps.len() > MAX_STEPS {
        writeln!(out, "  … and {} more", steps.len() - MAX_STEPS)?;
    }
    Ok(())
}

/// Prints the commands to run next, with the store named on the command line.
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
        writeln!(out, "{word} {}", with_store(command, store))?;
    }
    Ok(())
}

/// A command with the store named on the command line, without its password.
pub(crate) fn with_store(command: &str, store: &StoreArgs) -> String {
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
