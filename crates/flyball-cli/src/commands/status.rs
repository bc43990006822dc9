//! `flyball status`: the sessions of a store or the state of one, pending actions, and the command to run next.

use crate::args::{StatusArgs as Arguments, StoreArgs};
use crate::color::{TextStyle, style_stdout};
use crate::commands::list::{self, SessionEntry, count_by_status, counts_text};
use crate::error::{CliError, Exit};
use crate::formatting::{
    format_count, format_dollars, format_duration, local_time, plural, relative_time, single_line, typed,
};
use crate::plan_printer::{PlanView, next_commands, print_next, print_plan, with_store};
use crate::run_status::{self, RunStatus};
use crate::session_tally::{self, DecisionHistory};
use crate::store;
use crate::trend;
use flyball::policy::Policy;
use flyball::{
    BreakerReport, BreakerStatus, Decision, SessionPhase, SessionReport, SessionState, SuggestedAction,
    ToolUsage,
};
use flyball_runner::engine::holder_is_gone;
use flyball_store::{AdminStore, SessionFilter, SessionRow};
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde_json::{Value, json};
use std::io::Write;

/// Maximum numbers of sessions counted and shown.
const MAX_SESSIONS_COUNTED: usize = 10_000;
const MAX_SESSIONS_SHOWN: usize = 15;

/// Runs the command.
pub(crate) fn run(args: &Arguments) -> Result<Exit, CliError> {
    match &args.session {
        Some(session) => print_session_status(args, session),
        None => print_store_status(args),
    }
}

fn print_store_status(args: &Arguments) -> Result<Exit, CliError> {
    let admin_store = store::open(&args.common.store)?;
    let sessions = list::list_sessions(admin_store.as_ref(), &[SessionFilter::All], MAX_SESSIONS_COUNTED)?;
    let statuses: Vec<SessionStatus> = sessions.iter().map(|listed| listed.activity.status).collect();
    let counts = count_by_status(&statuses);
    let needs_person = |listed: &&SessionEntry| listed.activity.needs_person();
    let waiting: Vec<&SessionEntry> = sessions.iter().filter(needs_person).take(MAX_SESSIONS_SHOWN).collect();
    let mut out = crate::terminal::stdout();
    if args.common.json {
        let counts: serde_json::Map<String, Value> =
            counts.iter().map(|(status, count)| (status.as_str().to_owned(), json!(count))).collect();
        let newest: Vec<Value> =
            sessions.iter().take(MAX_SESSIONS_SHOWN).map(SessionEntry::as_json).collect();
        let waiting: Vec<Value> = waiting.into_iter().map(SessionEntry::as_json).collect();
        let whole =
            json!({"store": admin_store.address(), "counts": counts, "waiting": waiting, "sessions": newest});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
    }
    writeln!(out, "{}", style_stdout(TextStyle::Heading, &admin_store.address()))?;
    if sessions.is_empty() {
        writeln!(out, "No sessions yet.")?;
        let next =
            if args.common.store.store.is_some() { "flyball observe" } else { "flyball observe --store" };
        writeln!(out, "Next: {} < events.jsonl", with_store(next, &args.common.store))?;
        return Ok(Exit::Success);
    }
    writeln!(out, "{}", counts_text(&counts))?;
    if sessions.len() == MAX_SESSIONS_COUNTED {
        writeln!(out, "(only the {MAX_SESSIONS_COUNTED} most recently changed)")?;
    }
    if !waiting.is_empty() {
        writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Waiting for a person"))?;
    }
    for listed in &waiting {
        writeln!(out, "  {}", pending_action_text(admin_store.as_ref(), listed)?)?;
    }
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Recently changed"))?;
    list::print_table(&mut out, sessions.get(..MAX_SESSIONS_SHOWN).unwrap_or(&sessions), admin_store.now()?)?;
    if sessions.len() > MAX_SESSIONS_SHOWN {
        let (more, all) = (sessions.len() - MAX_SESSIONS_SHOWN, sessions.len());
        writeln!(out, "… and {more} more: flyball list --limit {all}")?;
    }
    let first = waiting.first().copied().or(sessions.first());
    let first = first.map_or_else(|| "SESSION".to_owned(), |listed| typed(&listed.row.session));
    writeln!(out)?;
    print_next(&mut out, &[format!("flyball status {first}")], &args.common.store)?;
    Ok(Exit::Success)
}

/// The action a session needs from a person, in one line.
fn pending_action_text(
    admin_store: &dyn AdminStore,
    SessionEntry { row, activity }: &SessionEntry,
) -> Result<String, CliError> {
    let name = single_line(&row.session, 60);
    if let Some(question) = &activity.question {
        return Ok(format!("{name}: {}", single_line(question, 90)));
    }
    if activity.status == SessionStatus::AwaitingConfirmation {
        let question =
            admin_store.pending(&row.session)?.map(|row| single_line(&row.confirmation_question, 90));
        return Ok(format!("{name}: {}", question.unwrap_or_else(|| "awaiting approval".to_owned())));
    }
    let why = row.summary.stopped_by.as_deref().map(|why| single_line(why, 90)).unwrap_or_default();
    Ok(format!("{name}: {} by {why}", activity.status.as_str()))
}

