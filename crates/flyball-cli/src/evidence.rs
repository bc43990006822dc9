//! What a trip rests on, for a terminal; the events come from a file or from the store.

use crate::fail::Failure;
use crate::paint::{Style, paint_out};
use crate::recording::Recording;
use flyball::Trip;
use flyball_view::evidence::Cursor;
pub(crate) use flyball_view::evidence::{Line, describe, each_record, fetch};
use std::collections::{BTreeMap, BTreeSet};

/// What a trip rests on, one line each: what was counted, what was measured, the events themselves.
pub(crate) fn told(trip: &Trip, lines: &[Line]) -> Vec<String> {
    let evidence = &trip.evidence;
    let allowed = if trip.limit > 0 { format!(", allowed {}", trip.limit) } else { String::new() };
    let scope = trip.scope.iter().filter(|(_, value)| !value.is_empty());
    let scope: Vec<String> = scope.map(|(key, value)| format!("{key} {value}")).collect();
    let scope = if scope.is_empty() { String::new() } else { format!(" ({})", scope.join(", ")) };
    let mut all = vec![format!("guard {}, counted {}{allowed}{scope}", trip.guard, trip.count)];
    if let (Some(period), Some(repeats)) = (evidence.period, evidence.repeats)
        && period > 1
    {
        all.push(format!("a block of {period} stands {repeats} times in a row"));
    }
    if !evidence.trend.is_empty() {
        let values: Vec<String> = evidence.trend.iter().map(i64::to_string).collect();
        all.push(format!("measured: {}", values.join(" → ")));
    }
    if !evidence.names.is_empty() {
        all.push(format!("still failing: {}", evidence.names.join(", ")));
    }
    if !evidence.trail.is_empty() {
        all.push(format!("the way: {}", evidence.trail.join(" → ")));
    }
    for line in lines {
        all.push(format!("event {:<5} {}", line.seq, line.text));
        if let Some(result) = &line.result {
            all.push(format!("            {} {}", paint_out(Style::Dim, "→"), paint_out(Style::Dim, result)));
        }
    }
    all
}

/// Fetches the events with these numbers, by session. What was read once can be read again; if it was changed in
/// between, what is still there is told.
pub(crate) fn collect(
    mut recording: Recording,
    wanted: &BTreeMap<String, BTreeSet<u64>>,
) -> Result<BTreeMap<String, Vec<Line>>, Failure> {
    let mut cursors: BTreeMap<String, Cursor> = BTreeMap::new();
    recording.each(|item, _| {
        if let Some(numbers) = wanted.get(&item.event.session) {
            cursors.entry(item.event.session.clone()).or_default().take(&item.event, numbers);
        }
        Ok(())
    })?;
    Ok(cursors.into_iter().map(|(session, cursor)| (session, cursor.lines())).collect())
}
