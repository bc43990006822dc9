//! Sessions as a list, and one of them.

use super::ask::{Name, Query, bad_request};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Principal, Scope};
use axum::Json;
use axum::extract::{Extension, State};
use flyball_journal::{Head, Which};
use flyball_view::whereabouts::Whereabouts;
use flyball_view::{Plan, SessionActivity, SessionStatus, heads, story};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// How many sessions a page has, if nothing is said, and at most.
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 500;
/// How many sessions are looked through for a search or a later page.
const LOOKED_THROUGH: usize = 100_000;

/// Which sessions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only those in this state.
    #[param(inline)]
    state: Option<Standing>,
    /// Only those whose name holds this.
    #[param(max_length = 512)]
    search: Option<String>,
    /// How many at once: 50 if nothing is said, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// Where the page before ended: its `next`.
    #[param(pattern = r"^\d{1,19}:.{1,512}$")]
    after: Option<String>,
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// A process holds it, or an event arrived within the last minute.
    Running,
    /// No event for a minute or more.
    Idle,
    /// The process that ran it is gone.
    Lost,
    /// A plan is awaiting approval.
    AwaitingConfirmation,
    /// A question to a person has not been answered.
    AwaitingAnswer,
    /// It needs a release.
    Blocked,
    /// It is stopped until a release.
    Halted,
    /// It is over.
    Ended,
}

impl From<SessionStatus> for Standing {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Running => Standing::Running,
            SessionStatus::Idle => Standing::Idle,
            SessionStatus::Lost => Standing::Lost,
            SessionStatus::AwaitingConfirmation => Standing::AwaitingConfirmation,
            SessionStatus::AwaitingAnswer => Standing::AwaitingAnswer,
            SessionStatus::Blocked => Standing::Blocked,
            SessionStatus::Halted => Standing::Halted,
            SessionStatus::Ended => Standing::Ended,
        }
    }
}

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionLine {
    /// Its name.
    session: String,
    /// What it is doing.
    state: Standing,
    /// How long it has been idle, in milliseconds; only if it is.
    idle_ms: Option<u64>,
    /// The question that has not been answered, if there is one.
    question: Option<String>,
    /// How many events it has.
    events: u64,
    /// Decisions `warn` so far.
    warnings: u64,
    /// Decisions `block` so far.
    blocks: u64,
    /// Decisions `halt` so far.
    halts: u64,
    /// Why it stands still, if it does.
    stopped_by: Option<String>,
    /// The label that calls a person, while it is set.
    label: Option<String>,
    /// The session above it.
    parent: Option<String>,
    /// The time of its first event, in milliseconds since 1970.
    started: u64,
    /// The time of its last event.
    updated: u64,
}

impl SessionLine {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.session
    }
}

impl SessionLine {
    /// A session with what it is doing.
    pub(crate) fn new(head: Head, activity: SessionActivity) -> Self {
        let Head { session, seq: events, started, updated, glance, .. } = head;
        SessionLine {
            session,
            state: activity.status.into(),
            idle_ms: activity.idle_ms,
            question: activity.question,
            events,
            warnings: glance.warnings,
            blocks: glance.blocks,
            halts: glance.halts,
            stopped_by: glance.stopped_by,
            label: glance.label,
            parent: glance.parent,
            started,
            updated,
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionPage {
    /// The sessions, the one that changed last first.
    sessions: Vec<SessionLine>,
    /// What to send as `after` for the next page; nothing if this is the last one.
    next: Option<String>,
}

/// Sessions, the one that changed last first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(Wanted),
    responses((status = 200, description = "A page of sessions", body = SessionPage)))]
pub(crate) async fn list(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<SessionPage>, Problem> {
    if wanted.search.as_ref().is_some_and(|part| part.chars().count() > flyball::limits::NAME_BYTES) {
        return Err(bad_request("`search` is longer than a name can be"));
    }
    let after = wanted.after.as_deref().map(place).transpose()?;
    let most = match wanted.limit {
        Some(limit) => usize::try_from(limit).ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit)),
        None => Some(PAGE),
    };
    let most = most.ok_or_else(|| bad_request("`limit` is a number from 1 to 500"))?;
    office.look(move |office| page(office, &principal, &wanted, after.as_ref(), most)).await.map(Json)
}

