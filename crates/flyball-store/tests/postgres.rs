//! PostgreSQL specifics: concurrency, fencing by the server, lost replies, tables of other programs.
//!
//! Runs against the server in `FLYBALL_TEST_POSTGRES` (`cargo xtask test` starts one), each test in a new database.
//! Without it the tests pass and print `skipped`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a panic is how a test fails")]

#[path = "postgres/commit_cut_proxy.rs"]
mod commit_cut_proxy;
#[path = "postgres/session_builders.rs"]
mod session_builders;
#[path = "common/test_database.rs"]
mod test_database;

use commit_cut_proxy::CommitCutProxy;
use flyball_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationChange, DeliveryOutcome, EventStore, LabelChange,
    Lease, OutboxMessage, OutboxState, PostgresOptions, PostgresStore, SessionFilter, StoreErrorKind,
    StreamCursor,
};
use session_builders::{advance, advance_with_snapshot, confirmation_row, new_head, one};
use std::collections::BTreeMap;
use test_database::TestDatabase;

const DONE: [AppendOutcome; 1] = [AppendOutcome::Done];

fn outbox_message(session: &str, key: &str) -> OutboxMessage {
    OutboxMessage {
        key: key.to_owned(),
        session: session.to_owned(),
        effect: "call_person".to_owned(),
        sink: "0".to_owned(),
        payload: "{}".to_owned(),
        state: OutboxState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

#[test]
fn twenty_concurrent_opens_create_one_store() {
    let Some(database) = TestDatabase::new() else { return };
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    PostgresStore::open_with(
                        &database.url,
                        PostgresOptions { connections: 1, ..PostgresOptions::default() },
                    )
                })
            })
            .collect();
        for one in opened {
            one.join().unwrap().unwrap();
        }
    });
    let store = database.open();
    assert!(store.engine_version().unwrap().ends_with("schema 2"), "{:?}", store.engine_version());
    assert_eq!(database.sql().query_text("SELECT count(*) FROM flyball_meta").as_deref(), Some("1"));
}

#[test]
fn stored_values_are_read_back() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    // PostgreSQL text cannot contain NUL; names and ids may.
    let name = "s\0\u{1}0 \u{43f}";
    let mut head = new_head(name);
    head.summary.label = Some("needs help".to_owned());
    head.summary.warnings = u64::MAX;
    head.pending = Some(confirmation_row(name).sum());
    let mut change = advance_with_snapshot(&mut head, 2, b"\0state\xff");
    change.row = ConfirmationChange::Put(confirmation_row(name));
    change.label = LabelChange::Set("needs help".to_owned());
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let mut tail = advance(&mut head, 3);
    tail.records[0].id = Some("a\0b".to_owned());
    let mut before = tail.records[0].clone();
    // The id is part of the chain, so the chain is recomputed.
    let mut chain = store.load(name).unwrap().unwrap().head.chain;
    for record in &mut tail.records {
        record.chain = record.chain_hash_after(&chain);
        chain = record.chain;
    }
    head.chain = chain;
    tail.head.chain = chain;
    before.chain = tail.records[0].chain;
    assert_eq!(store.append(&[one(tail.clone())]).unwrap(), DONE);

    let loaded = store.load(name).unwrap().unwrap();
    assert_eq!(
        (loaded.head, loaded.state, loaded.tail),
        (head.clone(), b"\0state\xff".to_vec(), tail.records)
    );
    let answered = store.find_by_id(name, "a\0b").unwrap().unwrap();
    assert_eq!(
        (answered.seq, answered.body_hash, answered.decision_json),
        (3, before.body_hash, Some(before.decision_json))
    );
    assert_eq!(store.find_by_id(name, "no").unwrap(), None);
    assert_eq!(store.records(name, 2, 4).unwrap().len(), 3);
    assert_eq!(store.pending(name).unwrap(), Some(confirmation_row(name)));
    let handles = store.operator_rows(name).unwrap();
    assert_eq!((handles.pending, handles.label), (head.pending, true));
    assert_eq!(store.list_sessions(SessionFilter::All, 10).unwrap(), [head]);
    store.save_policy("p1", "a: 1").unwrap();
    store.save_policy("p1", "a: 1").unwrap();
    assert_eq!(store.policy("p1").unwrap().as_deref(), Some("a: 1"));
    assert_eq!(store.policy("p2").unwrap(), None);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    assert!(!store.address().contains("postgres@"), "{}", store.address());
}

