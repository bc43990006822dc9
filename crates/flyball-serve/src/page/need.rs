//! What a session needs of a person: an answer to a plan, a release, an answer to a question; with what it rests on.

use super::text::line;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use flyball::policy::Policy;
use flyball::{Decision, Report, State, Status, Trip};
use flyball_journal::{Desk, StoreError};
use flyball_view::evidence::{Line, fetch};
use flyball_view::meaning::{meaning, sentence};
use flyball_view::{Plan, SessionActivity, whereabouts};
use std::collections::BTreeSet;

/// How many events are looked back over for the one that stopped a session.
const BACK: u64 = 200;
/// How many events of the evidence are told in short.
const SHORT: usize = 3;

/// What a session needs.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) session: String,
    pub(super) activity: SessionActivity,
    /// Since when, in milliseconds since 1970.
    pub(super) since: u64,
    pub(super) what: What,
}

/// What is needed.
#[derive(Debug)]
pub(super) enum What {
    /// It was stopped.
    Held {
        /// The guard that a release names; `human` if only a person has stopped it.
        guard: String,
        /// Who has stopped it and why, for each stop by a person that holds.
        stops: Vec<String>,
        message: String,
        trip: Option<Box<Trip>>,
        /// The last events that it rests on.
        lines: Vec<Line>,
        /// Releases of this guard so far, and how many there may be.
        released: (u64, u64),
    },
    /// A plan waits for a yes.
    Plan {
        plan: Plan,
        /// The ticket for a yes, or why they cannot give it.
        ticket: Result<String, String>,
    },
    /// It asks something.
    Question { text: String },
    /// Nothing; it can only be stopped.
    Nothing,
}

impl Need {
    /// What a session needs, as its state is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn of(office: &Office, name: &str) -> Result<Self, Problem> {
        let (state, policy) = office.session(name)?;
        Need::standing(office, name, &state, &policy)
    }

    /// What a session needs, whose state is known.
    ///
    /// # Errors
    /// If its events cannot be read.
    pub(super) fn standing(
        office: &Office,
        name: &str,
        state: &State,
        policy: &Policy,
    ) -> Result<Self, Problem> {
        let report = state.report(policy);
        let desk = office.desk();
        let (since, what) = match state.status() {
            Status::AwaitingConfirmation => waiting(desk, name, state)?,
            Status::Blocked | Status::Halted => held(desk, name, state, &report, policy.releases.ceiling)?,
            Status::Running => match whereabouts::question(desk, name, state.seq())? {
                Some(text) => (at(desk, name, state.seq())?, What::Question { text }),
                None => (at(desk, name, state.seq())?, What::Nothing),
            },
            Status::Ended if state.is_held() => held(desk, name, state, &report, policy.releases.ceiling)?,
            Status::Ended => (at(desk, name, state.seq())?, What::Nothing),
        };
        let head = desk.load(name)?.map(|loaded| loaded.head).unwrap_or_default();
        let activity = office.activity_reader()?.activity(&head)?;
        Ok(Need { session: name.to_owned(), activity, since, what })
    }

    /// Gives out the ticket that a yes needs.
    pub(super) async fn with_ticket(mut self, office: &Shared, principal: &Principal) -> Self {
        let now = office.now();
        if let What::Plan { plan, ticket } = &mut self.what {
            *ticket = if let Some(why) = plan.tampered {
                Err(why.to_owned())
            } else if plan.late(now) {
                Err("a yes comes too late: it must be asked again".to_owned())
            } else if plan.requester.as_ref().is_some_and(|by| *by != principal.name) {
                let by = plan.requester.as_deref().map(|by| line(by, 60)).unwrap_or_default();
                Err(format!("only {by} may say yes"))
            } else {
                let made = office.tickets.of(office, principal, &self.session, &plan.digest).await;
                made.map_err(|problem| problem.what)
            };
        }
        self
    }

    /// Why it waits, in one sentence.
    pub(super) fn sentence(&self) -> String {
        match &self.what {
            What::Held { trip, message, .. } => headline(trip.as_deref(), message),
            What::Plan { plan, .. } => line(&plan.question, 300),
            What::Question { text } => line(text, 300),
            What::Nothing => String::new(),
        }
    }
}

