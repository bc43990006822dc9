//! `flyball top`: a live table of all sessions in a store, those that need a person first. Read-only.

mod key_reader;
mod session_order;
mod session_reader;

use crate::args::TopArgs;
use crate::color::{TextStyle, style_stdout};
use crate::commands::list::{count_by_status, counts_text};
use crate::error::{CliError, Exit};
use crate::formatting::{
    coarse_duration, display_width, format_count, format_dollars, single_line, truncate_to_width,
};
use crate::live_screen::{LiveScreen, StyledLine, TerminalSize, is_interactive};
use crate::store;
use flyball_view::SessionStatus;
use key_reader::{KeyPress, KeyReader};
use serde_json::json;
use session_order::{OrderedSession, order_sessions};
use session_reader::{Attention, SessionReader, TopSession, TopTable};
use std::io::Write;
use std::time::Duration;

/// Refresh interval of the table.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum widths of a name, a node and the last decision.
const MAX_NAME_WIDTH: usize = 36;
const MAX_NODE_WIDTH: usize = 20;
const MAX_DECISION_WIDTH: usize = 90;
/// Minimum width kept for the last decision; other columns are dropped first.
const MIN_DECISION_WIDTH: usize = 30;
const DECISION_COLUMN: &str = "LAST DECISION";
const HEADING: [&str; 9] =
    ["SESSION", "STATE", "NODE", "LOOP", "TREND", "TOKENS", "COST", "AGE", DECISION_COLUMN];

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<Exit, CliError> {
    let mut reader = SessionReader::new(store::open(&args.store)?);
    if args.json {
        let mut out = crate::terminal::stdout();
        let table = reader.read(args.limit)?;
        for OrderedSession { session, .. } in order_sessions(&table.rows) {
            writeln!(out, "{}", as_json(session, table.now))?;
        }
        return Ok(Exit::Success);
    }
    if args.once || !is_interactive() {
        let table = reader.read(args.limit)?;
        let mut out = crate::terminal::stdout();
        for (style, text) in table_lines(&table, None) {
            writeln!(out, "{}", style.map_or_else(|| text.clone(), |style| style_stdout(style, &text)))?;
        }
        return Ok(Exit::Success);
    }
    run_live(&mut reader, args.limit)
}

/// Redraws the table until the user quits.
fn run_live(reader: &mut SessionReader, limit: usize) -> Result<Exit, CliError> {
    let mut table = reader.read(limit)?;
    let keys = KeyReader::open()?;
    let mut screen = LiveScreen::default();
    let mut out = std::io::stdout().lock();
    loop {
        let size = TerminalSize::current();
        screen.draw(&mut out, size, &[], &screen_rows(&table, size))?;
        match keys.wait(REFRESH_INTERVAL) {
            KeyPress::Quit => break,
            KeyPress::Other => {}
            KeyPress::Timeout => match reader.read(limit) {
                Ok(read) => table = read,
                // A store that is briefly busy is read on the next refresh.
                Err(failure) => {
                    table.error = failure.diagnostics.first().map(|diagnostic| diagnostic.message.clone())
                }
            },
        }
    }
    screen.finish(&mut out)?;
    Ok(Exit::Success)
}

/// The table cut to the terminal's height; the last line says how many sessions are hidden.
fn screen_rows(table: &TopTable, size: TerminalSize) -> Vec<StyledLine> {
    let all = table_lines(table, Some(size.columns));
    let room = size.rows.saturating_sub(3).max(1);
    let shown = |(style, text): &(Option<TextStyle>, String)| match style {
        Some(style) => StyledLine::default().push_styled(*style, text.clone()),
        None => StyledLine::default().push(text.clone()),
    };
    let mut rows: Vec<StyledLine> = all.iter().take(room).map(shown).collect();
    let last = match (&table.error, all.len().saturating_sub(room)) {
        (Some(error), _) => format!("temporarily unavailable: {}", single_line(error, 200)),
        (None, 0) => "q or Ctrl-C quits".to_owned(),
        (None, more) => format!("{more} more sessions · q or Ctrl-C quits"),
    };
    rows.push(StyledLine::default().push_styled(TextStyle::Dim, last));
    rows
}

