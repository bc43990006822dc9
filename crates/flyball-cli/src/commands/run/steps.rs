//! One event of a run as the lines that a person reads.

use super::so_far::{Lane, SoFar};
use crate::paint::{Style, paint_out};
use crate::trend;
use crate::words::{line, plural, printed, took};
use flyball::{Check, Denier, Kind, LoopReport, Verdict};
use flyball_run::engine::Past;
use serde_json::Value;

/// How much of what a model, a tool or a program says is shown.
const SHOWN: usize = 160;
/// How much of what is meant for the person is shown.
const FOR_THE_PERSON: usize = 2_000;
/// How the note begins that stands for an output that is kept in a file.
const TOO_LARGE: &str = "Tool response too large";
/// The arguments that say by themselves what a call is about.
const PLAIN: [&str; 6] = ["path", "file", "command", "query", "pattern", "url"];

/// The lines of an event that has just been taken in; `closed` are the loops that it has begun anew.
pub(super) fn lines(past: &Past, so_far: &SoFar, closed: &[LoopReport]) -> Vec<String> {
    let session = &past.event.session;
    let mut all: Vec<String> = Vec::new();
    if let Some(lane) = so_far.lane(session) {
        all.extend(told(past, so_far, lane, closed));
    }
    all.extend(decided(past));
    match so_far.mark(session).map(|mark| paint_out(Style::Dim, &mark)) {
        Some(mark) => all.iter().map(|text| format!("{mark} {text}")).collect(),
        None => all,
    }
}

/// What happened.
fn told(past: &Past, so_far: &SoFar, lane: &Lane, closed: &[LoopReport]) -> Vec<String> {
    let event = &past.event;
    let accepted = past.decision.decision < Verdict::Block;
    let one = match &event.kind {
        Kind::TurnStarted {} if accepted => turn(past, so_far),
        Kind::TurnFinished { output, duration_ms, .. } => {
            finished(past, output.as_deref().unwrap_or_default(), *duration_ms, lane)
        }
        Kind::TransitionRequested { from, to, .. } if accepted => moved(from, to, closed),
        Kind::AssistantMessage { text, .. } if !text.trim().is_empty() => {
            let to_the_person = !event.extra.contains_key("reply");
            let most = if to_the_person { FOR_THE_PERSON } else { SHOWN };
            format!("  {} {}", if to_the_person { "to you:" } else { "says:" }, line(text, most))
        }
        Kind::ToolRequested { tool, args, .. } => format!("  calls {}", call(tool, args)),
        Kind::ToolFinished { ok: Some(false), output, error, .. } => {
            let words = if error.is_null() { output } else { error };
            format!("  {} {}", paint_out(Style::Warn, "failed:"), line(&plain(words), SHOWN))
        }
        Kind::ToolDenied { by, tool, .. } => {
            let who = match by {
                Denier::Human => "a person",
                Denier::Policy => "the policy",
                Denier::Guard => "a guard",
            };
            format!("  refused by {who}: {}", tool.as_deref().unwrap_or("the call"))
        }
        Kind::GateChecked { checks, .. } => return checks.iter().map(checked).collect(),
        Kind::Progress { signal, .. } => {
            return progress(so_far, &event.session, signal).into_iter().collect();
        }
        Kind::ValidationFailed { error, .. } => {
            format!("  the answer cannot be used: {}", line(error.as_deref().unwrap_or_default(), SHOWN))
        }
        Kind::QuestionAsked { text } => format!("  asks: {}", line(text, FOR_THE_PERSON)),
        Kind::ConfirmationRequested { question, .. } => {
            format!("  needs a yes: {}", line(question.as_deref().unwrap_or("to a plan"), FOR_THE_PERSON))
        }
        Kind::UserMessage { text, .. } | Kind::PersonMessage { text, .. } => {
            format!("  answer: {}", line(text, SHOWN))
        }
        Kind::ConfirmationAnswered { text, value, .. } => {
            format!("  answer: {}", line(text.as_deref().or(value.as_deref()).unwrap_or_default(), SHOWN))
        }
        Kind::HumanReleased { guard, by, .. } => format!(
            "  released: {} ({})",
            line(guard.as_deref().unwrap_or("the session"), 60),
            line(by.as_deref().unwrap_or("a person"), 80)
        ),
        _ => return Vec::new(),
    };
    vec![one]
}

/// What was decided about it, if it was not simply allowed, and what is to be said to the person.
fn decided(past: &Past) -> Vec<String> {
    let decision = &past.decision;
    let mut all: Vec<String> = Vec::new();
    for trip in decision.trips.iter().filter(|trip| trip.severity.verdict() > Verdict::Allow) {
        let verdict = trip.severity.verdict();
        let style = if verdict >= Verdict::Block { Style::Bad } else { Style::Warn };
        let word = paint_out(style, &format!("{}:", verdict.as_str()));
        let guard = paint_out(Style::Dim, &format!("({})", trip.guard));
        all.push(format!("  {word} {} {guard}", line(&trip.message, 300)));
    }
    for effect in decision.effects.iter().filter(|effect| effect.effect == "say") {
        let words = effect.fields.get("text").and_then(Value::as_str).unwrap_or_default();
        all.push(format!("  to you: {}", line(words, FOR_THE_PERSON)));
    }
    all
}

