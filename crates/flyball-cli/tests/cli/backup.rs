//! Backup of a store in use, restore, and plain copies after a clean stop.

use crate::command_harness::{CliStore, CommandOutput, run_flyball, test_dir};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const EVENT: &str =
    r#"{"type":"tool.requested","session":"s","call":"c1","tool":"bash","args":{"command":"ls"}}"#;

fn sessions(dir: &Path, url: &str) -> Vec<(String, u64)> {
    let run = run_flyball(dir, &["list", "--json", "--store", url], b"", &[]);
    let list: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
    let row = |head: &Value| (head["session"].as_str().unwrap().to_owned(), head["events"].as_u64().unwrap());
    list.as_array().unwrap().iter().map(row).collect()
}

#[track_caller]
fn assert_error(run: &CommandOutput, code: &str) {
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.err.starts_with(&format!("error[{code}]")), "{}", run.err);
}

#[test]
fn backup_is_complete_private_and_usable_as_a_store() {
    let store = CliStore::in_file("backup-whole");
    for n in 0..5 {
        store.event(&format!(r#"{{"type":"user.message","session":"s{n}","id":"e{n}","text":"x"}}"#));
    }
    let output = store.json(&["backup", "copy.db"]);
    assert_eq!((&output["sessions"], &output["events"]), (&json!(5), &json!(5)));
    let copy = store.folder.join("copy.db");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sessions(&store.folder, "sqlite:copy.db").len(), 5);
    let doctor = run_flyball(&store.folder, &["doctor", "--store", "sqlite:copy.db"], b"", &[]);
    assert!(doctor.out.contains("ok     integrity"), "{}", doctor.out);
    // An existing file is replaced only on request, and the store itself never.
    assert_error(&store.run(&["backup", "copy.db"]), "file_exists");
    store.event(EVENT);
    assert_eq!(store.json(&["backup", "copy.db", "--force"])["sessions"], 6);
    assert_error(&store.run(&["backup", "events.db", "--force"]), "store_forbidden");
    let mut left = std::fs::read_dir(&store.folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.all(|name| !name.to_string_lossy().contains("-new")), "nothing is left behind");
}

#[test]
fn backup_works_during_writes() {
    let store = CliStore::in_file("backup-busy");
    store.event(EVENT);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let line = |n: u32| {
                format!(r#"{{"type":"user.message","session":"w","id":"e{n}","text":"{}"}}"#, "x".repeat(500))
            };
            let lines: Vec<String> = (0..3_000).map(line).collect();
            store.observe(&lines.join("\n")).len()
        });
        let mut last = 0;
        for number in 0..3 {
            let events = store.json(&["backup", &format!("copy{number}.db")])["events"].as_u64().unwrap();
            assert!(events >= last, "it never decreases");
            last = events;
        }
        assert_eq!(writer.join().unwrap(), 3_000);
    });
}

