//! Child processes that write: four threads with one recorder, or a courier that performs errands.

use crate::audit::Ack;
use crate::errands::deliveries;
use crate::kit::{Engine, Fallible, Words, digest, event, pause, read_sync, recorder, sync_word};
use flyball::Verdict;
use flyball_journal::{Courier, Point, Probe, Recorder, Refusal, Settled};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Threads of one writer.
pub(crate) const LANES: usize = 4;
/// How long a thread tries again when the store refuses, in steps of 2 ms.
const PATIENCE: u32 = 5_000;

/// Ends the process as soon as a place was passed so many times. Not a single destructor runs. The engine tells of some
/// places, the recorder of others.
fn trap(words: &Words) -> Probe {
    let (wanted, hit) = (words.get("point").to_owned(), words.number("hit"));
    if wanted.is_empty() {
        return Probe::default();
    }
    let passed = AtomicU64::new(0);
    Probe::new(move |point: Point| {
        if point.as_str() == wanted && passed.fetch_add(1, Ordering::Relaxed) + 1 == hit {
            std::process::abort();
        }
    })
}

/// The session that event `number` of a lane goes to: every third to the one that all share.
pub(crate) fn session_of(tag: &str, lane: &str, number: u64) -> String {
    if number.is_multiple_of(3) { format!("{tag}-shared") } else { format!("{tag}-{lane}") }
}

/// What one thread does with an event until it is answered.
fn settled(recorder: &Recorder, session: &str, lane: &str, number: u64) -> Fallible<Ack> {
    for _ in 0..PATIENCE {
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
            Err(Refusal::Event(error)) => return Err(format!("{session} {lane}.{number}: {}", error.what)),
            Err(Refusal::Store(error)) => {
                say(&format!("R {} {}\n", error.trouble.as_str(), error.unsure));
                if error.what.contains("start again to recover") {
                    return Err(error.what);
                }
                pause(2);
            }
        }
    }
    Err(format!("{session} {lane}.{number}: the store went on refusing"))
}

/// One line to whoever started us, in one write.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Sends events from four threads until it is ended, or each thread has sent `limit` of them.
pub(crate) fn writer(words: &Words) -> Fallible<()> {
    let engine = Engine::read(words.get("engine"));
    let store =
        engine.open_with(read_sync(words.get("sync")), trap(words)).map_err(|error| error.to_string())?;
    let recorder = recorder(store, trap(words));
    let next: Vec<u64> = words.get("next").split(',').map(|text| text.parse().unwrap_or(1)).collect();
    let (tag, process, early) = (words.get("tag"), words.get("process"), words.flag("early"));
    let limit = if words.flag("limit") { words.number("limit") } else { u64::MAX };
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
                        say(&ack.line());
                    }
                    match settled(recorder, &session, &lane, number) {
                        Ok(ack) if !early => say(&ack.line()),
                        Ok(_) => {}
                        Err(what) => {
                            *wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                            break;
                        }
                    }
                }
            }));
        }
        if words.flag("checkpoint") {
            let stop = &stop;
            scope.spawn(move || checkpoints(&engine, words, stop));
        }
        for lane in lanes {
            let _ = lane.join();
        }
        stop.store(true, Ordering::Relaxed);
    });
    wrong.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Copies the write-ahead log back into the file, again and again, beside the writers.
fn checkpoints(engine: &Engine, words: &Words, stop: &AtomicBool) {
    let Engine::Sqlite(path) = engine else { return };
    let Ok(sql) = rusqlite::Connection::open(path) else { return };
    let _ = sql.busy_timeout(std::time::Duration::from_secs(5));
    let sync = sync_word(read_sync(words.get("sync")));
    let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let _ = sql.set_db_config(no_checkpoint, true);
    let _ = sql.execute_batch(&format!("PRAGMA synchronous={sync}"));
    let mut restart = false;
    while !stop.load(Ordering::Relaxed) {
        pause(words.number("checkpoint").max(5));
        let kind = if restart { "RESTART" } else { "PASSIVE" };
        let _ = sql.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(()));
        restart = !restart;
    }
}

/// Performs errands with the courier that ships, which ends at the place that it was told.
pub(crate) fn courier(words: &Words) -> Fallible<()> {
    let store = Engine::read(words.get("engine")).open().map_err(|error| error.to_string())?;
    let source = deliveries(words)?;
    let courier = Courier::new(store, &source.base().journal, trap(words));
    until_idle(|| {
        let told = courier.deliver(3).map_err(|error| error.to_string())?;
        if told.again + told.dead > 0 {
            return Err(format!("a delivery has failed: {told:?}"));
        }
        Ok(told.done > 0)
    })
}

/// A courier that says "done" before it has performed anything: the control.
pub(crate) fn hasty(words: &Words) -> Fallible<()> {
    let store = Engine::read(words.get("engine")).open().map_err(|error| error.to_string())?;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(words.get("receiver"));
    let mut file = file.map_err(|error| error.to_string())?;
    let mut seen = 0;
    until_idle(|| {
        let errands = store.claim(3, 60).map_err(|error| error.to_string())?;
        for errand in &errands {
            store.settle(&errand.key, &Settled::Done).map_err(|error| error.to_string())?;
            seen += 1;
            if words.flag("hit") && seen == words.number("hit") {
                std::process::abort();
            }
            writeln!(file, "{}", errand.key).map_err(|error| error.to_string())?;
        }
        Ok(!errands.is_empty())
    })
}

/// Works until there has been nothing to do for a while.
fn until_idle(mut work: impl FnMut() -> Fallible<bool>) -> Fallible<()> {
    let mut idle = 0;
    while idle < 20 {
        idle = if work()? { 0 } else { idle + 1 };
        if idle > 0 {
            pause(5);
        }
    }
    Ok(())
}
