//! Child processes that write: four threads with one recorder, or a dispatcher.

use crate::audit::Ack;
use crate::harness::{
    ChildArgs, StoreUnderTest, TortureResult, digest, event, parse_sync, recorder, sleep_ms, sync_name,
};
use crate::outbox::delivery_policy;
use flyball::Verdict;
use flyball_store::{DeliveryOutcome, Failpoint, FailpointHook, OutboxDispatcher, RecordError, Recorder};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Threads per writer.
pub(crate) const WRITER_THREADS: usize = 4;
/// Maximum retries of a thread when the store fails, 2 ms apart.
const MAX_RETRIES: u32 = 5_000;

/// Aborts the process when a failpoint has been reached a given number of times. No destructor runs. Some failpoints
/// belong to the engine, others to the recorder.
fn abort_at_failpoint(child_args: &ChildArgs) -> FailpointHook {
    let (wanted, hit) = (child_args.get("point").to_owned(), child_args.number("hit"));
    if wanted.is_empty() {
        return FailpointHook::default();
    }
    let passed = AtomicU64::new(0);
    FailpointHook::new(move |point: Failpoint| {
        if point.as_str() == wanted && passed.fetch_add(1, Ordering::Relaxed) + 1 == hit {
            std::process::abort();
        }
    })
}

/// Session of event `number` of a lane: every third goes to the shared one.
pub(crate) fn session_of(tag: &str, lane: &str, number: u64) -> String {
    if number.is_multiple_of(3) { format!("{tag}-shared") } else { format!("{tag}-{lane}") }
}

/// Submits an event until it is answered.
fn submit_until_answered(recorder: &Recorder, session: &str, lane: &str, number: u64) -> TortureResult<Ack> {
    for _ in 0..MAX_RETRIES {
        match recorder.submit(event(session, lane, number)?) {
            Ok(decision) => {
                return Ok(Ack {
                    session: session.to_owned(),
                    id: format!("{lane}.{number}"),
                    seq: decision.seq,
                    digest: digest(&decision.to_json()),
                    halt: decision.decision == Verdict::Halt,
                });
            }
            Err(RecordError::Event(error)) => {
                return Err(format!("{session} {lane}.{number}: {}", error.message));
            }
            Err(RecordError::Store(error)) => {
                print_raw(&format!("R {} {}\n", error.kind.as_str(), error.outcome_unknown));
                if error.message.contains("restart to recover") {
                    return Err(error.message);
                }
                sleep_ms(2);
            }
        }
    }
    Err(format!("{session} {lane}.{number}: the store kept failing"))
}

/// Prints one line for the parent process, in one write.
pub(crate) fn print_raw(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Sends events from four threads until killed, or until each has sent `limit` of them.
pub(crate) fn run_writer(child_args: &ChildArgs) -> TortureResult<()> {
    let engine = StoreUnderTest::parse(child_args.get("engine"));
    let store = engine
        .open_with(parse_sync(child_args.get("sync")), abort_at_failpoint(child_args))
        .map_err(|error| error.to_string())?;
    let recorder = recorder(store, abort_at_failpoint(child_args));
    let next: Vec<u64> = child_args.get("next").split(',').map(|text| text.parse().unwrap_or(1)).collect();
    let (tag, process, early) = (child_args.get("tag"), child_args.get("process"), child_args.flag("early"));
    let limit = if child_args.flag("limit") { child_args.number("limit") } else { u64::MAX };
    let stop = AtomicBool::new(false);
    let wrong = Mutex::new(None);
    std::thread::scope(|scope| {
        let mut lanes = Vec::new();
        for (lane, first) in next.iter().enumerate() {
            let (recorder, wrong) = (&recorder, &wrong);
            lanes.push(scope.spawn(move || {
                let lane = format!("{process}{lane}");
                for number in *first..first.saturating_add(limit) {
                    let session = session_of(tag, &lane, number);
                    if early {
                        let id = format!("{lane}.{number}");
                        let ack =
                            Ack { session: session.clone(), id, seq: 0, digest: "?".to_owned(), halt: false };
                        print_raw(&ack.to_line());
                    }
                    match submit_until_answered(recorder, &session, &lane, number) {
                        Ok(ack) if !early => print_raw(&ack.to_line()),
                        Ok(_) => {}
                        Err(what) => {
                            *wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                            break;
                        }
                    }
                }
            }));
        }
        if child_args.flag("checkpoint") {
            let stop = &stop;
            scope.spawn(move || run_checkpoints(&engine, child_args, stop));
        }
        for lane in lanes {
            let _ = lane.join();
        }
        stop.store(true, Ordering::Relaxed);
    });
    wrong.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Checkpoints the write-ahead log repeatedly, concurrently with the writers.
fn run_checkpoints(engine: &StoreUnderTest, child_args: &ChildArgs, stop: &AtomicBool) {
    let StoreUnderTest::Sqlite(path) = engine else { return };
    let Ok(sql) = rusqlite::Connection::open(path) else { return };
    let _ = sql.busy_timeout(std::time::Duration::from_secs(5));
    let sync = sync_name(parse_sync(child_args.get("sync")));
    let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let _ = sql.set_db_config(no_checkpoint, true);
    let _ = sql.execute_batch(&format!("PRAGMA synchronous={sync}"));
    let mut restart = false;
    while !stop.load(Ordering::Relaxed) {
        sleep_ms(child_args.number("checkpoint").max(5));
        let kind = if restart { "RESTART" } else { "PASSIVE" };
        let _ = sql.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(()));
        restart = !restart;
    }
}

/// Delivers outbox messages with the shipped dispatcher, which crashes at the requested failpoint.
pub(crate) fn run_dispatcher(child_args: &ChildArgs) -> TortureResult<()> {
    let store = StoreUnderTest::parse(child_args.get("engine")).open().map_err(|error| error.to_string())?;
    let source = delivery_policy(child_args)?;
    let dispatcher = OutboxDispatcher::new(store, &source.base().journal, abort_at_failpoint(child_args));
    until_idle(|| {
        let report = dispatcher.deliver_due(3).map_err(|error| error.to_string())?;
        if report.retried + report.dead > 0 {
            return Err(format!("a delivery failed: {report:?}"));
        }
        Ok(report.done > 0)
    })
}

/// Control: a dispatcher that marks messages before it delivers them.
pub(crate) fn run_premature_dispatcher(child_args: &ChildArgs) -> TortureResult<()> {
    let store = StoreUnderTest::parse(child_args.get("engine")).open().map_err(|error| error.to_string())?;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(child_args.get("receiver"));
    let mut file = file.map_err(|error| error.to_string())?;
    let mut seen = 0;
    until_idle(|| {
        let messages = store.claim_outbox(3, 60).map_err(|error| error.to_string())?;
        for message in &messages {
            store
                .record_delivery(&message.key, &DeliveryOutcome::Delivered)
                .map_err(|error| error.to_string())?;
            seen += 1;
            if child_args.flag("hit") && seen == child_args.number("hit") {
                std::process::abort();
            }
            writeln!(file, "{}", message.key).map_err(|error| error.to_string())?;
        }
        Ok(!messages.is_empty())
    })
}

/// Works until there has been nothing to do for a while.
fn until_idle(mut work: impl FnMut() -> TortureResult<bool>) -> TortureResult<()> {
    let mut idle = 0;
    while idle < 20 {
        idle = if work()? { 0 } else { idle + 1 };
        if idle > 0 {
            sleep_ms(5);
        }
    }
    Ok(())
}
