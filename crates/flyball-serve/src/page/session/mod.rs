//! One session: what is going on in one sentence, what can be done, its workflow, its story, the evidence, its budgets.

mod diff;
mod evidence;
mod gauges;
mod origin;
mod timeline;

use super::forms::{self, Did};
use super::gate::Trouble;
use super::inbox::{reason, tone, waiting};
use super::links;
use super::need::{Need, What};
use super::sessions::{badges, state};
use super::shell::{Frame, Place, page};
use super::text::line;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Principal, signed};
use axum::extract::{Extension, Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use evidence::Finding;
use flyball::graph::render::{View, svg};
use flyball::policy::Policy;
use flyball::{Report, Status};
use flyball_journal::{Head, Which};
use flyball_view::drawing::{add_branches, view_of};
use flyball_view::words::{ago, moment, plural};
use flyball_view::{Plan, SessionActivity, trend};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use timeline::Window;

/// How many sessions are looked over for those below this one.
const LOOKED_OVER: usize = 1_000;
/// How many of those below are shown.
const BELOW: usize = 50;
/// How many steps of a plan are shown.
const STEPS: usize = 20;
/// What a drawing may do when it is looked at on its own: nothing but look as it does.
const DRAWING: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// What the page is asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    name: Option<String>,
    /// The first event of the story that is shown; without it the newest are.
    from: Option<String>,
    /// The decision whose evidence is shown.
    trip: Option<String>,
    #[serde(flatten)]
    did: Did,
}

/// Everything that is shown.
struct Shown {
    name: String,
    head: Head,
    report: Report,
    policy: Policy,
    need: Need,
    drawn: bool,
    goal: Option<String>,
    window: Window,
    findings: Vec<Finding>,
    children: Vec<(SessionActivity, Head)>,
    commands: Vec<String>,
    waiting: usize,
}

/// The page of a session.
pub(super) async fn show(
    office: State<Shared>,
    principal: Extension<Principal>,
    Path(name): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Markup, Trouble> {
    shown(office, principal, name, asked).await
}

/// The page of a session whose name cannot stand in a path.
pub(super) async fn show_named(
    office: State<Shared>,
    principal: Extension<Principal>,
    Query(asked): Query<Asked>,
) -> Result<Markup, Trouble> {
    let name = asked.name.clone().unwrap_or_default();
    shown(office, principal, name, asked).await
}

async fn shown(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    name: String,
    asked: Asked,
) -> Result<Markup, Trouble> {
    principal.may_touch(&name)?;
    let who = principal.clone();
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u64>().ok());
    let (from, trip) = (number(&asked.from), number(&asked.trip));
    let mut shown = office.look(move |office| look(office, &who, name, from, trip)).await?;
    shown.need = shown.need.with_ticket(&office, &principal).await;
    let title = line(&shown.name, 60);
    let frame = Frame {
        title: &title,
        place: Place::Sessions,
        who: Some(&principal),
        waiting: Some(shown.waiting),
        notice: asked.did.notice(),
        alarm: Some(office.alarm()),
    };
    Ok(page(&frame, body(&shown, &principal, office.now())?))
}

fn look(
    office: &Office,
    who: &Principal,
    name: String,
    from: Option<u64>,
    trip: Option<u64>,
) -> Result<Shown, Problem> {
    let (session, policy) = office.session(&name)?;
    let desk = office.desk();
    let head = desk.load(&name)?.map(|loaded| loaded.head).ok_or_else(|| Problem::unknown_session(&name))?;
    let report = session.report(&policy);
    let below = |head: &Head| head.glance.parent.as_deref() == Some(name.as_str());
    let mut children = desk.heads(Which::All, LOOKED_OVER)?;
    children.retain(|head| below(head) && who.may_touch(&head.session).is_ok());
    children.truncate(BELOW);
    let reader = office.activity_reader()?;
    let child = |head: Head| Ok::<_, Problem>((reader.activity(&head)?, head));
    let children = children.into_iter().map(child).collect::<Result<_, _>>()?;
    let plan = Plan::of(desk, &name, &session)?;
    let origins = origin::Origins::of(office, &name, &session)?;
    Ok(Shown {
        need: Need::standing(office, &name, &session, &policy)?,
        drawn: session.workflow().is_some(),
        goal: timeline::goal(desk, &name)?,
        window: Window::read(desk, &name, head.seq, from)?,
        findings: evidence::findings(desk, &name, head.seq, trip, &origins)?,
        children,
        commands: flyball_view::next(desk, &name, &session, plan.as_ref())?,
        waiting: waiting(office, who)?.len(),
        head,
        report,
        policy,
        name,
    })
}

