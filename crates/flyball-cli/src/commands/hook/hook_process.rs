//! Answers a host in time and in its own format, even if the store hangs.
//!
//! The main thread does the work while a second thread enforces the deadline. On a timeout or error the policy
//! determines the reply, and the user of the host gets a notice. Only the first thread to finish replies.

use super::decide::{HookProgress, HookStage, process_invocation};
use crate::args::HookRunArgs;
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use flyball_integrations::hook::{HookFailure, HookOutput, HookReply, Host, encode, failure_reply};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Default deadline for a reply.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) fn run(host: Host, args: HookRunArgs) -> Result<Exit, CliError> {
    let deadline = args.deadline.unwrap_or(DEFAULT_DEADLINE);
    let shared = Arc::new(Mutex::new(HookStage::Working(HookProgress::new(host, args.event.as_deref()))));
    let (done, watched) = channel::<()>();
    let watching = Arc::clone(&shared);
    let watch =
        std::thread::Builder::new().spawn(move || enforce_deadline(host, &watching, &watched, deadline));
    let outcome = match &watch {
        Ok(_) => {
            // A panic must not leave the host without a reply.
            let worked = catch_unwind(AssertUnwindSafe(|| process_invocation(host, &args, &shared)));
            worked.unwrap_or_else(|_| Err("the hook panicked (hook_lost)".to_owned()))
        }
        // Without a deadline thread, do not start work that may take long.
        Err(error) => Err(format!("cannot start a thread: {error} (hook_lost)")),
    };
    let (exit, delivers) = {
        let mut stage = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let HookStage::Working(known) = &*stage else {
            drop(stage);
            // The deadline has just passed: the other thread has replied and ends the process.
            let _ = watch.map(std::thread::JoinHandle::join);
            return Ok(Exit::Success);
        };
        let reply = match &outcome {
            Ok((reply, _)) => reply,
            Err(what) => &known.failure_reply(what),
        };
        let delivers = known.has_deliveries;
        // The lock is held while writing, so that the other thread does not end the process midway.
        let exit = print_answer(&encode(host, &known.event, known.phase, reply))?;
        *stage = HookStage::Answered(exit);
        (exit, delivers)
    };
    if let (true, Ok((_, Some(recorder)))) = (delivers, outcome) {
        // Deliver the decision's effects while there is time; the rest stays in the outbox.
        DeliveryThread::start(&recorder).finish();
    }
    drop(done);
    Ok(exit)
}

/// Waits for the work or the deadline, and ends the process if the work is not done by then.
#[expect(
    clippy::disallowed_methods,
    reason = "the main thread hangs in the store and cannot return from main; all output is flushed"
)]
fn enforce_deadline(host: Host, shared: &Mutex<HookStage>, watched: &Receiver<()>, deadline: Duration) {
    if watched.recv_timeout(deadline) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let mut stage = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let exit = match &*stage {
        HookStage::Answered(exit) => *exit,
        HookStage::Working(known) => {
            let reply = known
                .failure_reply(&format!("no decision after {} ms (hook_deadline)", deadline.as_millis()));
            print_answer(&encode(host, &known.event, known.phase, &reply)).unwrap_or(Exit::Error)
        }
    };
    *stage = HookStage::Answered(exit);
    std::process::exit(exit as i32);
}

impl HookProgress {
    /// The reply when Flyball itself fails.
    fn failure_reply(&self, what: &str) -> HookReply {
        let HookProgress { phase: moment, origin, on_error, .. } = *self;
        failure_reply(&HookFailure {
            phase: moment,
            read_only: self.read_only(),
            origin,
            on_error,
            message: what,
        })
    }
}

fn print_answer(answer: &HookOutput) -> Result<Exit, CliError> {
    if !answer.stderr.is_empty() {
        // Even if stderr is closed, the answer must be given.
        let _ = std::io::stderr().write_all(flyball::escape_deceptive(&answer.stderr).as_bytes());
    }
    let mut out = std::io::stdout().lock();
    out.write_all(answer.stdout.as_bytes())?;
    out.flush()?;
    Ok(if answer.exit == 0 { Exit::Success } else { Exit::HookBlocked })
}
