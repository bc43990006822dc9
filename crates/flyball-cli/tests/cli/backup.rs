//! Backing up a store while it is in use, bringing a backup back, and plain copies after a clean stop.

use crate::kit::{Run, Store, flyball, folder};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const EVENT: &str =
    r#"{"type":"tool.requested","session":"s","call":"c1","tool":"bash","args":{"command":"ls"}}"#;

fn sessions(dir: &Path, url: &str) -> Vec<(String, u64)> {
    let run = flyball(dir, &["list", "--json", "--store", url], b"", &[]);
    let list: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
    let row = |head: &Value| (head["session"].as_str().unwrap().to_owned(), head["events"].as_u64().unwrap());
    list.as_array().unwrap().iter().map(row).collect()
}

#[track_caller]
fn failed(run: &Run, code: &str) {
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.err.starts_with(&format!("error[{code}]")), "{}", run.err);
}

#[test]
fn a_backup_is_complete_private_and_a_store_by_itself() {
    let store = Store::file("backup-whole");
    for n in 0..5 {
        store.event(&format!(r#"{{"type":"user.message","session":"s{n}","id":"e{n}","text":"x"}}"#));
    }
    let told = store.json(&["backup", "copy.db"]);
    assert_eq!((&told["sessions"], &told["events"]), (&json!(5), &json!(5)));
    let copy = store.folder.join("copy.db");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sessions(&store.folder, "sqlite:copy.db").len(), 5);
    let doctor = flyball(&store.folder, &["doctor", "--store", "sqlite:copy.db"], b"", &[]);
    assert!(doctor.out.contains("ok     integrity"), "{}", doctor.out);
    // A file that is there is replaced only on request, and the store itself never.
    failed(&store.run(&["backup", "copy.db"]), "file_exists");
    store.event(EVENT);
    assert_eq!(store.json(&["backup", "copy.db", "--force"])["sessions"], 6);
    failed(&store.run(&["backup", "events.db", "--force"]), "store_forbidden");
    let mut left = std::fs::read_dir(&store.folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.all(|name| !name.to_string_lossy().contains("-new")), "nothing is left behind");
}

#[test]
fn a_backup_works_while_others_write() {
    let store = Store::file("backup-busy");
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
            assert!(events >= last, "it never goes back");
            last = events;
        }
        assert_eq!(writer.join().unwrap(), 3_000);
    });
}

#[test]
fn after_a_clean_stop_a_plain_copy_is_a_backup() {
    let store = Store::file("backup-plain");
    let lines: Vec<String> = (0..50)
        .map(|n| format!(r#"{{"type":"user.message","session":"s","id":"e{n}","text":"{n}"}}"#))
        .collect();
    store.observe(&lines.join("\n"));
    std::fs::copy(store.path(), store.folder.join("plain.db")).unwrap();
    assert_eq!(sessions(&store.folder, "sqlite:plain.db"), [("s".to_owned(), 50)]);
}

#[test]
fn a_restored_store_is_the_backup_and_the_old_one_is_kept() {
    let store = Store::file("backup-restore");
    let home = store.folder.join("home").to_str().unwrap().to_owned();
    let env = [("HOME", home.as_str()), ("USER", "anna")];
    let run = |args: &[&str], input: &str| {
        let args = [args, &["--store", "sqlite:events.db"]].concat();
        flyball(&store.folder, &args, input.as_bytes(), &env)
    };
    assert_eq!(run(&["observe"], r#"{"type":"user.message","session":"first","text":"x"}"#).code, 0);
    assert_eq!(run(&["backup", "copy.db"], "").code, 0);
    assert_eq!(run(&["observe"], r#"{"type":"user.message","session":"second","text":"x"}"#).code, 0);
    assert_eq!(run(&["stop", "first", "--why", "enough"], "").code, 0);
    // Not by an agent: the backup knows nothing of the stop.
    let args = ["restore", "copy.db", "--store", "sqlite:events.db"];
    let agent = flyball(&store.folder, &args, b"", &[env[0], ("CODEX_SANDBOX", "1")]);
    failed(&agent, "agent_speaks");
    let restored = run(&["restore", "copy.db"], "");
    assert_eq!(restored.code, 0, "{}", restored.err);
    let names =
        |url: &str| sessions(&store.folder, url).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("sqlite:events.db"), ["first"]);
    assert_eq!(names("sqlite:events.db.before-restore-1").len(), 2);
    assert!(restored.out.contains("events.db.before-restore-1"), "{}", restored.out);
    // The mark is that of the restored store: nothing is refused.
    assert_eq!(run(&["observe"], EVENT).code, 0);
    // And also if the store was removed.
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(store.folder.join(format!("events.db{ending}")));
    }
    failed(&run(&["observe"], EVENT), "store_replaced");
    assert_eq!(run(&["restore", "copy.db"], "").code, 0);
    assert_eq!(run(&["observe"], EVENT).code, 0);
}

#[test]
fn what_cannot_be_restored_changes_nothing() {
    let store = Store::file("backup-bad");
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
        failed(&store.run(&["restore", name]), code);
        assert_eq!(sessions(dir, "sqlite:events.db"), [("s".to_owned(), 1)], "{name}");
    }
    let left = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.contains("restore")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_damaged_store_can_be_replaced() {
    let store = Store::file("backup-over-damage");
    store.event(EVENT);
    assert_eq!(store.run(&["backup", "good.db"]).code, 0);
    std::fs::write(store.path(), "not a database at all ".repeat(500)).unwrap();
    assert_eq!(store.run(&["restore", "good.db"]).code, 0);
    assert_eq!(sessions(&store.folder, "sqlite:events.db"), [("s".to_owned(), 1)]);
}

#[test]
fn for_postgresql_its_own_tools_are_named() {
    let dir = folder("backup-postgres");
    for (command, tool) in [("backup", "pg_dump"), ("restore", "pg_restore")] {
        let url = "postgres://u:secret@127.0.0.1:1/x";
        let run = flyball(&dir, &[command, "x.db", "--store", url], b"", &[]);
        failed(&run, "store_address");
        assert!(run.err.contains(tool) && !run.err.contains("secret"), "{}", run.err);
    }
}
