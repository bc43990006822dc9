//! How the whole does: decisions a minute, what tripped, what was tried again, what people answered, and the store.

use super::charts::{bar, columns};
use super::figures::{Counted, MINUTES};
use super::gate::Trouble;
use super::inbox::waiting;
use super::shell::{Frame, Place, page};
use super::text::{grouped, line};
use crate::office::Shared;
use crate::posts::Post;
use crate::problem::Problem;
use crate::usage::{KeyLimits, KeyLine};
use crate::who::Principal;
use axum::extract::{Extension, State};
use flyball::metrics::{Health, Metrics};
use flyball_view::words::{dollars, moment};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::time::Instant;

/// How many guards and operations are shown.
const SHOWN: usize = 20;

/// What is shown.
struct View {
    metrics: Metrics,
    minutes: Vec<[u64; 4]>,
    /// The last minute that is shown, since 1970.
    last: u64,
    behind: bool,
    waiting: usize,
    address: String,
    engine: String,
    /// How long the store took to answer, in thousandths of a millisecond.
    answered_us: u64,
    queue: (usize, usize),
    posts: Vec<Post>,
    keys: (KeyLimits, Vec<KeyLine>),
    /// Half of the decisions, and 99 of 100, took no longer, in thousandths of a millisecond.
    took: Option<(u64, u64)>,
}

/// The page.
pub(super) async fn show(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
) -> Result<Markup, Trouble> {
    let who = principal.clone();
    let view = office
        .look(move |office| {
            let desk = office.desk();
            let waiting = waiting(office, &who)?.len();
            let began = Instant::now();
            desk.now()?;
            let answered_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            let last = office.now() / 60_000;
            let took = &office.signals.meters.decisions;
            let (metrics, complete) = office.live.tally.look(|metrics, complete| (metrics.clone(), complete));
            let counted = |counted: &Counted| View {
                metrics,
                minutes: minutes(counted, last),
                last,
                behind: counted.behind || !complete,
                waiting,
                address: desk.address(),
                engine: String::new(),
                answered_us,
                queue: (office.intake.waiting(), office.intake.length()),
                posts: office.posts.all(),
                keys: (office.usage.limits(), office.usage.lines()),
                took: took.share(50).zip(took.share(99)),
            };
            let view = office.figures.with(desk, counted)?;
            Ok::<_, Problem>(View { engine: desk.engine()?, ..view })
        })
        .await?;
    let frame = Frame {
        title: "Health",
        place: Place::Health,
        who: Some(&principal),
        waiting: Some(view.waiting),
        notice: None,
        alarm: Some(office.alarm()),
    };
    Ok(page(&frame, body(&view)))
}

fn minutes(counted: &Counted, last: u64) -> Vec<[u64; 4]> {
    let first = last.saturating_sub(MINUTES - 1);
    (first..=last).map(|minute| counted.minutes.get(&minute).copied().unwrap_or_default()).collect()
}

fn body(view: &View) -> Markup {
    let metrics = &view.metrics;
    html! {
        div.heading {
            h1 { "Health" }
            @if view.behind { p.soft { "Still counting older events; load the page again for the whole." } }
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
            (posts(&view.posts))
        }
    }
}

fn tile(number: String, of: &str) -> Markup {
    html! { div.figure { span.big { (number) } span.of { (of) } } }
}

fn tiles(view: &View) -> Markup {
    let metrics = &view.metrics;
    let refused: u64 = ["block", "halt"].iter().filter_map(|word| metrics.decisions.get(word)).sum();
    let sessions = metrics.sessions();
    let count = |health: Health| sessions.get(&health).copied().unwrap_or_default();
    html! {
        div.figures {
            (tile(grouped(metrics.events), "decisions"))
            (tile(grouped(refused), "refused"))
            (tile(grouped(metrics.hitl_triggered), "calls for a person"))
            (tile(grouped(count(Health::Ok)), "sessions well"))
            (tile(grouped(count(Health::Degraded)), "struggle"))
            (tile(grouped(count(Health::Thrashing) + count(Health::Exhausted)), "stand still"))
            (tile(grouped(metrics.tokens_in.saturating_add(metrics.tokens_out)), "tokens"))
            (tile(dollars(metrics.cost_micro_usd), "spent"))
        }
    }
}

