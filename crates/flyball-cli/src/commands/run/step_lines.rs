//! Formats the events of a run as lines of text.

use super::run_state::{BranchState, RunState};
use crate::color::{TextStyle, style_stdout};
use crate::formatting::{format_duration, plain_output, plural, single_line};
use crate::trend;
use flyball::{Check, DeniedBy, EventKind, LoopReport, Verdict};
use flyball_runner::engine::RecordedEvent;
use serde_json::Value;

/// Maximum length of text from a model, tool or program.
const MAX_TEXT_CHARS: usize = 160;
/// Maximum length of text for the person.
const MAX_PERSON_CHARS: usize = 2_000;
/// Prefix of the note that replaces an output kept in a file.
const LARGE_OUTPUT_PREFIX: &str = "Tool response too large";
/// Arguments shown without their names because they identify the call.
const PRIMARY_ARGS: [&str; 6] = ["path", "file", "command", "query", "pattern", "url"];

/// The lines of a new event; `closed` are the loops that started another iteration.
pub(super) fn step_lines(
    recorded: &RecordedEvent,
    run_state: &RunState,
    closed: &[LoopReport],
) -> Vec<String> {
    let session = &recorded.event.session;
    let mut all: Vec<String> = Vec::new();
    if let Some(branch) = run_state.branch(session) {
        all.extend(event_lines(recorded, run_state, branch, closed));
    }
    all.extend(decision_lines(recorded));
    match run_state.branch_label(session).map(|mark| style_stdout(TextStyle::Dim, &mark)) {
        Some(mark) => all.iter().map(|text| format!("{mark} {text}")).collect(),
        None => all,
    }
}

/// The lines of the event itself.
fn event_lines(
    recorded: &RecordedEvent,
    run_state: &RunState,
    branch: &BranchState,
    closed: &[LoopReport],
) -> Vec<String> {
    let event = &recorded.event;
    let accepted = recorded.decision.decision < Verdict::Block;
    let short = |text: &str| single_line(text, MAX_TEXT_CHARS);
    let one = match &event.kind {
        EventKind::TurnStarted {} if accepted => turn_started_line(recorded, run_state),
        EventKind::TurnFinished { output, duration_ms, .. } => {
            turn_finished_line(recorded, output.as_deref().unwrap_or_default(), *duration_ms, branch)
        }
        EventKind::TransitionRequested { from, to, .. } if accepted => transition_line(from, to, closed),
        EventKind::AssistantMessage { text, .. } if !text.trim().is_empty() => {
            let to_the_person = !event.extra.contains_key("reply");
            let most = if to_the_person { MAX_PERSON_CHARS } else { MAX_TEXT_CHARS };
            format!("  {} {}", if to_the_person { "to you:" } else { "says:" }, single_line(text, most))
        }
        EventKind::ToolRequested { tool, args, .. } => format!("  calls {}", call_text(tool, args)),
        EventKind::ToolFinished { ok: Some(false), output, error, .. } => {
            let words = if error.is_null() { output } else { error };
            format!("  {} {}", style_stdout(TextStyle::Warning, "failed:"), short(&value_text(words)))
        }
        EventKind::ToolDenied { by, tool, .. } => {
            let who = match by {
                DeniedBy::Human => "a person",
                DeniedBy::Policy => "the policy",
                DeniedBy::Guard => "a guard",
            };
            format!("  refused by {who}: {}", tool.as_deref().unwrap_or("the call"))
        }
        EventKind::GateChecked { checks, .. } => return checks.iter().map(check_line).collect(),
        EventKind::Progress { signal, .. } => {
            return progress_line(run_state, &event.session, signal).into_iter().collect();
        }
        EventKind::ValidationFailed { error, .. } => {
            format!("  invalid answer: {}", short(error.as_deref().unwrap_or_default()))
        }
        EventKind::QuestionAsked { text } => format!("  asks: {}", single_line(text, MAX_PERSON_CHARS)),
        EventKind::ConfirmationRequested { question, .. } => {
            format!(
                "  needs approval: {}",
                single_line(question.as_deref().unwrap_or("a plan"), MAX_PERSON_CHARS)
            )
        }
        EventKind::UserMessage { text, .. } | EventKind::PersonMessage { text, .. } => {
            format!("  answer: {}", short(text))
        }
        EventKind::ConfirmationAnswered { text, value, .. } => {
            format!("  answer: {}", short(text.as_deref().or(value.as_deref()).unwrap_or_default()))
        }
        EventKind::HumanReleased { guard, by, .. } => format!(
            "  released: {} ({})",
            single_line(guard.as_deref().unwrap_or("the session"), 60),
            single_line(by.as_deref().unwrap_or("a person"), 80)
        ),
        _ => return Vec::new(),
    };
    vec![one]
}

/// The lines of its decision, unless it is a plain `allow`, and of messages to the person.
fn decision_lines(recorded: &RecordedEvent) -> Vec<String> {
    let decision = &recorded.decision;
    let mut all: Vec<String> = Vec::new();
    for trip in decision.trips.iter().filter(|trip| trip.severity.verdict() > Verdict::Allow) {
        let verdict = trip.severity.verdict();
        let style = if verdict >= Verdict::Block { TextStyle::Error } else { TextStyle::Warning };
        let word = style_stdout(style, &format!("{}:", verdict.as_str()));
        let guard = style_stdout(TextStyle::Dim, &format!("({})", trip.guard));
        all.push(format!("  {word} {} {guard}", single_line(&trip.message, 300)));
    }
    for effect in decision.effects.iter().filter(|effect| effect.effect == "say") {
        let words = effect.fields.get("text").and_then(Value::as_str).unwrap_or_default();
        all.push(format!("  to you: {}", single_line(words, MAX_PERSON_CHARS)));
    }
    all
}

