//! Bad stores: a two-line error with a stable code and help, exit code 1, and the file unchanged.

use crate::command_harness::{CliStore, CommandOutput, repo_root, run_flyball, test_dir};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const EVENT_LINE: &[u8] = br#"{"type":"tool.requested","call":"c1","tool":"bash","args":{"command":"ls"}}"#;

/// All commands that need a store.
const STORE_COMMANDS: [&[&str]; 7] = [
    &["observe"],
    &["status"],
    &["list"],
    &["explain", "s"],
    &["approve", "s"],
    &["prune", "--older-than", "1d"],
    &["outbox"],
];

#[track_caller]
fn assert_error_and_help(run: &CommandOutput, code: &str, what: &str) {
    assert_eq!(run.code, 1, "{what}: {}{}", run.out, run.err);
    assert!(run.err.starts_with(&format!("error[{code}")), "{what}: {}", run.err);
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), 2, "{what}: {}", run.err);
    assert!(lines[1].starts_with("  help: "), "{what}: {}", run.err);
}

/// Checks that every command fails with this code, that the doctor reports it, and that the file is unchanged.
fn assert_every_command_fails(dir: &Path, url: &str, code: &str, file: Option<&Path>) {
    let bytes = file.map(|file| std::fs::read(file).unwrap());
    for command in STORE_COMMANDS {
        let args = [command, &["--store", url]].concat();
        let run = run_flyball(dir, &args, EVENT_LINE, &[]);
        assert_error_and_help(&run, code, &format!("{args:?}"));
        assert_eq!(run.out, "", "nothing is decided");
    }
    let run = run_flyball(dir, &["doctor", "--store", url], b"", &[]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("FAIL   store") && run.out.contains(code), "{}", run.out);
    if let Some(file) = file {
        assert_eq!(std::fs::read(file).unwrap(), bytes.unwrap(), "{url}: the file was changed");
    }
}

#[test]
fn missing_folder_is_reported() {
    let dir = test_dir("bad-missing");
    let run = run_flyball(&dir, &["observe", "--store", "sqlite:nowhere/x.db"], EVENT_LINE, &[]);
    assert_error_and_help(&run, "store_missing]", "observe");
    assert!(run.err.contains("nowhere"), "{}", run.err);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing was created");
}

#[test]
fn read_only_file_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let store = CliStore::in_file("bad-read-only");
    store.event(r#"{"type":"user.message","session":"s","text":"x"}"#);
    std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o400)).unwrap();
    assert_every_command_fails(&store.folder, "sqlite:events.db", "store_read_only", Some(&store.path()));
}

#[test]
fn file_that_is_not_a_database_is_reported() {
    let dir = test_dir("bad-no-database");
    for (name, text) in [("notes.txt", "buy milk\n".repeat(200)), ("short.txt", "hi".to_owned())] {
        std::fs::write(dir.join(name), text).unwrap();
        assert_every_command_fails(
            &dir,
            &format!("sqlite:{name}"),
            "store_not_a_database",
            Some(&dir.join(name)),
        );
    }
}

#[test]
fn foreign_database_is_rejected_and_left_unchanged() {
    let dir = test_dir("bad-foreign");
    let file = dir.join("app.db");
    let sql = rusqlite::Connection::open(&file).unwrap();
    sql.execute_batch("CREATE TABLE conversations (id INTEGER PRIMARY KEY, role TEXT); INSERT INTO conversations VALUES (1, 'user')")
        .unwrap();
    drop(sql);
    std::fs::write(dir.join("empty.db"), "").unwrap();
    for name in ["app.db", "empty.db"] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        for command in STORE_COMMANDS.into_iter().filter(|command| command[0] != "observe") {
            let url = format!("sqlite:{name}");
            let args = [command, &["--store", &url]].concat();
            assert_error_and_help(
                &run_flyball(&dir, &args, b"", &[]),
                "store_missing]",
                &format!("{args:?}"),
            );
        }
        assert_eq!(std::fs::read(dir.join(name)).unwrap(), bytes, "{name}");
    }
    // Recording does turn it into a store, and leaves the other table alone.
    let run = run_flyball(&dir, &["observe", "--store", "sqlite:app.db"], EVENT_LINE, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let sql = rusqlite::Connection::open(&file).unwrap();
    let role: String = sql.query_row("SELECT role FROM conversations", [], |row| row.get(0)).unwrap();
    assert_eq!(role, "user");
}