fn page(
    office: &Office,
    principal: &Principal,
    wanted: &Wanted,
    after: Option<&(u64, String)>,
    most: usize,
) -> Result<SessionPage, Problem> {
    let (which, state) = match wanted.state {
        None => (Which::All, None),
        Some(Standing::Blocked | Standing::Halted) => (Which::Blocked, wanted.state),
        Some(Standing::AwaitingConfirmation) => (Which::Waiting, wanted.state),
        Some(_) => (Which::All, wanted.state),
    };
    let picky =
        state.is_some() || wanted.search.is_some() || after.is_some() || principal.scope != Scope::All;
    let read = if picky { LOOKED_THROUGH } else { most + 1 };
    let mut all = heads::heads(office.desk(), &[which], read)?;
    // Two that changed in the same millisecond are told apart by their names.
    all.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.session.cmp(&b.session)));
    let comes_after = |head: &Head, (updated, name): &(u64, String)| {
        head.updated < *updated || (head.updated == *updated && head.session > *name)
    };
    let reader = office.activity_reader()?;
    all.retain(|head| {
        wanted.search.as_ref().is_none_or(|part| head.session.contains(part.as_str()))
            && after.is_none_or(|after| comes_after(head, after))
            && principal.may_touch(&head.session).is_ok()
    });
    let mut sessions = Vec::new();
    for head in all {
        let activity = reader.activity(&head)?;
        if state.is_none_or(|state| is_in(state, &activity)) {
            sessions.push(SessionLine::new(head, activity));
        }
        if sessions.len() > most {
            break;
        }
    }
    let more = sessions.len() > most;
    sessions.truncate(most);
    let next = sessions.last().filter(|_| more).map(|last| format!("{}:{}", last.updated, last.session));
    Ok(SessionPage { sessions, next })
}

/// Whether a session is in a state. One that was halted and then ended is in both: it still waits for a release.
fn is_in(state: Standing, activity: &SessionActivity) -> bool {
    let waits_for_release = matches!(state, Standing::Blocked | Standing::Halted);
    (waits_for_release && activity.is_held) || state == activity.status.into()
}

/// Where a page ended: the time of the last change, and the name.
pub(crate) fn place(text: &str) -> Result<(u64, String), Problem> {
    let parts = text.split_once(':').and_then(|(at, name)| Some((at.parse().ok()?, name.to_owned())));
    parts.ok_or_else(|| bad_request("`after` is not the `next` of a page"))
}

/// One session: what it does, what it has used, what waits, and what was not simply allowed lately.
#[utoipa::path(get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session", min_length = 1, max_length = 512)),
    responses((status = 200, description = "The session", body = Object,
        example = json!({"session": "s1", "state": "running", "report": {"events": 3}, "pending": null}))))]
pub(crate) async fn one(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(name): Name,
) -> Result<Json<Value>, Problem> {
    office.may_see(&principal, &name).await?;
    office.look(move |office| told(office, &name)).await.map(Json)
}

fn told(office: &Office, name: &str) -> Result<Value, Problem> {
    let (state, policy) = office.session(name)?;
    let desk = office.desk();
    let head = desk.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
    let report = state.report_at(&policy, desk.now()?);
    let plan = Plan::of(desk, name, &state)?;
    let lately = story::lately(desk, name, head.seq)?;
    let run = Whereabouts::of(desk, name, &state)?;
    let activity = office.activity_reader()?.activity(&head)?;
    Ok(json!({"session": name, "state": activity.status, "idle_ms": activity.idle_ms,
        "question": activity.question, "report": report,
        "pending": plan.as_ref().map(Plan::as_json), "label": head.glance.label, "parent": head.glance.parent,
        "started": head.started, "updated": head.updated, "releases_ceiling": policy.releases.ceiling,
        "lately": lately, "run": run.as_ref().map(Whereabouts::as_json)}))
}
