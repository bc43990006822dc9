//! The pending action of a session: approve a plan, release a hold, or answer a question; with its evidence.

use super::text::single_line;
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use flyball::policy::Policy;
use flyball::{Decision, SessionPhase, SessionReport, SessionState, Trip};
use flyball_store::{AdminStore, StoreError};
use flyball_view::evidence::{EvidenceLine, fetch};
use flyball_view::explanations::{explain_reason, sentence};
use flyball_view::{PlanView, SessionActivity, run_status};
use std::collections::BTreeSet;

/// How many events back the one that stopped a session is searched.
const MAX_LOOKBACK_EVENTS: u64 = 200;
/// Number of evidence events shown in short form.
const MAX_EVIDENCE_LINES: usize = 3;

/// A session and its pending action.
#[derive(Debug)]
pub(super) struct PendingAction {
    pub(super) session: String,
    pub(super) activity: SessionActivity,
    /// Since when, in milliseconds since 1970.
    pub(super) since: u64,
    pub(super) kind: PendingActionKind,
}

/// Kind of pending action.
#[derive(Debug)]
pub(super) enum PendingActionKind {
    /// The session is held.
    Held {
        /// The guard that a release names; `human` if only an operator stopped the session.
        guard: String,
        /// The messages of the operator stops in effect.
        stops: Vec<String>,
        message: String,
        trip: Option<Box<Trip>>,
        /// The last events of the evidence.
        lines: Vec<EvidenceLine>,
        /// Number of releases of this guard so far, and the maximum.
        released: (u64, u64),
    },
    /// A plan is awaiting approval.
    Plan {
        plan: PlanView,
        /// The ticket for an approval, or why the user cannot approve.
        ticket: Result<String, String>,
    },
    /// A question is open.
    Question { text: String },
    /// Nothing is pending; the session can only be stopped.
    Nothing,
}

impl PendingAction {
    /// Loads the pending action of a session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn load(app: &AppState, name: &str) -> Result<Self, ApiError> {
        let (state, policy) = app.session(name)?;
        PendingAction::for_state(app, name, &state, &policy)
    }

    /// The pending action of a session with a known state.
    ///
    /// # Errors
    /// If its events cannot be read.
    pub(super) fn for_state(
        app: &AppState,
        name: &str,
        state: &SessionState,
        policy: &Policy,
    ) -> Result<Self, ApiError> {
        let report = state.report(policy);
        let store = app.store();
        let (since, kind) = match state.status() {
            SessionPhase::AwaitingConfirmation => plan_action(store, name, state)?,
            SessionPhase::Blocked | SessionPhase::Halted => {
                release_action(store, name, state, &report, policy.releases.ceiling)?
            }
            SessionPhase::Running => match run_status::unanswered_question(store, name, state.seq())? {
                Some(text) => (event_time(store, name, state.seq())?, PendingActionKind::Question { text }),
                None => (event_time(store, name, state.seq())?, PendingActionKind::Nothing),
            },
            SessionPhase::Ended if state.is_held() => {
                release_action(store, name, state, &report, policy.releases.ceiling)?
            }
            SessionPhase::Ended => (event_time(store, name, state.seq())?, PendingActionKind::Nothing),
        };
        let head = store.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
        let activity = app.activity_reader()?.activity(&head)?;
        Ok(PendingAction { session: name.to_owned(), activity, since, kind })
    }

    /// Issues the ticket that an approval needs.
    pub(super) async fn with_ticket(mut self, app: &SharedState, principal: &Principal) -> Self {
        let now = app.now();
        if let PendingActionKind::Plan { plan, ticket } = &mut self.kind {
            *ticket = if let Some(why) = plan.tampered {
                Err(why.to_owned())
            } else if plan.is_expired(now) {
                Err("the plan has expired; the agent must request it again".to_owned())
            } else if plan.requester.as_ref().is_some_and(|by| *by != principal.name) {
                let by = plan.requester.as_deref().map(|by| single_line(by, 60)).unwrap_or_default();
                Err(format!("only {by} can approve it"))
            } else {
                let made = app.tickets.ticket_for(app, principal, &self.session, &plan.digest).await;
                made.map_err(|problem| problem.message)
            };
        }
        self
    }

    /// The reason for the pending action, in one sentence.
    pub(super) fn sentence(&self) -> String {
        match &self.kind {
            PendingActionKind::Held { trip, message, .. } => headline(trip.as_deref(), message),
            PendingActionKind::Plan { plan, .. } => single_line(&plan.question, 300),
            PendingActionKind::Question { text } => single_line(text, 300),
            PendingActionKind::Nothing => String::new(),
        }
    }
}

