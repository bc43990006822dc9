//! What is used of each budget, and how often people have let it go on.

use crate::page::charts::bar;
use crate::page::text::{grouped, line};
use flyball::Report;
use flyball::policy::Policy;
use flyball_view::words::{dollars, span};
use maud::{Markup, html};

/// One budget.
struct Gauge {
    name: String,
    used: u64,
    limit: Option<u64>,
    /// How its numbers are written.
    told: fn(u64) -> String,
}

fn all(report: &Report, policy: &Policy) -> Vec<Gauge> {
    let budget = &policy.budgets.session;
    let iterations = report.loops.iter().map(|found| found.iterations).sum();
    let own = [
        ("Runtime", report.active_ms, budget.runtime_ms, span as fn(u64) -> String),
        ("Tokens", report.tokens, budget.tokens, grouped),
        ("Cost", report.cost_micro_usd, budget.cost_micro_usd, dollars),
        ("Turns", report.turns, budget.turns, grouped),
        ("Tool calls", report.calls, budget.tool_calls, grouped),
        ("Iterations of all loops", iterations, budget.iterations, grouped),
    ];
    let own =
        own.into_iter().map(|(name, used, limit, told)| Gauge { name: name.to_owned(), used, limit, told });
    let loops = report.loops.iter().map(|found| Gauge {
        name: format!("Loop at {}", line(&found.header, 40)),
        used: found.iterations,
        limit: found.limit,
        told: grouped,
    });
    own.chain(loops).filter(|gauge| gauge.limit.is_some() || gauge.used > 0).collect()
}

/// The budgets of a session.
pub(super) fn section(report: &Report, policy: &Policy) -> Markup {
    html! {
        section #budgets .card data-live {
            h2 { "Budgets" }
            ul.gauges {
                @for gauge in all(report, policy) {
                    li {
                        span.name.untrusted { (gauge.name) }
                        span.value {
                            ((gauge.told)(gauge.used))
                            @match gauge.limit {
                                Some(limit) => span.soft { " of " ((gauge.told)(limit)) },
                                None => span.soft { ", no limit" },
                            }
                        }
                        @if let Some(limit) = gauge.limit { (bar(gauge.used, limit)) }
                    }
                }
            }
            @if !report.releases.is_empty() {
                h3 { "Released so far" }
                ul.gauges {
                    @for (guard, used) in &report.releases {
                        li {
                            span.name.untrusted { (line(guard, 60)) }
                            span.value { (used) span.soft { " of " (policy.releases.ceiling) } }
                            (bar(*used, policy.releases.ceiling))
                        }
                    }
                }
            }
        }
    }
}
