//! The live view of a run: active nodes, loop, trend, budgets, last decision and last lines of output.

use super::budget_gauges;
use super::run_state::{BranchState, RunState};
use crate::color::TextStyle;
use crate::formatting::{display_width, keep_end, plain_output, running_duration, single_line};
use crate::live_screen::{StyledLine, TerminalSize};
use crate::trend;
use flyball::Verdict;

/// Maximum numbers of active sessions and of output lines shown.
const MAX_BRANCHES: usize = 6;
const MAX_OUTPUT_LINES: usize = 4;
/// Frames of the spinner.
const SPINNER_FRAMES: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Input of the view.
pub(super) struct LiveViewInput<'a> {
    pub(super) run_state: &'a RunState,
    /// The current time.
    pub(super) now: u64,
    /// Number of redraws so far.
    pub(super) tick: usize,
    pub(super) size: TerminalSize,
    /// The run is stopping.
    pub(super) stopping: bool,
    /// Redacts secrets.
    pub(super) redact: &'a dyn Fn(&str) -> String,
}

/// The current lines.
pub(super) fn rows(input: &LiveViewInput<'_>) -> Vec<StyledLine> {
    let at_work = input.run_state.active_branches();
    let mut rows: Vec<StyledLine> = at_work
        .iter()
        .take(MAX_BRANCHES)
        .map(|(session, branch)| branch_row(input, session, branch))
        .collect();
    if at_work.len() > MAX_BRANCHES {
        rows.push(
            StyledLine::default()
                .push_styled(TextStyle::Dim, format!("  and {} more", at_work.len() - MAX_BRANCHES)),
        );
    }
    rows.extend(budget_gauges::gauge_rows(
        &budget_gauges::budget_gauges(input.run_state, input.now),
        input.size.columns,
    ));
    rows.extend(last_decision_row(input.run_state));
    // Output gets the remaining rows, so that the lines at the top are never cut off.
    let room = input.size.rows.saturating_sub(rows.len() + 2).min(MAX_OUTPUT_LINES);
    rows.extend(output_rows(input, &at_work, room));
    rows
}

/// One session: its node, elapsed time, turn, loops and trend.
fn branch_row(input: &LiveViewInput<'_>, session: &str, branch: &BranchState) -> StyledLine {
    let sign = SPINNER_FRAMES.get(input.tick % SPINNER_FRAMES.len()).copied().unwrap_or("·");
    let mut row = StyledLine::default().push_styled(TextStyle::Success, format!("{sign} "));
    if input.stopping {
        row = row.push_styled(TextStyle::Warning, "stopping · ");
    }
    if let Some(mark) = input.run_state.branch_label(session) {
        row = row.push_styled(TextStyle::Dim, format!("{mark} "));
    }
    let node = branch.node.as_deref().unwrap_or("starting");
    row = row.push_styled(TextStyle::Heading, single_line(node, 40));
    let found = input.run_state.session(session);
    if let Some(begun) = branch.turn_started_at {
        let timeout = found.and_then(|found| found.policy().budgets.turn.timeout_ms);
        let of = timeout.map(|timeout| format!(" of {}", running_duration(timeout))).unwrap_or_default();
        let (turn, most) = input.run_state.turn_count(session, node);
        let most = most.map(|most| format!("/{most}")).unwrap_or_default();
        row = row
            .push(format!(" {}{of} · turn {turn}{most}", running_duration(input.now.saturating_sub(begun))));
    }
    let Some(report) = input.run_state.report(session) else { return row };
    let around: Vec<_> =
        report.loops.iter().filter(|found| found.nodes.iter().any(|name| name == node)).collect();
    for found in &around {
        let near = found.limit.is_some_and(|limit| found.iterations + 2 >= limit);
        let style = if near { TextStyle::Warning } else { TextStyle::Heading };
        row = row.push(" · ").push_styled(style, found.badge.clone());
        if around.len() > 1 {
            row = row.push(format!(" at {}", single_line(&found.header, 30)));
        }
    }
    match trend::main_trend(&report) {
        Some(trend) => row.push(format!(" · {trend}")),
        None => row,
    }
}

fn last_decision_row(run_state: &RunState) -> Option<StyledLine> {
    let decision = run_state.notable()?;
    let style = if decision.decision >= Verdict::Block { TextStyle::Error } else { TextStyle::Warning };
    let row = StyledLine::default().push("  last decision ").push_styled(style, decision.decision.as_str());
    let message = decision.trips.first().map(|trip| single_line(&trip.message, 200)).unwrap_or_default();
    let mark = run_state.branch_label(&decision.session).map(|mark| format!("{mark} ")).unwrap_or_default();
    Some(row.push(format!(" at event {}: {mark}{message}", decision.seq)))
}

/// The last lines of output of all active sessions; of a long line its end.
fn output_rows(input: &LiveViewInput<'_>, at_work: &[(&str, &BranchState)], room: usize) -> Vec<StyledLine> {
    let each = room / at_work.len().max(1);
    let each = each.max(usize::from(room > 0));
    let mut rows = Vec::new();
    for (session, branch) in at_work {
        let mark = input.run_state.branch_label(session).filter(|_| at_work.len() > 1);
        let mark = mark.map(|mark| format!("{mark} ")).unwrap_or_default();
        for text in branch.tail.last(each) {
            let shown = plain_output(&(input.redact)(text), usize::MAX);
            let wide = input.size.columns.saturating_sub(5 + display_width(&mark));
            rows.push(
                StyledLine::default()
                    .push_styled(TextStyle::Dim, format!("  │ {mark}{}", keep_end(&shown, wide))),
            );
        }
    }
    rows.truncate(room);
    rows
}

#[cfg(test)]
#[path = "live_view_tests.rs"]
mod tests;