fn rates(view: &View) -> Markup {
    let all: u64 = view.minutes.iter().flatten().sum();
    let now: u64 = view.minutes.last().map(|minute| minute.iter().sum()).unwrap_or_default();
    let told = format!("{all} decisions in the last {MINUTES} minutes");
    html! {
        section.card {
            h2 { "Decisions a minute" }
            p.hint { (grouped(all)) " in the last " (MINUTES) " minutes, " (grouped(now)) " in this one." }
            (columns(&view.minutes, &told))
            p.axis {
                span { (moment(view.last.saturating_sub(MINUTES - 1) * 60_000)) }
                span { (moment(view.last * 60_000)) }
            }
            p.legend { @for word in ["allow", "warn", "block", "halt"] { span class=(format!("verdict {word}")) { (word) } " " } }
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
            @if guards.is_empty() { p.soft { "Nothing tripped." } }
            ul.bars {
                @for (guard, count) in guards.iter().take(SHOWN) {
                    li { span.name.untrusted { (line(guard, 60)) } (bar(*count, most)) span.value { (grouped(*count)) } }
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
            h2 { "Tried again, by operation" }
            @if all.is_empty() { p.soft { "No operation was reported." } }
            @else {
                table {
                    thead { tr {
                        th scope="col" { "Operation" } th.number scope="col" { "Failed" }
                        th.number scope="col" { "Succeeded" } th.number scope="col" { "Failure rate" }
                        th.number scope="col" { "Breaker" }
                    } }
                    tbody { @for (name, attempts) in all.iter().take(SHOWN) {
                        @let whole = (attempts.failed + attempts.succeeded).max(1);
                        tr {
                            th.untrusted scope="row" { (line(name, 60)) }
                            td.number { (grouped(attempts.failed)) }
                            td.number { (grouped(attempts.succeeded)) }
                            td.number { (attempts.failed.saturating_mul(100) / whole) " %" }
                            td.number { (grouped(attempts.breaker_opened)) }
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
                    li { span.name { (word) } (bar(count, answers.asked.max(1))) span.value { (grouped(count)) } }
                }
            }
        }
    }
}

/// Thousandths of a millisecond as milliseconds.
fn ms(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

fn server(view: &View) -> Markup {
    html! {
        section.card {
            h2 { "Server" }
            dl {
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Store" } dd.untrusted { (line(&view.address, 200)) }
                dt { "Engine" } dd { (view.engine) }
                dt { "Store answers in" } dd { (ms(view.answered_us)) }
                @if let Some((half, nearly_all)) = view.took {
                    dt { "Decisions took" }
                    dd { "at most " (ms(half)) " (half of them), at most " (ms(nearly_all)) " (99 of 100)" }
                }
                dt { "Events in line" } dd { (view.queue.0) " of " (view.queue.1) }
                dt { "For programs" } dd { code { "/metrics" } ", " a href="/readyz" { "/readyz" } }
            }
        }
    }
}

/// What each agent's key has used of its limits on this server.
fn keys((limits, lines): &(KeyLimits, Vec<KeyLine>)) -> Markup {
    let of = |used: u64, most: u64| match most {
        0 => grouped(used),
        most => format!("{} of {}", grouped(used), grouped(most)),
    };
    html! {
        section #key-limits .card {
            h2 { "Limits by key" }
            p.hint { "Used on this server; sessions and bytes in 24 hours. A request over a limit is refused with status 429." }
            @if lines.is_empty() { p.soft { "No agent has used a key yet." } }
            ul.plain {
                @for key in lines.iter().take(SHOWN) {
                    li {
                        b.untrusted { (line(&key.name, 60)) } ": "
                        (of(key.sessions as u64, limits.sessions_per_day as u64)) " sessions, "
                        (of(key.bytes, limits.bytes_per_day)) " bytes, "
                        (of(key.plans as u64, limits.pending_plans as u64)) " plans awaiting approval, "
                        (of(key.listeners as u64, limits.listeners as u64)) " listeners, "
                        (of(key.reads as u64, limits.reads as u64)) " reads"
                    }
                }
            }
        }
    }
}

/// Where Flyball stands guard beside this server.
fn posts(posts: &[Post]) -> Markup {
    html! {
        section #posts .card {
            h2 { "Where Flyball stands guard" }
            p.hint {
                "Hooks, policies and proxies that were seen once. One that has fallen stays here until it stands again, or "
                "until a person says " code { "flyball doctor --accept" } "."
            }
            @if posts.is_empty() { p.soft { "None was seen yet." } }
            @else {
                table {
                    thead { tr { th { "What" } th { "Which" } th { "Stands" } } }
                    tbody {
                        @for post in posts {
                            tr {
                                td { (post.kind) }
                                td.untrusted { (line(&post.name, 200)) }
                                td {
                                    @match &post.fallen {
                                        None => span.verdict.allow { "stands" },
                                        Some(why) => { span.verdict.halt { "fallen" } " " span.untrusted { (line(why, 300)) } }
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
