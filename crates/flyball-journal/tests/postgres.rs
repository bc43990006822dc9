//! What is special to PostgreSQL: many at once, fencing by the server, lost answers, somebody else's tables.
//!
//! Runs against the server that `FLYBALL_TEST_POSTGRES` names (`cargo xtask test` starts one), each test in a
//! database of its own; without it the tests pass and say `skipped`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in a test that is how a failure is told"
)]

#[path = "postgres/kit.rs"]
mod kit;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "kit/server.rs"]
mod server;

use flyball_journal::{
    Appended, Cursor, Desk, Errand, ErrandState, Journal, LabelChange, Lease, Postgres, PostgresOptions,
    RowChange, Settled, Trouble, Unit, Which,
};
use kit::{one, plan, start, step, step_with_state};
use proxy::Proxy;
use server::Database;
use std::collections::BTreeMap;

const DONE: [Appended; 1] = [Appended::Done];

fn errand(session: &str, key: &str) -> Errand {
    Errand {
        key: key.to_owned(),
        session: session.to_owned(),
        effect: "call_person".to_owned(),
        sink: "0".to_owned(),
        payload: "{}".to_owned(),
        state: ErrandState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

#[test]
fn twenty_may_open_a_new_store_at_once() {
    let Some(database) = Database::new() else { return };
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    Postgres::open_with(
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
    assert!(store.engine().unwrap().ends_with("schema 2"), "{:?}", store.engine());
    assert_eq!(database.sql().ask("SELECT count(*) FROM flyball_meta").as_deref(), Some("1"));
}

#[test]
fn what_is_stored_comes_back() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    // The server's texts cannot hold the character 0; names and ids may.
    let name = "s\0\u{1}0 \u{43f}";
    let mut head = start(name);
    head.glance.label = Some("needs help".to_owned());
    head.glance.warnings = u64::MAX;
    head.pending = Some(plan(name).sum());
    let mut change = step_with_state(&mut head, 2, b"\0state\xff");
    change.row = RowChange::Put(plan(name));
    change.label = LabelChange::Set("needs help".to_owned());
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let mut tail = step(&mut head, 3);
    tail.records[0].id = Some("a\0b".to_owned());
    let mut before = tail.records[0].clone();
    // The id is part of the chain, so the chain is made anew.
    let mut chain = store.load(name).unwrap().unwrap().head.chain;
    for record in &mut tail.records {
        record.chain = record.chained(&chain);
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
    let answered = store.find(name, "a\0b").unwrap().unwrap();
    assert_eq!((answered.seq, answered.body, answered.decision), (3, before.body, Some(before.decision)));
    assert_eq!(store.find(name, "no").unwrap(), None);
    assert_eq!(store.records(name, 2, 4).unwrap().len(), 3);
    assert_eq!(store.pending(name).unwrap(), Some(plan(name)));
    let handles = store.handles(name).unwrap();
    assert_eq!((handles.pending, handles.label), (head.pending, true));
    assert_eq!(store.heads(Which::All, 10).unwrap(), [head]);
    store.keep_policy("p1", "a: 1").unwrap();
    store.keep_policy("p1", "a: 1").unwrap();
    assert_eq!(store.policy("p1").unwrap().as_deref(), Some("a: 1"));
    assert_eq!(store.policy("p2").unwrap(), None);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    assert!(!store.address().contains("postgres@"), "{}", store.address());
}

#[test]
fn a_table_of_somebody_else_is_shared_and_the_rest_left_alone() {
    let Some(database) = Database::new() else { return };
    let sql = database.sql();
    sql.run(
        "CREATE TABLE session_state (session_id TEXT PRIMARY KEY, pending_confirmation INTEGER NOT NULL DEFAULT 0, \
         pending_plan TEXT, confirmation_question TEXT, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP); \
         INSERT INTO session_state VALUES ('theirs', 1, 'a plan', 'sure?', '2024-01-02 03:04:05'); \
         CREATE TABLE events (id INTEGER); INSERT INTO events VALUES (7)",
    );
    let store = database.open();
    let mut head = start("ours");
    let mut change = step(&mut head, 1);
    change.row = RowChange::Put(plan("ours"));
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let mut change = step(&mut head, 1);
    change.row = RowChange::SetAside { why: "it was changed by hand".to_owned() };
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    assert_eq!(store.pending("ours").unwrap(), None);
    assert_eq!(
        sql.ask("SELECT session_id || ': ' || why || ' ' || pending_plan FROM flyball_set_aside").as_deref(),
        Some("ours: it was changed by hand [{\"tool\":\"wipe\",\"args\":{}}]")
    );
    assert_eq!(
        sql.ask("SELECT string_agg(session_id || pending_plan || updated_at, ',') FROM session_state")
            .as_deref(),
        Some("theirsa plan2024-01-02 03:04:05")
    );
    assert_eq!(sql.ask("SELECT id FROM events").as_deref(), Some("7"));
}

#[test]
fn a_table_that_cannot_be_shared_is_left_as_it_is() {
    let Some(database) = Database::new() else { return };
    database.sql().run("CREATE TABLE session_state (session_id TEXT PRIMARY KEY, status TEXT)");
    let error = Postgres::open(&database.url).unwrap_err();
    assert_eq!(error.trouble, Trouble::NotADatabase, "{error}");
    let count = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'session_state'";
    assert_eq!(database.sql().ask(count).as_deref(), Some("2"));
    assert_eq!(database.sql().ask("SELECT to_regclass('flyball_meta')").as_deref(), Some(""));
}

#[test]
fn a_newer_schema_is_refused_and_not_touched() {
    let Some(database) = Database::new() else { return };
    let sql = database.sql();
    sql.run("CREATE TABLE flyball_meta (key TEXT PRIMARY KEY, value TEXT); INSERT INTO flyball_meta VALUES ('schema', '99')");
    let error = Postgres::open(&database.url).unwrap_err();
    assert_eq!(error.trouble, Trouble::Version, "{error}");
    assert_eq!(sql.ask("SELECT to_regclass('flyball_sessions')").as_deref(), Some(""));
}

#[test]
fn who_comes_with_an_old_revision_or_epoch_is_refused() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let mut head = start("s");
    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
    let again = step(&mut start("s"), 1);
    assert_eq!(store.append(&[one(again)]).unwrap(), [Appended::Stale], "made twice");
    let mut twin = head.clone();
    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
    assert_eq!(store.append(&[one(step(&mut twin, 1))]).unwrap(), [Appended::Stale]);
    let mut nobody = start("nobody");
    nobody.rev = 4;
    assert_eq!(store.append(&[one(step(&mut nobody, 1))]).unwrap(), [Appended::Stale]);

    let lease = store.lease("s", "worker", 60_000).unwrap().unwrap();
    assert_eq!(lease.epoch, 1);
    let mut old = head.clone();
    assert_eq!(store.append(&[one(step(&mut old, 1))]).unwrap(), [Appended::Fenced], "epoch 0 is over");
    assert_eq!(store.append(&[one(step(&mut twin, 1))]).unwrap(), [Appended::Fenced], "worse than stale");
    head.epoch = lease.epoch;
    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
    assert_eq!(store.load("s").unwrap().unwrap().head, head);
}

#[test]
fn a_unit_is_stored_whole_or_not_at_all_and_keeps_nobody_back() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let (mut parent, mut child, mut other) = (start("parent"), start("child"), start("other"));
    let new = [&mut parent, &mut child, &mut other].map(|head| one(step(head, 1)));
    assert_eq!(store.append(&new).unwrap(), [Appended::Done; 3]);
    let stale = parent.clone();
    assert_eq!(store.append(&[one(step_with_state(&mut parent, 0, b"drawn"))]).unwrap(), DONE);

    let (mut child2, mut stale2, mut other2) = (child.clone(), stale.clone(), other.clone());
    let both = Unit { changes: vec![step(&mut child2, 2), step(&mut stale2, 0)] };
    let answer = store.append(&[both, one(step(&mut other2, 1))]).unwrap();
    assert_eq!(answer, [Appended::Stale, Appended::Done]);
    assert_eq!(store.load("child").unwrap().unwrap().head, child, "half of a unit was stored");
    assert_eq!(store.load("other").unwrap().unwrap().head, other2);

    // Two units of one batch that draw on the same session, one after the other.
    let first = Unit { changes: vec![step(&mut child, 1), step_with_state(&mut parent, 0, b"1")] };
    let second = Unit { changes: vec![step(&mut other2, 1), step_with_state(&mut parent, 0, b"2")] };
    assert_eq!(store.append(&[first, second]).unwrap(), [Appended::Done; 2]);
    let loaded = store.load("parent").unwrap().unwrap();
    assert_eq!((loaded.head, loaded.state), (parent, b"2".to_vec()));
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
}

#[test]
fn of_many_who_make_a_session_at_once_one_does() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    for round in 0..5 {
        let name = format!("s{round}");
        let answers: Vec<Appended> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| store.append(&[one(step(&mut start(&name), 1))]).unwrap()[0]))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|answer| **answer == Appended::Done).count(), 1, "{answers:?}");
    }
}