#[test]
fn foreign_session_state_is_shared_and_other_tables_are_untouched() {
    let Some(database) = TestDatabase::new() else { return };
    let sql = database.sql();
    sql.execute(
        "CREATE TABLE session_state (session_id TEXT PRIMARY KEY, pending_confirmation INTEGER NOT NULL DEFAULT 0, \
         pending_plan TEXT, confirmation_question TEXT, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP); \
         INSERT INTO session_state VALUES ('theirs', 1, 'a plan', 'sure?', '2024-01-02 03:04:05'); \
         CREATE TABLE events (id INTEGER); INSERT INTO events VALUES (7)",
    );
    let store = database.open();
    let mut head = new_head("ours");
    let mut change = advance(&mut head, 1);
    change.row = ConfirmationChange::Put(confirmation_row("ours"));
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let mut change = advance(&mut head, 1);
    change.row = ConfirmationChange::Quarantine { reason: "it was edited".to_owned() };
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    assert_eq!(store.pending("ours").unwrap(), None);
    assert_eq!(
        sql.query_text("SELECT session_id || ': ' || why || ' ' || pending_plan FROM flyball_set_aside")
            .as_deref(),
        Some("ours: it was edited [{\"tool\":\"wipe\",\"args\":{}}]")
    );
    assert_eq!(
        sql.query_text("SELECT string_agg(session_id || pending_plan || updated_at, ',') FROM session_state")
            .as_deref(),
        Some("theirsa plan2024-01-02 03:04:05")
    );
    assert_eq!(sql.query_text("SELECT id FROM events").as_deref(), Some("7"));
}

#[test]
fn incompatible_session_state_is_left_unchanged() {
    let Some(database) = TestDatabase::new() else { return };
    database.sql().execute("CREATE TABLE session_state (session_id TEXT PRIMARY KEY, status TEXT)");
    let error = PostgresStore::open(&database.url).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotADatabase, "{error}");
    let count = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'session_state'";
    assert_eq!(database.sql().query_text(count).as_deref(), Some("2"));
    assert_eq!(database.sql().query_text("SELECT to_regclass('flyball_meta')").as_deref(), Some(""));
}

#[test]
fn newer_schema_is_rejected_unchanged() {
    let Some(database) = TestDatabase::new() else { return };
    let sql = database.sql();
    sql.execute("CREATE TABLE flyball_meta (key TEXT PRIMARY KEY, value TEXT); INSERT INTO flyball_meta VALUES ('schema', '99')");
    let error = PostgresStore::open(&database.url).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::UnsupportedVersion, "{error}");
    assert_eq!(sql.query_text("SELECT to_regclass('flyball_sessions')").as_deref(), Some(""));
}

#[test]
fn stale_revision_or_epoch_is_rejected() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let mut head = new_head("s");
    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
    let again = advance(&mut new_head("s"), 1);
    assert_eq!(store.append(&[one(again)]).unwrap(), [AppendOutcome::Stale], "created twice");
    let mut twin = head.clone();
    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
    assert_eq!(store.append(&[one(advance(&mut twin, 1))]).unwrap(), [AppendOutcome::Stale]);
    let mut nobody = new_head("nobody");
    nobody.rev = 4;
    assert_eq!(store.append(&[one(advance(&mut nobody, 1))]).unwrap(), [AppendOutcome::Stale]);

    let lease = store.lease("s", "worker", 60_000).unwrap().unwrap();
    assert_eq!(lease.epoch, 1);
    let mut old = head.clone();
    assert_eq!(
        store.append(&[one(advance(&mut old, 1))]).unwrap(),
        [AppendOutcome::Fenced],
        "epoch 0 has ended"
    );
    assert_eq!(
        store.append(&[one(advance(&mut twin, 1))]).unwrap(),
        [AppendOutcome::Fenced],
        "fenced takes precedence over stale"
    );
    head.epoch = lease.epoch;
    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
    assert_eq!(store.load("s").unwrap().unwrap().head, head);
}

