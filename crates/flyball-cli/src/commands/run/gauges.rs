//! Budgets as gauges: what is used of what is allowed, as far as the policy limits it.

use super::so_far::SoFar;
use crate::paint::Style;
use crate::screen::Row;
use crate::words::{counted, dollars};

/// How many cells a bar has.
const CELLS: u64 = 10;

/// One budget.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    name: &'static str,
    used: u64,
    /// Nothing limits it if there is none.
    limit: Option<u64>,
    /// From this share on it is a warning, in per cent.
    near: u64,
    show: fn(u64) -> String,
}

/// The budgets of the whole run, and what was spent in any case.
pub(super) fn of(so_far: &SoFar, now: u64) -> Vec<Gauge> {
    let Some((report, session)) = so_far.report(so_far.root()).zip(so_far.session(so_far.root())) else {
        return Vec::new();
    };
    let budgets = &session.policy().budgets;
    let (on, near, budget) = (budgets.mode.is_on(), budgets.warn_percent.unwrap_or(100), &budgets.session);
    let (active, wall) = so_far.times(now);
    let number: fn(u64) -> String = |number| number.to_string();
    let gauge =
        |name, used, limit: Option<u64>, show| Gauge { name, used, limit: limit.filter(|_| on), near, show };
    let all = [
        (gauge("at work", active, budget.runtime_ms, counted), true),
        (gauge("since start", wall, budget.wall_ms, counted), false),
        (gauge("turns", report.turns, budget.turns, number), false),
        (gauge("calls", report.calls, budget.tool_calls, number), false),
        (gauge("tokens", report.tokens, budget.tokens, number), report.tokens > 0),
        (gauge("cost", report.cost_micro_usd, budget.cost_micro_usd, dollars), report.cost_micro_usd > 0),
    ];
    all.into_iter().filter(|(gauge, worth)| *worth || gauge.limit.is_some()).map(|(gauge, _)| gauge).collect()
}

impl Gauge {
    /// The gauge in words and, if there is a limit, with a bar.
    fn row(&self) -> Row {
        let row = Row::default().and(format!("{} ", self.name));
        let Some(limit) = self.limit else { return row.and((self.show)(self.used)) };
        let share = u128::from(self.used).saturating_mul(100) / u128::from(limit.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(100);
        // Something used is something seen; full is only what is used up.
        let full = (share * CELLS / 100).max(u64::from(self.used > 0));
        let style = match share {
            100.. => Style::Bad,
            share if share >= self.near => Style::Warn,
            _ => Style::Good,
        };
        let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or_default());
        row.with(style, cells(full, "█")).with(Style::Dim, cells(CELLS - full.min(CELLS), "░")).and(format!(
            " {} of {}",
            (self.show)(self.used),
            (self.show)(limit)
        ))
    }
}

/// Gauges side by side, as many on a line as fit.
pub(super) fn rows(gauges: &[Gauge], wide: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for gauge in gauges {
        let next = gauge.row();
        match rows.pop() {
            Some(last) if last.columns() + 3 + next.columns() < wide => rows.push(last.and("   ").join(next)),
            Some(last) => rows.extend([last, Row::default().and("  ").join(next)]),
            None => rows.push(Row::default().and("  ").join(next)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    //! Bars and their words.

    use super::{Gauge, rows};
    use crate::words::{counted, dollars};

    fn tokens(used: u64, limit: Option<u64>) -> Gauge {
        Gauge { name: "tokens", used, limit, near: 80, show: |number| number.to_string() }
    }

    #[test]
    fn a_bar_is_empty_full_or_between() {
        let shown = |gauge: Gauge| gauge.row().text();
        assert_eq!(shown(tokens(0, Some(100))), "tokens ░░░░░░░░░░ 0 of 100");
        assert_eq!(shown(tokens(1, Some(100))), "tokens █░░░░░░░░░ 1 of 100");
        assert_eq!(shown(tokens(99, Some(100))), "tokens █████████░ 99 of 100");
        assert_eq!(shown(tokens(300, Some(100))), "tokens ██████████ 300 of 100");
        assert_eq!(shown(tokens(5, None)), "tokens 5");
        let time = Gauge { name: "at work", used: 7_000, limit: Some(14_400_000), near: 80, show: counted };
        assert_eq!(shown(time), "at work █░░░░░░░░░ 0:07 of 4:00:00");
        let cost = Gauge { name: "cost", used: 1_500_000, limit: Some(3_000_000), near: 80, show: dollars };
        assert_eq!(shown(cost), "cost █████░░░░░ $1.5000 of $3.0000");
    }

    #[test]
    fn gauges_that_do_not_fit_go_to_the_next_line() {
        let three = [tokens(1, None), tokens(2, None), tokens(3, None)];
        let texts = |wide| rows(&three, wide).iter().map(|row| row.text()).collect::<Vec<_>>();
        assert_eq!(texts(80), ["  tokens 1   tokens 2   tokens 3"]);
        assert_eq!(texts(24), ["  tokens 1   tokens 2", "  tokens 3"]);
        assert_eq!(texts(3), ["  tokens 1", "  tokens 2", "  tokens 3"]);
    }
}