fn body(shown: &Shown, principal: &Principal, now: u64) -> Result<Markup, Problem> {
    let held = matches!(shown.need.what, What::Held { .. });
    let act = if shown.report.status == Status::Ended && !held {
        None
    } else {
        Some(forms::form(&shown.need, principal, "session")?)
    };
    Ok(html! {
        nav.crumbs aria-label="Where you are" { a href="/sessions" { "Sessions" } " / " span.untrusted { (line(&shown.name, 80)) } }
        div #head .card.session-head data-live {
            div.heading {
                h1.untrusted { (line(&shown.name, 120)) }
                (state(&shown.need.activity))
                (badges(&shown.report))
            }
            p.headline.untrusted { (headline(shown, now)) }
            @if let Some(goal) = &shown.goal { p.soft.untrusted { "Goal: " (line(goal, 300)) } }
            p.soft { (counts(shown, now)) }
        }
        section #need class=(format!("card need {}", tone(&shown.need))) data-live data-item tabindex="-1" aria-labelledby="need-title" {
            h2 #need-title { (need_title(&shown.need)) }
            @if !matches!(shown.need.what, What::Nothing) { (reason(&shown.need, now)) }
            @if let Some(act) = act { (act) } @else { p.soft { "This session is over." } }
        }
        @if shown.drawn { (side(shown, principal)) }
        @if !shown.findings.is_empty() { (evidence::section(&shown.name, &shown.findings)) }
        @if !shown.drawn { (side(shown, principal)) }
        (timeline::section(&shown.name, &shown.window))
        @if !shown.children.is_empty() { (children(&shown.children, now)) }
        (commands(&shown.commands))
    })
}

/// The budgets, beside the workflow or the tools.
fn side(shown: &Shown, principal: &Principal) -> Markup {
    html! {
        div.two {
            div {
                (gauges::section(&shown.report, &shown.policy))
                @if shown.drawn && !shown.report.tools.is_empty() { (tools(&shown.report)) }
            }
            @if shown.drawn { (graph_section(shown, principal)) } @else { (tools(&shown.report)) }
        }
    }
}

fn need_title(need: &Need) -> &'static str {
    match need.what {
        What::Held { .. } => "Why it stands still",
        What::Plan { .. } => "A plan waits for a yes",
        What::Question { .. } => "It asks",
        What::Nothing => "What you can do",
    }
}

/// What is going on, in one sentence.
fn headline(shown: &Shown, now: u64) -> String {
    match (&shown.need.what, shown.report.status) {
        (What::Held { .. }, _) => shown.need.sentence(),
        (What::Plan { .. }, _) => format!("Waits for a yes: {}", shown.need.sentence()),
        (What::Question { .. }, _) => format!("Asks: {}", shown.need.sentence()),
        (What::Nothing, Status::Ended) => format!("Ended {}.", ago(shown.head.updated, now)),
        (What::Nothing, _) => {
            let at = shown.report.node.as_deref().map(|node| format!(" at {}", line(node, 60)));
            let trouble = match shown.report.warnings + shown.report.blocks {
                0 => "nothing was refused".to_owned(),
                _ => format!("warned {} and refused {} times", shown.report.warnings, shown.report.blocks),
            };
            format!("Running{}: {trouble}.", at.unwrap_or_default())
        }
    }
}

fn counts(shown: &Shown, now: u64) -> Markup {
    let report = &shown.report;
    html! {
        (plural(report.events, "event")) ", " (plural(report.calls, "call")) " (" (report.errors) " failed), "
        "warned " (report.warnings) ", blocked " (report.blocks) ", halted " (report.halts) ". "
        "Began " time { (moment(shown.head.started)) } ", last change " (ago(shown.head.updated, now)) "."
        @if let Some(parent) = &shown.head.glance.parent {
            " Below " a.untrusted href=(links::session(parent)) { (line(parent, 80)) } "."
        }
        @if let Some(label) = &shown.head.glance.label { " Label " code.untrusted { (line(label, 80)) } "." }
        @if !report.off.is_empty() { " Switched off: " (report.off.join(", ")) "." }
    }
}