#[test]
fn append_unit_is_atomic_and_does_not_block_others() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let (mut parent, mut child, mut other) = (new_head("parent"), new_head("child"), new_head("other"));
    let new = [&mut parent, &mut child, &mut other].map(|head| one(advance(head, 1)));
    assert_eq!(store.append(&new).unwrap(), [AppendOutcome::Done; 3]);
    let stale = parent.clone();
    assert_eq!(store.append(&[one(advance_with_snapshot(&mut parent, 0, b"drawn"))]).unwrap(), DONE);

    let (mut child2, mut stale2, mut other2) = (child.clone(), stale.clone(), other.clone());
    let both = AppendUnit { changes: vec![advance(&mut child2, 2), advance(&mut stale2, 0)] };
    let answer = store.append(&[both, one(advance(&mut other2, 1))]).unwrap();
    assert_eq!(answer, [AppendOutcome::Stale, AppendOutcome::Done]);
    assert_eq!(store.load("child").unwrap().unwrap().head, child, "a unit was stored partially");
    assert_eq!(store.load("other").unwrap().unwrap().head, other2);

    // Two units of one batch that charge the same session, one after the other.
    let first =
        AppendUnit { changes: vec![advance(&mut child, 1), advance_with_snapshot(&mut parent, 0, b"1")] };
    let second =
        AppendUnit { changes: vec![advance(&mut other2, 1), advance_with_snapshot(&mut parent, 0, b"2")] };
    assert_eq!(store.append(&[first, second]).unwrap(), [AppendOutcome::Done; 2]);
    let loaded = store.load("parent").unwrap().unwrap();
    assert_eq!((loaded.head, loaded.state), (parent, b"2".to_vec()));
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
}

#[test]
fn concurrent_creation_of_a_session_succeeds_once() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    for round in 0..5 {
        let name = format!("s{round}");
        let answers: Vec<AppendOutcome> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| store.append(&[one(advance(&mut new_head(&name), 1))]).unwrap()[0]))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|answer| **answer == AppendOutcome::Done).count(), 1, "{answers:?}");
    }
}

const TERMINATE_BLOCKED_BACKEND: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
    AND application_name = 'flyball' AND wait_event_type = 'Lock'";
const BACKEND_IS_BLOCKED: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() \
    AND application_name = 'flyball' AND wait_event_type = 'Lock'";

#[test]
fn server_crash_before_commit_is_known_to_store_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let mut head = new_head("s");
    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
    let before = head.clone();
    let unit = [one(advance(&mut head, 1))];
    sql.execute("BEGIN; LOCK TABLE flyball_events IN SHARE MODE");
    let error = std::thread::scope(|scope| {
        let append = scope.spawn(|| store.append(&unit));
        sql.until(BACKEND_IS_BLOCKED);
        sql.execute(TERMINATE_BLOCKED_BACKEND);
        append.join().unwrap().unwrap_err()
    });
    sql.execute("COMMIT");
    assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}");
    assert_eq!(store.load("s").unwrap().unwrap().head, before);
    assert_eq!(store.append(&unit).unwrap(), DONE, "another connection continues");
}

#[test]
fn server_crash_during_commit_has_an_unknown_outcome() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let mut head = new_head("s");
    // Commits wait for a lock, as they would for a slow disk.
    sql.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock(5); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON flyball_events DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION wait()",
    );
    sql.execute("BEGIN; SELECT pg_advisory_xact_lock(5)");
    let unit = [one(advance(&mut head, 1))];
    let error = std::thread::scope(|scope| {
        let append = scope.spawn(|| store.append(&unit));
        sql.until(BACKEND_IS_BLOCKED);
        sql.execute(TERMINATE_BLOCKED_BACKEND);
        append.join().unwrap().unwrap_err()
    });
    sql.execute("COMMIT");
    assert_eq!(error.kind, StoreErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(store.load("s").unwrap(), None);
    assert_eq!(store.append(&unit).unwrap(), DONE);
}