fn print_session_status(args: &Arguments, name: &str) -> Result<Exit, CliError> {
    let recorder = store::recorder(&args.common, name)?;
    let admin_store = recorder.store().as_ref();
    let (state, policy) = store::load_session(&recorder, name)?;
    let report = state.report_at(&policy, admin_store.now()?);
    let row = admin_store.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
    let plan = PlanView::load(admin_store, name, &state)?;
    let lately = flyball_view::decision_history::recent_decisions(admin_store, name, row.seq)?;
    let reader = ActivityReader::new(admin_store, holder_is_gone(admin_store))?;
    let (now, activity) = (reader.now(), reader.activity(&row)?);
    let commands = next_commands(admin_store, name, &state, plan.as_ref())?;
    let run_view = RunStatus::load(admin_store, name, &state)?;
    let off = row.summary.label.is_some() && !admin_store.operator_rows(name)?.label;
    let actions = flyball_view::explanations::hold_actions(admin_store, name, &state)?;
    let mut out = crate::terminal::stdout();
    if args.common.json {
        let plan = plan.as_ref().map(PlanView::as_json);
        let whole = json!({"session": name, "state": activity.status, "idle_ms": activity.idle_ms,
            "question": activity.question, "report": report, "pending": plan,
            "label": row.summary.label, "parent": row.summary.parent, "started": row.started,
            "updated": row.updated, "releases_ceiling": policy.releases.ceiling, "lately": lately,
            "actions": actions,
            "run": run_view.as_ref().map(RunStatus::as_json),
            "next": commands.iter().map(|command| with_store(command, &args.common.store)).collect::<Vec<_>>()});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
    }
    let since = format!("last change {} ({})", local_time(row.updated), relative_time(row.updated, now));
    writeln!(
        out,
        "{} is {}: {}, {since}",
        style_stdout(TextStyle::Heading, &single_line(name, 200)),
        status_text(&activity),
        plural(report.events, "event")
    )?;
    if let Some(parent) = &row.summary.parent {
        writeln!(out, "  child of session {}", single_line(parent, 100))?;
    }
    if let Some(run_view) = run_view.filter(|_| report.status != SessionPhase::Ended) {
        run_status::print_run_status(&run_view, &mut out, &report)?;
    }
    print_why(&mut out, &state, &row, off)?;
    print_actions(&mut out, &actions, &args.common.store)?;
    if let Some(plan) = &plan {
        writeln!(out)?;
        print_plan(plan, &mut out, now)?;
    }
    print_counters(&mut out, &report, &policy)?;
    print_recent_decisions(&mut out, &lately)?;
    writeln!(out)?;
    print_next(&mut out, &commands, &args.common.store)?;
    Ok(Exit::Success)
}

/// The status with an explanation.
fn status_text(activity: &SessionActivity) -> String {
    let means = match activity.status {
        SessionStatus::Running => return style_stdout(TextStyle::Success, "running"),
        SessionStatus::Ended if activity.is_held => "release it before it can be resumed",
        SessionStatus::Idle | SessionStatus::Ended => return activity.label(),
        SessionStatus::Lost => "the process that ran it is gone; resume it to continue",
        SessionStatus::AwaitingConfirmation => "a plan is awaiting approval",
        SessionStatus::AwaitingAnswer => "a question is waiting for an answer",
        SessionStatus::Blocked => "waiting for a release",
        SessionStatus::Halted => "stopped until a release",
    };
    style_stdout(TextStyle::Error, &format!("{} ({means})", activity.label()))
}

fn print_why(out: &mut impl Write, state: &SessionState, row: &SessionRow, off: bool) -> std::io::Result<()> {
    if let Some((guard, message)) = state.status_summary().stopped_by {
        writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Why it stopped"))?;
        writeln!(out, "  {}", single_line(&message, 400))?;
        writeln!(out, "  guard {guard}")?;
    }
    if let Some(label) = &row.summary.label {
        let means = if off {
            "was removed: the next event will release the session"
        } else {
            "is set; removing it releases the session"
        };
        writeln!(out, "  label {} {means}", single_line(label, 100))?;
    }
    Ok(())
}

/// Suggested actions, each with its command.
fn print_actions(
    out: &mut impl Write,
    actions: &[SuggestedAction],
    store: &StoreArgs,
) -> std::io::Result<()> {
    if actions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Suggested actions"))?;
    for action in actions {
        let command = action.command.as_ref().map(|command| format!(": {}", with_store(command, store)));
        writeln!(out, "  - {}{}", action.text, single_line(&command.unwrap_or_default(), 300))?;
    }
    Ok(())
}

