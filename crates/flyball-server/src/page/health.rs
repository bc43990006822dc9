//! Health page: decisions per minute, trips, retries, confirmations, server, key limits and coverage.

use super::charts::{bar, column_chart};
use super::dashboard_counters::{DashboardCounts, MINUTES};
use super::inbox::waiting_sessions;
use super::layout::{NavSection, PageLayout, render_page};
use super::security_headers::PageError;
use super::text::{single_line, timestamp};
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::Principal;
use crate::coverage::CoverageItem;
use crate::key_limiter::{KeyLimits, KeyUsageRow};
use axum::extract::{Extension, State};
use flyball::metrics::{Metrics, SessionHealth};
use flyball_view::formatting::{format_count, format_dollars};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum number of guards, operations and keys shown.
const MAX_ROWS: usize = 20;

/// Data of the page.
struct HealthView {
    metrics: Metrics,
    minutes: Vec<[u64; 4]>,
    /// The last minute shown, counted since 1970.
    last: u64,
    behind: bool,
    waiting: usize,
    address: String,
    engine: String,
    /// Response time of the store, in microseconds.
    answered_us: u64,
    queue: (usize, usize),
    coverage: Vec<CoverageItem>,
    keys: (KeyLimits, Vec<KeyUsageRow>),
    /// Median and 99th percentile of the decision time, in microseconds.
    decision_percentiles: Option<(u64, u64)>,
}

/// Renders the page.
pub(super) async fn show(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
) -> Result<Markup, PageError> {
    let who = principal.clone();
    let view = app
        .run_blocking(move |app| {
            let store = app.store();
            let waiting = waiting_sessions(app, &who)?.len();
            let began = Instant::now();
            store.now()?;
            let answered_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            let last = app.now() / 60_000;
            let took = &app.telemetry.metrics.decision_duration;
            let (metrics, complete) =
                app.live.metrics.inspect(|metrics, complete| (metrics.clone(), complete));
            let counted = |counted: &DashboardCounts| HealthView {
                metrics,
                minutes: minutes(counted, last),
                last,
                behind: counted.is_behind || !complete,
                waiting,
                address: store.address(),
                engine: String::new(),
                answered_us,
                queue: (app.ingest.queued(), app.ingest.capacity()),
                coverage: app.coverage.all(),
                keys: (app.key_limiter.limits(), app.key_limiter.usage_rows()),
                decision_percentiles: took.percentile(50).zip(took.percentile(99)),
            };
            let view = app.dashboard_counters.with_counts(store, counted)?;
            Ok::<_, ApiError>(HealthView { engine: store.engine_version()?, ..view })
        })
        .await?;
    let frame = PageLayout {
        title: "Health",
        section: NavSection::Health,
        principal: Some(&principal),
        waiting: Some(view.waiting),
        notice: None,
        alarm: Some(app.warning_banner()),
    };
    Ok(render_page(&frame, body(&view)))
}

fn minutes(counted: &DashboardCounts, last: u64) -> Vec<[u64; 4]> {
    let first = last.saturating_sub(MINUTES - 1);
    (first..=last).map(|minute| counted.minutes.get(&minute).copied().unwrap_or_default()).collect()
}

fn body(view: &HealthView) -> Markup {
    let metrics = &view.metrics;
    html! {
        div.heading {
            h1 { "Health" }
            @if view.behind { p.soft { "Still counting older events; reload the page for complete numbers." } }
        }
        div #health data-live {
            (tiles(view))
            (rates(view))
            div.two {
                (trips(metrics))
                (operations(metrics))
            }
            div.two {
                (confirmations(metrics))
                (server(view))
            }
            (keys(&view.keys))
            (coverage_section(&view.coverage))
        }
    }
}

fn tile(number: String, of: &str) -> Markup {
    html! { div.figure { span.big { (number) } span.of { (of) } } }
}

fn tiles(view: &HealthView) -> Markup {
    let metrics = &view.metrics;
    let refused: u64 = ["block", "halt"].iter().filter_map(|verdict| metrics.decisions.get(verdict)).sum();
    let sessions = metrics.sessions_by_health();
    let count = |health: SessionHealth| sessions.get(&health).copied().unwrap_or_default();
    html! {
        div.figures {
            (tile(format_count(metrics.events), "decisions"))
            (tile(format_count(refused), "refused"))
            (tile(format_count(metrics.hitl_triggered), "human interventions"))
            (tile(format_count(count(SessionHealth::Ok)), "healthy sessions"))
            (tile(format_count(count(SessionHealth::Degraded)), "warned sessions"))
            (tile(format_count(count(SessionHealth::Thrashing) + count(SessionHealth::Exhausted)), "stuck sessions"))
            (tile(format_count(metrics.tokens_in.saturating_add(metrics.tokens_out)), "tokens"))
            (tile(format_dollars(metrics.cost_micro_usd), "spend"))
        }
    }
}

fn rates(view: &HealthView) -> Markup {
    let all: u64 = view.minutes.iter().flatten().sum();
    let now: u64 = view.minutes.last().map(|minute| minute.iter().sum()).unwrap_or_default();
    let label = format!("{all} decisions in the last {MINUTES} minutes");
    html! {
        section.card {
            h2 { "Decisions per minute" }
            p.hint { (format_count(all)) " in the last " (MINUTES) " minutes, " (format_count(now)) " in the current minute." }
            (column_chart(&view.minutes, &label))
            p.axis {
                span { (timestamp(view.last.saturating_sub(MINUTES - 1) * 60_000)) }
                span { (timestamp(view.last * 60_000)) }
            }
            p.legend { @for verdict in ["allow", "warn", "block", "halt"] { span class=(format!("verdict {verdict}")) { (verdict) } " " } }
        }
    }
}