/// A trip in one sentence of plain words.
pub(super) fn headline(trip: Option<&Trip>, message: &str) -> String {
    let Some(trip) = trip else { return line(&sentence(message), 300) };
    let repeats = trip.evidence.repeats.unwrap_or(trip.count);
    match trip.reason.as_str() {
        "repetition_loop" => format!("Stuck: the same call, the same result, {repeats} times."),
        "cycle_detected" => match trip.evidence.period {
            Some(period) if period > 1 => {
                format!("Going in a circle: the same {period} steps, {repeats} times.")
            }
            _ => format!("Going in a circle: the same step, {repeats} times."),
        },
        "user_stop" => "Stopped by a person.".to_owned(),
        reason if trip.budget.is_none() && trip.severity.as_str() == "halt" => {
            let means = meaning(reason).map(|means| format!("Stuck: {}", lower(means)));
            means.unwrap_or_else(|| line(&sentence(message), 300))
        }
        _ => line(&sentence(message), 300),
    }
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_lowercase().collect()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

fn at(desk: &dyn Desk, name: &str, seq: u64) -> Result<u64, StoreError> {
    Ok(desk.records(name, seq, seq)?.pop().and_then(|record| record.at).unwrap_or_default())
}

fn waiting(desk: &dyn Desk, name: &str, state: &State) -> Result<(u64, What), StoreError> {
    let since = match state.waiting() {
        Some(waiting) => at(desk, name, waiting.asked)?,
        None => 0,
    };
    let what = match Plan::of(desk, name, state)? {
        Some(plan) => What::Plan { plan, ticket: Err("not looked up".to_owned()) },
        None => What::Nothing,
    };
    Ok((since, what))
}

fn held(
    desk: &dyn Desk,
    name: &str,
    state: &State,
    report: &Report,
    ceiling: u64,
) -> Result<(u64, What), StoreError> {
    let (guard, message) = state.standing().stopped_by.unwrap_or_default();
    let (since, stopped) = stopped_at(desk, name, state)?;
    let trip = stopped.and_then(|decision| {
        let same = decision.trips.iter().find(|trip| trip.guard == guard).cloned();
        same.or_else(|| decision.trips.into_iter().max_by_key(|trip| trip.severity))
    });
    let events = trip.as_ref().map(|trip| trip.evidence.events.as_slice()).unwrap_or_default();
    let wanted: BTreeSet<u64> = events.iter().rev().take(SHORT).copied().collect();
    let releasable = state.guard_hold().map_or(guard, |hold| hold.guard);
    let what = What::Held {
        guard: releasable.to_owned(),
        stops: state.operator_stops().map(|stop| stop.message.into_owned()).collect(),
        message: message.into_owned(),
        lines: fetch(desk, name, &wanted)?,
        released: (report.releases.get(releasable).copied().unwrap_or_default(), ceiling),
        trip: trip.map(Box::new),
    };
    Ok((since, what))
}

/// When a session came to stand as it stands, and the decision that stopped it.
pub(super) fn stopped_at(
    desk: &dyn Desk,
    name: &str,
    state: &State,
) -> Result<(u64, Option<Decision>), StoreError> {
    let newest = state.seq();
    let records = desk.records(name, newest.saturating_sub(BACK - 1).max(1), newest)?;
    // A halt outlives the end of the session: the decision is the one before the end.
    let held = |status: Status| match state.status() {
        Status::Ended => matches!(status, Status::Ended | Status::Halted | Status::Blocked),
        now => status == now,
    };
    let standing = records.iter().rev().take_while(|record| held(record.status));
    let first = standing.last();
    let decision = first.and_then(|record| serde_json::from_str(&record.decision).ok());
    Ok((first.and_then(|record| record.at).unwrap_or_default(), decision))
}
