//! Formats the evidence of a trip for the terminal; its events come from a file or the store.

use crate::color::{TextStyle, style_stdout};
use crate::error::CliError;
use crate::event_file::EventFileReader;
use flyball::Trip;
use flyball_view::evidence::EvidenceReader;
pub(crate) use flyball_view::evidence::{EvidenceLine, describe, each_record, fetch};
use std::collections::{BTreeMap, BTreeSet};

/// The evidence of a trip, one line each: the count, the measurements, the events.
pub(crate) fn format_evidence(trip: &Trip, lines: &[EvidenceLine]) -> Vec<String> {
    let evidence = &trip.evidence;
    let allowed = if trip.limit > 0 { format!(", allowed {}", trip.limit) } else { String::new() };
    let scope = trip.scope.iter().filter(|(_, value)| !value.is_empty());
    let scope: Vec<String> = scope.map(|(key, value)| format!("{key} {value}")).collect();
    let scope = if scope.is_empty() { String::new() } else { format!(" ({})", scope.join(", ")) };
    let mut all = vec![format!("guard {}, counted {}{allowed}{scope}", trip.guard, trip.count)];
    if let (Some(period), Some(repeats)) = (evidence.period, evidence.repeats)
        && period > 1
    {
        all.push(format!("a sequence of {period} steps occurs {repeats} times in a row"));
    }
    if !evidence.trend.is_empty() {
        let values: Vec<String> = evidence.trend.iter().map(i64::to_string).collect();
        all.push(format!("measured: {}", values.join(" → ")));
    }
    if !evidence.names.is_empty() {
        all.push(format!("still failing: {}", evidence.names.join(", ")));
    }
    if !evidence.trail.is_empty() {
        all.push(format!("path: {}", evidence.trail.join(" → ")));
    }
    for line in lines {
        all.push(format!("event {:<5} {}", line.seq, line.text));
        if let Some(result) = &line.result {
            all.push(format!(
                "            {} {}",
                style_stdout(TextStyle::Dim, "→"),
                style_stdout(TextStyle::Dim, result)
            ));
        }
    }
    all
}

/// Reads the events with these numbers, by session. If the file has changed since it was first read, only the events
/// still in it are returned.
pub(crate) fn collect_events(
    mut recording: EventFileReader,
    wanted: &BTreeMap<String, BTreeSet<u64>>,
) -> Result<BTreeMap<String, Vec<EvidenceLine>>, CliError> {
    let mut cursors: BTreeMap<String, EvidenceReader> = BTreeMap::new();
    recording.for_each_event(|item, _| {
        if let Some(numbers) = wanted.get(&item.event.session) {
            cursors.entry(item.event.session.clone()).or_default().push(&item.event, numbers);
        }
        Ok(())
    })?;
    Ok(cursors.into_iter().map(|(session, cursor)| (session, cursor.into_lines())).collect())
}