#[test]
fn plain_copy_after_a_clean_shutdown_is_a_backup() {
    let store = CliStore::in_file("backup-plain");
    let lines: Vec<String> = (0..50)
        .map(|n| format!(r#"{{"type":"user.message","session":"s","id":"e{n}","text":"{n}"}}"#))
        .collect();
    store.observe(&lines.join("\n"));
    std::fs::copy(store.path(), store.folder.join("plain.db")).unwrap();
    assert_eq!(sessions(&store.folder, "sqlite:plain.db"), [("s".to_owned(), 50)]);
}

#[test]
fn restore_replaces_the_store_and_keeps_the_old_one() {
    let store = CliStore::in_file("backup-restore");
    let home = store.folder.join("home").to_str().unwrap().to_owned();
    let env = [("HOME", home.as_str()), ("USER", "anna")];
    let run = |args: &[&str], input: &str| {
        let args = [args, &["--store", "sqlite:events.db"]].concat();
        run_flyball(&store.folder, &args, input.as_bytes(), &env)
    };
    assert_eq!(run(&["observe"], r#"{"type":"user.message","session":"first","text":"x"}"#).code, 0);
    assert_eq!(run(&["backup", "copy.db"], "").code, 0);
    assert_eq!(run(&["observe"], r#"{"type":"user.message","session":"second","text":"x"}"#).code, 0);
    assert_eq!(run(&["stop", "first", "--why", "enough"], "").code, 0);
    // An agent may not restore: the backup does not contain the stop.
    let args = ["restore", "copy.db", "--store", "sqlite:events.db"];
    let agent = run_flyball(&store.folder, &args, b"", &[env[0], ("CODEX_SANDBOX", "1")]);
    assert_error(&agent, "agent_not_allowed");
    let restored = run(&["restore", "copy.db"], "");
    assert_eq!(restored.code, 0, "{}", restored.err);
    let names =
        |url: &str| sessions(&store.folder, url).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("sqlite:events.db"), ["first"]);
    assert_eq!(names("sqlite:events.db.before-restore-1").len(), 2);
    assert!(restored.out.contains("events.db.before-restore-1"), "{}", restored.out);
    // The mark matches the restored store, so nothing is rejected.
    assert_eq!(run(&["observe"], EVENT).code, 0);
    // Also if the store was removed.
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(store.folder.join(format!("events.db{ending}")));
    }
    assert_error(&run(&["observe"], EVENT), "store_replaced");
    assert_eq!(run(&["restore", "copy.db"], "").code, 0);
    assert_eq!(run(&["observe"], EVENT).code, 0);
}

#[test]
fn failed_restore_changes_nothing() {
    let store = CliStore::in_file("backup-bad");
    store.event(EVENT);
    let dir = &store.folder;
    assert_eq!(store.run(&["backup", "good.db"]).code, 0);
    std::fs::write(dir.join("text.db"), "buy milk\n".repeat(1_000)).unwrap();
    let change = |name: &str, sql: &str| {
        std::fs::copy(dir.join("good.db"), dir.join(name)).unwrap();
        rusqlite::Connection::open(dir.join(name)).unwrap().execute_batch(sql).unwrap();
    };
    change("newer.db", "UPDATE flyball_meta SET value = '99' WHERE key = 'schema'");
    change("damaged.db", "UPDATE flyball_events SET decision = replace(decision, 'allow', 'block')");
    rusqlite::Connection::open(dir.join("foreign.db")).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    for (name, code) in [
        ("text.db", "store_not_a_database"),
        ("foreign.db", "store_not_a_database"),
        ("newer.db", "store_version"),
        ("damaged.db", "store_corrupt"),
        ("nowhere.db", "store_missing"),
        ("events.db", "store_forbidden"),
    ] {
        assert_error(&store.run(&["restore", name]), code);
        assert_eq!(sessions(dir, "sqlite:events.db"), [("s".to_owned(), 1)], "{name}");
    }
    let left = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.contains("restore")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_damaged_store_can_be_replaced() {
    let store = CliStore::in_file("backup-over-damage");
    store.event(EVENT);
    assert_eq!(store.run(&["backup", "good.db"]).code, 0);
    std::fs::write(store.path(), "not a database at all ".repeat(500)).unwrap();
    assert_eq!(store.run(&["restore", "good.db"]).code, 0);
    assert_eq!(sessions(&store.folder, "sqlite:events.db"), [("s".to_owned(), 1)]);
}

#[test]
fn postgres_backup_points_to_its_own_tools() {
    let dir = test_dir("backup-postgres");
    for (command, tool) in [("backup", "pg_dump"), ("restore", "pg_restore")] {
        let url = "postgres://u:secret@127.0.0.1:1/x";
        let run = run_flyball(&dir, &[command, "x.db", "--store", url], b"", &[]);
        assert_error(&run, "store_address");
        assert!(run.err.contains(tool) && !run.err.contains("secret"), "{}", run.err);
    }
}