/// The steps of a plan, numbered.
pub(super) fn plan_steps(plan: &Plan) -> Markup {
    html! {
        ol.steps {
            @for step in plan.steps.iter().take(STEPS) {
                li {
                    code.untrusted {
                        (line(step.get("tool").and_then(Value::as_str).unwrap_or("?"), 80)) " "
                        (line(&step.get("args").map(Value::to_string).unwrap_or_default(), 400))
                    }
                }
            }
        }
        @if plan.steps.len() > STEPS { p.soft { "… and " (plan.steps.len() - STEPS) " more" } }
    }
}

fn graph_section(shown: &Shown, principal: &Principal) -> Markup {
    let place = format!("/sessions/{}/graph.svg", links::encoded(&shown.name));
    let place = signed(principal, &place);
    let mark = if place.contains('?') { '&' } else { '?' };
    let place = format!("{place}{mark}at={}", shown.head.seq);
    let report = &shown.report;
    html! {
        section #graph .card data-live {
            h2 { "Workflow" }
            a.graph href=(place) { img src=(place) alt=(line(&told(report), 600)); }
            ul.loops {
                @for found in &report.loops {
                    li {
                        span.badge.untrusted { (found.badge) } " at " span.untrusted { (line(&found.header, 60)) }
                        span.soft.untrusted { " (" (line(&found.nodes.join(", "), 160)) ")" }
                    }
                }
            }
            @for text in trend::all(report) { p.soft.untrusted { (line(&text, 200)) } }
        }
    }
}

/// The drawing in words, for whoever does not see it.
fn told(report: &Report) -> String {
    let loops: Vec<String> =
        report.loops.iter().map(|found| format!("{} over {}", found.badge, found.nodes.join(", "))).collect();
    let loops = if loops.is_empty() { "no loops".to_owned() } else { loops.join("; ") };
    let at = report.node.as_deref().unwrap_or("its start");
    let halt = report.halt_reason.map(|reason| format!(", halted: {}", reason.as_str())).unwrap_or_default();
    format!("The workflow: it is at {at}{halt}; {loops}")
}

fn tools(report: &Report) -> Markup {
    let mut tools: Vec<_> = report.tools.iter().collect();
    tools.sort_by_key(|(_, used)| std::cmp::Reverse(used.calls));
    html! {
        section #tools .card data-live {
            h2 { "Tools" }
            @if tools.is_empty() { p.soft { "No tool was asked for." } } @else {
                table {
                    thead { tr {
                        th scope="col" { "Tool" } th.number scope="col" { "Calls" } th.number scope="col" { "Failed" }
                        th.number scope="col" { "Refused" }
                    } }
                    tbody { @for (name, used) in tools.iter().take(20) {
                        tr {
                            th.untrusted scope="row" { (line(name, 60)) }
                            td.number { (used.calls) } td.number { (used.failed) } td.number { (used.refused) }
                        }
                    } }
                }
            }
        }
    }
}

fn children(heads: &[(SessionActivity, Head)], now: u64) -> Markup {
    html! {
        section.card {
            h2 { "Sessions below" }
            ul.children { @for (activity, head) in heads {
                li {
                    (state(activity)) " "
                    a.untrusted href=(links::session(&head.session)) { (line(&head.session, 100)) }
                    span.soft { " " (ago(head.updated, now)) }
                }
            } }
        }
    }
}

fn commands(all: &[String]) -> Markup {
    html! {
        section.card {
            h2 { "On the command line" }
            @for command in all {
                div.command { pre.untrusted { (line(command, 400)) } button.copy type="button" hidden { "Copy" } }
            }
        }
    }
}

/// The workflow of a session, drawn.
pub(super) async fn graph(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response, Trouble> {
    principal.may_touch(&name)?;
    let drawing = office
        .look(move |office| {
            let recorder = office.under(&name)?;
            let (session, policy) = office.session(&name)?;
            let view = match session.workflow() {
                Some(workflow) => {
                    let (mut view, _) = view_of(&session, &policy, workflow);
                    add_branches(&mut view, &recorder, &name)?;
                    view
                }
                None => View::default(),
            };
            Ok::<_, Problem>(svg(&view))
        })
        .await?;
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, DRAWING)];
    Ok((headers, drawing).into_response())
}