fn print_counters(out: &mut impl Write, report: &SessionReport, policy: &Policy) -> std::io::Result<()> {
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Usage"))?;
    let of = |limit: Option<u64>, show: &dyn Fn(u64) -> String| {
        limit.map(|limit| format!(" of {}", show(limit))).unwrap_or_default()
    };
    let budget = &policy.budgets.session;
    writeln!(
        out,
        "  {} ({} failed), {}{}, {}",
        plural(report.calls, "call"),
        report.errors,
        plural(report.turns, "turn"),
        of(budget.turns, &format_count),
        plural(report.transitions, "transition"),
    )?;
    writeln!(
        out,
        "  {} tokens{}, {}{}, active {}{}",
        format_count(report.tokens),
        of(budget.tokens, &format_count),
        format_dollars(report.cost_micro_usd),
        of(budget.cost_micro_usd, &format_dollars),
        format_duration(report.active_ms),
        of(budget.runtime_ms, &format_duration),
    )?;
    let (warnings, blocks, halts) = (report.warnings, report.blocks, report.halts);
    writeln!(out, "  warnings {warnings}, blocks {blocks}, halts {halts}")?;
    let tools: Vec<String> = report.tools.iter().map(|(name, used)| tool_use_text(name, *used)).collect();
    if !tools.is_empty() {
        writeln!(out, "  tools: {}", single_line(&tools.join(", "), 300))?;
    }
    for found in &report.loops {
        writeln!(
            out,
            "  {} at {} ({})",
            found.badge,
            single_line(&found.header, 60),
            single_line(&found.nodes.join(", "), 120)
        )?;
    }
    let visits: Vec<String> = report
        .visits
        .iter()
        .filter(|(_, visits)| **visits > 0)
        .map(|(node, visits)| format!("{node} {visits}"))
        .collect();
    if !visits.is_empty() {
        writeln!(out, "  visits: {}", single_line(&visits.join(", "), 300))?;
    }
    if !report.trail.is_empty() {
        let shown = report.history.recent.len() as u64;
        let all = if shown < report.transitions {
            format!(" {shown} of {}", report.transitions)
        } else {
            String::new()
        };
        writeln!(out, "  last transitions{all}: {}", single_line(&report.trail.join(" → "), 400))?;
    }
    for text in trend::all_trends(report) {
        writeln!(out, "  {}", single_line(&text, 200))?;
    }
    print_permissions(out, report, policy)
}

/// Unused approvals, retry counters, breakers, releases, and disabled guards.
fn print_permissions(out: &mut impl Write, report: &SessionReport, policy: &Policy) -> std::io::Result<()> {
    if report.approvals > 0 {
        writeln!(out, "  {} approved but not used yet", plural(report.approvals, "call"))?;
    }
    for (counter, count) in &report.counters {
        writeln!(out, "  {} {count}", single_line(counter, 100))?;
    }
    for breaker in &report.breakers {
        writeln!(out, "  breaker {}", single_line(&breaker_line(breaker), 200))?;
    }
    for (guard, used) in &report.releases {
        writeln!(out, "  {} released {used} of {} times", single_line(guard, 60), policy.releases.ceiling)?;
    }
    if !report.off.is_empty() {
        writeln!(
            out,
            "  {}",
            style_stdout(TextStyle::Error, &format!("switched off: {}", report.off.join(", ")))
        )?;
    }
    Ok(())
}

/// A breaker in words, for example `correction (seats): open for another 50s, opened once`.
fn breaker_line(breaker: &BreakerReport) -> String {
    let key = breaker.key.as_deref().map(|key| format!(" ({key})")).unwrap_or_default();
    let state = match (breaker.state, breaker.cooldown_left_ms) {
        (BreakerStatus::Open, Some(left)) => format!("open for another {}", format_duration(left)),
        (BreakerStatus::HalfOpen, _) => "half-open, one probe allowed".to_owned(),
        (state, _) => state.as_str().to_owned(),
    };
    let of = breaker.limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let attempts = format!("{}{of} failed attempts", breaker.attempts);
    format!("{}{key}: {state}, {attempts}, opened {}", breaker.operation, plural(breaker.trips, "time"))
}

/// A tool with its number of calls, failures and refusals.
fn tool_use_text(name: &str, used: ToolUsage) -> String {
    let parts = [(used.failed, "failed"), (used.refused, "refused")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let more = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{name} {}{more}", used.calls)
}

fn print_recent_decisions(out: &mut impl Write, lately: &[Decision]) -> std::io::Result<()> {
    if lately.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Recent warnings, blocks and halts"))?;
    let mut story = DecisionHistory::default();
    lately.iter().for_each(|decision| story.push(decision));
    for note in story.notes.iter().filter(|note| note.severity.is_some()) {
        session_tally::print_note(note, out)?;
    }
    Ok(())
}
