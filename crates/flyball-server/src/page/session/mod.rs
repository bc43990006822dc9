//! Session page: status in one sentence, possible actions, workflow, timeline, evidence and budgets.

mod diff;
mod evidence;
mod gauges;
mod origin;
mod timeline;

use super::forms::{self, ActionNotice};
use super::inbox::{color_class, reason_section, waiting_sessions};
use super::layout::{NavSection, PageLayout, render_page};
use super::links;
use super::pending_action::{PendingAction, PendingActionKind};
use super::security_headers::PageError;
use super::session_list::{badges, status_badge};
use super::text::{single_line, timestamp};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Principal, signed_path};
use axum::extract::{Extension, Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use evidence::EvidenceFinding;
use flyball::graph::render::{GraphView, svg};
use flyball::policy::Policy;
use flyball::{SessionPhase, SessionReport};
use flyball_store::{SessionFilter, SessionRow};
use flyball_view::formatting::{plural, relative_time};
use flyball_view::workflow_view::{add_branches, workflow_view};
use flyball_view::{PlanView, SessionActivity, trend};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use timeline::TimelineWindow;

/// Number of sessions searched for children.
const MAX_SEARCHED_SESSIONS: usize = 1_000;
/// Maximum number of children shown.
const MAX_CHILDREN: usize = 50;
/// Maximum number of plan steps shown.
const MAX_PLAN_STEPS: usize = 20;
/// Content security policy of a graph that is opened directly: no scripts, no requests.
const DRAWING_CSP: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionPageQuery {
    name: Option<String>,
    /// The first event of the timeline window; by default the newest events are shown.
    from: Option<String>,
    /// The decision whose evidence is shown first.
    trip: Option<String>,
    #[serde(flatten)]
    notice: ActionNotice,
}

/// Data of the page.
struct SessionView {
    name: String,
    head: SessionRow,
    report: SessionReport,
    policy: Policy,
    action: PendingAction,
    has_workflow: bool,
    goal: Option<String>,
    window: TimelineWindow,
    findings: Vec<EvidenceFinding>,
    children: Vec<(SessionActivity, SessionRow)>,
    commands: Vec<String>,
    waiting: usize,
}

/// Renders the page of a session.
pub(super) async fn show(
    app: State<SharedState>,
    principal: Extension<Principal>,
    Path(name): Path<String>,
    Query(asked): Query<SessionPageQuery>,
) -> Result<Markup, PageError> {
    render_session(app, principal, name, asked).await
}

/// Renders the page of a session whose name cannot be a path segment.
pub(super) async fn show_named(
    app: State<SharedState>,
    principal: Extension<Principal>,
    Query(asked): Query<SessionPageQuery>,
) -> Result<Markup, PageError> {
    let name = asked.name.clone().unwrap_or_default();
    render_session(app, principal, name, asked).await
}

async fn render_session(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    name: String,
    asked: SessionPageQuery,
) -> Result<Markup, PageError> {
    principal.check_session(&name)?;
    let who = principal.clone();
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u64>().ok());
    let (from, trip) = (number(&asked.from), number(&asked.trip));
    let mut shown = app.run_blocking(move |app| read_session(app, &who, name, from, trip)).await?;
    shown.action = shown.action.with_ticket(&app, &principal).await;
    let title = single_line(&shown.name, 60);
    let frame = PageLayout {
        title: &title,
        section: NavSection::Sessions,
        principal: Some(&principal),
        waiting: Some(shown.waiting),
        notice: asked.notice.notice(),
        alarm: Some(app.warning_banner()),
    };
    Ok(render_page(&frame, body(&shown, &principal, app.now())?))
}

fn read_session(
    app: &AppState,
    who: &Principal,
    name: String,
    from: Option<u64>,
    trip: Option<u64>,
) -> Result<SessionView, ApiError> {
    let (session, policy) = app.session(&name)?;
    let store = app.store();
    let head =
        store.load(&name)?.map(|loaded| loaded.head).ok_or_else(|| ApiError::unknown_session(&name))?;
    let report = session.report(&policy);
    let below = |head: &SessionRow| head.summary.parent.as_deref() == Some(name.as_str());
    let mut children = store.list_sessions(SessionFilter::All, MAX_SEARCHED_SESSIONS)?;
    children.retain(|head| below(head) && who.check_session(&head.session).is_ok());
    children.truncate(MAX_CHILDREN);
    let reader = app.activity_reader()?;
    let child = |head: SessionRow| Ok::<_, ApiError>((reader.activity(&head)?, head));
    let children = children.into_iter().map(child).collect::<Result<_, _>>()?;
    let plan = PlanView::load(store, &name, &session)?;
    let origins = origin::PolicyOrigins::load(app, &name, &session)?;
    Ok(SessionView {
        action: PendingAction::for_state(app, &name, &session, &policy)?,
        has_workflow: session.workflow().is_some(),
        goal: timeline::goal(store, &name)?,
        window: TimelineWindow::read(store, &name, head.seq, from)?,
        findings: evidence::findings(store, &name, head.seq, trip, &origins)?,
        children,
        commands: flyball_view::next_commands(store, &name, &session, plan.as_ref())?,
        waiting: waiting_sessions(app, who)?.len(),
        head,
        report,
        policy,
        name,
    })
}

