//! `flyball status`: what goes on in the store or in one session, what waits for a person, and what to type next.

use crate::args::{Status as Arguments, StoreArgs};
use crate::commands::list::{self, Listed, counts, told};
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::store;
use crate::story::{self, Story};
use crate::telling::{Plan, next, print_next, print_plan, whole};
use crate::trend;
use crate::whereabouts::{self, Whereabouts};
use crate::words::{ago, dollars, line, moment, plural, span, typed};
use flyball::policy::Policy;
use flyball::{BreakerReport, BreakerState, Decision, Report, State, Status, SuggestedAction, ToolUse};
use flyball_journal::{Desk, Head, Which};
use flyball_run::engine::holder_is_gone;
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde_json::{Value, json};
use std::io::Write;

/// How many sessions are counted, and how many are shown.
const COUNTED: usize = 10_000;
const SHOWN: usize = 15;

/// Runs the command.
pub(crate) fn run(args: &Arguments) -> Result<Exit, Failure> {
    match &args.session {
        Some(session) => one(args, session),
        None => all(args),
    }
}

fn all(args: &Arguments) -> Result<Exit, Failure> {
    let desk = store::open(&args.who.store)?;
    let sessions = list::sessions(desk.as_ref(), &[Which::All], COUNTED)?;
    let statuses: Vec<SessionStatus> = sessions.iter().map(|listed| listed.activity.status).collect();
    let counts = counts(&statuses);
    let needs_person = |listed: &&Listed| listed.activity.needs_person();
    let waiting: Vec<&Listed> = sessions.iter().filter(needs_person).take(SHOWN).collect();
    let mut out = crate::terminal::stdout();
    if args.who.json {
        let counts: serde_json::Map<String, Value> =
            counts.iter().map(|(status, count)| (status.as_str().to_owned(), json!(count))).collect();
        let newest: Vec<Value> = sessions.iter().take(SHOWN).map(Listed::as_json).collect();
        let waiting: Vec<Value> = waiting.into_iter().map(Listed::as_json).collect();
        let whole =
            json!({"store": desk.address(), "counts": counts, "waiting": waiting, "sessions": newest});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    writeln!(out, "{}", paint_out(Style::Strong, &desk.address()))?;
    if sessions.is_empty() {
        writeln!(out, "No session yet.")?;
        let next = if args.who.store.store.is_some() { "flyball observe" } else { "flyball observe --store" };
        writeln!(out, "Next: {} < events.jsonl", whole(next, &args.who.store))?;
        return Ok(Exit::Done);
    }
    writeln!(out, "{}", told(&counts))?;
    if sessions.len() == COUNTED {
        writeln!(out, "(the {COUNTED} that changed last)")?;
    }
    if !waiting.is_empty() {
        writeln!(out, "\n{}", paint_out(Style::Strong, "Waits for a person"))?;
    }
    for listed in &waiting {
        writeln!(out, "  {}", need(desk.as_ref(), listed)?)?;
    }
    writeln!(out, "\n{}", paint_out(Style::Strong, "Changed last"))?;
    list::print(&mut out, sessions.get(..SHOWN).unwrap_or(&sessions), desk.now()?)?;
    if sessions.len() > SHOWN {
        let (more, all) = (sessions.len() - SHOWN, sessions.len());
        writeln!(out, "… and {more} more: flyball list --limit {all}")?;
    }
    let first = waiting.first().copied().or(sessions.first());
    let first = first.map_or_else(|| "SESSION".to_owned(), |listed| typed(&listed.head.session));
    writeln!(out)?;
    print_next(&mut out, &[format!("flyball status {first}")], &args.who.store)?;
    Ok(Exit::Done)
}

/// What a session needs of a person, in one line.
fn need(desk: &dyn Desk, Listed { head, activity }: &Listed) -> Result<String, Failure> {
    let name = line(&head.session, 60);
    if let Some(question) = &activity.question {
        return Ok(format!("{name}: {}", line(question, 90)));
    }
    if activity.status == SessionStatus::AwaitingConfirmation {
        let question = desk.pending(&head.session)?.map(|row| line(&row.confirmation_question, 90));
        return Ok(format!("{name}: {}", question.unwrap_or_else(|| "a yes".to_owned())));
    }
    let why = head.glance.stopped_by.as_deref().map(|why| line(why, 90)).unwrap_or_default();
    Ok(format!("{name}: {} by {why}", activity.status.as_str()))
}

fn one(args: &Arguments, name: &str) -> Result<Exit, Failure> {
    let recorder = store::recorder(&args.who, name)?;
    let desk = recorder.journal().as_ref();
    let (state, policy) = store::session(&recorder, name)?;
    let report = state.report_at(&policy, desk.now()?);
    let head = desk.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
    let plan = Plan::of(desk, name, &state)?;
    let lately = flyball_view::story::lately(desk, name, head.seq)?;
    let reader = ActivityReader::new(desk, holder_is_gone(desk))?;
    let (now, activity) = (reader.now(), reader.activity(&head)?);
    let commands = next(desk, name, &state, plan.as_ref())?;
    let stands = Whereabouts::of(desk, name, &state)?;
    let off = head.glance.label.is_some() && !desk.handles(name)?.label;
    let actions = flyball_view::meaning::hold_actions(desk, name, &state)?;
    let mut out = crate::terminal::stdout();
    if args.who.json {
        let plan = plan.as_ref().map(Plan::as_json);
        let whole = json!({"session": name, "state": activity.status, "idle_ms": activity.idle_ms,
            "question": activity.question, "report": report, "pending": plan,
            "label": head.glance.label, "parent": head.glance.parent, "started": head.started,
            "updated": head.updated, "releases_ceiling": policy.releases.ceiling, "lately": lately,
            "actions": actions,
            "run": stands.as_ref().map(Whereabouts::as_json),
            "next": commands.iter().map(|command| whole(command, &args.who.store)).collect::<Vec<_>>()});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    let since = format!("last change {} ({})", moment(head.updated), ago(head.updated, now));
    writeln!(
        out,
        "{} is {}: {}, {since}",
        paint_out(Style::Strong, &line(name, 200)),
        told_state(&activity),
        plural(report.events, "event")
    )?;
    if let Some(parent) = &head.glance.parent {
        writeln!(out, "  below session {}", line(parent, 100))?;
    }
    if let Some(stands) = stands.filter(|_| report.status != Status::Ended) {
        whereabouts::print(&stands, &mut out, &report)?;
    }
    print_why(&mut out, &state, &head, off)?;
    print_actions(&mut out, &actions, &args.who.store)?;
    if let Some(plan) = &plan {
        writeln!(out)?;
        print_plan(plan, &mut out, now)?;
    }
    print_counters(&mut out, &report, &policy)?;
    print_lately(&mut out, &lately)?;
    writeln!(out)?;
    print_next(&mut out, &commands, &args.who.store)?;
    Ok(Exit::Done)
}

/// The status with what it means.
fn told_state(activity: &SessionActivity) -> String {
    let means = match activity.status {
        SessionStatus::Running => return paint_out(Style::Good, "running"),
        SessionStatus::Ended if activity.is_held => "release it before it can be resumed",
        SessionStatus::Idle | SessionStatus::Ended => return activity.label(),
        SessionStatus::Lost => "the process that ran it is gone; resume it to continue",
        SessionStatus::AwaitingConfirmation => "a plan is awaiting approval",
        SessionStatus::AwaitingAnswer => "a question is waiting for an answer",
        SessionStatus::Blocked => "waiting for a release",
        SessionStatus::Halted => "stopped until a release",
    };
    paint_out(Style::Bad, &format!("{} ({means})", activity.label()))
}

fn print_why(out: &mut impl Write, state: &State, head: &Head, off: bool) -> std::io::Result<()> {
    if let Some((guard, message)) = state.standing().stopped_by {
        writeln!(out, "\n{}", paint_out(Style::Strong, "Why it stands still"))?;
        writeln!(out, "  {}", line(&message, 400))?;
        writeln!(out, "  guard {guard}")?;
    }
    if let Some(label) = &head.glance.label {
        let means = if off {
            "was taken off: the next event finds it released"
        } else {
            "is set; taking it off is a release"
        };
        writeln!(out, "  label {} {means}", line(label, 100))?;
    }
    Ok(())
}

/// What a person can do about it, each with the command that does it.
fn print_actions(
    out: &mut impl Write,
    actions: &[SuggestedAction],
    store: &StoreArgs,
) -> std::io::Result<()> {
    if actions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint_out(Style::Strong, "What could be done"))?;
    for action in actions {
        let command = action.command.as_ref().map(|command| format!(": {}", whole(command, store)));
        writeln!(out, "  - {}{}", action.text, line(&command.unwrap_or_default(), 300))?;
    }
    Ok(())
}

fn print_counters(out: &mut impl Write, report: &Report, policy: &Policy) -> std::io::Result<()> {
    writeln!(out, "\n{}", paint_out(Style::Strong, "So far"))?;
    let of = |limit: Option<u64>, show: &dyn Fn(u64) -> String| {
        limit.map(|limit| format!(" of {}", show(limit))).unwrap_or_default()
    };
    let number = |number: u64| number.to_string();
    let budget = &policy.budgets.session;
    writeln!(
        out,
        "  {} ({} failed), {}{}, {}",
        plural(report.calls, "call"),
        report.errors,
        plural(report.turns, "turn"),
        of(budget.turns, &number),
        plural(report.transitions, "transition"),
    )?;
    writeln!(
        out,
        "  {} tokens{}, {}{}, at work {}{}",
        report.tokens,
        of(budget.tokens, &number),
        dollars(report.cost_micro_usd),
        of(budget.cost_micro_usd, &dollars),
        span(report.active_ms),
        of(budget.runtime_ms, &span),
    )?;
    let (warnings, blocks, halts) = (report.warnings, report.blocks, report.halts);
    writeln!(out, "  warned {warnings}, blocked {blocks}, halted {halts} times")?;
    let tools: Vec<String> = report.tools.iter().map(|(name, used)| told_tool(name, *used)).collect();
    if !tools.is_empty() {
        writeln!(out, "  tools: {}", line(&tools.join(", "), 300))?;
    }
    for found in &report.loops {
        writeln!(
            out,
            "  {} at {} ({})",
            found.badge,
            line(&found.header, 60),
            line(&found.nodes.join(", "), 120)
        )?;
    }
    let visits: Vec<String> = report
        .visits
        .iter()
        .filter(|(_, visits)| **visits > 0)
        .map(|(node, visits)| format!("{node} {visits}"))
        .collect();
    if !visits.is_empty() {
        writeln!(out, "  visits: {}", line(&visits.join(", "), 300))?;
    }
    if !report.trail.is_empty() {
        let shown = report.history.recent.len() as u64;
        let all = if shown < report.transitions {
            format!(" {shown} of {}", report.transitions)
        } else {
            String::new()
        };
        writeln!(out, "  last transitions{all}: {}", line(&report.trail.join(" → "), 400))?;
    }
    for text in trend::all(report) {
        writeln!(out, "  {}", line(&text, 200))?;
    }
    print_permissions(out, report, policy)
}

/// What people and the policy permit: approvals not yet used, retries and breakers, releases, and guards that are off.
fn print_permissions(out: &mut impl Write, report: &Report, policy: &Policy) -> std::io::Result<()> {
    if report.approvals > 0 {
        writeln!(out, "  {} approved and not used yet", plural(report.approvals, "call"))?;
    }
    for (counter, count) in &report.counters {
        writeln!(out, "  {} {count}", line(counter, 100))?;
    }
    for breaker in &report.breakers {
        writeln!(out, "  breaker {}", line(&breaker_line(breaker), 200))?;
    }
    for (guard, used) in &report.releases {
        writeln!(out, "  {} released {used} of {} times", line(guard, 60), policy.releases.ceiling)?;
    }
    if !report.off.is_empty() {
        writeln!(out, "  {}", paint_out(Style::Bad, &format!("switched off: {}", report.off.join(", "))))?;
    }
    Ok(())
}

/// A breaker in words: `correction (seats): open for another 50s, opened once`.
fn breaker_line(breaker: &BreakerReport) -> String {
    let key = breaker.key.as_deref().map(|key| format!(" ({key})")).unwrap_or_default();
    let state = match (breaker.state, breaker.cooldown_left_ms) {
        (BreakerState::Open, Some(left)) => format!("open for another {}", span(left)),
        (BreakerState::HalfOpen, _) => "half-open, one probe allowed".to_owned(),
        (state, _) => state.as_str().to_owned(),
    };
    let of = breaker.limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let attempts = format!("{}{of} failed attempts", breaker.attempts);
    format!("{}{key}: {state}, {attempts}, opened {}", breaker.operation, plural(breaker.trips, "time"))
}

/// A tool with its calls, and with what failed or was refused if anything was.
fn told_tool(name: &str, used: ToolUse) -> String {
    let parts = [(used.failed, "failed"), (used.refused, "refused")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let more = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{name} {}{more}", used.calls)
}

fn print_lately(out: &mut impl Write, lately: &[Decision]) -> std::io::Result<()> {
    if lately.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint_out(Style::Strong, "Not simply allowed lately"))?;
    let mut story = Story::default();
    lately.iter().for_each(|decision| story.take(decision));
    for note in story.notes.iter().filter(|note| note.severity.is_some()) {
        story::print(note, out)?;
    }
    Ok(())
}