#[test]
fn lost_commit_reply_is_unknown_and_the_event_is_found() {
    let Some(database) = TestDatabase::new() else { return };
    let proxy = CommitCutProxy::new(&database.url);
    let store = PostgresStore::open(&proxy.url).unwrap();
    let mut head = new_head("s");
    let change = advance(&mut head, 1);
    proxy.cut_at_commit();
    let error = store.append(&[one(change.clone())]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::OutcomeUnknown, "{error}");
    let loaded = store.load("s").unwrap().unwrap();
    assert_eq!(loaded.tail[0].nonce, change.records[0].nonce, "it is our event");
    assert_eq!(store.append(&[one(change)]).unwrap(), [AppendOutcome::Stale]);
}

#[test]
fn connection_failures_have_distinct_kinds() {
    let Some(database) = TestDatabase::new() else { return };
    let trouble = |url: &str| {
        let error = PostgresStore::open(url).unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
        error.kind
    };
    assert_eq!(trouble("postgres://a:secret@127.0.0.1:1/x"), StoreErrorKind::Unreachable);
    assert_eq!(trouble("postgres://a:secret@h/x?nonsense=1"), StoreErrorKind::BadAddress);
    let (front, _) = database.url.rsplit_once('/').unwrap();
    assert_eq!(trouble(&format!("{front}/no_such_database")), StoreErrorKind::NotFound);
    // The test server has no TLS.
    assert_eq!(trouble(&format!("{}?sslmode=require", database.url)), StoreErrorKind::Unreachable);
    let sql = database.sql();
    let store = database.open();
    sql.execute("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$");
    drop(store);
    let store = PostgresStore::open(&database.url).unwrap();
    let error = store.append(&[one(advance(&mut new_head("s"), 1))]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::ReadOnly, "{error}");
    assert_eq!(store.load("s").unwrap(), None, "reading still works");
}

#[test]
fn commit_is_synchronous_despite_server_default() {
    let Some(database) = TestDatabase::new() else { return };
    let sql = database.sql();
    sql.execute("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$");
    let store = database.open();
    sql.execute(
        "CREATE TABLE seen (setting TEXT); CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$; \
         CREATE TRIGGER look AFTER INSERT ON flyball_events FOR EACH ROW EXECUTE FUNCTION look()",
    );
    assert_eq!(store.append(&[one(advance(&mut new_head("s"), 1))]).unwrap(), DONE);
    assert_eq!(sql.query_text("SELECT setting FROM seen").as_deref(), Some("on"));
}

