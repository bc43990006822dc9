//! Answering a host: in time, whatever the store does, and in words that this host understands.
//!
//! The work is done by the main thread; a second one watches the clock. When time is up, or the work fails, the policy
//! says what is answered, and the person at the host is told. Whoever comes first answers, and nobody after that.

use super::decide::{Known, Stage, work};
use crate::args::AnswerArgs;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use flyball_adapt::hook::{Answer, Failed, Host, Reply, encode, failed};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time in which an answer is given.
const DEADLINE: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) fn run(host: Host, args: AnswerArgs) -> Result<Exit, Failure> {
    let deadline = args.deadline.unwrap_or(DEADLINE);
    let shared = Arc::new(Mutex::new(Stage::Working(Known::new(host, args.event.as_deref()))));
    let (done, watched) = channel::<()>();
    let watching = Arc::clone(&shared);
    let watch = std::thread::Builder::new().spawn(move || watch(host, &watching, &watched, deadline));
    let outcome = match &watch {
        Ok(_) => {
            // A mistake of ours must not leave the host without an answer.
            let worked = catch_unwind(AssertUnwindSafe(|| work(host, &args, &shared)));
            worked.unwrap_or_else(|_| Err("the work ended in its middle (hook_lost)".to_owned()))
        }
        // Nobody would keep the time, so nothing is begun that may take long.
        Err(error) => Err(format!("no thread can be started: {error} (hook_lost)")),
    };
    let (exit, delivers) = {
        let mut stage = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Stage::Working(known) = &*stage else {
            drop(stage);
            // Time was up just now: the other thread has answered, and ends the process.
            let _ = watch.map(std::thread::JoinHandle::join);
            return Ok(Exit::Done);
        };
        let reply = match &outcome {
            Ok((reply, _)) => reply,
            Err(what) => &known.failed(what),
        };
        let delivers = known.delivers;
        // Held until it is written: the other thread must not end the process in the middle of it.
        let exit = print(&encode(host, &known.event, known.moment, reply))?;
        *stage = Stage::Answered(exit);
        (exit, delivers)
    };
    if let (true, Ok((_, Some(recorder)))) = (delivers, outcome) {
        // What the decision wants told is told now, as long as there is time; the rest waits in the store.
        Deliveries::start(&recorder).finish();
    }
    drop(done);
    Ok(exit)
}

/// Waits for the work or for the end of its time, and ends the process if the work is not done by then.
#[expect(
    clippy::disallowed_methods,
    reason = "the main thread hangs in the store: nobody else is left who could return from main, and all is flushed"
)]
fn watch(host: Host, shared: &Mutex<Stage>, watched: &Receiver<()>, deadline: Duration) {
    if watched.recv_timeout(deadline) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let mut stage = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let exit = match &*stage {
        Stage::Answered(exit) => *exit,
        Stage::Working(known) => {
            let reply =
                known.failed(&format!("no decision after {} ms (hook_deadline)", deadline.as_millis()));
            print(&encode(host, &known.event, known.moment, &reply)).unwrap_or(Exit::Error)
        }
    };
    *stage = Stage::Answered(exit);
    std::process::exit(exit as i32);
}

impl Known {
    /// What is answered when Flyball itself fails.
    fn failed(&self, what: &str) -> Reply {
        let Known { moment, origin, on_error, .. } = *self;
        failed(&Failed { moment, read_only: self.read_only(), origin, on_error, what })
    }
}

fn print(answer: &Answer) -> Result<Exit, Failure> {
    if !answer.stderr.is_empty() {
        // If stderr is gone, the answer is still to be given.
        let _ = std::io::stderr().write_all(flyball::visible(&answer.stderr).as_bytes());
    }
    let mut out = std::io::stdout().lock();
    out.write_all(answer.stdout.as_bytes())?;
    out.flush()?;
    Ok(if answer.exit == 0 { Exit::Done } else { Exit::Refused })
}
