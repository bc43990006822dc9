//! A child process with several workers: each takes a session, works on it under its lease, and gives it back. What
//! happens to them while they are frozen, they do not know.

use crate::kit::{Dice, Engine, Fallible, Words, event, pause, recorder};
use crate::writer::say;
use flyball_journal::{Desk, Probe, Recorder, Refusal, Trouble};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Workers of a process.
pub(crate) const WORKERS: u64 = 8;
/// How long a lease holds, in milliseconds of store time.
pub(crate) const LEASE_MS: u64 = 300;

/// One worker.
struct Worker<'a> {
    store: &'a Arc<dyn Desk>,
    recorder: Recorder,
    name: String,
    /// Goes on with whatever epoch the session has when its lease is lost: the control.
    stubborn: bool,
    sent: u64,
}

/// Runs the workers for so many milliseconds.
pub(crate) fn worker(words: &Words) -> Fallible<()> {
    let store = Engine::read(words.get("engine")).open().map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_millis(words.number("millis"));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..WORKERS {
            let store = &store;
            threads.push(scope.spawn(move || {
                let name = format!("{}w{number}", words.get("process"));
                let seed = words.number("seed") ^ words.number("process") << 8 ^ number;
                let worker = Worker {
                    store,
                    recorder: recorder(Arc::clone(store), Probe::default()),
                    name,
                    stubborn: words.flag("stubborn"),
                    sent: 0,
                };
                worker.work(words, &mut Dice::new(seed), end)
            }));
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a worker has panicked".to_owned())))
    })
}

impl Worker<'_> {
    fn work(mut self, words: &Words, dice: &mut Dice, end: Instant) -> Fallible<()> {
        while Instant::now() < end {
            let session = format!("{}-{}", words.get("tag"), dice.below(words.number("sessions")));
            // Few names are wanted by many at once, else nobody would ever meet.
            let session = if dice.percent(30) { format!("{}-0", words.get("tag")) } else { session };
            if let Err(what) = self.visit(&session, dice) {
                // Too many wait at once: that is no fault of the fence.
                if !what.contains(Trouble::Busy.as_str()) {
                    return Err(what);
                }
                say(&format!("B {session}\n"));
            }
        }
        Ok(())
    }

    /// Takes a session, sends some events under the lease, and frees it.
    fn visit(&mut self, session: &str, dice: &mut Dice) -> Fallible<()> {
        let taken = self.store.lease(session, &self.name, LEASE_MS).map_err(|error| error.to_string())?;
        let Some(lease) = taken else {
            pause(5);
            return Ok(());
        };
        say(&format!("G {session} {} {}\n", lease.epoch, self.name));
        self.recorder.hold(&lease);
        let mut held = true;
        for _ in 0..dice.between(1, 6) {
            self.sent += 1;
            let sent = event(session, &self.name, self.sent)?;
            let mut answer = self.recorder.submit(sent.clone());
            if let Err(Refusal::Store(error)) = &answer
                && error.trouble == Trouble::LeaseLost
            {
                say(&format!("L {session} {}\n", lease.epoch));
                held = false;
                if self.stubborn {
                    self.recorder.let_go(session);
                    answer = self.recorder.submit(sent);
                }
            }
            match answer {
                Ok(decision) => {
                    say(&format!(
                        "A {session} {}.{} {} {}\n",
                        self.name, self.sent, decision.seq, lease.epoch
                    ));
                }
                Err(Refusal::Store(error)) if error.trouble == Trouble::LeaseLost => {}
                Err(Refusal::Store(error)) => return Err(error.to_string()),
                Err(Refusal::Event(error)) => return Err(error.what),
            }
            if !held {
                break;
            }
            pause(dice.between(1, 30));
            if dice.percent(40) {
                // A renewal that is refused is believed only half of the time: stale appends must be tried.
                let renewed = self.store.renew(&lease, LEASE_MS).map_err(|error| error.to_string())?;
                if !renewed && dice.percent(50) {
                    break;
                }
            }
        }
        self.recorder.let_go(session);
        self.store.free(&lease).map_err(|error| error.to_string())
    }
}
