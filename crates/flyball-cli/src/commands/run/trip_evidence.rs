//! The evidence behind a decision that stopped a run, for the final screen and for prompts.

use super::run_state::RunState;
use crate::color::{TextStyle, style_stdout};
use crate::error::CliError;
use crate::evidence::{fetch, format_evidence};
use crate::explanations::{explain_reason, sentence};
use crate::formatting::single_line;
use crate::trend;
use flyball::{Decision, Trip};
use flyball_store::AdminStore;

/// Maximum number of evidence events shown, newest first.
const MAX_EVENTS: usize = 6;
/// Maximum width of an evidence line.
pub(super) const MAX_LINE_CHARS: usize = 200;

/// The trip that stopped the session.
pub(super) fn worst_trip(decision: &Decision) -> Option<&Trip> {
    decision.trips.iter().max_by_key(|trip| trip.severity)
}

/// A trip's message with its guard and reason, and an explanation.
pub(super) fn finding_lines(trip: &Trip) -> Vec<String> {
    let guard = style_stdout(TextStyle::Dim, &format!("({} / {})", trip.guard, trip.reason));
    let first = format!("{} {guard}", single_line(&sentence(&trip.message), 400));
    [first].into_iter().chain(explain_reason(&trip.reason).map(str::to_owned)).collect()
}

/// A trip's evidence with its newest events from the store.
pub(super) fn supporting_events(
    admin_store: Option<&dyn AdminStore>,
    session: &str,
    trip: &Trip,
) -> Result<Vec<String>, CliError> {
    let wanted = trip.evidence.events.iter().rev().take(MAX_EVENTS).copied().collect();
    let events = match admin_store {
        Some(admin_store) => fetch(admin_store, session, &wanted)?,
        None => Vec::new(),
    };
    Ok(format_evidence(trip, &events).iter().map(|text| truncate_line(text)).collect())
}

/// The tests that failed in the last run of the tests, unless the trip names them.
pub(super) fn still_failing_text(run_state: &RunState, session: &str, trip: &Trip) -> Option<String> {
    let failing = run_state.branch(session).map(|branch| branch.failing_tests.join(", ")).unwrap_or_default();
    let unnamed = !failing.is_empty() && trip.evidence.names.is_empty();
    unnamed.then(|| single_line(&format!("still failing: {failing}"), MAX_LINE_CHARS))
}

/// The full evidence for a decision, shown before a person answers.
pub(super) fn evidence_lines(
    run_state: &RunState,
    admin_store: Option<&dyn AdminStore>,
    decision: &Decision,
) -> Result<Vec<String>, CliError> {
    let Some(trip) = worst_trip(decision) else { return Ok(Vec::new()) };
    let session = decision.session.as_str();
    let mut all = finding_lines(trip);
    all.extend(supporting_events(admin_store, session, trip)?.iter().map(|text| format!("  {text}")));
    all.extend(still_failing_text(run_state, session, trip).map(|text| format!("  {text}")));
    if let Some(report) = run_state.report(session) {
        all.extend(
            trend::all_trends(&report).iter().map(|text| format!("  {}", single_line(text, MAX_LINE_CHARS))),
        );
    }
    Ok(all)
}

/// An evidence line cut to the maximum width; a short line keeps its colors.
fn truncate_line(text: &str) -> String {
    if text.chars().count() > MAX_LINE_CHARS {
        text.chars().take(MAX_LINE_CHARS).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}