#[test]
fn corruption_is_detected_by_every_reader() {
    // The corruption, whether `load` detects it, and whether looking up the id of event 4 detects it.
    let cases = [
        ("UPDATE flyball_sessions SET warnings = 7", true, false),
        ("UPDATE flyball_sessions SET sum = sum + 1", true, false),
        ("UPDATE flyball_snapshots SET state = 'x'", true, false),
        ("UPDATE flyball_snapshots SET seq = 1", true, false),
        ("DELETE FROM flyball_snapshots", true, false),
        ("UPDATE flyball_events SET decision = '{}' WHERE seq = 4", true, true),
        ("UPDATE flyball_events SET verdict = 'halt' WHERE seq = 4", true, true),
        ("UPDATE flyball_events SET verdict = 'maybe' WHERE seq = 4", true, true),
        ("UPDATE flyball_events SET chain = '' WHERE seq = 4", true, true),
        ("UPDATE flyball_events SET at = NULL WHERE seq = 4", true, true),
        ("DELETE FROM flyball_events WHERE seq = 4", true, true),
        ("DELETE FROM flyball_events WHERE seq = 5", true, false),
        ("UPDATE flyball_events SET seq = 6 WHERE seq = 5", true, false),
        ("UPDATE flyball_events SET event = 'x' WHERE seq = 1", false, false),
        ("DELETE FROM flyball_events WHERE seq = 2", false, false),
        ("UPDATE flyball_ids SET body = 0 WHERE seq = 4", false, true),
        ("UPDATE flyball_ids SET seq = 5 WHERE seq = 4", false, true),
        ("DELETE FROM flyball_ids WHERE seq = 4", false, false),
        ("DELETE FROM flyball_sessions", false, true),
    ];
    let Some(database) = TestDatabase::new() else { return };
    let sql = database.sql();
    let store = database.open();
    let mut head = new_head("s");
    let units = [one(advance_with_snapshot(&mut head, 3, b"state")), one(advance(&mut head, 2))];
    assert_eq!(store.append(&units).unwrap(), [AppendOutcome::Done; 2]);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    let tables = ["flyball_sessions", "flyball_snapshots", "flyball_events", "flyball_ids"];
    for table in tables {
        sql.execute(&format!("CREATE TABLE copy_of_{table} AS SELECT * FROM {table}"));
    }
    for (damage, loading, finding) in cases {
        sql.execute(damage);
        let corrupt = |error: Option<flyball_store::StoreError>| {
            error.is_some_and(|e| e.kind == StoreErrorKind::Corrupt)
        };
        assert_eq!(corrupt(store.load("s").err()), loading, "load after {damage}");
        assert_eq!(corrupt(store.find_by_id("s", "id-4").err()), finding, "find after {damage}");
        let mut read = 0;
        let lines = store.verify(&mut |events| read = events).unwrap();
        assert!(!lines.is_empty(), "verify after {damage}");
        assert!(read >= 4, "{read} events read after {damage}");
        for table in tables {
            sql.execute(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM copy_of_{table}"));
        }
    }
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    sql.execute("INSERT INTO flyball_events SELECT session, 6, at, nonce, epoch, id, body, event, whole, decision, verdict, \
             status, chain, sum FROM flyball_events WHERE seq = 5");
    let error = store.append(&[one(advance(&mut head, 1))]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "an impossible event exists: {error}");
}

#[test]
fn subscriber_waits_for_older_open_transactions() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let sql = database.sql();
    sql.execute("BEGIN; CREATE TABLE an_older_one ()");
    assert_eq!(store.append(&[one(advance(&mut new_head("s"), 2))]).unwrap(), DONE);
    assert_eq!(
        store.events_since(StreamCursor::default(), 10).unwrap().len(),
        0,
        "an earlier one may still commit"
    );
    sql.execute("COMMIT");
    // Transactions of other tests count too: the order is global for the server.
    let mut all = Vec::new();
    while all.is_empty() {
        all = store.events_since(StreamCursor::default(), 10).unwrap();
    }
    assert_eq!(all.iter().map(|entry| entry.record.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(store.events_since(all[0].cursor, 10).unwrap(), all[1..]);
}

#[test]
fn subscriber_sees_every_event_of_eight_writers() {
    const EVENTS: u64 = 40;
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    std::thread::scope(|scope| {
        for name in &names {
            let store = &store;
            scope.spawn(move || {
                let mut head = new_head(name);
                for _ in 0..EVENTS {
                    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
                }
            });
        }
        let mut cursor = StreamCursor::default();
        while seen.values().map(|all| all.len() as u64).sum::<u64>() < 8 * EVENTS {
            for entry in store.events_since(cursor, 7).unwrap() {
                assert!(entry.cursor > cursor);
                cursor = entry.cursor;
                seen.entry(entry.session).or_default().push(entry.record.seq);
            }
        }
    });
    for name in names {
        assert_eq!(seen[&name], (1..=EVENTS).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn lease_expires_by_store_clock() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let first = store.lease("s", "ann", 400).unwrap().unwrap();
    assert_eq!(first, Lease { session: "s".to_owned(), holder: "ann".to_owned(), epoch: 1 });
    let loaded = store.load("s").unwrap().unwrap();
    assert_eq!((loaded.head.rev, loaded.head.seq, loaded.head.epoch), (0, 0, 1));
    assert_eq!(store.lease("s", "bob", 400).unwrap(), None);
    assert_eq!(store.lease("s", "ann", 400).unwrap().unwrap().epoch, 1, "she already holds it");
    assert!(store.renew_lease(&first, 400).unwrap());
    let mut head = loaded.head;
    let mut change = advance(&mut head, 1);
    change.new = false;
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);

    sql.execute("SELECT pg_sleep(0.5)");
    assert!(!store.renew_lease(&first, 400).unwrap(), "it has expired");
    let second = store.lease("s", "bob", 60_000).unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), [AppendOutcome::Fenced]);
    store.release_lease(&first).unwrap();
    assert_eq!(store.lease("s", "ann", 400).unwrap(), None, "only the holder can release a lease");
    store.release_lease(&second).unwrap();
    assert_eq!(store.lease("s", "bob", 400).unwrap().unwrap().epoch, 3);
    let there = sql.query_text("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint").unwrap();
    assert!(store.now().unwrap().abs_diff(there.parse().unwrap()) < 10_000);
}

#[test]
fn concurrent_claims_never_return_the_same_message() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let mut head = new_head("s");
    let mut change = advance(&mut head, 1);
    change.outbox_messages = (0..100).map(|number| outbox_message("s", &format!("k{number:03}"))).collect();
    change.outbox_messages.push(outbox_message("s", "k000"));
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let claimed: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut keys = Vec::new();
            loop {
                let some = store.claim_outbox(7, 60_000).unwrap();
                if some.is_empty() {
                    return keys;
                }
                keys.extend(some.into_iter().map(|message| message.key));
            }
        };
        let (one, other) = (scope.spawn(work), scope.spawn(work));
        [one.join().unwrap(), other.join().unwrap()].concat()
    });
    let mut sorted = claimed.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((claimed.len(), sorted.len()), (100, 100));

    store.record_delivery("k001", &DeliveryOutcome::Delivered).unwrap();
    store.record_delivery("k001", &DeliveryOutcome::Dead { error: "late".to_owned() }).unwrap();
    store.record_delivery("k002", &DeliveryOutcome::Dead { error: "gone".to_owned() }).unwrap();
    store.record_delivery("k003", &DeliveryOutcome::Retry { error: "busy".to_owned(), after_ms: 0 }).unwrap();
    assert_eq!(store.outbox_messages(OutboxState::Done, 10).unwrap()[0].key, "k001");
    assert_eq!(store.outbox_messages(OutboxState::Dead, 10).unwrap()[0].error.as_deref(), Some("gone"));
    assert!(store.retry_outbox("k002").unwrap());
    assert!(!store.retry_outbox("k001").unwrap());
    let again: Vec<_> =
        store.claim_outbox(10, 1000).unwrap().into_iter().map(|e| (e.key, e.attempts)).collect();
    assert_eq!(again, [("k002".to_owned(), 0), ("k003".to_owned(), 1)]);
}

