//! Polls a command for the labels of held sessions, for trackers without webhooks. A label counts as removed only if
//! it was seen during the current block; a label that was never added cannot be removed.

use super::{TrackerLabelChange, TrackerState, apply_label_change, tracker_principal};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::ClientPeer;
use flyball::policy::LabelSync;
use flyball_runner::process::{CancelToken, ProcessEnd, ProcessSpec, run};
use flyball_store::SessionFilter;
use flyball_view::formatting::single_line;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Maximum number of held sessions per poll.
const MAX_SESSIONS_PER_POLL: usize = 1_000;
/// Timeout of the command, and the maximum amount of output that is read.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Source under which changes are recorded.
const POLL_SOURCE: &str = "label-sync";

/// The command's report on one session.
#[derive(Debug, Deserialize)]
struct TrackerReport {
    session: String,
    labels: Vec<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

/// A held session and its label.
#[derive(Debug, Clone)]
struct HeldSession {
    session: String,
    label: String,
}

/// Polls labels for as long as the server runs.
pub(crate) async fn poll_forever(app: SharedState) {
    let settings = app.recorder.policy().journal.labels.clone();
    if settings.command.is_empty() {
        return;
    }
    let every = Duration::from_millis(settings.every_ms);
    let mut closing = app.telemetry.closing();
    loop {
        tokio::select! {
            _ = closing.changed() => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Err(problem) = poll_once(&app, &settings).await {
            app.telemetry.log.error("labels", &problem.code, &problem.message);
        }
    }
}

async fn poll_once(app: &SharedState, settings: &LabelSync) -> Result<(), ApiError> {
    let held = app.run_blocking(held_sessions).await?;
    if held.is_empty() && !settings.polls_all_sessions() {
        return Ok(());
    }
    let (command, asked) = (settings.command.clone(), held.clone());
    let reported = app.run_blocking(move |_| run_command(&command, &asked)).await?;
    for change in app.run_blocking(move |app| label_changes(app, &held, reported)).await? {
        let principal = tracker_principal(POLL_SOURCE, change.by.as_deref(), ClientPeer::Tcp { from: None });
        let session = change.session.clone();
        if let Err(problem) = apply_label_change(app, &principal, change, None).await {
            let message = format!("{}: {}", single_line(&session, 100), problem.message);
            app.telemetry.log.error("labels", &problem.code, &message);
        }
    }
    Ok(())
}

/// The sessions that are held and labeled.
fn held_sessions(app: &AppState) -> Result<Vec<HeldSession>, ApiError> {
    let mut all = Vec::new();
    for head in app.store().list_sessions(SessionFilter::Blocked, MAX_SESSIONS_PER_POLL)? {
        all.extend(head.summary.label.map(|label| HeldSession { session: head.session, label }));
    }
    Ok(all)
}

/// Runs the command. If it fails, all of its output is discarded.
fn run_command(command: &[String], held: &[HeldSession]) -> Result<Vec<TrackerReport>, ApiError> {
    let failed = |message: String| {
        let help = "run the journal.labels command manually with the same input";
        ApiError::new(axum::http::StatusCode::BAD_GATEWAY, "label_command", message, help)
    };
    let mut job = ProcessSpec::new(command.to_vec(), ".");
    // The full environment, as for deliveries: the command needs the tracker's credentials, and the operator
    // configured it.
    job.env = std::env::vars().collect();
    let sessions: Vec<_> =
        held.iter().map(|held| json!({"session": held.session, "label": held.label})).collect();
    job.input = Some(json!({"sessions": sessions}).to_string().into_bytes());
    job.deadline = Some(COMMAND_TIMEOUT);
    job.max_kept_bytes = MAX_OUTPUT_BYTES;
    let ran = run(&job, &CancelToken::new(), &mut |_, _| {}).map_err(|error| failed(error.message))?;
    if ran.end != ProcessEnd::Exit(0) {
        return Err(failed(format!(
            "the command ended with {:?}: {}",
            ran.end,
            single_line(&ran.stderr_text(), 300)
        )));
    }
    let mut reported = Vec::new();
    for text in ran.stdout_text().lines().filter(|text| !text.trim().is_empty()) {
        let read = serde_json::from_str(text);
        reported.push(
            read.map_err(|error| {
                failed(format!("the command printed '{}': {error}", single_line(text, 120)))
            })?,
        );
    }
    Ok(reported)
}

/// The changes since the last poll.
fn label_changes(
    app: &AppState,
    held: &[HeldSession],
    reported: Vec<TrackerReport>,
) -> Result<Vec<TrackerLabelChange>, ApiError> {
    let mut changes = Vec::new();
    for TrackerReport { session, labels, by, why } in reported {
        let (label, hold) = match held.iter().find(|held| held.session == session) {
            Some(held) => {
                let (state, _) = app.session(&session)?;
                (held.label.clone(), state.label_hold().map(|hold| hold.seq))
            }
            None => match app.session(&session) {
                Ok((state, policy)) => (policy.hitl_label(state.rules_version()), None),
                Err(_) => continue,
            },
        };
        let present = labels.contains(&label);
        let before = TrackerState::load(app, &session)?;
        let changed = match before {
            // Removed: the label was seen during this block.
            Some(TrackerState { present: true, hold_seq: seen }) if !present => {
                seen.is_some() && seen == hold
            }
            Some(shown) => present && (!shown.present || shown.hold_seq != hold),
            None => present,
        };
        if changed {
            changes.push(TrackerLabelChange { session, label, added: present, by, at: None, why });
        } else if before.is_some_and(|before| before.present) && !present {
            TrackerState { present: false, hold_seq: None }.save(app, &session)?;
        }
    }
    Ok(changes)
}