fn turn_started_line(recorded: &RecordedEvent, run_state: &RunState) -> String {
    let node = recorded.event.node.as_deref().unwrap_or_default();
    let (turn, most) = run_state.turn_count(&recorded.event.session, node);
    let of = most.map(|most| format!("/{most}")).unwrap_or_default();
    let turn = style_stdout(TextStyle::Dim, &format!("(turn {turn}{of})"));
    format!("{} {turn}", style_stdout(TextStyle::Heading, &single_line(node, 80)))
}

/// The end of a turn. Omits text that was already shown; a long output is reduced to its last line.
fn turn_finished_line(
    recorded: &RecordedEvent,
    output: &str,
    duration_ms: Option<u64>,
    branch: &BranchState,
) -> String {
    let outcome = recorded.event.extra.get("outcome").and_then(Value::as_str).unwrap_or("ended");
    let style = match outcome {
        "success" => TextStyle::Success,
        "failure" => TextStyle::Error,
        _ => TextStyle::Warning,
    };
    let time = duration_ms.map(|ms| format!(" after {}", format_duration(ms))).unwrap_or_default();
    let mut text = format!("  {}{time}", style_stdout(style, &outcome.replace('_', " ")));
    let said = branch.last_message.as_deref().is_some_and(|said| said.trim() == output.trim());
    if said || branch.checks_printed || output.trim().is_empty() {
        return text;
    }
    if output.starts_with(LARGE_OUTPUT_PREFIX) {
        // The first line says where the output is kept; its beginning follows.
        text.push_str(&format!(
            ": {}",
            single_line(output.lines().next().unwrap_or_default(), 2 * MAX_TEXT_CHARS)
        ));
        return text;
    }
    let written: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = plain_output(written.last().copied().unwrap_or_default(), MAX_TEXT_CHARS);
    text.push_str(&format!(": {last}"));
    if written.len() > 1 {
        let count = plural(written.len() as u64, "line");
        text.push_str(&style_stdout(TextStyle::Dim, &format!(" (last of {count})")));
    }
    text
}

fn transition_line(from: &str, to: &str, closed: &[LoopReport]) -> String {
    let mut text = format!("{} → {}", single_line(from, 80), single_line(to, 80));
    for found in closed {
        text.push_str(&format!("   {}", style_stdout(TextStyle::Heading, &found.badge)));
    }
    text
}

fn check_line(check: &Check) -> String {
    let name = single_line(&check.name, 60);
    if check.skipped {
        let why = check.skip_reason.as_deref().unwrap_or("no reason given");
        return format!(
            "  {name} {}: {}",
            style_stdout(TextStyle::Warning, "skipped"),
            single_line(why, MAX_TEXT_CHARS)
        );
    }
    let time = format_duration(check.duration_ms);
    if check.passed {
        return format!("  {name} {} after {time}", style_stdout(TextStyle::Success, "passed"));
    }
    let mut text = format!("  {name} {} after {time}", style_stdout(TextStyle::Error, "failed"));
    if let Some(first) = check.details.first() {
        text.push_str(&format!(": {}", single_line(first, MAX_TEXT_CHARS)));
    }
    if check.details.len() > 1 {
        text.push_str(&style_stdout(TextStyle::Dim, &format!(" (and {} more)", check.details.len() - 1)));
    }
    text
}

/// The trend of a numeric signal.
fn progress_line(run_state: &RunState, session: &str, signal: &str) -> Option<String> {
    let report = run_state.report(session)?;
    let values = report.trends.get(signal).filter(|values| !values.is_empty())?;
    Some(format!("  {}", trend::format_trend(signal, values)))
}

/// A call in the style of a command line: identifying arguments first, the others by name.
fn call_text(tool: &str, args: &Value) -> String {
    let Value::Object(map) = args else {
        return single_line(&format!("{tool} {}", value_text(args)), MAX_TEXT_CHARS);
    };
    let mut words = vec![tool.to_owned()];
    words.extend(PRIMARY_ARGS.iter().filter_map(|key| map.get(*key)).map(value_text));
    let others = map.iter().filter(|(key, _)| !PRIMARY_ARGS.contains(&key.as_str()));
    words.extend(
        others.map(|(key, value)| format!("{key}={}", single_line(&value_text(value), MAX_TEXT_CHARS / 4))),
    );
    single_line(&words.join(" "), MAX_TEXT_CHARS)
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of single lines.

    use super::{call_text, check_line};
    use flyball::Check;
    use serde_json::json;

    #[test]
    fn call_text_shows_the_primary_argument_first() {
        assert_eq!(call_text("read", &json!({"path": "src/lib.rs"})), "read src/lib.rs");
        assert_eq!(
            call_text("edit", &json!({"old": "a", "path": "x.rs", "new": "b"})),
            "edit x.rs new=b old=a"
        );
        assert_eq!(call_text("list", &json!(null)), "list");
        assert!(call_text("write", &json!({"path": "x", "text": "y".repeat(10_000)})).chars().count() < 170);
    }

    #[test]
    fn check_line_shows_the_first_failure() {
        let mut check = Check { name: "tests".to_owned(), duration_ms: 1_469, ..Check::default() };
        check.details = vec!["a: left 1".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(check_line(&check), "  tests failed after 1.4 s: a: left 1 (and 2 more)");
        check.passed = true;
        assert_eq!(check_line(&check), "  tests passed after 1.4 s");
        check.skipped = true;
        assert_eq!(check_line(&check), "  tests skipped: no reason given");
    }
}
