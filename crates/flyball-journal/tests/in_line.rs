//! Many threads at one store: while one commit waits for the disk the next is made, and still everything that was
//! answered is there, once, in order, and answered alike when it comes again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test that is how a failure is told")]

mod kit;

use flyball::{Decision, Verdict};
use flyball_journal::{Appended, Incoming};
use kit::{InFile, Place, event, recorder};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 12;
const EVENTS: usize = 25;

/// Every third event of a thread goes to the session that all share.
fn line(thread: usize, number: usize) -> Incoming {
    let session = if number.is_multiple_of(3) { "shared".to_owned() } else { format!("own-{thread}") };
    event(&format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{thread}.{number}","at":1763200000000,"call":"{thread}.{number}","tool":"bash","args":{{"command":"ls {thread} {number}"}}}}"#
    ))
}

#[test]
fn what_was_answered_is_there_once_and_in_order() {
    let place = InFile::new("in_line");
    // Two stores on one file, as two processes would have them.
    let recorders = [recorder(place.open()), recorder(place.open())];
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
    let again = recorder(place.open());
    for (thread, number, told) in &answers {
        let answer = again.submit(line(*thread, *number)).unwrap();
        // A session that was halted meanwhile gives no permission a second time.
        if answer.decision == Verdict::Halt {
            let told: Decision = serde_json::from_str(told).unwrap();
            assert_eq!(answer.seq, told.seq);
        } else {
            assert_eq!(&answer.to_json(), told);
        }
    }
    let store = again.journal();
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
fn the_next_one_may_write_before_the_first_has_come_back() {
    let place = InFile::new("in_line-free");
    let store = place.open();
    let reader = place.open();
    let freed = AtomicU64::new(0);
    let done = std::thread::scope(|scope| {
        store.append_in_line(&[], &mut || {
            freed.fetch_add(1, Ordering::Relaxed);
            // Another one writes, and can be read, while the first has not come back. It waits for the disk only.
            scope.spawn(|| store.keep_policy("digest", "{}").unwrap());
            let seen = (0..200_000).any(|_| {
                std::thread::yield_now();
                reader.policy("digest").unwrap().is_some()
            });
            assert!(seen, "the first still holds the store");
        })
    });
    assert_eq!(done.unwrap(), Vec::<Appended>::new());
    assert_eq!(freed.load(Ordering::Relaxed), 1);
    assert_eq!(place.open().policy("digest").unwrap().as_deref(), Some("{}"));
}
