//! The evidence behind a decision that stopped a run: on the last screen, and before a person is asked.

use super::so_far::SoFar;
use crate::evidence::{fetch, told};
use crate::fail::Failure;
use crate::meaning::{meaning, sentence};
use crate::paint::{Style, paint_out};
use crate::trend;
use crate::words::line;
use flyball::{Decision, Trip};
use flyball_journal::Desk;

/// How many of the events that a trip rests on are shown, the newest of them.
const EVENTS: usize = 6;
/// How wide a line of evidence may be.
pub(super) const WIDE: usize = 200;

/// The trip that stopped the session.
pub(super) fn gravest(decision: &Decision) -> Option<&Trip> {
    decision.trips.iter().max_by_key(|trip| trip.severity)
}

/// What a trip found, with its guard and reason, and what that means.
pub(super) fn finding(trip: &Trip) -> Vec<String> {
    let guard = paint_out(Style::Dim, &format!("({} / {})", trip.guard, trip.reason));
    let first = format!("{} {guard}", line(&sentence(&trip.message), 400));
    [first].into_iter().chain(meaning(&trip.reason).map(str::to_owned)).collect()
}

/// What a trip rests on, with the newest of its events from the store.
pub(super) fn support(desk: Option<&dyn Desk>, session: &str, trip: &Trip) -> Result<Vec<String>, Failure> {
    let wanted = trip.evidence.events.iter().rev().take(EVENTS).copied().collect();
    let events = match desk {
        Some(desk) => fetch(desk, session, &wanted)?,
        None => Vec::new(),
    };
    Ok(told(trip, &events).iter().map(|text| cut(text)).collect())
}

/// The tests that failed when they were last run, unless the trip names them itself.
pub(super) fn still_failing(so_far: &SoFar, session: &str, trip: &Trip) -> Option<String> {
    let failing = so_far.lane(session).map(|lane| lane.failing.join(", ")).unwrap_or_default();
    let unnamed = !failing.is_empty() && trip.evidence.names.is_empty();
    unnamed.then(|| line(&format!("still failing: {failing}"), WIDE))
}

/// Everything that a person needs to know about a decision before they answer.
pub(super) fn evidence_lines(
    so_far: &SoFar,
    desk: Option<&dyn Desk>,
    decision: &Decision,
) -> Result<Vec<String>, Failure> {
    let Some(trip) = gravest(decision) else { return Ok(Vec::new()) };
    let session = decision.session.as_str();
    let mut all = finding(trip);
    all.extend(support(desk, session, trip)?.iter().map(|text| format!("  {text}")));
    all.extend(still_failing(so_far, session, trip).map(|text| format!("  {text}")));
    if let Some(report) = so_far.report(session) {
        all.extend(trend::all(&report).iter().map(|text| format!("  {}", line(text, WIDE))));
    }
    Ok(all)
}

/// A line of evidence that is not too wide; the colors of a short one are kept.
fn cut(text: &str) -> String {
    if text.chars().count() > WIDE {
        text.chars().take(WIDE).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}