fn turn(past: &Past, so_far: &SoFar) -> String {
    let node = past.event.node.as_deref().unwrap_or_default();
    let (turn, most) = so_far.turn(&past.event.session, node);
    let of = most.map(|most| format!("/{most}")).unwrap_or_default();
    let turn = paint_out(Style::Dim, &format!("(turn {turn}{of})"));
    format!("{} {turn}", paint_out(Style::Strong, &line(node, 80)))
}

/// How a turn ended. Words that were told already are not told again, and of a long output its last line is.
fn finished(past: &Past, output: &str, duration_ms: Option<u64>, lane: &Lane) -> String {
    let outcome = past.event.extra.get("outcome").and_then(Value::as_str).unwrap_or("over");
    let style = match outcome {
        "success" => Style::Good,
        "failure" => Style::Bad,
        _ => Style::Warn,
    };
    let time = duration_ms.map(|ms| format!(" after {}", took(ms))).unwrap_or_default();
    let mut text = format!("  {}{time}", paint_out(style, &outcome.replace('_', " ")));
    let said = lane.said.as_deref().is_some_and(|said| said.trim() == output.trim());
    if said || lane.checked || output.trim().is_empty() {
        return text;
    }
    if output.starts_with(TOO_LARGE) {
        // Where the whole of it lies; what follows is the beginning of it.
        text.push_str(&format!(": {}", line(output.lines().next().unwrap_or_default(), 2 * SHOWN)));
        return text;
    }
    let written: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = printed(written.last().copied().unwrap_or_default(), SHOWN);
    text.push_str(&format!(": {last}"));
    if written.len() > 1 {
        let count = plural(written.len() as u64, "line");
        text.push_str(&paint_out(Style::Dim, &format!(" (the last of {count})")));
    }
    text
}

fn moved(from: &str, to: &str, closed: &[LoopReport]) -> String {
    let mut text = format!("{} → {}", line(from, 80), line(to, 80));
    for found in closed {
        text.push_str(&format!("   {}", paint_out(Style::Strong, &found.badge)));
    }
    text
}

fn checked(check: &Check) -> String {
    let name = line(&check.name, 60);
    if check.skipped {
        let why = check.skip_reason.as_deref().unwrap_or("no reason is given");
        return format!("  {name} {}: {}", paint_out(Style::Warn, "skipped"), line(why, SHOWN));
    }
    let time = took(check.duration_ms);
    if check.passed {
        return format!("  {name} {} after {time}", paint_out(Style::Good, "passed"));
    }
    let mut text = format!("  {name} {} after {time}", paint_out(Style::Bad, "failed"));
    if let Some(first) = check.details.first() {
        text.push_str(&format!(": {}", line(first, SHOWN)));
    }
    if check.details.len() > 1 {
        text.push_str(&paint_out(Style::Dim, &format!(" (and {} more)", check.details.len() - 1)));
    }
    text
}

/// How a signal goes, if it is measured in numbers.
fn progress(so_far: &SoFar, session: &str, signal: &str) -> Option<String> {
    let report = so_far.report(session)?;
    let values = report.trends.get(signal).filter(|values| !values.is_empty())?;
    Some(format!("  {}", trend::told(signal, values)))
}

/// A call as it would be typed: what it is about first, the rest by name.
fn call(tool: &str, args: &Value) -> String {
    let Value::Object(map) = args else { return line(&format!("{tool} {}", plain(args)), SHOWN) };
    let mut words = vec![tool.to_owned()];
    words.extend(PLAIN.iter().filter_map(|key| map.get(*key)).map(plain));
    let others = map.iter().filter(|(key, _)| !PLAIN.contains(&key.as_str()));
    words.extend(others.map(|(key, value)| format!("{key}={}", line(&plain(value), SHOWN / 4))));
    line(&words.join(" "), SHOWN)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    //! Single lines, as they are read.

    use super::{call, checked};
    use flyball::Check;
    use serde_json::json;

    #[test]
    fn a_call_is_told_by_what_it_is_about() {
        assert_eq!(call("read", &json!({"path": "src/lib.rs"})), "read src/lib.rs");
        assert_eq!(call("edit", &json!({"old": "a", "path": "x.rs", "new": "b"})), "edit x.rs new=b old=a");
        assert_eq!(call("list", &json!(null)), "list");
        assert!(call("write", &json!({"path": "x", "text": "y".repeat(10_000)})).chars().count() < 170);
    }

    #[test]
    fn a_check_is_told_with_its_first_failure() {
        let mut check = Check { name: "tests".to_owned(), duration_ms: 1_469, ..Check::default() };
        check.details = vec!["a: left 1".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(checked(&check), "  tests failed after 1.4s: a: left 1 (and 2 more)");
        check.passed = true;
        assert_eq!(checked(&check), "  tests passed after 1.4s");
        check.skipped = true;
        assert_eq!(checked(&check), "  tests skipped: no reason is given");
    }
}