fn body(shown: &SessionView, principal: &Principal, now: u64) -> Result<Markup, ApiError> {
    let held = matches!(shown.action.kind, PendingActionKind::Held { .. });
    let act = if shown.report.status == SessionPhase::Ended && !held {
        None
    } else {
        Some(forms::action_form(&shown.action, principal, "session")?)
    };
    Ok(html! {
        nav.crumbs aria-label="Breadcrumb" { a href="/sessions" { "Sessions" } " / " span.untrusted { (single_line(&shown.name, 80)) } }
        div #head .card.session-head data-live {
            div.heading {
                h1.untrusted { (single_line(&shown.name, 120)) }
                (status_badge(&shown.action.activity))
                (badges(&shown.report))
            }
            p.headline.untrusted { (headline(shown, now)) }
            @if let Some(goal) = &shown.goal { p.soft.untrusted { "Goal: " (single_line(goal, 300)) } }
            p.soft { (counts(shown, now)) }
        }
        section #need class=(format!("card need {}", color_class(&shown.action))) data-live data-item tabindex="-1" aria-labelledby="need-title" {
            h2 #need-title { (action_title(&shown.action)) }
            @if !matches!(shown.action.kind, PendingActionKind::Nothing) { (reason_section(&shown.action, now)) }
            @if let Some(act) = act { (act) } @else { p.soft { "This session has ended." } }
        }
        @if shown.has_workflow { (side_sections(shown, principal)) }
        @if !shown.findings.is_empty() { (evidence::section(&shown.name, &shown.findings)) }
        @if !shown.has_workflow { (side_sections(shown, principal)) }
        (timeline::section(&shown.name, &shown.window))
        @if !shown.children.is_empty() { (children(&shown.children, now)) }
        (commands(&shown.commands))
    })
}

/// Budgets, next to the workflow or the tools.
fn side_sections(shown: &SessionView, principal: &Principal) -> Markup {
    html! {
        div.two {
            div {
                (gauges::section(&shown.report, &shown.policy))
                @if shown.has_workflow && !shown.report.tools.is_empty() { (tools(&shown.report)) }
            }
            @if shown.has_workflow { (graph_section(shown, principal)) } @else { (tools(&shown.report)) }
        }
    }
}

fn action_title(need: &PendingAction) -> &'static str {
    match need.kind {
        PendingActionKind::Held { .. } => "Why it stopped",
        PendingActionKind::Plan { .. } => "Plan awaiting approval",
        PendingActionKind::Question { .. } => "Question",
        PendingActionKind::Nothing => "Actions",
    }
}

/// The status in one sentence.
fn headline(shown: &SessionView, now: u64) -> String {
    match (&shown.action.kind, shown.report.status) {
        (PendingActionKind::Held { .. }, _) => shown.action.sentence(),
        (PendingActionKind::Plan { .. }, _) => format!("Awaiting approval: {}", shown.action.sentence()),
        (PendingActionKind::Question { .. }, _) => format!("Question: {}", shown.action.sentence()),
        (PendingActionKind::Nothing, SessionPhase::Ended) => {
            format!("Ended {}.", relative_time(shown.head.updated, now))
        }
        (PendingActionKind::Nothing, _) => {
            let at = shown.report.node.as_deref().map(|node| format!(" at {}", single_line(node, 60)));
            let summary = match shown.report.warnings + shown.report.blocks {
                0 => "no warnings or blocks".to_owned(),
                _ => format!(
                    "{}, {}",
                    plural(shown.report.warnings, "warning"),
                    plural(shown.report.blocks, "block")
                ),
            };
            format!("Running{}: {summary}.", at.unwrap_or_default())
        }
    }
}

fn counts(shown: &SessionView, now: u64) -> Markup {
    let report = &shown.report;
    html! {
        (plural(report.events, "event")) ", " (plural(report.calls, "call")) " (" (report.errors) " failed), "
        (report.warnings) " warned, " (report.blocks) " blocked, " (report.halts) " halted. "
        "Started " (timestamp(shown.head.started)) ", last change " (relative_time(shown.head.updated, now)) "."
        @if let Some(parent) = &shown.head.summary.parent {
            " Child of " a.untrusted href=(links::session_path(parent)) { (single_line(parent, 80)) } "."
        }
        @if let Some(label) = &shown.head.summary.label { " Label " code.untrusted { (single_line(label, 80)) } "." }
        @if !report.off.is_empty() { " Disabled: " (report.off.join(", ")) "." }
    }
}

