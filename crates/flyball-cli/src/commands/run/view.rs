//! The live lines of a run: who is at work since when, the loop, the trend, the budgets, the last decision, the last
//! lines of output.

use super::gauges;
use super::so_far::{Lane, SoFar};
use crate::paint::Style;
use crate::screen::{Row, Size};
use crate::trend;
use crate::words::{columns, counted, ending, line, printed};
use flyball::Verdict;

/// How many sessions at work are shown, and how many lines of output.
const LANES: usize = 6;
const OUTPUT: usize = 4;
/// The sign that moves while something is at work.
const TURNING: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// What the view is drawn from.
pub(super) struct Moment<'a> {
    pub(super) so_far: &'a SoFar,
    /// The time of day.
    pub(super) now: u64,
    /// How often it was drawn.
    pub(super) tick: usize,
    pub(super) size: Size,
    /// The run was told to stop.
    pub(super) stopping: bool,
    /// Takes out what must not be shown.
    pub(super) clean: &'a dyn Fn(&str) -> String,
}

/// The lines as they are now.
pub(super) fn rows(moment: &Moment<'_>) -> Vec<Row> {
    let at_work = moment.so_far.at_work();
    let mut rows: Vec<Row> =
        at_work.iter().take(LANES).map(|(session, lane)| head(moment, session, lane)).collect();
    if at_work.len() > LANES {
        rows.push(Row::default().with(Style::Dim, format!("  and {} more", at_work.len() - LANES)));
    }
    rows.extend(gauges::rows(&gauges::of(moment.so_far, moment.now), moment.size.columns));
    rows.extend(last_decision(moment.so_far));
    // What is left of the terminal, so that the lines at the top are never the ones that are cut off.
    let room = moment.size.rows.saturating_sub(rows.len() + 2).min(OUTPUT);
    rows.extend(output(moment, &at_work, room));
    rows
}

/// One session: its node, how long, how often, its loops and its trend.
fn head(moment: &Moment<'_>, session: &str, lane: &Lane) -> Row {
    let sign = TURNING.get(moment.tick % TURNING.len()).copied().unwrap_or("·");
    let mut row = Row::default().with(Style::Good, format!("{sign} "));
    if moment.stopping {
        row = row.with(Style::Warn, "stopping · ");
    }
    if let Some(mark) = moment.so_far.mark(session) {
        row = row.with(Style::Dim, format!("{mark} "));
    }
    let node = lane.node.as_deref().unwrap_or("starting");
    row = row.with(Style::Strong, line(node, 40));
    let found = moment.so_far.session(session);
    if let Some(begun) = lane.begun {
        let timeout = found.and_then(|found| found.policy().budgets.turn.timeout_ms);
        let of = timeout.map(|timeout| format!(" of {}", counted(timeout))).unwrap_or_default();
        let (turn, most) = moment.so_far.turn(session, node);
        let most = most.map(|most| format!("/{most}")).unwrap_or_default();
        row = row.and(format!(" {}{of} · turn {turn}{most}", counted(moment.now.saturating_sub(begun))));
    }
    let Some(report) = moment.so_far.report(session) else { return row };
    let around: Vec<_> =
        report.loops.iter().filter(|found| found.nodes.iter().any(|name| name == node)).collect();
    for found in &around {
        let near = found.limit.is_some_and(|limit| found.iterations + 2 >= limit);
        let style = if near { Style::Warn } else { Style::Strong };
        row = row.and(" · ").with(style, found.badge.clone());
        if around.len() > 1 {
            row = row.and(format!(" at {}", line(&found.header, 30)));
        }
    }
    match trend::first(&report) {
        Some(trend) => row.and(format!(" · {trend}")),
        None => row,
    }
}

fn last_decision(so_far: &SoFar) -> Option<Row> {
    let decision = so_far.notable()?;
    let style = if decision.decision >= Verdict::Block { Style::Bad } else { Style::Warn };
    let row = Row::default().and("  last decision ").with(style, decision.decision.as_str());
    let message = decision.trips.first().map(|trip| line(&trip.message, 200)).unwrap_or_default();
    let mark = so_far.mark(&decision.session).map(|mark| format!("{mark} ")).unwrap_or_default();
    Some(row.and(format!(" at event {}: {mark}{message}", decision.seq)))
}

/// The last lines of output, of whoever printed; the end of a line that is too long.
fn output(moment: &Moment<'_>, at_work: &[(&str, &Lane)], room: usize) -> Vec<Row> {
    let each = room / at_work.len().max(1);
    let each = each.max(usize::from(room > 0));
    let mut rows = Vec::new();
    for (session, lane) in at_work {
        let mark = moment.so_far.mark(session).filter(|_| at_work.len() > 1);
        let mark = mark.map(|mark| format!("{mark} ")).unwrap_or_default();
        for text in lane.tail.last(each) {
            let shown = printed(&(moment.clean)(text), usize::MAX);
            let wide = moment.size.columns.saturating_sub(5 + columns(&mark));
            rows.push(Row::default().with(Style::Dim, format!("  │ {mark}{}", ending(&shown, wide))));
        }
    }
    rows.truncate(room);
    rows
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
