//! Label changes in an issue tracker, reported by a webhook or a polling command, and their effect on sessions.
//!
//! The hold label represents the block of one guard. Removing it in the tracker releases that block, within the usual
//! release limits, and resumes the run; it never lifts a halt or an operator's stop. Adding the label has no effect,
//! or stops the session if the policy says so (`journal.labels.on_added`).

mod tracker_poll;
mod webhook_payload;

pub(crate) use tracker_poll::poll_forever;
pub(crate) use webhook_payload::parse_payload;

use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{AuthMethod, AuthRole, ClientPeer, Principal, SessionScope};
use crate::operator_actions::{self, OperatorAction};
use flyball::Decision;
use flyball::policy::OnLabelAdded;
use flyball_store::{KvEntry, Precondition, StoreError, StoreErrorKind};
use flyball_view::formatting::single_line;
use serde::{Deserialize, Serialize};

/// Namespace of the labels last seen in the tracker.
const LABELS_NAMESPACE: &str = "labels";
/// Maximum length of a tracker user's name, in characters.
const MAX_NAME_CHARS: usize = 80;

/// A label added or removed in the tracker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrackerLabelChange {
    pub(crate) session: String,
    pub(crate) label: String,
    pub(crate) added: bool,
    /// The tracker user who did it.
    pub(crate) by: Option<String>,
    /// Time in milliseconds since 1970.
    pub(crate) at: Option<u64>,
    /// The reason given.
    pub(crate) why: Option<String>,
}

/// Result of a label change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LabelOutcome {
    /// The session was released, or the release was refused; see the decision.
    Released(Decision),
    /// The session was stopped.
    Stopped(Decision),
    /// The tracker's label was recorded.
    Recorded,
    /// Ignored, with the reason.
    Ignored(&'static str),
}

impl LabelOutcome {
    /// The name used in JSON.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            LabelOutcome::Released(_) => "released",
            LabelOutcome::Stopped(_) => "stopped",
            LabelOutcome::Recorded => "seen",
            LabelOutcome::Ignored(_) => "ignored",
        }
    }
}

/// The label state last seen in the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct TrackerState {
    present: bool,
    /// Sequence number of the blocked event when the label was seen.
    #[serde(rename = "hold")]
    hold_seq: Option<u64>,
}

impl TrackerState {
    fn load(app: &AppState, session: &str) -> Result<Option<TrackerState>, StoreError> {
        let note = app.store().kv_get(LABELS_NAMESPACE, session)?;
        Ok(note.and_then(|note| serde_json::from_str(&note.value).ok()))
    }

    fn save(self, app: &AppState, session: &str) -> Result<(), StoreError> {
        let text = serde_json::to_string(&self)
            .map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))?;
        let note = KvEntry {
            namespace: LABELS_NAMESPACE.to_owned(),
            key: session.to_owned(),
            value: text,
            expires_at: None,
        };
        app.store().kv_put(&note, Precondition::Any).map(|_| ())
    }
}

/// The action to take on a change.
enum LabelAction {
    Release { guard: String },
    Stop,
    Nothing(LabelOutcome),
}

/// The principal under which a tracker user's action is recorded. `source` names how it was reported.
pub(crate) fn tracker_principal(source: &str, by: Option<&str>, from: ClientPeer) -> Principal {
    let name = match by {
        Some(by) => format!("{source}:{}", single_line(by, MAX_NAME_CHARS)),
        None => source.to_owned(),
    };
    Principal { name, role: AuthRole::Operator, scope: SessionScope::All, via: AuthMethod::Key, from }
}

/// Applies a label change. `key` is the idempotency key.
///
/// # Errors
/// If the session cannot be read, or the action is rejected.
pub(crate) async fn apply_label_change(
    app: &SharedState,
    principal: &Principal,
    change: TrackerLabelChange,
    key: Option<&str>,
) -> Result<LabelOutcome, ApiError> {
    principal.check_session(&change.session)?;
    let own = change.clone();
    let wanted = app.run_blocking(move |app| label_action(app, &own)).await?;
    let who = change
        .by
        .as_deref()
        .map_or_else(String::new, |by| format!(" by {}", single_line(by, MAX_NAME_CHARS)));
    let done = if change.added { "added" } else { "removed" };
    let why = match &change.why {
        Some(why) => format!("the label was {done}{who}: {}", single_line(why, 500)),
        None => format!("the label was {done}{who} in the tracker"),
    };
    let (act, stop) = match wanted {
        LabelAction::Nothing(outcome) => return Ok(outcome),
        LabelAction::Release { guard } => (OperatorAction::Unlabel { guard }, false),
        LabelAction::Stop => (OperatorAction::Stop, true),
    };
    let decision =
        operator_actions::run_action(app, principal, &change.session, act, Some(&why), key).await?;
    Ok(if stop { LabelOutcome::Stopped(decision) } else { LabelOutcome::Released(decision) })
}

/// Determines the action for a change.
fn label_action(app: &AppState, change: &TrackerLabelChange) -> Result<LabelAction, ApiError> {
    let ignored = |why| Ok(LabelAction::Nothing(LabelOutcome::Ignored(why)));
    let settings = &app.recorder.policy().journal.labels;
    if change.by.as_ref().is_some_and(|by| settings.own_accounts.contains(by)) {
        return ignored("the change was made by Flyball's own account (own_accounts)");
    }
    let session = &change.session;
    if app.store().load(session)?.is_none_or(|loaded| loaded.head.seq == 0) {
        return ignored("the session does not exist");
    }
    let (state, policy) = app.session(session)?;
    if change.label != policy.hitl_label(state.rules_version()) {
        return ignored("the label is not the session's hold label");
    }
    let hold = state.label_hold();
    let before = TrackerState::load(app, session)?;
    let shown =
        TrackerState { present: change.added, hold_seq: hold.filter(|_| change.added).map(|hold| hold.seq) };
    shown.save(app, session)?;
    let Some(hold) = hold else {
        let known = before.is_some_and(|before| before.present);
        let free = state.operator_stops().next().is_none();
        let stops = change.added && !known && free && settings.on_added == OnLabelAdded::Stop;
        return if stops { Ok(LabelAction::Stop) } else { ignored("the session has no hold label") };
    };
    if change.added {
        return Ok(LabelAction::Nothing(LabelOutcome::Recorded));
    }
    let blocked_at = app.store().records(session, hold.seq, hold.seq)?.pop().and_then(|record| record.at);
    if change.at.zip(blocked_at).is_some_and(|(removed, blocked)| removed < blocked) {
        return ignored("the change is older than the block");
    }
    Ok(LabelAction::Release { guard: hold.guard.to_owned() })
}