/// A summary of the store, then a line for each session, each with its style.
fn table_lines(table: &TopTable, wide: Option<usize>) -> Vec<(Option<TextStyle>, String)> {
    let states: Vec<SessionStatus> = table.rows.iter().map(|session| session.activity.status).collect();
    let words =
        if states.is_empty() { "no sessions yet".to_owned() } else { counts_text(&count_by_status(&states)) };
    let mut all = vec![(Some(TextStyle::Heading), format!("{} · {words}", table.store))];
    if states.is_empty() {
        return all;
    }
    let order = order_sessions(&table.rows);
    let cells: Vec<Vec<String>> = order.iter().map(|ordered| cells(ordered, table.now)).collect();
    let (heading, cells) = fit_columns(cells, wide);
    let styles =
        std::iter::once(Some(TextStyle::Dim)).chain(order.iter().map(|ordered| style(ordered.session)));
    all.extend(styles.zip(crate::formatting::format_table(&heading, &cells)));
    all
}

/// The columns that fit the terminal; the last decision has priority over the columns dropped first.
fn fit_columns(mut cells: Vec<Vec<String>>, wide: Option<usize>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut heading = HEADING.to_vec();
    let Some(wide) = wide else { return (heading, cells) };
    for name in ["COST", "TOKENS", "TREND", "NODE"] {
        let lines = crate::formatting::format_table(&heading, &cells);
        let before = lines
            .first()
            .map_or(0, |line| display_width(line).saturating_sub(display_width(DECISION_COLUMN)));
        if before + MIN_DECISION_WIDTH <= wide {
            break;
        }
        if let Some(at) = heading.iter().position(|known| *known == name) {
            heading.remove(at);
            cells.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    (heading, cells)
}

fn style(session: &TopSession) -> Option<TextStyle> {
    match (session.attention, session.activity.status) {
        (Attention::Person, SessionStatus::Halted | SessionStatus::Blocked | SessionStatus::Lost) => {
            Some(TextStyle::Error)
        }
        (Attention::Person, _) => Some(TextStyle::Warning),
        (Attention::Done, _) => Some(TextStyle::Dim),
        _ => None,
    }
}

fn cells(ordered: &OrderedSession<'_>, now: u64) -> Vec<String> {
    let session = ordered.session;
    let indent =
        if ordered.depth > 0 { format!("{}└ ", "  ".repeat(ordered.depth - 1)) } else { String::new() };
    let spent =
        |amount: u64, show: &dyn Fn(u64) -> String| if amount > 0 { show(amount) } else { "-".to_owned() };
    let or_dash = |text: Option<&str>, most| {
        text.map_or_else(|| "-".to_owned(), |text| truncate_to_width(&single_line(text, 200), most))
    };
    vec![
        truncate_to_width(&format!("{indent}{}", single_line(ordered.name, 200)), MAX_NAME_WIDTH),
        session.activity.label(),
        or_dash(session.node.as_deref(), MAX_NODE_WIDTH),
        session.badge.clone().unwrap_or_else(|| "-".to_owned()),
        session.trend.clone().unwrap_or_else(|| "-".to_owned()),
        spent(session.tokens, &format_count),
        spent(session.cost_micro_usd, &format_dollars),
        coarse_duration(now.saturating_sub(session.row.updated)),
        last_decision_text(session),
    ]
}

/// The most relevant message of a session in one line.
fn last_decision_text(session: &TopSession) -> String {
    if let Some(error) = &session.error {
        return format!("unreadable: {}", single_line(error, MAX_DECISION_WIDTH));
    }
    if let Some(question) = &session.activity.question {
        return single_line(question, MAX_DECISION_WIDTH);
    }
    match &session.last {
        Some(last) => {
            format!("{} {}", last.decision.as_str(), single_line(&last.message, MAX_DECISION_WIDTH))
                .trim_end()
                .to_owned()
        }
        None => String::new(),
    }
}

fn as_json(session: &TopSession, now: u64) -> serde_json::Value {
    let row = &session.row;
    json!({
        "session": row.session, "parent": row.summary.parent, "state": session.activity.status,
        "idle_ms": session.activity.idle_ms, "needs_person": session.activity.needs_person(),
        "question": session.activity.question, "node": session.node,
        "loop": session.badge, "loops": session.loops, "trend": session.trend, "trends": session.trends,
        "tokens": session.tokens, "cost_micro_usd": session.cost_micro_usd, "halt_reason": session.halt_reason,
        "stopped_by": row.summary.stopped_by, "last_decision": session.last, "events": row.seq,
        "updated": row.updated, "age_ms": now.saturating_sub(row.updated), "error": session.error,
    })
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
