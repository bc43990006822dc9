//! A round trip through the store: one process puts a question and ends, another finds it again and settles it.
//!
//! This is what seed 001 lost: a confirmation that was forgotten between two requests.

use super::Finding;
use crate::args::{DoctorStep, Step, StoreArgs};
use crate::clock;
use crate::commands::list::DOCTORS;
use crate::fail::{Exit, Failure};
use crate::store;
use flyball::{PolicySource, Preset};
use flyball_journal::{Address, Incoming, Recorder, RecorderOptions};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::{Command, Stdio};

/// Makes the round trip.
pub(super) fn round(address: &Address) -> Finding {
    let name = format!("{DOCTORS}{:016x}", RandomState::new().hash_one(clock::now()));
    match trip(address, &name) {
        Ok(()) => Finding::ok(
            "round trip",
            "a question put by one process was found and settled by another, once; its session was ended, and goes with the next prune",
        ),
        Err(what) => {
            Finding::wrong("round trip", what, "nothing that waits for a yes is safe here: use another store")
        }
    }
}

fn trip(address: &Address, name: &str) -> Result<(), String> {
    for step in ["ask", "settle"] {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(exe);
        // By the environment: an address may hold a password, and arguments can be seen by all.
        command.args(["doctor-step", step, name]).env("FLYBALL_STORE", written(address));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output =
            command.output().map_err(|error| format!("a second process cannot be started: {error}"))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            let first = told.lines().next().unwrap_or("it said nothing");
            return Err(format!("the process that was to {step} failed: {}", crate::words::line(first, 200)));
        }
    }
    Ok(())
}

/// The address as it is read back.
fn written(address: &Address) -> std::ffi::OsString {
    match address {
        Address::File(path) | Address::Project(path) => {
            let mut text = std::ffi::OsString::from("sqlite:");
            text.push(path);
            text
        }
        Address::Server(address) => address.into(),
        Address::Memory => "memory:".into(),
    }
}

/// One half of the round trip, in a process of its own.
pub(crate) fn step(args: &DoctorStep) -> Result<Exit, Failure> {
    let name = &args.session;
    if !name.starts_with(DOCTORS) {
        let advice = "this command belongs to `flyball doctor`";
        return Err(Failure::new("session_unknown", "", "this is no session of the doctor", advice));
    }
    let desk = store::open(&StoreArgs::default())?;
    let recorder = Recorder::new(desk, PolicySource::preset(Preset::Agent), RecorderOptions::default());
    match args.step {
        Step::Ask => {
            submit(&recorder, name, json!({"type": "session.started"}))?;
            let plan = json!([{"tool": "doctor_check", "args": {}}]);
            submit(
                &recorder,
                name,
                json!({"type": "confirmation.requested", "plan": plan, "question": "Is this found again?"}),
            )?;
        }
        Step::Settle => settle(&recorder, name)?,
    }
    writeln!(std::io::stdout(), "ok")?;
    Ok(Exit::Done)
}

fn settle(recorder: &Recorder, name: &str) -> Result<(), Failure> {
    let lost = |what: &str| Failure::new("round_trip", "", what, "use another store");
    let (state, _) = store::session(recorder, name)?;
    if state.waiting().is_none() || recorder.journal().pending(name)?.is_none() {
        return Err(lost("the question that was put is not there any more"));
    }
    let mut approved = 0;
    for _ in 0..2 {
        let answer = submit(recorder, name, json!({"type": "confirmation.answered", "value": "yes"}))?;
        approved += answer.effects.iter().filter(|effect| effect.effect == "plan.approved").count();
    }
    submit(recorder, name, json!({"type": "session.ended"}))?;
    if approved != 1 {
        return Err(lost("the plan was not approved exactly once"));
    }
    if recorder.journal().pending(name)?.is_some() {
        return Err(lost("the question is still there after it was answered"));
    }
    Ok(())
}

fn submit(recorder: &Recorder, name: &str, mut event: Value) -> Result<flyball::Decision, Failure> {
    if let Some(fields) = event.as_object_mut() {
        fields.insert("session".to_owned(), json!(name));
    }
    let event = Incoming::read(event.to_string(), clock::now()).map_err(|error| Failure::at("", &error))?;
    Ok(recorder.submit(event)?)
}