#[test]
fn pruning_removes_old_rows_and_keeps_counters() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let (mut live, mut over) = (new_head("live"), new_head("over"));
    let mut change = advance_with_snapshot(&mut live, 4, b"four");
    change.outbox_messages = vec![outbox_message("live", "e1"), outbox_message("live", "e2")];
    over.summary.status = flyball::SessionPhase::Ended;
    let units = [one(change), one(advance(&mut live, 2)), one(advance(&mut over, 1))];
    assert_eq!(store.append(&units).unwrap(), [AppendOutcome::Done; 3]);
    store.record_delivery("e1", &DeliveryOutcome::Delivered).unwrap();

    let wanted = flyball_store::PruneReport { sessions: 1, events: 2, outbox_messages: 0 };
    assert_eq!(store.prune(3_000, true).unwrap(), wanted);
    assert_eq!(store.records("live", 0, u64::MAX).unwrap().len(), 6, "a dry run deletes nothing");
    assert_eq!(store.prune(3_000, false).unwrap(), wanted);
    assert_eq!(store.load("over").unwrap(), None);
    assert_eq!(store.records("live", 0, u64::MAX).unwrap().len(), 4);
    assert_eq!(
        store.prune(u64::MAX, false).unwrap(),
        flyball_store::PruneReport { sessions: 0, events: 2, outbox_messages: 1 }
    );
    assert_eq!(store.load("live").unwrap().unwrap().head, live);
    let answered = store.find_by_id("live", "id-1").unwrap().unwrap();
    assert_eq!((answered.seq, answered.decision_json), (1, None), "an id is kept forever");
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
}

#[test]
fn sixty_four_threads_share_sixteen_connections() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    std::thread::scope(|scope| {
        for number in 0..64 {
            let store = &store;
            scope.spawn(move || {
                let mut head = new_head(&format!("s{number}"));
                for _ in 0..10 {
                    assert_eq!(store.append(&[one(advance(&mut head, 1))]).unwrap(), DONE);
                }
                assert_eq!(store.load(&head.session).unwrap().unwrap().head, head);
            });
        }
    });
    assert_eq!(store.list_sessions(SessionFilter::All, 100).unwrap().len(), 64);
}