#[test]
fn folder_as_store_is_reported() {
    let dir = test_dir("bad-folder");
    std::fs::create_dir_all(dir.join("inside")).unwrap();
    assert_every_command_fails(&dir, "sqlite:inside", "store_not_a_database", None);
    assert_eq!(std::fs::read_dir(dir.join("inside")).unwrap().count(), 0);
}

#[test]
fn newer_schema_is_rejected() {
    let store = CliStore::in_file("bad-newer");
    store.event(r#"{"type":"user.message","session":"s","text":"x"}"#);
    store
        .open_database()
        .execute_batch(
            "UPDATE flyball_meta SET value = '99' WHERE key = 'schema'; PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
    assert_every_command_fails(&store.folder, "sqlite:events.db", "store_version", Some(&store.path()));
}

#[test]
fn bad_address_is_reported() {
    let dir = test_dir("bad-address");
    for url in ["mysql://localhost/x", "events.db", "sqlite", "", "http:"] {
        assert_every_command_fails(&dir, url, "store_address", None);
    }
    let run = run_flyball(&dir, &["status"], b"", &[("FLYBALL_STORE", "nonsense:x")]);
    assert_error_and_help(&run, "store_address]", "the environment");
    let run = run_flyball(&dir, &["observe", "--store", "mysql://u:secret@h/x"], EVENT_LINE, &[]);
    assert!(!run.err.contains("secret"), "{}", run.err);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing was created");
}

#[test]
fn unreachable_server_is_reported() {
    let dir = test_dir("bad-server");
    for command in STORE_COMMANDS {
        let args = [command, &["--store", "postgres://u:secret@127.0.0.1:1/x"]].concat();
        let run = run_flyball(&dir, &args, EVENT_LINE, &[]);
        assert_error_and_help(&run, "store_", &format!("{args:?}"));
        assert!(!run.err.contains("secret"), "{}", run.err);
    }
}

#[test]
fn damaged_session_gets_no_decision() {
    let store = CliStore::in_file("bad-damaged");
    for n in 0..3 {
        store.event(&format!(r#"{{"type":"user.message","session":"s","text":"{n}"}}"#));
    }
    store
        .open_database()
        .execute("UPDATE flyball_events SET decision = replace(decision, 'allow', 'block')", [])
        .unwrap();
    let answer = store.event(r#"{"type":"tool.requested","session":"s","tool":"bash","args":{}}"#);
    assert_eq!(
        (answer["decision"].as_str(), answer["error"]["code"].as_str()),
        (Some("block"), Some("store_corrupt"))
    );
    // An event that needs no decision gets only the error, and another session is not affected.
    let answers = store.observe(concat!(
        r#"{"type":"user.message","session":"s","text":"x"}"#,
        "\n",
        r#"{"type":"user.message","session":"other","text":"x"}"#
    ));
    assert_eq!(
        (&answers[0]["decision"], answers[0]["error"]["code"].as_str()),
        (&Value::Null, Some("store_corrupt"))
    );
    assert_eq!(answers[1]["seq"], 1);
    let run = store.run(&["status", "s"]);
    assert_error_and_help(&run, "store_corrupt]", "status");
}

/// Output of a shell that runs `script` in a directory, with the binary as `$FLYBALL`.
fn shell(dir: &Path, program: &[&str], script: &str) -> std::process::Output {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["sh", "-c", script]).current_dir(dir);
    command
        .env("FLYBALL", env!("CARGO_BIN_EXE_flyball"))
        .env_remove("FLYBALL_STORE")
        .output()
        .expect("a shell")
}

fn many_events(dir: &Path) -> usize {
    let padding = "x".repeat(600);
    let lines: Vec<String> = (0..1500)
        .map(|n| format!(r#"{{"type":"tool.requested","session":"s{}","call":"c{n}","tool":"bash","args":{{"n":{n},"p":"{padding}"}}}}"#, n % 7))
        .collect();
    std::fs::write(dir.join("events.jsonl"), lines.join("\n")).unwrap();
    lines.len()
}

/// Checks that each line got a stored decision or an error, and that no acknowledged event is lost.
fn assert_failed_closed(dir: &Path, sent: usize, codes: &[&str]) {
    let text = std::fs::read_to_string(dir.join("out.jsonl")).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), sent);
    let acknowledged = answers.iter().filter(|answer| answer["seq"].is_u64()).count();
    assert!(acknowledged < sent, "the store never filled up");
    for answer in answers.iter().filter(|answer| !answer["seq"].is_u64()) {
        assert_eq!(answer["decision"], "block", "{answer}");
        assert!(codes.iter().any(|code| answer["error"]["code"] == *code), "{answer}");
    }
    let list = std::fs::read_to_string(dir.join("list.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let stored: u64 = list.as_array().unwrap().iter().map(|head| head["events"].as_u64().unwrap()).sum();
    assert_eq!(stored as usize, acknowledged, "exactly the acknowledged events are stored");
}

#[test]
fn every_error_code_is_documented() {
    let page = std::fs::read_to_string(repo_root().join("docs/errors.md")).unwrap();
    let mut codes: Vec<String> = Vec::new();
    let mut folders =
        vec![repo_root().join("crates/flyball-cli/src"), repo_root().join("crates/flyball-store/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for start in ["CliError::new(", "=> \"store_", "=> \"lease_"] {
                for (at, found) in text.match_indices(start) {
                    // The first text in quotes after a new error, or the code of a kind of trouble.
                    let rest = if start == "CliError::new(" {
                        text[at + found.len()..].trim_start()
                    } else {
                        &text[at + 3..]
                    };
                    codes.extend(
                        rest.strip_prefix('"').and_then(|rest| rest.split('"').next()).map(str::to_owned),
                    );
                }
            }
        }
    }
    assert!(codes.len() > 20, "{codes:?}");
    for code in codes {
        assert!(page.contains(&format!("`{code}`")), "docs/errors.md lacks {code}");
    }
}

#[test]
fn full_disk_fails_closed() {
    let dir = test_dir("bad-full");
    let namespace = ["unshare", "-rm"];
    let script = "mkdir -p small && mount -t tmpfs -o size=2m tmpfs small";
    if !shell(&dir, &namespace, script).status.success() {
        println!("skipped: cannot mount a small disk here");
        return;
    }
    let sent = many_events(&dir);
    let script = format!(
        "{script} && dd if=/dev/zero of=small/filler bs=1k count=1200 2>/dev/null
        $FLYBALL observe --store sqlite:small/x.db < events.jsonl > out.jsonl 2> err.txt; echo $?
        rm small/filler; $FLYBALL list --json --store sqlite:small/x.db > list.json && $FLYBALL doctor --store sqlite:small/x.db"
    );
    let run = shell(&dir, &namespace, &script);
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(out.starts_with("1\n"), "{out}{}", String::from_utf8_lossy(&run.stderr));
    assert!(out.contains("ok     integrity"), "{out}");
    assert_failed_closed(&dir, sent, &["store_full"]);
    assert!(std::fs::read_to_string(dir.join("err.txt")).unwrap().starts_with("error[store_full]: <stdin>:"));
}

#[test]
fn file_size_limit_fails_closed() {
    let dir = test_dir("bad-limit");
    let sent = many_events(&dir);
    let script = "trap '' XFSZ
        (ulimit -f 1024; $FLYBALL observe --store sqlite:x.db < events.jsonl > out.jsonl 2> err.txt; echo $?)
        $FLYBALL list --json --store sqlite:x.db > list.json";
    let run = shell(&dir, &["env"], script);
    let out = String::from_utf8_lossy(&run.stdout);
    if std::fs::metadata(dir.join("out.jsonl")).is_ok_and(|out| out.len() >= 1024 * 512) {
        println!("skipped: the answers themselves reached the limit");
        return;
    }
    assert!(out.starts_with("1\n"), "{out}{}", String::from_utf8_lossy(&run.stderr));
    assert_failed_closed(&dir, sent, &["store_io", "store_full"]);
}