const OUR_BACKEND: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
    AND application_name = 'flyball' AND wait_event_type = 'Lock'";
const WE_WAIT: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() \
    AND application_name = 'flyball' AND wait_event_type = 'Lock'";

#[test]
fn a_server_that_dies_before_the_commit_has_stored_nothing_and_we_know_it() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let mut head = start("s");
    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
    let before = head.clone();
    let unit = [one(step(&mut head, 1))];
    sql.run("BEGIN; LOCK TABLE flyball_events IN SHARE MODE");
    let error = std::thread::scope(|scope| {
        let append = scope.spawn(|| store.append(&unit));
        sql.until(WE_WAIT);
        sql.run(OUR_BACKEND);
        append.join().unwrap().unwrap_err()
    });
    sql.run("COMMIT");
    assert_eq!(error.trouble, Trouble::Unreachable, "{error}");
    assert_eq!(store.load("s").unwrap().unwrap().head, before);
    assert_eq!(store.append(&unit).unwrap(), DONE, "another connection goes on");
}

#[test]
fn a_server_that_dies_in_the_commit_leaves_it_unknown() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let mut head = start("s");
    // Commits wait for a lock, as they would for a slow disk.
    sql.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock(5); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON flyball_events DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION wait()",
    );
    sql.run("BEGIN; SELECT pg_advisory_xact_lock(5)");
    let unit = [one(step(&mut head, 1))];
    let error = std::thread::scope(|scope| {
        let append = scope.spawn(|| store.append(&unit));
        sql.until(WE_WAIT);
        sql.run(OUR_BACKEND);
        append.join().unwrap().unwrap_err()
    });
    sql.run("COMMIT");
    assert_eq!(error.trouble, Trouble::Unknown, "{error}");
    assert_eq!(store.load("s").unwrap(), None);
    assert_eq!(store.append(&unit).unwrap(), DONE);
}

