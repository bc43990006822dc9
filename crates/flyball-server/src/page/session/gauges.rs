//! Budget usage and releases of a session.

use crate::page::charts::bar;
use crate::page::text::single_line;
use flyball::SessionReport;
use flyball::policy::Policy;
use flyball_view::formatting::{format_count, format_dollars, format_duration};
use maud::{Markup, html};

/// One budget.
struct BudgetGauge {
    name: String,
    used: u64,
    limit: Option<u64>,
    /// Formats its numbers.
    format: fn(u64) -> String,
}

fn all_gauges(report: &SessionReport, policy: &Policy) -> Vec<BudgetGauge> {
    let budget = &policy.budgets.session;
    let iterations = report.loops.iter().map(|found| found.iterations).sum();
    let own = [
        ("Runtime", report.active_ms, budget.runtime_ms, format_duration as fn(u64) -> String),
        ("Tokens", report.tokens, budget.tokens, format_count),
        ("Spend", report.cost_micro_usd, budget.cost_micro_usd, format_dollars),
        ("Turns", report.turns, budget.turns, format_count),
        ("Tool calls", report.calls, budget.tool_calls, format_count),
        ("Loop iterations", iterations, budget.iterations, format_count),
    ];
    let own = own.into_iter().map(|(name, used, limit, format)| BudgetGauge {
        name: name.to_owned(),
        used,
        limit,
        format,
    });
    let loops = report.loops.iter().map(|found| BudgetGauge {
        name: format!("Loop at {}", single_line(&found.header, 40)),
        used: found.iterations,
        limit: found.limit,
        format: format_count,
    });
    own.chain(loops).filter(|gauge| gauge.limit.is_some() || gauge.used > 0).collect()
}

/// Renders the budgets of a session.
pub(super) fn section(report: &SessionReport, policy: &Policy) -> Markup {
    html! {
        section #budgets .card data-live {
            h2 { "Budgets" }
            ul.gauges {
                @for gauge in all_gauges(report, policy) {
                    li {
                        span.name.untrusted { (gauge.name) }
                        span.value {
                            ((gauge.format)(gauge.used))
                            @match gauge.limit {
                                Some(limit) => span.soft { " of " ((gauge.format)(limit)) },
                                None => span.soft { ", no limit" },
                            }
                        }
                        @if let Some(limit) = gauge.limit { (bar(gauge.used, limit)) }
                    }
                }
            }
            @if !report.releases.is_empty() {
                h3 { "Releases" }
                ul.gauges {
                    @for (guard, used) in &report.releases {
                        li {
                            span.name.untrusted { (single_line(guard, 60)) }
                            span.value { (used) span.soft { " of " (policy.releases.ceiling) } }
                            (bar(*used, policy.releases.ceiling))
                        }
                    }
                }
            }
        }
    }
}
