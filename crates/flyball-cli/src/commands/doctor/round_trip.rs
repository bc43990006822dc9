//! Store round trip: one process requests a confirmation and exits, another finds and answers it.
//!
//! It detects a store that loses a pending confirmation between two requests.

use super::DoctorCheck;
use crate::args::{DoctorStepArgs, RoundTripStep, StoreArgs};
use crate::clock;
use crate::commands::list::DOCTOR_PREFIX;
use crate::error::{CliError, Exit};
use crate::store;
use flyball::{PolicySource, Preset};
use flyball_store::{Recorder, RecorderOptions, StoreAddress, Submission};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs the round trip.
pub(super) fn check_round_trip(address: &StoreAddress) -> DoctorCheck {
    let name = format!("{DOCTOR_PREFIX}{:016x}", RandomState::new().hash_one(clock::now()));
    match round_trip(address, &name) {
        Ok(()) => DoctorCheck::ok(
            "round trip",
            "a plan requested by one process was found and approved exactly once by another; the test session has \
             ended and can be pruned",
        ),
        Err(message) => DoctorCheck::wrong(
            "round trip",
            message,
            "pending approvals are not safe in this store: use another one",
        ),
    }
}

fn round_trip(address: &StoreAddress, name: &str) -> Result<(), String> {
    for step in ["ask", "settle"] {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(exe);
        // Passed in the environment: an address may hold a password, and arguments are visible to all users.
        command.args(["doctor-step", step, name]).env("FLYBALL_STORE", address_arg(address));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().map_err(|error| format!("cannot start a second process: {error}"))?;
        if !output.status.success() {
            let stderr_text = String::from_utf8_lossy(&output.stderr);
            let first = stderr_text.lines().next().unwrap_or("no error message");
            return Err(format!(
                "the process for step `{step}` failed: {}",
                crate::formatting::single_line(first, 200)
            ));
        }
    }
    Ok(())
}

/// The address in the form that is parsed again.
fn address_arg(address: &StoreAddress) -> std::ffi::OsString {
    match address {
        StoreAddress::File(path) | StoreAddress::Project(path) => {
            let mut text = std::ffi::OsString::from("sqlite:");
            text.push(path);
            text
        }
        StoreAddress::Postgres(address) => address.into(),
        StoreAddress::Memory => "memory:".into(),
    }
}

/// Runs one step of the round trip in a separate process.
pub(crate) fn run_step(args: &DoctorStepArgs) -> Result<Exit, CliError> {
    let name = &args.session;
    if !name.starts_with(DOCTOR_PREFIX) {
        let help = "this command belongs to `flyball doctor`";
        return Err(CliError::new("session_unknown", "", "this is not a session of `flyball doctor`", help));
    }
    let store = store::open(&StoreArgs::default())?;
    let recorder = Recorder::new(store, PolicySource::preset(Preset::Agent), RecorderOptions::default());
    match args.step {
        RoundTripStep::Ask => {
            submit_event(&recorder, name, json!({"type": "session.started"}))?;
            let plan = json!([{"tool": "doctor_check", "args": {}}]);
            submit_event(
                &recorder,
                name,
                json!({"type": "confirmation.requested", "plan": plan, "question": "Is this found again?"}),
            )?;
        }
        RoundTripStep::Settle => answer_question(&recorder, name)?,
    }
    writeln!(std::io::stdout(), "ok")?;
    Ok(Exit::Success)
}

fn answer_question(recorder: &Recorder, name: &str) -> Result<(), CliError> {
    let lost = |message: &str| CliError::new("round_trip", "", message, "use another store");
    let (state, _) = store::load_session(recorder, name)?;
    if state.pending_plan().is_none() || recorder.store().pending(name)?.is_none() {
        return Err(lost("the pending confirmation is no longer there"));
    }
    let mut approved = 0;
    for _ in 0..2 {
        let answer = submit_event(recorder, name, json!({"type": "confirmation.answered", "value": "yes"}))?;
        approved += answer.effects.iter().filter(|effect| effect.effect == "plan.approved").count();
    }
    submit_event(recorder, name, json!({"type": "session.ended"}))?;
    if approved != 1 {
        return Err(lost("the plan was not approved exactly once"));
    }
    if recorder.store().pending(name)?.is_some() {
        return Err(lost("the confirmation is still pending after it was answered"));
    }
    Ok(())
}

fn submit_event(recorder: &Recorder, name: &str, mut event: Value) -> Result<flyball::Decision, CliError> {
    if let Some(fields) = event.as_object_mut() {
        fields.insert("session".to_owned(), json!(name));
    }
    let event = Submission::parse(event.to_string(), clock::now())
        .map_err(|error| CliError::from_core("", &error))?;
    Ok(recorder.submit(event)?)
}
