//! `flyball top`: all sessions of a store, those that need a person first, as a live table. It only looks.

mod keys;
mod order;
mod reader;

use crate::args::Top;
use crate::commands::list::{counts, told};
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::screen::{Row, Screen, Size, is_live};
use crate::store;
use crate::words::{brief, columns, dollars, fitted, line};
use flyball_view::SessionStatus;
use keys::{Keys, Pressed};
use order::{Placed, placed};
use reader::{Need, Reader, Seen, Table};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

/// How often the table is read anew.
const REFRESH: Duration = Duration::from_secs(1);
/// How wide a name, a node and the last decision may be.
const NAME: usize = 36;
const NODE: usize = 20;
const WHY: usize = 90;
/// How much of the last decision must be seen, whatever else is left out for it.
const WHY_SEEN: usize = 30;
const WHY_COLUMN: &str = "LAST DECISION";
const HEADING: [&str; 9] = ["SESSION", "STATE", "NODE", "LOOP", "TREND", "TOKENS", "COST", "AGE", WHY_COLUMN];

/// Runs the command.
pub(crate) fn run(args: &Top) -> Result<Exit, Failure> {
    let mut reader = Reader::new(store::open(&args.store)?);
    if args.json {
        let mut out = crate::terminal::stdout();
        let table = reader.read(args.limit)?;
        for Placed { seen, .. } in placed(&table.rows) {
            writeln!(out, "{}", as_json(seen, table.now))?;
        }
        return Ok(Exit::Done);
    }
    if args.once || !is_live() {
        let table = reader.read(args.limit)?;
        let mut out = crate::terminal::stdout();
        for (style, text) in lines(&table, None) {
            writeln!(out, "{}", style.map_or_else(|| text.clone(), |style| paint_out(style, &text)))?;
        }
        return Ok(Exit::Done);
    }
    watch(&mut reader, args.limit)
}

/// Draws the table again and again until somebody has seen enough.
fn watch(reader: &mut Reader, limit: usize) -> Result<Exit, Failure> {
    let mut table = reader.read(limit)?;
    let keys = Keys::open()?;
    let mut screen = Screen::default();
    let mut out = std::io::stdout().lock();
    loop {
        let size = Size::now();
        screen.draw(&mut out, size, &[], &rows(&table, size))?;
        match keys.wait(REFRESH) {
            Pressed::Quit => break,
            Pressed::Other => {}
            Pressed::Nothing => match reader.read(limit) {
                Ok(read) => table = read,
                // A store that is busy for a moment is read with the next look.
                Err(failure) => {
                    table.trouble = failure.complaints.first().map(|complaint| complaint.what.clone())
                }
            },
        }
    }
    screen.leave(&mut out)?;
    Ok(Exit::Done)
}

/// The table for a terminal, cut to its height, with what is left out said in the last line.
fn rows(table: &Table, size: Size) -> Vec<Row> {
    let all = lines(table, Some(size.columns));
    let room = size.rows.saturating_sub(3).max(1);
    let shown = |(style, text): &(Option<Style>, String)| match style {
        Some(style) => Row::default().with(*style, text.clone()),
        None => Row::default().and(text.clone()),
    };
    let mut rows: Vec<Row> = all.iter().take(room).map(shown).collect();
    let last = match (&table.trouble, all.len().saturating_sub(room)) {
        (Some(trouble), _) => format!("cannot be read just now: {}", line(trouble, 200)),
        (None, 0) => "q or Ctrl-C ends".to_owned(),
        (None, more) => format!("{more} more do not fit · q or Ctrl-C ends"),
    };
    rows.push(Row::default().with(Style::Dim, last));
    rows
}

