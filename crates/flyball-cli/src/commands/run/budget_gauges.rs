//! Budget gauges: usage compared with the policy's limits.

use super::run_state::RunState;
use crate::color::TextStyle;
use crate::formatting::{format_count, format_dollars, running_duration};
use crate::live_screen::StyledLine;

/// Width of a bar in cells.
const BAR_CELLS: u64 = 10;

/// Gauge of one budget.
#[derive(Debug, Clone)]
pub(super) struct TerminalGauge {
    name: &'static str,
    used: u64,
    /// The limit; `None` if unlimited.
    limit: Option<u64>,
    /// Percentage from which the gauge is a warning.
    warn_percent: u64,
    format: fn(u64) -> String,
}

/// The budgets of the whole run; active time, tokens and cost are shown even without a limit.
pub(super) fn budget_gauges(run_state: &RunState, now: u64) -> Vec<TerminalGauge> {
    let Some((report, session)) = run_state.report(run_state.root()).zip(run_state.session(run_state.root()))
    else {
        return Vec::new();
    };
    let budgets = &session.policy().budgets;
    let (on, near, budget) = (budgets.mode.is_on(), budgets.warn_percent.unwrap_or(100), &budgets.session);
    let (active, wall) = run_state.elapsed(now);
    let gauge = |name, used, limit: Option<u64>, show| TerminalGauge {
        name,
        used,
        limit: limit.filter(|_| on),
        warn_percent: near,
        format: show,
    };
    let all = [
        (gauge("active", active, budget.runtime_ms, running_duration), true),
        (gauge("elapsed", wall, budget.wall_ms, running_duration), false),
        (gauge("turns", report.turns, budget.turns, format_count), false),
        (gauge("calls", report.calls, budget.tool_calls, format_count), false),
        (gauge("tokens", report.tokens, budget.tokens, format_count), report.tokens > 0),
        (
            gauge("cost", report.cost_micro_usd, budget.cost_micro_usd, format_dollars),
            report.cost_micro_usd > 0,
        ),
    ];
    all.into_iter().filter(|(gauge, worth)| *worth || gauge.limit.is_some()).map(|(gauge, _)| gauge).collect()
}

impl TerminalGauge {
    /// The gauge as text, with a bar if there is a limit.
    fn row(&self) -> StyledLine {
        let row = StyledLine::default().push(format!("{} ", self.name));
        let Some(limit) = self.limit else { return row.push((self.format)(self.used)) };
        let share = u128::from(self.used).saturating_mul(100) / u128::from(limit.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(100);
        // Any usage fills at least one cell; only a used-up budget fills all.
        let full = (share * BAR_CELLS / 100).max(u64::from(self.used > 0));
        let style = match share {
            100.. => TextStyle::Error,
            share if share >= self.warn_percent => TextStyle::Warning,
            _ => TextStyle::Success,
        };
        let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or_default());
        row.push_styled(style, cells(full, "█"))
            .push_styled(TextStyle::Dim, cells(BAR_CELLS - full.min(BAR_CELLS), "░"))
            .push(format!(" {} of {}", (self.format)(self.used), (self.format)(limit)))
    }
}

/// Gauges side by side, as many per line as fit.
pub(super) fn gauge_rows(gauges: &[TerminalGauge], wide: usize) -> Vec<StyledLine> {
    let mut rows: Vec<StyledLine> = Vec::new();
    for gauge in gauges {
        let next = gauge.row();
        match rows.pop() {
            Some(last) if last.width() + 3 + next.width() < wide => rows.push(last.push("   ").append(next)),
            Some(last) => rows.extend([last, StyledLine::default().push("  ").append(next)]),
            None => rows.push(StyledLine::default().push("  ").append(next)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    //! Tests of bars and labels.

    use super::{TerminalGauge, gauge_rows};
    use crate::formatting::{format_dollars, running_duration};

    fn token_gauge(used: u64, limit: Option<u64>) -> TerminalGauge {
        TerminalGauge { name: "tokens", used, limit, warn_percent: 80, format: |number| number.to_string() }
    }

    #[test]
    fn gauge_bar_is_empty_full_or_partial() {
        let shown = |gauge: TerminalGauge| gauge.row().text();
        assert_eq!(shown(token_gauge(0, Some(100))), "tokens ░░░░░░░░░░ 0 of 100");
        assert_eq!(shown(token_gauge(1, Some(100))), "tokens █░░░░░░░░░ 1 of 100");
        assert_eq!(shown(token_gauge(99, Some(100))), "tokens █████████░ 99 of 100");
        assert_eq!(shown(token_gauge(300, Some(100))), "tokens ██████████ 300 of 100");
        assert_eq!(shown(token_gauge(5, None)), "tokens 5");
        let time = TerminalGauge {
            name: "active",
            used: 7_000,
            limit: Some(14_400_000),
            warn_percent: 80,
            format: running_duration,
        };
        assert_eq!(shown(time), "active █░░░░░░░░░ 7 s of 4 h");
        let cost = TerminalGauge {
            name: "cost",
            used: 1_500_000,
            limit: Some(3_000_000),
            warn_percent: 80,
            format: format_dollars,
        };
        assert_eq!(shown(cost), "cost █████░░░░░ $1.50 of $3.00");
    }

    #[test]
    fn gauges_wrap_to_the_next_line() {
        let three = [token_gauge(1, None), token_gauge(2, None), token_gauge(3, None)];
        let texts = |wide| gauge_rows(&three, wide).iter().map(|row| row.text()).collect::<Vec<_>>();
        assert_eq!(texts(80), ["  tokens 1   tokens 2   tokens 3"]);
        assert_eq!(texts(24), ["  tokens 1   tokens 2", "  tokens 3"]);
        assert_eq!(texts(3), ["  tokens 1", "  tokens 2", "  tokens 3"]);
    }
}
