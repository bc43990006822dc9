//! `flyball list`: sessions of the store, the one that changed last first.

use crate::args::List;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::store;
use crate::telling::print_next;
use crate::words::{ago, line, moment, plural, table, typed};
use flyball_journal::{Desk, Head, Which};
use flyball_run::engine::holder_is_gone;
pub(crate) use flyball_view::heads::{DOCTORS, as_json, heads};
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde_json::Value;
use std::io::Write;

/// How many sessions are searched for open questions.
const SEARCHED: usize = 10_000;

/// A session in a list.
pub(crate) struct Listed {
    pub(crate) head: Head,
    pub(crate) activity: SessionActivity,
}

impl Listed {
    pub(crate) fn as_json(&self) -> Value {
        as_json(&self.head, &self.activity)
    }
}

/// Runs the command.
pub(crate) fn run(args: &List) -> Result<Exit, Failure> {
    let desk = store::open(&args.store)?;
    let asked = [
        (args.blocked, Which::Blocked),
        (args.waiting, Which::Waiting),
        (args.struggling, Which::Struggling),
    ];
    let mut wanted: Vec<Which> = asked.iter().filter(|(asked, _)| *asked).map(|(_, which)| *which).collect();
    if wanted.is_empty() {
        wanted.push(Which::All);
    }
    let sessions = sessions(desk.as_ref(), &wanted, args.limit)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let all: Vec<Value> = sessions.iter().map(Listed::as_json).collect();
        writeln!(out, "{}", Value::Array(all))?;
        return Ok(Exit::Done);
    }
    if sessions.is_empty() {
        writeln!(out, "No such session in {}.", desk.address())?;
        print_next(&mut out, &["flyball status".to_owned()], &args.store)?;
        return Ok(Exit::Done);
    }
    print(&mut out, &sessions, desk.now()?)?;
    if sessions.len() == args.limit {
        writeln!(out, "Only the {} that changed last are shown; more with --limit.", sessions.len())?;
    }
    let needs_person = |listed: &&Listed| listed.activity.needs_person();
    let first = sessions.iter().find(needs_person).or(sessions.first());
    let first = first.map_or_else(|| "SESSION".to_owned(), |listed| typed(&listed.head.session));
    print_next(&mut out, &[format!("flyball status {first}")], &args.store)?;
    Ok(Exit::Done)
}

/// Sessions with their status, the one that changed last first. Those that wait for an answer count as waiting.
pub(crate) fn sessions(desk: &dyn Desk, wanted: &[Which], limit: usize) -> Result<Vec<Listed>, Failure> {
    let reader = ActivityReader::new(desk, holder_is_gone(desk))?;
    let mut found = heads(desk, wanted, limit)?;
    if wanted.contains(&Which::Waiting) {
        found.extend(reader.awaiting_answer(SEARCHED)?);
        found.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.session.cmp(&b.session)));
        found.dedup_by(|a, b| a.session == b.session);
        found.truncate(limit);
    }
    let listed = |head: Head| Ok(Listed { activity: reader.activity(&head)?, head });
    found.into_iter().map(listed).collect()
}

/// The sessions as a table.
pub(crate) fn print(out: &mut impl Write, sessions: &[Listed], now: u64) -> std::io::Result<()> {
    let heading =
        ["SESSION", "STATE", "EVENTS", "WARNED/BLOCKED/HALTED", "LAST CHANGE", "WHY IT STANDS STILL"];
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|Listed { head, activity }| {
            let glance = &head.glance;
            let why = match (&glance.stopped_by, &activity.question, activity.status) {
                (Some(why), ..) => line(why, 70),
                (None, Some(question), _) => line(question, 70),
                (None, None, SessionStatus::AwaitingConfirmation) => "a plan is awaiting approval".to_owned(),
                (None, None, SessionStatus::Lost) => "its process is gone; resume it".to_owned(),
                _ => String::new(),
            };
            vec![
                line(&head.session, 48),
                activity.label(),
                head.seq.to_string(),
                format!("{}/{}/{}", glance.warnings, glance.blocks, glance.halts),
                last_change(head.updated, now),
                why,
            ]
        })
        .collect();
    for (at, text) in table(&heading, &rows).into_iter().enumerate() {
        let text = if at == 0 { paint_out(Style::Dim, &text) } else { text };
        writeln!(out, "{text}")?;
    }
    Ok(())
}

fn last_change(at: u64, now: u64) -> String {
    // Events of long ago are better told by their day.
    if now.saturating_sub(at) > 48 * 60 * 60 * 1000 {
        return moment(at).get(..10).unwrap_or_default().to_owned();
    }
    ago(at, now)
}

/// How many sessions have which status.
pub(crate) fn counts(statuses: &[SessionStatus]) -> Vec<(SessionStatus, usize)> {
    let count = |status: SessionStatus| statuses.iter().filter(|other| **other == status).count();
    SessionStatus::ALL.into_iter().map(|status| (status, count(status))).collect()
}

/// The counts as a sentence.
pub(crate) fn told(counts: &[(SessionStatus, usize)]) -> String {
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| format!("{count} {}", status.as_str()))
        .collect();
    format!("{}: {}", plural(all as u64, "session"), parts.join(", "))
}