/// The store in one line, then a line for each session, each with what it means.
fn lines(table: &Table, wide: Option<usize>) -> Vec<(Option<Style>, String)> {
    let states: Vec<SessionStatus> = table.rows.iter().map(|seen| seen.activity.status).collect();
    let words = if states.is_empty() { "no session yet".to_owned() } else { told(&counts(&states)) };
    let mut all = vec![(Some(Style::Strong), format!("{} · {words}", table.store))];
    if states.is_empty() {
        return all;
    }
    let order = placed(&table.rows);
    let cells: Vec<Vec<String>> = order.iter().map(|placed| cells(placed, table.now)).collect();
    let (heading, cells) = fitting(cells, wide);
    let styles = std::iter::once(Some(Style::Dim)).chain(order.iter().map(|placed| style(placed.seen)));
    all.extend(styles.zip(crate::words::table(&heading, &cells)));
    all
}

/// The columns that a terminal has room for: the last one, which says why, is worth more than some before it.
fn fitting(mut cells: Vec<Vec<String>>, wide: Option<usize>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut heading = HEADING.to_vec();
    let Some(wide) = wide else { return (heading, cells) };
    for name in ["COST", "TOKENS", "TREND", "NODE"] {
        let lines = crate::words::table(&heading, &cells);
        let before = lines.first().map_or(0, |line| columns(line).saturating_sub(columns(WHY_COLUMN)));
        if before + WHY_SEEN <= wide {
            break;
        }
        if let Some(at) = heading.iter().position(|known| *known == name) {
            heading.remove(at);
            cells.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    (heading, cells)
}

fn style(seen: &Seen) -> Option<Style> {
    match (seen.need, seen.activity.status) {
        (Need::Person, SessionStatus::Halted | SessionStatus::Blocked | SessionStatus::Lost) => {
            Some(Style::Bad)
        }
        (Need::Person, _) => Some(Style::Warn),
        (Need::Nobody, _) => Some(Style::Dim),
        _ => None,
    }
}

fn cells(placed: &Placed<'_>, now: u64) -> Vec<String> {
    let seen = placed.seen;
    let indent =
        if placed.depth > 0 { format!("{}└ ", "  ".repeat(placed.depth - 1)) } else { String::new() };
    let spent =
        |amount: u64, show: &dyn Fn(u64) -> String| if amount > 0 { show(amount) } else { "-".to_owned() };
    let or_dash =
        |text: Option<&str>, most| text.map_or_else(|| "-".to_owned(), |text| fitted(&line(text, 200), most));
    vec![
        fitted(&format!("{indent}{}", line(placed.name, 200)), NAME),
        seen.activity.label(),
        or_dash(seen.node.as_deref(), NODE),
        seen.badge.clone().unwrap_or_else(|| "-".to_owned()),
        seen.trend.clone().unwrap_or_else(|| "-".to_owned()),
        spent(seen.tokens, &|tokens| tokens.to_string()),
        spent(seen.cost_micro_usd, &dollars),
        brief(now.saturating_sub(seen.head.updated)),
        why(seen),
    ]
}

/// What a person should know of it in one line.
fn why(seen: &Seen) -> String {
    if let Some(trouble) = &seen.trouble {
        return format!("cannot be read: {}", line(trouble, WHY));
    }
    if let Some(question) = &seen.activity.question {
        return line(question, WHY);
    }
    match &seen.last {
        Some(last) => {
            format!("{} {}", last.decision.as_str(), line(&last.message, WHY)).trim_end().to_owned()
        }
        None => String::new(),
    }
}

fn as_json(seen: &Seen, now: u64) -> serde_json::Value {
    let head = &seen.head;
    json!({
        "session": head.session, "parent": head.glance.parent, "state": seen.activity.status,
        "idle_ms": seen.activity.idle_ms, "needs_person": seen.activity.needs_person(),
        "question": seen.activity.question, "node": seen.node,
        "loop": seen.badge, "loops": seen.loops, "trend": seen.trend, "trends": seen.trends,
        "tokens": seen.tokens, "cost_micro_usd": seen.cost_micro_usd, "halt_reason": seen.halt_reason,
        "stopped_by": head.glance.stopped_by, "last_decision": seen.last, "events": head.seq,
        "updated": head.updated, "age_ms": now.saturating_sub(head.updated), "error": seen.trouble,
    })
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
