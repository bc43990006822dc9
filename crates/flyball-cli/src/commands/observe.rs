//! `flyball observe`: reads events from stdin and writes one decision per line to stdout.
//!
//! Lines that arrive together are recorded in one commit; a caller that sends one line and waits is answered at once. A
//! decision is printed only after it is stored. An invalid line is answered with an `error` object, so that a caller
//! waiting for an answer to each line never hangs.

use crate::args::ObserveArgs;
use crate::caller_check;
use crate::clock;
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use crate::event_lines::EventLines;
use crate::policy_loader;
use crate::session_tally::SessionTally;
use crate::store;
use flyball::{DeniedBy, Event, EventKind, MessageOrigin, Preset};
use flyball_store::{
    ClaimPolicy, RecordError, Recorder, RecorderOptions, StoreAddress, StoreError, Submission,
};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Maximum number of lines recorded in one commit.
const MAX_BATCH_LINES: usize = 256;

/// An input line that needs an answer.
struct InputLine {
    location: String,
    /// The error, if the line is not a valid event.
    error: Option<CliError>,
    /// The event asks for permission, so the action must not proceed without a stored decision.
    requires_decision: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ObserveArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let address = store::named_store(args.store.as_deref())?.unwrap_or(StoreAddress::Memory);
    let recorder = Recorder::new(address.open()?, source, RecorderOptions::default());
    store::remove_orphaned_outputs(recorder.outputs());
    let mut lines = EventLines::open(Path::new("-"))?.with_redaction(recorder.policy())?;
    let deliveries = DeliveryThread::start(&recorder);
    let mut tally = SessionTally::default();
    let mut errors = 0_u64;
    loop {
        let (group, events) = read_batch(&mut lines)?;
        if group.is_empty() {
            break;
        }
        let mut answers = recorder.submit_all(events).into_iter();
        let mut out = String::new();
        for line in group {
            let answer = match line.error {
                Some(failure) => Err((failure, false)),
                None => answers.next().unwrap_or_else(|| Err(missing_reply())).map_err(|refusal| {
                    let stored = matches!(refusal, RecordError::Store(_));
                    (refusal.into(), stored && line.requires_decision)
                }),
            };
            match answer {
                Ok(decision) => {
                    tally.push_outcome(&decision);
                    out.push_str(&decision.to_json());
                }
                Err((failure, blocks)) => {
                    errors += 1;
                    out.push_str(&error_reply(&line.location, blocks, failure));
                }
            }
            out.push('\n');
        }
        let mut stdout = crate::terminal::raw_stdout();
        // A program that reads decisions gets them as they are.
        let shown = if std::io::stdout().is_terminal() {
            flyball::escape_deceptive(&out)
        } else {
            out.as_str().into()
        };
        stdout.write_all(shown.as_bytes())?;
        stdout.flush()?;
        deliveries.wake();
    }
    deliveries.finish();
    // Everything is already on disk; if the checkpoint fails, the next process does it.
    let _ = recorder.store().checkpoint();
    Ok(if errors > 0 { Exit::Error } else { tally.exit() })
}

/// Waits for the next line and takes all lines that have arrived with it.
fn read_batch(lines: &mut EventLines) -> Result<(Vec<InputLine>, Vec<Submission>), CliError> {
    let (mut group, mut events) = (Vec::new(), Vec::new());
    while group.len() < MAX_BATCH_LINES {
        let Some(found) = lines.next_submission(group.is_empty())? else { break };
        let place = lines.location();
        group.push(match found {
            Ok(event) => match apply_claims(event) {
                Ok(event) => {
                    let asks = event.event.kind.needs_decision();
                    events.push(event);
                    InputLine { location: place, error: None, requires_decision: asks }
                }
                Err(failure) => InputLine { location: place, error: Some(failure), requires_decision: false },
            },
            Err(error) => InputLine {
                location: place,
                error: Some(RecordError::Event(error).into()),
                requires_decision: false,
            },
        });
    }
    Ok((group, events))
}

fn missing_reply() -> RecordError {
    StoreError::new(flyball_store::StoreErrorKind::OutcomeUnknown, "the recorder returned no decision").into()
}

/// Restricts an event to what its sender may claim. An agent's claims about people are recorded as its own claims.
fn apply_claims(event: Submission) -> Result<Submission, CliError> {
    check_sender(&event.event)?;
    let claims_person = match &event.event.kind {
        EventKind::UserMessage { origin, .. } => *origin == MessageOrigin::Human,
        EventKind::ToolDenied { by, .. } => *by == DeniedBy::Human,
        _ => false,
    };
    if (claims_person || event.event.extra.contains_key("idle")) && caller_check::is_started_by_agent() {
        let settled = event.with_claims_replaced(&ClaimPolicy::for_agent().with_sender_time(), clock::now());
        return settled.map_err(|error| RecordError::Event(error).into());
    }
    Ok(event)
}

/// Rejects a person's events from an agent. In its own hook's session an agent may neither start over nor speak as the
/// user, because that would reset the repetition counters.
fn check_sender(event: &Event) -> Result<(), CliError> {
    if event.extra.contains_key(flyball::APPROVED_BY) {
        // Only the program that shows the dialog knows whether a person approved the call.
        return caller_check::require_person(&event.session);
    }
    match &event.kind {
        EventKind::ConfirmationAnswered { .. }
        | EventKind::HumanReleased { .. }
        | EventKind::HumanStopped { .. }
        | EventKind::PersonMessage { .. }
        | EventKind::PolicyChanged { .. } => caller_check::require_person(&event.session),
        EventKind::UserMessage { origin: MessageOrigin::Human, .. } => {
            caller_check::reject_own_session(&event.session)
        }
        EventKind::SessionStarted { policy, reopen, .. } if policy.is_some() || *reopen => {
            caller_check::reject_own_session(&event.session)
        }
        _ => Ok(()),
    }
}

/// Reports an error on stderr and returns the answer line: a request that could not be recorded is blocked.
fn error_reply(place: &str, blocks: bool, mut failure: CliError) -> String {
    let mut answer = json!({});
    for diagnostic in &mut failure.diagnostics {
        place.clone_into(&mut diagnostic.location);
        answer = json!({"error": {"code": diagnostic.code, "what": diagnostic.message, "advice": diagnostic.help, "place": place}});
    }
    failure.print();
    if blocks {
        answer = json!({"decision": "block", "error": answer.get("error")});
    }
    answer.to_string()
}