#[test]
fn a_commit_whose_answer_is_lost_is_unknown_and_is_found_again() {
    let Some(database) = Database::new() else { return };
    let proxy = Proxy::new(&database.url);
    let store = Postgres::open(&proxy.url).unwrap();
    let mut head = start("s");
    let change = step(&mut head, 1);
    proxy.cut_at_commit();
    let error = store.append(&[one(change.clone())]).unwrap_err();
    assert_eq!(error.trouble, Trouble::Unknown, "{error}");
    let loaded = store.load("s").unwrap().unwrap();
    assert_eq!(loaded.tail[0].nonce, change.records[0].nonce, "it is our own event");
    assert_eq!(store.append(&[one(change)]).unwrap(), [Appended::Stale]);
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_told_apart() {
    let Some(database) = Database::new() else { return };
    let trouble = |url: &str| {
        let error = Postgres::open(url).unwrap_err();
        assert!(!error.what.contains("secret"), "{error}");
        error.trouble
    };
    assert_eq!(trouble("postgres://a:secret@127.0.0.1:1/x"), Trouble::Unreachable);
    assert_eq!(trouble("postgres://a:secret@h/x?nonsense=1"), Trouble::BadAddress);
    let (front, _) = database.url.rsplit_once('/').unwrap();
    assert_eq!(trouble(&format!("{front}/no_such_database")), Trouble::Missing);
    // The server of the tests has no TLS.
    assert_eq!(trouble(&format!("{}?sslmode=require", database.url)), Trouble::Unreachable);
    let sql = database.sql();
    let store = database.open();
    sql.run("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$");
    drop(store);
    let store = Postgres::open(&database.url).unwrap();
    let error = store.append(&[one(step(&mut start("s"), 1))]).unwrap_err();
    assert_eq!(error.trouble, Trouble::ReadOnly, "{error}");
    assert_eq!(store.load("s").unwrap(), None, "reading goes on");
}

#[test]
fn a_commit_waits_for_the_disk_whatever_the_server_is_told() {
    let Some(database) = Database::new() else { return };
    let sql = database.sql();
    sql.run("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$");
    let store = database.open();
    sql.run(
        "CREATE TABLE seen (setting TEXT); CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$; \
         CREATE TRIGGER look AFTER INSERT ON flyball_events FOR EACH ROW EXECUTE FUNCTION look()",
    );
    assert_eq!(store.append(&[one(step(&mut start("s"), 1))]).unwrap(), DONE);
    assert_eq!(sql.ask("SELECT setting FROM seen").as_deref(), Some("on"));
}

#[test]
fn damage_is_noticed_by_everyone_who_reads() {
    // What is damaged, whether loading sees it, and whether looking the id of event 4 up sees it.
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
    let Some(database) = Database::new() else { return };
    let sql = database.sql();
    let store = database.open();
    let mut head = start("s");
    let units = [one(step_with_state(&mut head, 3, b"state")), one(step(&mut head, 2))];
    assert_eq!(store.append(&units).unwrap(), [Appended::Done; 2]);
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    let tables = ["flyball_sessions", "flyball_snapshots", "flyball_events", "flyball_ids"];
    for table in tables {
        sql.run(&format!("CREATE TABLE copy_of_{table} AS SELECT * FROM {table}"));
    }
    for (damage, loading, finding) in cases {
        sql.run(damage);
        let corrupt =
            |error: Option<flyball_journal::StoreError>| error.is_some_and(|e| e.trouble == Trouble::Corrupt);
        assert_eq!(corrupt(store.load("s").err()), loading, "load after {damage}");
        assert_eq!(corrupt(store.find("s", "id-4").err()), finding, "find after {damage}");
        let mut read = 0;
        let lines = store.verify(&mut |events| read = events).unwrap();
        assert!(!lines.is_empty(), "verify after {damage}");
        assert!(read >= 4, "{read} events read after {damage}");
        for table in tables {
            sql.run(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM copy_of_{table}"));
        }
    }
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
    sql.run("INSERT INTO flyball_events SELECT session, 6, at, nonce, epoch, id, body, event, whole, decision, verdict, \
             status, chain, sum FROM flyball_events WHERE seq = 5");
    let error = store.append(&[one(step(&mut head, 1))]).unwrap_err();
    assert_eq!(error.trouble, Trouble::Corrupt, "an event is there that cannot be: {error}");
}

#[test]
fn a_subscriber_waits_for_a_transaction_that_began_earlier() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let sql = database.sql();
    sql.run("BEGIN; CREATE TABLE an_older_one ()");
    assert_eq!(store.append(&[one(step(&mut start("s"), 2))]).unwrap(), DONE);
    assert_eq!(store.since(Cursor::default(), 10).unwrap().len(), 0, "an earlier one may still come");
    sql.run("COMMIT");
    // Transactions of other tests count too: the order is one for the whole server.
    let mut all = Vec::new();
    while all.is_empty() {
        all = store.since(Cursor::default(), 10).unwrap();
    }
    assert_eq!(all.iter().map(|entry| entry.record.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(store.since(all[0].cursor, 10).unwrap(), all[1..]);
}

#[test]
fn a_subscriber_misses_nothing_of_eight_writers() {
    const EVENTS: u64 = 40;
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    std::thread::scope(|scope| {
        for name in &names {
            let store = &store;
            scope.spawn(move || {
                let mut head = start(name);
                for _ in 0..EVENTS {
                    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
                }
            });
        }
        let mut cursor = Cursor::default();
        while seen.values().map(|all| all.len() as u64).sum::<u64>() < 8 * EVENTS {
            for entry in store.since(cursor, 7).unwrap() {
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
fn a_lease_ends_by_the_clock_of_the_store() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let sql = database.sql();
    let first = store.lease("s", "ann", 400).unwrap().unwrap();
    assert_eq!(first, Lease { session: "s".to_owned(), holder: "ann".to_owned(), epoch: 1 });
    let loaded = store.load("s").unwrap().unwrap();
    assert_eq!((loaded.head.rev, loaded.head.seq, loaded.head.epoch), (0, 0, 1));
    assert_eq!(store.lease("s", "bob", 400).unwrap(), None);
    assert_eq!(store.lease("s", "ann", 400).unwrap().unwrap().epoch, 1, "she holds it already");
    assert!(store.renew(&first, 400).unwrap());
    let mut head = loaded.head;
    let mut change = step(&mut head, 1);
    change.new = false;
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);

    sql.run("SELECT pg_sleep(0.5)");
    assert!(!store.renew(&first, 400).unwrap(), "it has run out");
    let second = store.lease("s", "bob", 60_000).unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), [Appended::Fenced]);
    store.free(&first).unwrap();
    assert_eq!(store.lease("s", "ann", 400).unwrap(), None, "what is not hers she cannot free");
    store.free(&second).unwrap();
    assert_eq!(store.lease("s", "bob", 400).unwrap().unwrap().epoch, 3);
    let there = sql.ask("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint").unwrap();
    assert!(store.now().unwrap().abs_diff(there.parse().unwrap()) < 10_000);
}

#[test]
fn two_claimers_never_get_the_same_errand() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let mut head = start("s");
    let mut change = step(&mut head, 1);
    change.errands = (0..100).map(|number| errand("s", &format!("k{number:03}"))).collect();
    change.errands.push(errand("s", "k000"));
    assert_eq!(store.append(&[one(change)]).unwrap(), DONE);
    let claimed: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut keys = Vec::new();
            loop {
                let some = store.claim(7, 60_000).unwrap();
                if some.is_empty() {
                    return keys;
                }
                keys.extend(some.into_iter().map(|errand| errand.key));
            }
        };
        let (one, other) = (scope.spawn(work), scope.spawn(work));
        [one.join().unwrap(), other.join().unwrap()].concat()
    });
    let mut sorted = claimed.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((claimed.len(), sorted.len()), (100, 100));

    store.settle("k001", &Settled::Done).unwrap();
    store.settle("k001", &Settled::Dead { error: "late".to_owned() }).unwrap();
    store.settle("k002", &Settled::Dead { error: "gone".to_owned() }).unwrap();
    store.settle("k003", &Settled::Again { error: "busy".to_owned(), after_ms: 0 }).unwrap();
    assert_eq!(store.errands(ErrandState::Done, 10).unwrap()[0].key, "k001");
    assert_eq!(store.errands(ErrandState::Dead, 10).unwrap()[0].error.as_deref(), Some("gone"));
    assert!(store.retry("k002").unwrap());
    assert!(!store.retry("k001").unwrap());
    let again: Vec<_> = store.claim(10, 1000).unwrap().into_iter().map(|e| (e.key, e.attempts)).collect();
    assert_eq!(again, [("k002".to_owned(), 0), ("k003".to_owned(), 1)]);
}

