//! `flyball tell`: lets programs inside or beside a coding agent report events its hook does not see, to the same
//! session.
//!
//! The event is decided under the session's policy and stored like any other. If it trips a guard, the agent is stopped
//! at its next call. Events of a person are rejected: the operator commands verify who sends them.

mod event_fields;
mod session_lookup;

use super::operator_event::OperatorEvent;
use crate::args::{CommonArgs, PolicyArgs, StoreArgs, TellArgs};
use crate::error::{CliError, Exit};
use crate::formatting::single_line;
use crate::session_tally::SessionTally;
use crate::{caller_check, clock, store};
use flyball::{Decision, Event, EventKind, Verdict};
use flyball_store::{ClaimPolicy, StoreAddress};
use serde_json::{Value, json};

/// Field that marks events sent by `flyball tell`, as opposed to the hook.
pub(crate) const TELL_MARKER: &str = "told";

/// Runs the command.
pub(crate) fn run(args: &TellArgs) -> Result<Exit, CliError> {
    let mut event = event_fields::parse_event(&args.kind, &args.fields)?;
    let address = store::agent_store(args.store.store.as_deref(), &std::env::current_dir()?)?;
    let admin_store = store::open_existing(&address)?;
    let named = args.session.clone().or_else(|| event.remove("session")?.as_str().map(str::to_owned));
    let session = session_lookup::find_session(admin_store.as_ref(), named)?;
    event.insert("session".to_owned(), json!(session));
    event.insert(TELL_MARKER.to_owned(), json!(true));

    let recorder = store::recorder_with_session_policy(admin_store, &PolicyArgs::default(), &session)?;
    let who =
        CommonArgs { store: store_args(args, &address), policy: PolicyArgs::default(), json: args.json };
    let mut operator_event = OperatorEvent::with_recorder(recorder, &who, &session, None)?;
    let event = operator_event.parse(&Value::Object(event))?;
    check_event_allowed(&event.event, operator_event.plan.is_some())?;
    let event = if caller_check::is_started_by_agent() {
        let settled = event.with_claims_replaced(&ClaimPolicy::for_agent().with_sender_time(), clock::now());
        settled.map_err(|error| CliError::from_core("", &error))?
    } else {
        event
    };
    let kind = event.event.kind.name();
    let decision = operator_event.record(event)?;

    operator_event.continues_run =
        decision.decision < Verdict::Block && !flyball::waits_for_person(decision.state);
    operator_event.print_decision(&decision, &outcome_lines(kind, &decision))?;
    let mut tally = SessionTally::default();
    tally.push_outcome(&decision);
    Ok(tally.exit())
}

/// Rejects events of a person and the start and end of a session, which its hook reports.
fn check_event_allowed(event: &Event, waits: bool) -> Result<(), CliError> {
    let instead = match event.kind {
        EventKind::HumanReleased { .. } => "a person releases with `flyball release SESSION --why TEXT`",
        EventKind::HumanStopped { .. } => "a person stops with `flyball stop SESSION --why TEXT`",
        EventKind::ConfirmationAnswered { .. } => "a person answers with `flyball approve`, `deny` or `send`",
        EventKind::PolicyChanged { .. } => {
            "a person accepts a policy with `flyball policy accept SESSION --why TEXT`"
        }
        EventKind::UserMessage { .. } | EventKind::PersonMessage { .. } => {
            "a person writes with `flyball send SESSION TEXT`"
        }
        EventKind::SessionStarted { .. } | EventKind::SessionEnded { .. } => {
            "the hook reports it; for a session without a hook use `flyball observe --store`"
        }
        // An agent may not replace a plan that awaits a person's answer.
        EventKind::ConfirmationRequested { .. } if waits => {
            return caller_check::require_person(&event.session);
        }
        _ if event.extra.contains_key(flyball::APPROVED_BY) => {
            "a person approves with `flyball approve SESSION`"
        }
        _ if event.extra.contains_key("idle") => "remove the field `idle`: idle time is measured",
        _ if event.extra.contains_key("suspended_ms") => "remove the field `suspended_ms`: Flyball sets it",
        _ => return Ok(()),
    };
    let what = format!("`{}` is not accepted from `flyball tell` in this form", event.kind.name());
    Err(CliError::new("event_not_allowed", "", what, instead))
}

/// The outcome, and the feedback for the model.
fn outcome_lines(kind: &str, decision: &Decision) -> Vec<String> {
    let first = match decision.decision {
        Verdict::Allow | Verdict::Warn => {
            format!("Recorded: {kind}, event {} of {}.", decision.seq, single_line(&decision.session, 200))
        }
        Verdict::Block => format!("Blocked: {kind}. Do not continue with it."),
        Verdict::Halt => format!("Halted at {kind}: the session is stopped until a person releases it."),
    };
    let words = decision.feedback.as_deref().map(|words| single_line(words, 600));
    let blocked = decision.effects.iter().find(|effect| effect.effect == "completion.blocked");
    let blocked = blocked.and_then(|effect| effect.fields.get("text")?.as_str());
    let output = decision.output.as_ref().map(|output| output.text.as_str());
    let texts =
        [blocked, output].into_iter().flatten().map(|text| flyball::escape_deceptive(text).into_owned());
    std::iter::once(first).chain(words).chain(texts).collect()
}

/// The store argument for printed commands: as given here, or a store in the user's state folder.
fn store_args(args: &TellArgs, address: &StoreAddress) -> StoreArgs {
    let named = args.store.store.clone();
    let store = named.or_else(|| match address {
        StoreAddress::Project(path) if !path.parent().is_some_and(|folder| folder.ends_with(".flyball")) => {
            Some(format!("sqlite:{}", path.display()))
        }
        _ => None,
    });
    StoreArgs { store }
}
