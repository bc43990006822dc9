//! `flyball list`: sessions of the store, the one that changed last first.

use crate::args::List;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::store;
use crate::telling::print_next;
use crate::words::{ago, line, moment, plural, table, typed};
use flyball::Status;
use flyball_journal::{Head, Which};
pub(crate) use flyball_view::heads::{DOCTORS, as_json, heads};
use serde_json::Value;
use std::io::Write;

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
    let heads = heads(desk.as_ref(), &wanted, args.limit)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let all: Vec<Value> = heads.iter().map(as_json).collect();
        writeln!(out, "{}", Value::Array(all))?;
        return Ok(Exit::Done);
    }
    if heads.is_empty() {
        writeln!(out, "No such session in {}.", desk.address())?;
        print_next(&mut out, &["flyball status".to_owned()], &args.store)?;
        return Ok(Exit::Done);
    }
    print(&mut out, &heads, desk.now()?)?;
    if heads.len() == args.limit {
        writeln!(out, "Only the {} that changed last are shown; more with --limit.", heads.len())?;
    }
    let first = heads.iter().find(|head| flyball::waits(head.glance.status)).or(heads.first());
    let first = first.map_or_else(|| "SESSION".to_owned(), |head| typed(&head.session));
    print_next(&mut out, &[format!("flyball status {first}")], &args.store)?;
    Ok(Exit::Done)
}

/// The sessions as a table.
pub(crate) fn print(out: &mut impl Write, heads: &[Head], now: u64) -> std::io::Result<()> {
    let heading =
        ["SESSION", "STATE", "EVENTS", "WARNED/BLOCKED/HALTED", "LAST CHANGE", "WHY IT STANDS STILL"];
    let rows: Vec<Vec<String>> = heads
        .iter()
        .map(|head| {
            let glance = &head.glance;
            let why = match (&glance.stopped_by, glance.status) {
                (Some(why), _) => line(why, 70),
                (None, Status::AwaitingConfirmation) => "a plan waits for a yes".to_owned(),
                _ => String::new(),
            };
            vec![
                line(&head.session, 48),
                glance.status.as_str().to_owned(),
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

/// How many sessions are in which state, in words.
pub(crate) fn counts(states: &[Status]) -> Vec<(Status, usize)> {
    let all = [Status::Running, Status::AwaitingConfirmation, Status::Blocked, Status::Halted, Status::Ended];
    all.into_iter().map(|status| (status, states.iter().filter(|state| **state == status).count())).collect()
}

/// The counts as a sentence.
pub(crate) fn told(counts: &[(Status, usize)]) -> String {
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| format!("{count} {}", status.as_str()))
        .collect();
    format!("{}: {}", plural(all as u64, "session"), parts.join(", "))
}
