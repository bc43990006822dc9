//! Concurrent threads on one store: while one commit waits for the disk the next one is made. Every answered event is
//! stored once, in order, and gets the same answer when it is sent again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

mod common;

use common::{SqliteTestStore, TestStore, event, recorder};
use flyball::{Decision, Verdict};
use flyball_store::{AppendOutcome, Submission};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 12;
const EVENTS: usize = 25;

/// An event of a thread. Every third one goes to the session that all threads share.
fn line(thread: usize, number: usize) -> Submission {
    let session = if number.is_multiple_of(3) { "shared".to_owned() } else { format!("own-{thread}") };
    event(&format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{thread}.{number}","at":1763200000000,"call":"{thread}.{number}","tool":"bash","args":{{"command":"ls {thread} {number}"}}}}"#
    ))
}

#[test]
fn concurrent_answers_are_stored_once_and_in_order() {
    let test_store = SqliteTestStore::new("in_line");
    // Two stores on one file, as in two processes.
    let recorders = [recorder(test_store.open()), recorder(test_store.open())];
    let answers: Vec<(usize, usize, String)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS)
            .map(|thread| {
                let recorder = &recorders[thread % 2];
                scope.spawn(move || {
                    let told = |number| recorder.submit(line(thread, number)).unwrap().to_json();
                    (0..EVENTS).map(|number| (thread, number, told(number))).collect::<Vec<_>>()
                })
            })
            .collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    drop(recorders);
    let again = recorder(test_store.open());
    for (thread, number, told) in &answers {
        let answer = again.submit(line(*thread, *number)).unwrap();
        // A session that was halted meanwhile does not give a permission again.
        if answer.decision == Verdict::Halt {
            let told: Decision = serde_json::from_str(told).unwrap();
            assert_eq!(answer.seq, told.seq);
        } else {
            assert_eq!(&answer.to_json(), told);
        }
    }
    let store = again.store();
    assert_eq!(store.verify(&mut |_| ()).unwrap(), Vec::<String>::new());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    (0..THREADS).flat_map(|thread| (0..EVENTS).map(move |number| line(thread, number))).for_each(|event| {
        *counts.entry(event.event.session).or_default() += 1;
    });
    for (session, count) in counts {
        let seqs: Vec<u64> =
            store.records(&session, 1, u64::MAX).unwrap().iter().map(|one| one.seq).collect();
        assert_eq!(seqs, (1..=count).collect::<Vec<_>>(), "{session}");
    }
}

#[test]
fn next_append_starts_before_the_first_is_synced() {
    let test_store = SqliteTestStore::new("in_line-free");
    let store = test_store.open();
    let reader = test_store.open();
    let freed = AtomicU64::new(0);
    let done = std::thread::scope(|scope| {
        store.append_pipelined(&[], &mut || {
            freed.fetch_add(1, Ordering::Relaxed);
            // A second write succeeds and is visible while the first has not returned: it only waits for the disk.
            scope.spawn(|| store.save_policy("digest", "{}").unwrap());
            let seen = (0..200_000).any(|_| {
                std::thread::yield_now();
                reader.policy("digest").unwrap().is_some()
            });
            assert!(seen, "the first write still blocks the store");
        })
    });
    assert_eq!(done.unwrap(), Vec::<AppendOutcome>::new());
    assert_eq!(freed.load(Ordering::Relaxed), 1);
    assert_eq!(test_store.open().policy("digest").unwrap().as_deref(), Some("{}"));
}
