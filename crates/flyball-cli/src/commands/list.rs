//! `flyball list`: the sessions of the store, most recently changed first.

use crate::args::ListArgs;
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use crate::formatting::{format_table, local_time, plural, relative_time, single_line, typed};
use crate::plan_printer::print_next;
use crate::store;
use flyball_runner::engine::holder_is_gone;
use flyball_store::{AdminStore, SessionFilter, SessionRow};
pub(crate) use flyball_view::session_list::{DOCTOR_PREFIX, session_json};
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde_json::Value;
use std::io::Write;

/// Maximum number of sessions searched for open questions.
const MAX_SESSIONS_SEARCHED: usize = 10_000;

/// A session and its activity.
pub(crate) struct SessionEntry {
    pub(crate) row: SessionRow,
    pub(crate) activity: SessionActivity,
}

impl SessionEntry {
    pub(crate) fn as_json(&self) -> Value {
        session_json(&self.row, &self.activity)
    }
}

/// Runs the command.
pub(crate) fn run(args: &ListArgs) -> Result<Exit, CliError> {
    let store = store::open(&args.store)?;
    let asked = [
        (args.blocked, SessionFilter::Blocked),
        (args.waiting, SessionFilter::Waiting),
        (args.struggling, SessionFilter::Warned),
    ];
    let mut wanted: Vec<SessionFilter> =
        asked.iter().filter(|(asked, _)| *asked).map(|(_, which)| *which).collect();
    if wanted.is_empty() {
        wanted.push(SessionFilter::All);
    }
    let sessions = list_sessions(store.as_ref(), &wanted, args.limit)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let all: Vec<Value> = sessions.iter().map(SessionEntry::as_json).collect();
        writeln!(out, "{}", Value::Array(all))?;
        return Ok(Exit::Success);
    }
    if sessions.is_empty() {
        writeln!(out, "No matching sessions in {}.", store.address())?;
        print_next(&mut out, &["flyball status".to_owned()], &args.store)?;
        return Ok(Exit::Success);
    }
    print_table(&mut out, &sessions, store.now()?)?;
    if sessions.len() == args.limit {
        writeln!(
            out,
            "Showing the {} most recently changed sessions; use --limit for more.",
            sessions.len()
        )?;
    }
    let needs_person = |listed: &&SessionEntry| listed.activity.needs_person();
    let first = sessions.iter().find(needs_person).or(sessions.first());
    let first = first.map_or_else(|| "SESSION".to_owned(), |listed| typed(&listed.row.session));
    print_next(&mut out, &[format!("flyball status {first}")], &args.store)?;
    Ok(Exit::Success)
}

/// Sessions with their status, most recently changed first. Sessions awaiting an answer count as waiting.
pub(crate) fn list_sessions(
    store: &dyn AdminStore,
    wanted: &[SessionFilter],
    limit: usize,
) -> Result<Vec<SessionEntry>, CliError> {
    let reader = ActivityReader::new(store, holder_is_gone(store))?;
    let mut found = flyball_view::session_list::list_sessions(store, wanted, limit)?;
    if wanted.contains(&SessionFilter::Waiting) {
        found.extend(reader.awaiting_answer(MAX_SESSIONS_SEARCHED)?);
        found.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.session.cmp(&b.session)));
        found.dedup_by(|a, b| a.session == b.session);
        found.truncate(limit);
    }
    let listed = |row: SessionRow| Ok(SessionEntry { activity: reader.activity(&row)?, row });
    found.into_iter().map(listed).collect()
}

/// Prints the sessions as a table.
pub(crate) fn print_table(out: &mut impl Write, sessions: &[SessionEntry], now: u64) -> std::io::Result<()> {
    let heading = ["SESSION", "STATE", "EVENTS", "WARNED/BLOCKED/HALTED", "LAST CHANGE", "WHY IT STOPPED"];
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|SessionEntry { row, activity }| {
            let summary = &row.summary;
            let why = match (&summary.stopped_by, &activity.question, activity.status) {
                (Some(why), ..) => single_line(why, 70),
                (None, Some(question), _) => single_line(question, 70),
                (None, None, SessionStatus::AwaitingConfirmation) => "a plan is awaiting approval".to_owned(),
                (None, None, SessionStatus::Lost) => "its process is gone; resume it".to_owned(),
                _ => String::new(),
            };
            vec![
                single_line(&row.session, 48),
                activity.label(),
                row.seq.to_string(),
                format!("{}/{}/{}", summary.warnings, summary.blocks, summary.halts),
                last_change(row.updated, now),
                why,
            ]
        })
        .collect();
    for (at, text) in format_table(&heading, &rows).into_iter().enumerate() {
        let text = if at == 0 { style_stdout(TextStyle::Dim, &text) } else { text };
        writeln!(out, "{text}")?;
    }
    Ok(())
}

fn last_change(at: u64, now: u64) -> String {
    // For old events the day is more useful than a relative time.
    if now.saturating_sub(at) > 48 * 60 * 60 * 1000 {
        return local_time(at).get(..10).unwrap_or_default().to_owned();
    }
    relative_time(at, now)
}

/// Number of sessions by status.
pub(crate) fn count_by_status(statuses: &[SessionStatus]) -> Vec<(SessionStatus, usize)> {
    let count = |status: SessionStatus| statuses.iter().filter(|other| **other == status).count();
    SessionStatus::ALL.into_iter().map(|status| (status, count(status))).collect()
}

/// The counts as a sentence.
pub(crate) fn counts_text(counts: &[(SessionStatus, usize)]) -> String {
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| format!("{count} {}", status.as_str()))
        .collect();
    format!("{}: {}", plural(all as u64, "session"), parts.join(", "))
}