#[test]
fn pruning_takes_what_is_old_and_never_a_counter() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    let (mut live, mut over) = (start("live"), start("over"));
    let mut change = step_with_state(&mut live, 4, b"four");
    change.errands = vec![errand("live", "e1"), errand("live", "e2")];
    over.glance.status = flyball::Status::Ended;
    let units = [one(change), one(step(&mut live, 2)), one(step(&mut over, 1))];
    assert_eq!(store.append(&units).unwrap(), [Appended::Done; 3]);
    store.settle("e1", &Settled::Done).unwrap();

    let wanted = flyball_journal::Pruned { sessions: 1, events: 2, errands: 0 };
    assert_eq!(store.prune(3_000, true).unwrap(), wanted);
    assert_eq!(store.records("live", 0, u64::MAX).unwrap().len(), 6, "only looked at");
    assert_eq!(store.prune(3_000, false).unwrap(), wanted);
    assert_eq!(store.load("over").unwrap(), None);
    assert_eq!(store.records("live", 0, u64::MAX).unwrap().len(), 4);
    assert_eq!(
        store.prune(u64::MAX, false).unwrap(),
        flyball_journal::Pruned { sessions: 0, events: 2, errands: 1 }
    );
    assert_eq!(store.load("live").unwrap().unwrap().head, live);
    let answered = store.find("live", "id-1").unwrap().unwrap();
    assert_eq!((answered.seq, answered.decision), (1, None), "an id is never forgotten");
    assert_eq!(store.verify(&mut |_| {}).unwrap(), Vec::<String>::new());
}

#[test]
fn sixty_four_threads_share_sixteen_connections() {
    let Some(database) = Database::new() else { return };
    let store = database.open();
    std::thread::scope(|scope| {
        for number in 0..64 {
            let store = &store;
            scope.spawn(move || {
                let mut head = start(&format!("s{number}"));
                for _ in 0..10 {
                    assert_eq!(store.append(&[one(step(&mut head, 1))]).unwrap(), DONE);
                }
                assert_eq!(store.load(&head.session).unwrap().unwrap().head, head);
            });
        }
    });
    assert_eq!(store.heads(Which::All, 100).unwrap().len(), 64);
}
