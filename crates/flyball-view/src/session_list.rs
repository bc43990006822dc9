//! Lists of sessions.

use crate::session_status::SessionActivity;
use flyball::SessionPhase;
use flyball_store::{AdminStore, SessionFilter, SessionRow, StoreError};
use serde_json::{Value, json};

/// Prefix of the sessions that `flyball doctor` creates and ends.
pub const DOCTOR_PREFIX: &str = "flyball-doctor:";

/// The sessions that match any of the filters, newest first, without ended `doctor` sessions.
///
/// # Errors
/// If they cannot be read.
pub fn list_sessions(
    store: &dyn AdminStore,
    wanted: &[SessionFilter],
    limit: usize,
) -> Result<Vec<SessionRow>, StoreError> {
    let mut all: Vec<SessionRow> = Vec::new();
    for which in wanted {
        all.extend(store.list_sessions(*which, limit.saturating_add(MAX_HIDDEN))?);
    }
    let left_behind = |head: &SessionRow| {
        head.session.starts_with(DOCTOR_PREFIX) && head.summary.status == SessionPhase::Ended
    };
    all.retain(|head| !left_behind(head));
    all.sort_by_key(|head| std::cmp::Reverse(head.updated));
    all.truncate(limit);
    Ok(all)
}

/// How many extra sessions are read to make up for hidden `doctor` sessions.
const MAX_HIDDEN: usize = 100;

/// A list entry as JSON.
#[must_use]
pub fn session_json(head: &SessionRow, activity: &SessionActivity) -> Value {
    let summary = &head.summary;
    json!({"session": head.session, "state": activity.status, "idle_ms": activity.idle_ms,
        "question": activity.question, "events": head.seq, "warnings": summary.warnings,
        "blocks": summary.blocks, "halts": summary.halts, "stopped_by": summary.stopped_by, "label": summary.label,
        "parent": summary.parent, "started": head.started, "updated": head.updated})
}