/// The steps of a plan as a numbered list.
pub(super) fn plan_steps(plan: &PlanView) -> Markup {
    html! {
        ol.steps {
            @for step in plan.steps.iter().take(MAX_PLAN_STEPS) {
                li {
                    code.untrusted {
                        (single_line(step.get("tool").and_then(Value::as_str).unwrap_or("?"), 80)) " "
                        (single_line(&step.get("args").map(Value::to_string).unwrap_or_default(), 400))
                    }
                }
            }
        }
        @if plan.steps.len() > MAX_PLAN_STEPS { p.soft { "… and " (plan.steps.len() - MAX_PLAN_STEPS) " more" } }
    }
}

fn graph_section(shown: &SessionView, principal: &Principal) -> Markup {
    let path = format!("/sessions/{}/graph.svg", links::encoded(&shown.name));
    let path = signed_path(principal, &path);
    let mark = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{mark}at={}", shown.head.seq);
    let report = &shown.report;
    html! {
        section #graph .card data-live {
            h2 { "Workflow" }
            a.graph href=(path) { img src=(path) alt=(single_line(&graph_alt_text(report), 600)); }
            ul.loops {
                @for found in &report.loops {
                    li {
                        span.badge.untrusted { (found.badge) } " at " span.untrusted { (single_line(&found.header, 60)) }
                        span.soft.untrusted { " (" (single_line(&found.nodes.join(", "), 160)) ")" }
                    }
                }
            }
            @for text in trend::all_trends(report) { p.soft.untrusted { (single_line(&text, 200)) } }
        }
    }
}

/// Alternative text of the graph.
fn graph_alt_text(report: &SessionReport) -> String {
    let loops: Vec<String> =
        report.loops.iter().map(|found| format!("{} over {}", found.badge, found.nodes.join(", "))).collect();
    let loops = if loops.is_empty() { "no loops".to_owned() } else { loops.join("; ") };
    let at = report.node.as_deref().unwrap_or("its start");
    let halt = report.halt_reason.map(|reason| format!(", halted: {}", reason.as_str())).unwrap_or_default();
    format!("Workflow graph: at {at}{halt}; {loops}")
}

fn tools(report: &SessionReport) -> Markup {
    let mut tools: Vec<_> = report.tools.iter().collect();
    tools.sort_by_key(|(_, used)| std::cmp::Reverse(used.calls));
    html! {
        section #tools .card data-live {
            h2 { "Tools" }
            @if tools.is_empty() { p.soft { "No tool calls yet." } } @else {
                table {
                    thead { tr {
                        th scope="col" { "Tool" } th.number scope="col" { "Calls" } th.number scope="col" { "Failed" }
                        th.number scope="col" { "Blocked" }
                    } }
                    tbody { @for (name, used) in tools.iter().take(20) {
                        tr {
                            th.untrusted scope="row" { (single_line(name, 60)) }
                            td.number { (used.calls) } td.number { (used.failed) } td.number { (used.refused) }
                        }
                    } }
                }
            }
        }
    }
}

fn children(heads: &[(SessionActivity, SessionRow)], now: u64) -> Markup {
    html! {
        section.card {
            h2 { "Child sessions" }
            ul.children { @for (activity, head) in heads {
                li {
                    (status_badge(activity)) " "
                    a.untrusted href=(links::session_path(&head.session)) { (single_line(&head.session, 100)) }
                    span.soft { " " (relative_time(head.updated, now)) }
                }
            } }
        }
    }
}

fn commands(all: &[String]) -> Markup {
    html! {
        section.card {
            h2 { "Command line" }
            @for command in all {
                div.command { pre.untrusted { (single_line(command, 400)) } button.copy type="button" hidden { "Copy" } }
            }
        }
    }
}

/// Draws the workflow of a session as SVG.
pub(super) async fn graph(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    principal.check_session(&name)?;
    let drawing = app
        .run_blocking(move |app| {
            let recorder = app.recorder_for(&name)?;
            let (session, policy) = app.session(&name)?;
            let view = match session.workflow() {
                Some(workflow) => {
                    let (mut view, _) = workflow_view(&session, &policy, workflow);
                    add_branches(&mut view, &recorder, &name)?;
                    view
                }
                None => GraphView::default(),
            };
            Ok::<_, ApiError>(svg(&view))
        })
        .await?;
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, DRAWING_CSP)];
    Ok((headers, drawing).into_response())
}
