//! The submit queue: every accepted event is answered in order and is on disk; the others are rejected at once.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{
    MemoryTestStore, SqliteTestStore, TestStore, event, postgres_test_store, recorded_histories, recorder,
};
use flyball_store::{
    BoxedSubmission, RecordError, RecordResult, Submission, SubmitError, SubmitQueue, SubmitQueueOptions,
    WriterThreads,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

fn submission(session: &str, number: u64) -> BoxedSubmission {
    event(&format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{number}","at":{number},"call":"c{number}","tool":"read","args":{{"n":{number}}}}}"#
    ))
    .into()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn seqs(answers: Result<Vec<RecordResult>, SubmitError>) -> Vec<u64> {
    answers.unwrap().into_iter().map(|answer| answer.unwrap().seq).collect()
}

fn open_queue(test_store: &dyn TestStore, options: SubmitQueueOptions) -> (SubmitQueue, WriterThreads) {
    SubmitQueue::open(&Arc::new(recorder(test_store.open())), options)
}

/// Clients that each wait for an answer before the next event: no event is lost, duplicated or reordered.
fn concurrent_clients(test_store: &dyn TestStore, groups: usize) {
    const CLIENTS: u64 = 40;
    const EVENTS: u64 = 25;
    let (line, committers) = open_queue(
        test_store,
        SubmitQueueOptions { pipeline_depth: groups, ..SubmitQueueOptions::default() },
    );
    let line = Arc::new(line);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|client| {
            let line = Arc::clone(&line);
            runtime.spawn(async move {
                for number in 1..=EVENTS {
                    let answer = line.submit_one(submission(&format!("s{client}"), number)).await.unwrap();
                    assert_eq!(answer.unwrap().seq, number);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| runtime.block_on(client).unwrap());
    assert_eq!(line.queued(), 0, "answered events have left the queue");
    drop(line);
    committers.join_timeout(FINISH_TIMEOUT);
    let store = test_store.open();
    for client in 1..=CLIENTS {
        let stored = store.records(&format!("s{client}"), 1, EVENTS + 1).unwrap();
        assert_eq!(stored.len() as u64, EVENTS);
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_empty());
}

#[test]
fn concurrent_clients_on_sqlite() {
    [1, 2, 3].into_iter().for_each(|groups| concurrent_clients(&SqliteTestStore::new("line"), groups));
}

#[test]
fn concurrent_clients_in_memory() {
    concurrent_clients(&MemoryTestStore::new(), 2);
}

#[test]
fn concurrent_clients_on_postgres() {
    let Some(test_store) = postgres_test_store() else { return };
    concurrent_clients(&test_store, 2);
}

#[test]
fn recorded_histories_are_decided_the_same_through_the_queue() {
    for (name, events, decisions) in recorded_histories() {
        let test_store = SqliteTestStore::new(&name);
        let (line, _committers) =
            SubmitQueue::open(&Arc::new(recorder(test_store.open())), SubmitQueueOptions::default());
        let answers = block_on(async {
            let mut answers = Vec::new();
            for line_of_json in &events {
                answers.push(line.submit_one(event(line_of_json).into()).await.unwrap().unwrap().to_json());
            }
            answers
        });
        assert_eq!(answers, decisions, "{name}");
    }
}

#[test]
fn full_queue_rejects_the_whole_submission() {
    let (line, _committers) = open_queue(
        &MemoryTestStore::new(),
        SubmitQueueOptions { capacity: 2, ..SubmitQueueOptions::default() },
    );
    assert_eq!((line.capacity(), line.queued(), line.has_capacity()), (2, 0, true));
    let three = (1..=3).map(|number| submission("s", number)).collect();
    assert_eq!(block_on(line.submit(three)), Err(SubmitError::Full));
    let two = (1..=2).map(|number| submission("s", number)).collect();
    assert_eq!(seqs(block_on(line.submit(two))), [1, 2], "rejected events were not counted");
    assert_eq!(block_on(line.submit(Vec::new())), Ok(Vec::new()));
    assert_eq!(seqs(block_on(line.submit(vec![submission("s", 3)]))), [3]);
}

#[test]
fn invalid_event_is_rejected_alone() {
    let (line, _committers) = open_queue(&SqliteTestStore::new("wrong"), SubmitQueueOptions::default());
    let again = Submission::parse(r#"{"type":"turn.started","session":"s","id":"1","at":1}"#, None).unwrap();
    let answers = block_on(line.submit(vec![submission("s", 1), again.into(), submission("s", 2)])).unwrap();
    let told: Vec<Option<u64>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(|decision| decision.seq)).collect();
    assert_eq!(told, [Some(1), None, Some(2)]);
    assert!(
        matches!(&answers[1], Err(RecordError::Event(error)) if error.code == flyball::ErrorCode::EventConflict)
    );
}

#[test]
fn observer_runs_before_callers_are_answered() {
    let seen: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let store = Arc::clone(&seen);
    let test_store = SqliteTestStore::new("witness");
    let recorder = Arc::new(recorder(test_store.open()));
    let (line, _committers) =
        SubmitQueue::open_with_observer(&recorder, SubmitQueueOptions::default(), move |decided| {
            store
                .lock()
                .unwrap()
                .extend(decided.map(|(event, decision)| (event.event.session.clone(), decision.seq)));
        });
    for number in 1..=3 {
        block_on(line.submit_one(submission("s", number))).unwrap().unwrap();
        assert_eq!(seen.lock().unwrap().last(), Some(&("s".to_owned(), number)));
    }
}

#[test]
fn closed_queue_drops_the_recorder() {
    let test_store = SqliteTestStore::new("closed");
    let recorder = Arc::new(recorder(test_store.open()));
    let (line, committers) = SubmitQueue::open(&recorder, SubmitQueueOptions::default());
    block_on(line.submit_one(submission("s", 1))).unwrap().unwrap();
    drop(line);
    committers.join_timeout(FINISH_TIMEOUT);
    assert_eq!(Arc::strong_count(&recorder), 1, "its threads have exited");
}

#[test]
fn empty_submission_does_not_block() {
    let test_store = SqliteTestStore::new("nothing");
    let recorder = recorder(test_store.open());
    assert_eq!(recorder.submit_all(Vec::new()), []);
    assert_eq!(recorder.submit(*submission("s", 1)).unwrap().seq, 1);
}
