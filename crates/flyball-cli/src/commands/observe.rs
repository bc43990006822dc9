//! `flyball observe`: events on stdin, a decision a line on stdout.
//!
//! Lines that have arrived together are recorded together, in one commit; a caller who sends one line and waits is
//! answered at once. A decision is printed only after it is stored. A line that cannot be used is answered too, with
//! an `error` object, so that a caller who waits for an answer to each line never hangs.

use crate::args::Observe;
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::person;
use crate::store;
use crate::story::Tally;
use flyball::{Denier, Event, Kind, Origin, Preset};
use flyball_journal::{Address, Claims, Incoming, Recorder, RecorderOptions, Refusal, StoreError};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// How many lines are recorded in one commit at most.
const TOGETHER: usize = 256;

/// A line of the input that is to be answered.
struct Line {
    place: String,
    /// What is wrong with it, if it is no event.
    wrong: Option<Failure>,
    /// It asks, so the act must not go on without an answer from the store.
    asks: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Observe) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let address = store::named(args.store.as_deref())?.unwrap_or(Address::Memory);
    let recorder = Recorder::new(address.open()?, source, RecorderOptions::default());
    store::sweep_outputs(recorder.outputs());
    let mut lines = Lines::open(Path::new("-"))?.behind(recorder.policy())?;
    let deliveries = Deliveries::start(&recorder);
    let mut tally = Tally::default();
    let mut errors = 0_u64;
    loop {
        let (group, events) = together(&mut lines)?;
        if group.is_empty() {
            break;
        }
        let mut answers = recorder.submit_all(events).into_iter();
        let mut out = String::new();
        for line in group {
            let answer = match line.wrong {
                Some(failure) => Err((failure, false)),
                None => answers.next().unwrap_or_else(|| Err(unanswered())).map_err(|refusal| {
                    let stored = matches!(refusal, Refusal::Store(_));
                    (refusal.into(), stored && line.asks)
                }),
            };
            match answer {
                Ok(decision) => {
                    tally.glance(&decision);
                    out.push_str(&decision.to_json());
                }
                Err((failure, blocks)) => {
                    errors += 1;
                    out.push_str(&refused(&line.place, blocks, failure));
                }
            }
            out.push('\n');
        }
        let mut stdout = std::io::stdout().lock();
        // A program that reads decisions gets them as they are.
        let shown = if stdout.is_terminal() { flyball::visible(&out) } else { out.as_str().into() };
        stdout.write_all(shown.as_bytes())?;
        stdout.flush()?;
        deliveries.nudge();
    }
    deliveries.finish();
    // Everything is on the disk already: if the log cannot be emptied now, the next process does it.
    let _ = recorder.journal().checkpoint();
    Ok(if errors > 0 { Exit::Error } else { tally.exit() })
}

/// The next line, waited for, and all that have arrived with it.
fn together(lines: &mut Lines) -> Result<(Vec<Line>, Vec<Incoming>), Failure> {
    let (mut group, mut events) = (Vec::new(), Vec::new());
    while group.len() < TOGETHER {
        let Some(found) = lines.next_incoming(group.is_empty())? else { break };
        let place = lines.place();
        group.push(match found {
            Ok(event) => match accepted(event) {
                Ok(event) => {
                    let asks = event.event.kind.asks();
                    events.push(event);
                    Line { place, wrong: None, asks }
                }
                Err(failure) => Line { place, wrong: Some(failure), asks: false },
            },
            Err(error) => Line { place, wrong: Some(Refusal::Event(error).into()), asks: false },
        });
    }
    Ok((group, events))
}

fn unanswered() -> Refusal {
    StoreError::new(flyball_journal::Trouble::Unknown, "the recorder gave no answer").into()
}

/// An event as its sender may say it. What an agent says about people is recorded as its own claim.
fn accepted(event: Incoming) -> Result<Incoming, Failure> {
    may_say(&event.event)?;
    let of_a_person = match &event.event.kind {
        Kind::UserMessage { origin, .. } => *origin == Origin::Human,
        Kind::ToolDenied { by, .. } => *by == Denier::Human,
        _ => false,
    };
    if (of_a_person || event.event.extra.contains_key("idle")) && person::is_below_an_agent() {
        let settled = event.settled(&Claims::of_agent().with_time(), clock::now());
        return settled.map_err(|error| Refusal::Event(error).into());
    }
    Ok(event)
}

/// What a person says is not taken from an agent. In the session of its own hook it does not even begin anew or speak as a
/// person would: rows of equal acts end there.
fn may_say(event: &Event) -> Result<(), Failure> {
    if event.extra.contains_key(flyball::APPROVED_BY) {
        // That a person agreed to a call in a dialog is said by the program that has the dialog.
        return person::speaks(&event.session);
    }
    match &event.kind {
        Kind::ConfirmationAnswered { .. }
        | Kind::HumanReleased { .. }
        | Kind::HumanStopped { .. }
        | Kind::PersonMessage { .. }
        | Kind::PolicyChanged { .. } => person::speaks(&event.session),
        Kind::UserMessage { origin: Origin::Human, .. } => person::speaks_in_its_own(&event.session),
        Kind::SessionStarted { policy, reopen, .. } if policy.is_some() || *reopen => {
            person::speaks_in_its_own(&event.session)
        }
        _ => Ok(()),
    }
}

/// Tells what went wrong on stderr, and gives the answer: what asks is refused if it could not be recorded.
fn refused(place: &str, blocks: bool, mut failure: Failure) -> String {
    let mut answer = json!({});
    for complaint in &mut failure.complaints {
        place.clone_into(&mut complaint.place);
        answer = json!({"error": {"code": complaint.code, "what": complaint.what, "advice": complaint.advice, "place": place}});
    }
    failure.print();
    if blocks {
        answer = json!({"decision": "block", "error": answer.get("error")});
    }
    answer.to_string()
}