/// Summarizes a trip in one sentence.
pub(super) fn headline(trip: Option<&Trip>, message: &str) -> String {
    let Some(trip) = trip else { return single_line(&sentence(message), 300) };
    let repeats = trip.evidence.repeats.unwrap_or(trip.count);
    match trip.reason.as_str() {
        "repetition_loop" => format!("Stuck: the same call, the same result, {repeats} times."),
        "cycle_detected" => match trip.evidence.period {
            Some(period) if period > 1 => {
                format!("Going in circles: the same {period} steps, {repeats} times.")
            }
            _ => format!("Going in circles: the same step, {repeats} times."),
        },
        "user_stop" => "Stopped by an operator.".to_owned(),
        reason if trip.budget.is_none() && trip.severity.as_str() == "halt" => {
            let meaning = explain_reason(reason).map(|text| format!("Stuck: {}", lowercase_first(text)));
            meaning.unwrap_or_else(|| single_line(&sentence(message), 300))
        }
        _ => single_line(&sentence(message), 300),
    }
}

fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_lowercase().collect()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

fn event_time(store: &dyn AdminStore, name: &str, seq: u64) -> Result<u64, StoreError> {
    Ok(store.records(name, seq, seq)?.pop().and_then(|record| record.at).unwrap_or_default())
}

fn plan_action(
    store: &dyn AdminStore,
    name: &str,
    state: &SessionState,
) -> Result<(u64, PendingActionKind), StoreError> {
    let since = match state.pending_plan() {
        Some(waiting) => event_time(store, name, waiting.request_seq)?,
        None => 0,
    };
    let kind = match PlanView::load(store, name, state)? {
        Some(plan) => PendingActionKind::Plan { plan, ticket: Err("not loaded".to_owned()) },
        None => PendingActionKind::Nothing,
    };
    Ok((since, kind))
}

fn release_action(
    store: &dyn AdminStore,
    name: &str,
    state: &SessionState,
    report: &SessionReport,
    ceiling: u64,
) -> Result<(u64, PendingActionKind), StoreError> {
    let (guard, message) = state.status_summary().stopped_by.unwrap_or_default();
    let (since, stopped) = stopped_at(store, name, state)?;
    let trip = stopped.and_then(|decision| {
        let same = decision.trips.iter().find(|trip| trip.guard == guard).cloned();
        same.or_else(|| decision.trips.into_iter().max_by_key(|trip| trip.severity))
    });
    let events = trip.as_ref().map(|trip| trip.evidence.events.as_slice()).unwrap_or_default();
    let wanted: BTreeSet<u64> = events.iter().rev().take(MAX_EVIDENCE_LINES).copied().collect();
    let releasable = state.guard_hold().map_or(guard, |hold| hold.guard);
    let kind = PendingActionKind::Held {
        guard: releasable.to_owned(),
        stops: state.operator_stops().map(|stop| stop.message.into_owned()).collect(),
        message: message.into_owned(),
        lines: fetch(store, name, &wanted)?,
        released: (report.releases.get(releasable).copied().unwrap_or_default(), ceiling),
        trip: trip.map(Box::new),
    };
    Ok((since, kind))
}

/// When a session entered its current state, and the decision that stopped it.
pub(super) fn stopped_at(
    store: &dyn AdminStore,
    name: &str,
    state: &SessionState,
) -> Result<(u64, Option<Decision>), StoreError> {
    let newest = state.seq();
    let records = store.records(name, newest.saturating_sub(MAX_LOOKBACK_EVENTS - 1).max(1), newest)?;
    // A hold outlives the end of the session: the decision is the one before the end.
    let held = |status: SessionPhase| match state.status() {
        SessionPhase::Ended => {
            matches!(status, SessionPhase::Ended | SessionPhase::Halted | SessionPhase::Blocked)
        }
        now => status == now,
    };
    let unchanged = records.iter().rev().take_while(|record| held(record.status));
    let first = unchanged.last();
    let decision = first.and_then(|record| serde_json::from_str(&record.decision_json).ok());
    Ok((first.and_then(|record| record.at).unwrap_or_default(), decision))
}
