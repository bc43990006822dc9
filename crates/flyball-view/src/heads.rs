//! The sessions of a store in one glance each.

use crate::session_status::SessionActivity;
use flyball::Status;
use flyball_journal::{Desk, Head, StoreError, Which};
use serde_json::{Value, json};

/// The sessions that the doctor makes and ends.
pub const DOCTORS: &str = "flyball-doctor:";

/// The heads of several kinds together, without what the doctor has left behind.
///
/// # Errors
/// If they cannot be read.
pub fn heads(desk: &dyn Desk, wanted: &[Which], limit: usize) -> Result<Vec<Head>, StoreError> {
    let mut all: Vec<Head> = Vec::new();
    for which in wanted {
        all.extend(desk.heads(*which, limit.saturating_add(HIDDEN))?);
    }
    let left_behind = |head: &Head| head.session.starts_with(DOCTORS) && head.glance.status == Status::Ended;
    all.retain(|head| !left_behind(head));
    all.sort_by_key(|head| std::cmp::Reverse(head.updated));
    all.truncate(limit);
    Ok(all)
}

/// How many sessions of the doctor are looked over at most.
const HIDDEN: usize = 100;

/// A session in a list, as JSON.
#[must_use]
pub fn as_json(head: &Head, activity: &SessionActivity) -> Value {
    let glance = &head.glance;
    json!({"session": head.session, "state": activity.status, "idle_ms": activity.idle_ms,
        "question": activity.question, "events": head.seq, "warnings": glance.warnings,
        "blocks": glance.blocks, "halts": glance.halts, "stopped_by": glance.stopped_by, "label": glance.label,
        "parent": glance.parent, "started": head.started, "updated": head.updated})
}