fn trips(metrics: &Metrics) -> Markup {
    let mut guards: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in metrics.trips.iter().filter(|(kind, _)| kind.severity != "observe") {
        *guards.entry(kind.guard.as_str()).or_default() += count;
    }
    let mut guards: Vec<(&str, u64)> = guards.into_iter().collect();
    guards.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let most = guards.first().map_or(1, |(_, count)| *count);
    html! {
        section.card {
            h2 { "Trips by guard" }
            @if guards.is_empty() { p.soft { "No guard tripped." } }
            ul.bars {
                @for (guard, count) in guards.iter().take(MAX_ROWS) {
                    li { span.name.untrusted { (single_line(guard, 60)) } (bar(*count, most)) span.value { (format_count(*count)) } }
                }
            }
        }
    }
}

fn operations(metrics: &Metrics) -> Markup {
    let mut all: Vec<_> = metrics.operations.iter().collect();
    all.sort_by_key(|(_, attempts)| std::cmp::Reverse(attempts.failed));
    html! {
        section.card {
            h2 { "Retries by operation" }
            @if all.is_empty() { p.soft { "No operations reported." } }
            @else {
                table {
                    thead { tr {
                        th scope="col" { "Operation" } th.number scope="col" { "Failed" }
                        th.number scope="col" { "Succeeded" } th.number scope="col" { "Failure rate" }
                        th.number scope="col" { "Breaker opened" }
                    } }
                    tbody { @for (name, attempts) in all.iter().take(MAX_ROWS) {
                        @let whole = (attempts.failed + attempts.succeeded).max(1);
                        tr {
                            th.untrusted scope="row" { (single_line(name, 60)) }
                            td.number { (format_count(attempts.failed)) }
                            td.number { (format_count(attempts.succeeded)) }
                            td.number { (attempts.failed.saturating_mul(100) / whole) " %" }
                            td.number { (format_count(attempts.breaker_opened)) }
                        }
                    } }
                }
            }
        }
    }
}

fn confirmations(metrics: &Metrics) -> Markup {
    let answers = &metrics.confirmations;
    let all = [
        ("asked", answers.asked),
        ("confirmed", answers.confirmed),
        ("rejected", answers.rejected),
        ("unclear", answers.unclear),
        ("expired", answers.expired),
        ("aborted", answers.aborted),
        ("replaced", answers.replaced),
    ];
    html! {
        section.card {
            h2 { "Confirmations" }
            ul.bars {
                @for (word, count) in all {
                    li { span.name { (word) } (bar(count, answers.asked.max(1))) span.value { (format_count(count)) } }
                }
            }
        }
    }
}

/// Formats microseconds as milliseconds.
fn format_ms(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

fn server(view: &HealthView) -> Markup {
    html! {
        section.card {
            h2 { "Server" }
            dl {
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Store" } dd.untrusted { (single_line(&view.address, 200)) }
                dt { "Engine" } dd { (view.engine) }
                dt { "Store response time" } dd { (format_ms(view.answered_us)) }
                @if let Some((half, nearly_all)) = view.decision_percentiles {
                    dt { "Decision time" }
                    dd { (format_ms(half)) " median, " (format_ms(nearly_all)) " p99" }
                }
                dt { "Queued events" } dd { (view.queue.0) " of " (view.queue.1) }
                dt { "Endpoints" } dd { code { "/metrics" } ", " a href="/readyz" { "/readyz" } }
            }
        }
    }
}

/// Usage of each key on this server against its limits.
fn keys((limits, lines): &(KeyLimits, Vec<KeyUsageRow>)) -> Markup {
    let of = |used: u64, most: u64| match most {
        0 => format_count(used),
        most => format!("{} of {}", format_count(used), format_count(most)),
    };
    html! {
        section #key-limits .card {
            h2 { "Limits by key" }
            p.hint { "Usage on this server; sessions and bytes per 24 hours. Requests over a limit get status 429." }
            @if lines.is_empty() { p.soft { "No agent has used its key yet." } }
            ul.plain {
                @for key in lines.iter().take(MAX_ROWS) {
                    li {
                        b.untrusted { (single_line(&key.name, 60)) } ": "
                        (of(key.sessions as u64, limits.sessions_per_day as u64)) " sessions, "
                        (of(key.bytes, limits.bytes_per_day)) " bytes, "
                        (of(key.plans as u64, limits.pending_plans as u64)) " pending plans, "
                        (of(key.listeners as u64, limits.listeners as u64)) " live streams, "
                        (of(key.reads as u64, limits.reads as u64)) " reads"
                    }
                }
            }
        }
    }
}

/// Coverage: the places where Flyball is armed.
fn coverage_section(items: &[CoverageItem]) -> Markup {
    html! {
        section #coverage .card {
            h2 { "Coverage: hooks, policies and proxies" }
            p.hint {
                "Places where Flyball was armed. A missing one stays in this list until it is armed again, or until you run "
                code { "flyball doctor --accept" } "."
            }
            @if items.is_empty() { p.soft { "Flyball is not armed anywhere yet." } }
            @else {
                table {
                    thead { tr { th { "Kind" } th { "Name" } th { "State" } } }
                    tbody {
                        @for item in items {
                            tr {
                                td { (item.kind) }
                                td.untrusted { (single_line(&item.name, 200)) }
                                td {
                                    @match &item.missing_reason {
                                        None => span.verdict.allow { "armed" },
                                        Some(why) => { span.verdict.halt { "missing" } " " span.untrusted { (single_line(why, 300)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
