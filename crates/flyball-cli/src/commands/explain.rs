//! `flyball explain`: why a session was stopped, in plain language, with the evidence.
//!
//! A file is read twice, once for the decisions and once for the events they cite, so memory does not grow with the
//! file.

use crate::args::ExplainArgs;
use crate::color::{TextStyle, style_stdout};
use crate::commands::replay::replay_events;
use crate::error::{CliError, Exit};
use crate::event_file::EventFileReader;
use crate::evidence::{EvidenceLine, collect_events, each_record, fetch, format_evidence};
use crate::explanations::{actions, explain_reason, sentence};
use crate::formatting::{plural, typed};
use crate::plan_printer::{PlanView, next_commands, print_next};
use crate::policy_loader;
use crate::session_tally::{self, DecisionHistory};
use crate::store;
use flyball::{Decision, Preset, SessionReport, Sessions, Trip, Verdict};
use flyball_store::{AdminStore, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of findings listed per session.
const MAX_TIMELINE_NOTES: usize = 12;

/// The explanation of one session.
#[derive(Default)]
struct SessionExplanation {
    /// The most severe decision; the first one if there are several.
    worst: Option<Decision>,
    history: DecisionHistory,
    /// The session is in a store, so a command can release it.
    in_store: bool,
    /// The first event still in the store, if older ones were pruned.
    first_kept_seq: Option<u64>,
}

impl SessionExplanation {
    fn push(&mut self, decision: &Decision) {
        if decision.decision > self.worst.as_ref().map_or(Verdict::Allow, |gravest| gravest.decision) {
            self.worst = Some(decision.clone());
        }
        self.history.push(decision);
    }

    /// Whether anything was blocked.
    fn was_stopped(&self) -> bool {
        self.worst.as_ref().is_some_and(|gravest| gravest.decision >= Verdict::Block)
    }

    /// The most severe trip.
    fn worst_trip(&self) -> Option<&Trip> {
        self.worst.as_ref()?.trips.iter().max_by_key(|trip| trip.severity)
    }
}

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, CliError> {
    if args.file.exists() || args.file == Path::new("-") {
        return explain_file(args);
    }
    let name = args.file.to_string_lossy();
    let store = store::open_for_name(&args.store, &args.file)?;
    explain_stored(args, store, &name)
}

fn explain_stored(args: &ExplainArgs, store: Arc<dyn AdminStore>, name: &str) -> Result<Exit, CliError> {
    let recorder = store::recorder_with_session_policy(store, &args.policy, name)?;
    let (state, policy) = store::load_session(&recorder, name)?;
    let store = recorder.store().as_ref();
    let mut explanation = SessionExplanation { in_store: true, ..SessionExplanation::default() };
    each_record::<CliError>(store, name, (1, state.seq()), |record| {
        let decision = serde_json::from_str(&record.decision_json).map_err(|error| {
            let what = format!("decision {} of session '{name}' is unreadable: {error}", record.seq);
            CliError::from(StoreError::corrupt(what))
        })?;
        if explanation.history.events == 0 && record.seq > 1 {
            explanation.first_kept_seq = Some(record.seq);
        }
        explanation.push(&decision);
        Ok(())
    })?;
    if explanation.history.events == 0 && state.seq() > 0 {
        explanation.first_kept_seq = Some(state.seq() + 1);
    }
    let wanted = explanation.worst_trip().map(|trip| trip.evidence.events.iter().copied().collect());
    let lines = fetch(store, name, &wanted.unwrap_or_default())?;
    let mut out = crate::terminal::stdout();
    print_explanation(&mut out, args.json, name, &explanation, &state.report(&policy), &lines)?;
    if !args.json {
        let plan = PlanView::load(store, name, &state)?;
        let mut commands = next_commands(store, name, &state, plan.as_ref())?;
        commands.retain(|command| !command.starts_with("flyball explain"));
        commands.push(format!("flyball status {}", typed(name)));
        print_next(&mut out, &commands, &args.store)?;
    }
    Ok(if state.is_held() || explanation.was_stopped() { Exit::Stopped } else { Exit::Success })
}

fn explain_file(args: &ExplainArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let mut recording = EventFileReader::open(&args.file, args.format)?.with_redaction(source.base())?;
    let base = std::sync::Arc::clone(source.base());
    let mut sessions = Sessions::new(source);
    let mut cases: BTreeMap<String, SessionExplanation> = BTreeMap::new();
    let wanted = |name: &str| args.session.as_deref().is_none_or(|session| session == name);
    let read = replay_events(&mut recording, &mut sessions, |decision| {
        if wanted(&decision.session) {
            cases.entry(decision.session.clone()).or_default().push(decision);
        }
        Ok(())
    })?;
    if cases.is_empty() {
        let known: Vec<&str> = sessions.iter().map(|(name, _)| name).take(5).collect();
        let help = format!("the file contains: {}", known.join(", "));
        return Err(CliError::new(
            "no_such_session",
            recording.name(),
            "this session is not in the file",
            help,
        ));
    }
    let rests_on: BTreeMap<String, BTreeSet<u64>> = cases
        .iter()
        .filter_map(|(name, explanation)| {
            Some((name.clone(), explanation.worst_trip()?.evidence.events.iter().copied().collect()))
        })
        .collect();
    let again = EventFileReader::open(&args.file, Some(read.format))?.with_redaction(&base)?;
    let evidence = collect_events(again, &rests_on)?;
    let mut out = crate::terminal::stdout();
    let mut stopped = false;
    for (name, explanation) in &cases {
        let Some(session) = sessions.get(name) else { continue };
        let report = session.state().report(session.policy());
        stopped |= explanation.was_stopped();
        let lines = evidence.get(name).map_or(&[][..], Vec::as_slice);
        print_explanation(&mut out, args.json, name, explanation, &report, lines)?;
    }
    Ok(if stopped { Exit::Stopped } else { Exit::Success })
}

fn print_explanation(
    out: &mut impl Write,
    json: bool,
    name: &str,
    explanation: &SessionExplanation,
    report: &SessionReport,
    lines: &[EvidenceLine],
) -> std::io::Result<()> {
    if json {
        return writeln!(out, "{}", as_json(name, explanation, report, lines));
    }
    print_text(out, name, explanation, report, lines)
}

fn as_json(
    name: &str,
    explanation: &SessionExplanation,
    report: &SessionReport,
    lines: &[EvidenceLine],
) -> Value {
    json!({"session": name, "decision": explanation.worst, "events": lines, "timeline": explanation.history.notes, "session_report": report})
}

fn print_text(
    out: &mut impl Write,
    name: &str,
    explanation: &SessionExplanation,
    report: &SessionReport,
    lines: &[EvidenceLine],
) -> std::io::Result<()> {
    let heading = |text: &str| style_stdout(TextStyle::Heading, text);
    let (Some(gravest), Some(trip)) = (&explanation.worst, explanation.worst_trip()) else {
        writeln!(
            out,
            "{}: nothing tripped in {}.",
            heading(name),
            plural(explanation.history.events, "event")
        )?;
        return print_pruned(out, explanation, report);
    };
    let did = match gravest.decision {
        Verdict::Halt => "was halted",
        Verdict::Block => "was blocked",
        _ => "was warned",
    };
    writeln!(out, "{} {did} at event {} and is now {}.", heading(name), gravest.seq, report.status.as_str())?;
    writeln!(out)?;
    writeln!(out, "{}", heading("Why"))?;
    writeln!(out, "  {}", sentence(&trip.message))?;
    if let Some(meaning) = explain_reason(&trip.reason) {
        writeln!(out, "  {meaning}")?;
    }
    writeln!(out, "\n{}", heading("Evidence"))?;
    for text in format_evidence(trip, lines) {
        writeln!(out, "  {text}")?;
    }
    let notes = &explanation.history.notes;
    if notes.len() > 1 {
        writeln!(out, "\n{}", heading("Timeline"))?;
        for note in notes.iter().take(MAX_TIMELINE_NOTES) {
            session_tally::print_note(note, out)?;
        }
        if notes.len() > MAX_TIMELINE_NOTES {
            writeln!(out, "  … and {} more", notes.len() - MAX_TIMELINE_NOTES)?;
        }
    }
    print_pruned(out, explanation, report)?;
    print_help(out, gravest, trip, report, explanation.in_store)
}

/// Says which events are missing because they were pruned.
fn print_pruned(
    out: &mut impl Write,
    explanation: &SessionExplanation,
    report: &SessionReport,
) -> std::io::Result<()> {
    let Some(first) = explanation.first_kept_seq else { return Ok(()) };
    writeln!(out, "  Events before {first} were pruned; the counters still include them.")?;
    if let Some(why) = &report.stopped_by {
        writeln!(out, "  It is {} by {why}.", report.status.as_str())?;
    }
    Ok(())
}

fn print_help(
    out: &mut impl Write,
    gravest: &Decision,
    trip: &Trip,
    report: &SessionReport,
    stored: bool,
) -> std::io::Result<()> {
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Suggested actions"))?;
    for action in actions(trip, &gravest.session) {
        writeln!(out, "  - {}", action.sentence())?;
    }
    if flyball::waits_for_person(report.status) && !stored {
        writeln!(
            out,
            "  To release it, send the event {{\"type\":\"human.released\",\"session\":{:?},\"guard\":{:?},\"by\":…,\"why\":…}}",
            gravest.session, trip.guard
        )?;
    }
    writeln!(out, "  To see the limits and where they are set: flyball config --origin")?;
    writeln!(out)
}
