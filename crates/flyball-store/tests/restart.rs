//! Decisions do not depend on the process: with a restart after every event they are the same, byte for byte.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

mod common;

use common::{
    MemoryTestStore, SqliteTestStore, TestStore, event, postgres_test_store, recorded_histories, recorder,
};

fn assert_same_decisions_across_restarts(test_store: impl Fn(&str) -> Box<dyn TestStore>) {
    for (name, events, decisions) in recorded_histories() {
        let test_store = test_store(&name);
        for (at, (line, decided)) in events.iter().zip(&decisions).enumerate() {
            let recorder = recorder(test_store.open());
            let answer =
                recorder.submit(event(line)).unwrap_or_else(|error| panic!("{name}:{at}: {error:?}"));
            assert_eq!(&answer.to_json(), decided, "{name}:{}", at + 1);
        }
    }
}

#[test]
fn restarts_keep_decisions_in_memory() {
    assert_same_decisions_across_restarts(|_| Box::new(MemoryTestStore::new()));
}

#[test]
fn restarts_keep_decisions_in_sqlite() {
    assert_same_decisions_across_restarts(|name| Box::new(SqliteTestStore::new(name)));
}

#[test]
fn restarts_keep_decisions_in_postgres() {
    let Some(test_store) = postgres_test_store() else { return };
    for (name, events, decisions) in recorded_histories() {
        for (at, (line, decided)) in events.iter().zip(&decisions).enumerate() {
            let answer = recorder(test_store.open()).submit(event(line)).unwrap();
            assert_eq!(&answer.to_json(), decided, "{name}:{}", at + 1);
        }
        test_store.truncate();
    }
}

#[test]
fn one_batch_gives_the_same_decisions() {
    for (name, events, decisions) in recorded_histories() {
        let test_store = SqliteTestStore::new(&name);
        let answers = recorder(test_store.open()).submit_all(events.iter().map(|line| event(line)).collect());
        let answers: Vec<String> = answers.into_iter().map(|answer| answer.unwrap().to_json()).collect();
        assert_eq!(answers, decisions, "{name}");
        let again = recorder(test_store.open()).store().verify(&mut |_| ()).unwrap();
        assert!(again.is_empty(), "{name}: {again:?}");
    }
}
