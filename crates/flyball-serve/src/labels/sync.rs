//! Asks a program now and then which labels the issues of held sessions have, for trackers that send no webhooks. A label
//! counts as taken off only if it was seen there before, since the session was blocked: one that was never put on is none.

use super::{LabelChange, Shown, apply, someone};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Peer;
use flyball::policy::LabelSync;
use flyball_journal::Which;
use flyball_run::process::{Cancel, End, Job, run};
use flyball_view::words::line;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// How many held sessions are asked about at once.
const ASKED: usize = 1_000;
/// The longest that the program may take, and the most that is read of what it says.
const TIMEOUT: Duration = Duration::from_secs(60);
const OUTPUT_BYTES: usize = 1 << 20;
/// The name that its findings are recorded under.
const SOURCE: &str = "label-sync";

/// What the program says of one session.
#[derive(Debug, Deserialize)]
struct Reported {
    session: String,
    labels: Vec<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

/// A session that is held, with its label.
#[derive(Debug, Clone)]
struct Held {
    session: String,
    label: String,
}

/// Looks after labels for as long as the server runs.
pub(crate) async fn follow(office: Shared) {
    let settings = office.recorder.policy().journal.labels.clone();
    if settings.command.is_empty() {
        return;
    }
    let every = Duration::from_millis(settings.every_ms);
    let mut closing = office.signals.closing();
    loop {
        tokio::select! {
            _ = closing.changed() => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Err(problem) = look_once(&office, &settings).await {
            office.signals.log.trouble("labels", &problem.code, &problem.what);
        }
    }
}

async fn look_once(office: &Shared, settings: &LabelSync) -> Result<(), Problem> {
    let held = office.look(held).await?;
    if held.is_empty() && !settings.asks_about_all() {
        return Ok(());
    }
    let (command, asked) = (settings.command.clone(), held.clone());
    let reported = office.look(move |_| ask(&command, &asked)).await?;
    for change in office.look(move |office| compared(office, &held, reported)).await? {
        let principal = someone(SOURCE, change.by.as_deref(), Peer::Tcp { from: None });
        let session = change.session.clone();
        if let Err(problem) = apply(office, &principal, change, None).await {
            let what = format!("{}: {}", line(&session, 100), problem.what);
            office.signals.log.trouble("labels", &problem.code, &what);
        }
    }
    Ok(())
}

/// The sessions that are held and labelled.
fn held(office: &Office) -> Result<Vec<Held>, Problem> {
    let mut all = Vec::new();
    for head in office.desk().heads(Which::Blocked, ASKED)? {
        all.extend(head.glance.label.map(|label| Held { session: head.session, label }));
    }
    Ok(all)
}

/// Asks the program. One that fails has said nothing.
fn ask(command: &[String], held: &[Held]) -> Result<Vec<Reported>, Problem> {
    let failed = |what: String| {
        let advice = "run the command of journal.labels by hand, with the same input";
        Problem::new(axum::http::StatusCode::BAD_GATEWAY, "label_command", what, advice)
    };
    let mut job = Job::new(command.to_vec(), ".");
    // As a delivery: it needs the tracker's key, and the operator has written it into the policy.
    job.env = std::env::vars().collect();
    let sessions: Vec<_> =
        held.iter().map(|held| json!({"session": held.session, "label": held.label})).collect();
    job.input = Some(json!({"sessions": sessions}).to_string().into_bytes());
    job.deadline = Some(TIMEOUT);
    job.keep = OUTPUT_BYTES;
    let ran = run(&job, &Cancel::new(), &mut |_, _| {}).map_err(|error| failed(error.what))?;
    if ran.end != End::Exit(0) {
        return Err(failed(format!(
            "the command ended with {:?}: {}",
            ran.end,
            line(&ran.stderr_text(), 300)
        )));
    }
    let mut reported = Vec::new();
    for text in ran.stdout_text().lines().filter(|text| !text.trim().is_empty()) {
        let read = serde_json::from_str(text);
        reported.push(read.map_err(|error| failed(format!("it printed '{}': {error}", line(text, 120))))?);
    }
    Ok(reported)
}

/// What has changed since the last look.
fn compared(office: &Office, held: &[Held], reported: Vec<Reported>) -> Result<Vec<LabelChange>, Problem> {
    let mut changes = Vec::new();
    for Reported { session, labels, by, why } in reported {
        let (label, hold) = match held.iter().find(|held| held.session == session) {
            Some(held) => {
                let (state, _) = office.session(&session)?;
                (held.label.clone(), state.label_hold().map(|hold| hold.seq))
            }
            None => match office.session(&session) {
                Ok((state, policy)) => (policy.hitl_label(state.rules_version()), None),
                Err(_) => continue,
            },
        };
        let present = labels.contains(&label);
        let before = Shown::of(office, &session)?;
        let changed = match before {
            // Taken off: it was there for this very block.
            Some(Shown { present: true, hold: seen }) if !present => seen.is_some() && seen == hold,
            Some(shown) => present && (!shown.present || shown.hold != hold),
            None => present,
        };
        if changed {
            changes.push(LabelChange { session, label, added: present, by, at: None, why });
        } else if before.is_some_and(|before| before.present) && !present {
            Shown { present: false, hold: None }.keep(office, &session)?;
        }
    }
    Ok(changes)
}
