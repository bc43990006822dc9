//! `flyball explain`: why a session was stopped, in plain words, with the evidence laid out.
//!
//! A file is read twice: once for the decisions, once for the events that they rest on, so that memory does not
//! grow with the file.

use crate::args::Explain;
use crate::commands::replay::fold;
use crate::evidence::{Line, collect, each_record, fetch, told};
use crate::fail::{Exit, Failure};
use crate::load;
use crate::meaning::{actions, meaning, sentence};
use crate::paint::{Style, paint_out};
use crate::recording::Recording;
use crate::store;
use crate::story::{self, Story};
use crate::telling::{Plan, next, print_next};
use crate::words::{plural, typed};
use flyball::{Decision, Preset, Report, Sessions, Trip, Verdict};
use flyball_journal::{Desk, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// How many findings of a session are told.
const TIMELINE: usize = 12;

/// What is told of one session.
#[derive(Default)]
struct Case {
    /// The gravest decision, the first of its kind.
    gravest: Option<Decision>,
    story: Story,
    /// It is in a store, where a release is a command.
    stored: bool,
    /// The first event that is still in the store, if older ones were pruned.
    pruned_to: Option<u64>,
}

impl Case {
    fn take(&mut self, decision: &Decision) {
        if decision.decision > self.gravest.as_ref().map_or(Verdict::Allow, |gravest| gravest.decision) {
            self.gravest = Some(decision.clone());
        }
        self.story.take(decision);
    }

    /// Whether something was refused.
    fn stopped(&self) -> bool {
        self.gravest.as_ref().is_some_and(|gravest| gravest.decision >= Verdict::Block)
    }

    /// The gravest trip.
    fn trip(&self) -> Option<&Trip> {
        self.gravest.as_ref()?.trips.iter().max_by_key(|trip| trip.severity)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Explain) -> Result<Exit, Failure> {
    if args.file.exists() || args.file == Path::new("-") {
        return from_file(args);
    }
    let name = args.file.to_string_lossy();
    let desk = store::for_name(&args.store, &args.file)?;
    from_store(args, desk, &name)
}

fn from_store(args: &Explain, desk: Arc<dyn Desk>, name: &str) -> Result<Exit, Failure> {
    let recorder = store::under(desk, &args.policy, name)?;
    let (state, policy) = store::session(&recorder, name)?;
    let desk = recorder.journal().as_ref();
    let mut case = Case { stored: true, ..Case::default() };
    each_record::<Failure>(desk, name, (1, state.seq()), |record| {
        let decision = serde_json::from_str(&record.decision).map_err(|error| {
            let what = format!("decision {} of session '{name}' cannot be read: {error}", record.seq);
            Failure::from(StoreError::corrupt(what))
        })?;
        if case.story.events == 0 && record.seq > 1 {
            case.pruned_to = Some(record.seq);
        }
        case.take(&decision);
        Ok(())
    })?;
    if case.story.events == 0 && state.seq() > 0 {
        case.pruned_to = Some(state.seq() + 1);
    }
    let wanted = case.trip().map(|trip| trip.evidence.events.iter().copied().collect());
    let lines = fetch(desk, name, &wanted.unwrap_or_default())?;
    let mut out = crate::terminal::stdout();
    tell(&mut out, args.json, name, &case, &state.report(&policy), &lines)?;
    if !args.json {
        let plan = Plan::of(desk, name, &state)?;
        let mut commands = next(desk, name, &state, plan.as_ref())?;
        commands.retain(|command| !command.starts_with("flyball explain"));
        commands.push(format!("flyball status {}", typed(name)));
        print_next(&mut out, &commands, &args.store)?;
    }
    Ok(if state.is_held() || case.stopped() { Exit::Stopped } else { Exit::Done })
}

fn from_file(args: &Explain) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let mut recording = Recording::open(&args.file, args.format)?.behind(source.base())?;
    let base = std::sync::Arc::clone(source.base());
    let mut sessions = Sessions::new(source);
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    let wanted = |name: &str| args.session.as_deref().is_none_or(|session| session == name);
    let read = fold(&mut recording, &mut sessions, |decision| {
        if wanted(&decision.session) {
            cases.entry(decision.session.clone()).or_default().take(decision);
        }
        Ok(())
    })?;
    if cases.is_empty() {
        let known: Vec<&str> = sessions.iter().map(|(name, _)| name).take(5).collect();
        let advice = format!("the file has: {}", known.join(", "));
        return Err(Failure::new(
            "no_such_session",
            recording.name(),
            "this session is not in the file",
            advice,
        ));
    }
    let rests_on: BTreeMap<String, BTreeSet<u64>> = cases
        .iter()
        .filter_map(|(name, case)| {
            Some((name.clone(), case.trip()?.evidence.events.iter().copied().collect()))
        })
        .collect();
    let again = Recording::open(&args.file, Some(read.format))?.behind(&base)?;
    let evidence = collect(again, &rests_on)?;
    let mut out = crate::terminal::stdout();
    let mut stopped = false;
    for (name, case) in &cases {
        let Some(session) = sessions.get(name) else { continue };
        let report = session.state().report(session.policy());
        stopped |= case.stopped();
        let lines = evidence.get(name).map_or(&[][..], Vec::as_slice);
        tell(&mut out, args.json, name, case, &report, lines)?;
    }
    Ok(if stopped { Exit::Stopped } else { Exit::Done })
}

fn tell(
    out: &mut impl Write,
    json: bool,
    name: &str,
    case: &Case,
    report: &Report,
    lines: &[Line],
) -> std::io::Result<()> {
    if json {
        return writeln!(out, "{}", as_json(name, case, report, lines));
    }
    print(out, name, case, report, lines)
}

fn as_json(name: &str, case: &Case, report: &Report, lines: &[Line]) -> Value {
    json!({"session": name, "decision": case.gravest, "events": lines, "timeline": case.story.notes, "session_report": report})
}

fn print(
    out: &mut impl Write,
    name: &str,
    case: &Case,
    report: &Report,
    lines: &[Line],
) -> std::io::Result<()> {
    let heading = |text: &str| paint_out(Style::Strong, text);
    let (Some(gravest), Some(trip)) = (&case.gravest, case.trip()) else {
        writeln!(out, "{}: nothing tripped in {}.", heading(name), plural(case.story.events, "event"))?;
        return print_pruned(out, case, report);
    };
    let did = match gravest.decision {
        Verdict::Halt => "was halted",
        Verdict::Block => "was refused an act",
        _ => "was warned",
    };
    writeln!(
        out,
        "{} {did} at event {}, and is now {}.",
        heading(name),
        gravest.seq,
        report.status.as_str()
    )?;
    writeln!(out)?;
    writeln!(out, "{}", heading("Why"))?;
    writeln!(out, "  {}", sentence(&trip.message))?;
    if let Some(meaning) = meaning(&trip.reason) {
        writeln!(out, "  {meaning}")?;
    }
    writeln!(out, "\n{}", heading("Evidence"))?;
    for text in told(trip, lines) {
        writeln!(out, "  {text}")?;
    }
    let notes = &case.story.notes;
    if notes.len() > 1 {
        writeln!(out, "\n{}", heading("How it came to that"))?;
        for note in notes.iter().take(TIMELINE) {
            story::print(note, out)?;
        }
        if notes.len() > TIMELINE {
            writeln!(out, "  … and {} more", notes.len() - TIMELINE)?;
        }
    }
    print_pruned(out, case, report)?;
    print_advice(out, gravest, trip, report, case.stored)
}

/// Says what can no longer be told, because it was pruned.
fn print_pruned(out: &mut impl Write, case: &Case, report: &Report) -> std::io::Result<()> {
    let Some(first) = case.pruned_to else { return Ok(()) };
    writeln!(out, "  The events before {first} were pruned; the counters remember them.")?;
    if let Some(why) = &report.stopped_by {
        writeln!(out, "  It is {} by {why}.", report.status.as_str())?;
    }
    Ok(())
}

fn print_advice(
    out: &mut impl Write,
    gravest: &Decision,
    trip: &Trip,
    report: &Report,
    stored: bool,
) -> std::io::Result<()> {
    writeln!(out, "\n{}", paint_out(Style::Strong, "What to do"))?;
    for action in actions(trip, &gravest.session) {
        writeln!(out, "  - {} ({})", action.sentence(), action.name)?;
    }
    if flyball::waits(report.status) && !stored {
        writeln!(
            out,
            "  To let it go on, send the event {{\"type\":\"human.released\",\"session\":{:?},\"guard\":{:?},\"by\":…,\"why\":…}}",
            gravest.session, trip.guard
        )?;
    }
    writeln!(out, "  To see which value it was compared with: flyball config --origin")?;
    writeln!(out)
}
