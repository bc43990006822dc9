//! A child process with several workers: each leases a session, works on it under its lease, and releases it. The
//! workers cannot tell when they were frozen.

use crate::harness::{ChildArgs, StoreUnderTest, TortureResult, TortureRng, event, recorder, sleep_ms};
use crate::writer::print_raw;
use flyball_store::{AdminStore, FailpointHook, RecordError, Recorder, StoreErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Workers per process.
pub(crate) const WORKERS: u64 = 8;
/// Duration of a lease, in milliseconds of store time.
pub(crate) const LEASE_MS: u64 = 300;

/// One worker.
struct LeaseWorker<'a> {
    store: &'a Arc<dyn AdminStore>,
    recorder: Recorder,
    name: String,
    /// Control: continues with the session's current epoch when its lease is lost.
    stubborn: bool,
    sent: u64,
}

/// Runs the workers for the given time.
pub(crate) fn run_workers(child_args: &ChildArgs) -> TortureResult<()> {
    let store = StoreUnderTest::parse(child_args.get("engine")).open().map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_millis(child_args.number("millis"));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..WORKERS {
            let store = &store;
            threads.push(scope.spawn(move || {
                let name = format!("{}w{number}", child_args.get("process"));
                let seed = child_args.number("seed") ^ child_args.number("process") << 8 ^ number;
                let worker = LeaseWorker {
                    store,
                    recorder: recorder(Arc::clone(store), FailpointHook::default()),
                    name,
                    stubborn: child_args.flag("stubborn"),
                    sent: 0,
                };
                worker.run(child_args, &mut TortureRng::new(seed), end)
            }));
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
    })
}

impl LeaseWorker<'_> {
    fn run(mut self, child_args: &ChildArgs, rng: &mut TortureRng, end: Instant) -> TortureResult<()> {
        while Instant::now() < end {
            let session = format!("{}-{}", child_args.get("tag"), rng.below(child_args.number("sessions")));
            // A few sessions are contended; otherwise workers would rarely meet.
            let session = if rng.percent(30) { format!("{}-0", child_args.get("tag")) } else { session };
            if let Err(what) = self.work_on_session(&session, rng) {
                // Too many waiters are not a failure of fencing.
                if !what.contains(StoreErrorKind::Busy.as_str()) {
                    return Err(what);
                }
                print_raw(&format!("B {session}\n"));
            }
        }
        Ok(())
    }

    /// Leases a session, sends some events, and releases it.
    fn work_on_session(&mut self, session: &str, rng: &mut TortureRng) -> TortureResult<()> {
        let taken = self.store.lease(session, &self.name, LEASE_MS).map_err(|error| error.to_string())?;
        let Some(lease) = taken else {
            sleep_ms(5);
            return Ok(());
        };
        print_raw(&format!("G {session} {} {}\n", lease.epoch, self.name));
        self.recorder.hold_lease(&lease);
        let mut held = true;
        for _ in 0..rng.between(1, 6) {
            self.sent += 1;
            let sent = event(session, &self.name, self.sent)?;
            let mut answer = self.recorder.submit(sent.clone());
            if let Err(RecordError::Store(error)) = &answer
                && error.kind == StoreErrorKind::LeaseLost
            {
                print_raw(&format!("L {session} {}\n", lease.epoch));
                held = false;
                if self.stubborn {
                    self.recorder.drop_lease(session);
                    answer = self.recorder.submit(sent);
                }
            }
            match answer {
                Ok(decision) => {
                    print_raw(&format!(
                        "A {session} {}.{} {} {}\n",
                        self.name, self.sent, decision.seq, lease.epoch
                    ));
                }
                Err(RecordError::Store(error)) if error.kind == StoreErrorKind::LeaseLost => {}
                Err(RecordError::Store(error)) => return Err(error.to_string()),
                Err(RecordError::Event(error)) => return Err(error.message),
            }
            if !held {
                break;
            }
            sleep_ms(rng.between(1, 30));
            if rng.percent(40) {
                // Ignore a failed renewal half of the time, so that stale appends are attempted.
                let renewed = self.store.renew_lease(&lease, LEASE_MS).map_err(|error| error.to_string())?;
                if !renewed && rng.percent(50) {
                    break;
                }
            }
        }
        self.recorder.drop_lease(session);
        self.store.release_lease(&lease).map_err(|error| error.to_string())
    }
}
