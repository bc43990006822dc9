//! Durable sessions: the deletion chat with one process per request, and every recorded history with one process per
//! event.

use crate::command_harness::{
    CliStore, fixture_histories, recorded_decisions, repo_root, run_flyball, test_dir,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const CHAT_SESSION: &str = "telegram:916542313";
const FIRST_TASK: &str = "task-20251009-1123-cfb2cc5f";
const SECOND_TASK: &str = "task-20251009-1108-960126e8";
const QUESTION: &str = "Подтверди удаление: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8. Это действие необратимо. Уверен?";
/// Query for waiting confirmations, as the original system runs it.
const ROWS_QUERY: &str =
    "SELECT count(*) FROM session_state WHERE session_id = 'telegram:916542313' AND pending_confirmation = 1";

/// An event of the chat, at a time of that day.
fn chat_event(time: &str, mut fields: Value) -> String {
    fields["session"] = json!(CHAT_SESSION);
    fields["at"] = json!(format!("2025-10-11T{time}Z"));
    fields.to_string()
}

fn question_event(time: &str) -> String {
    let plan: Vec<Value> = [FIRST_TASK, SECOND_TASK]
        .iter()
        .map(|uid| json!({"tool": "task_delete", "args": {"uid": uid}}))
        .collect();
    chat_event(
        time,
        json!({"type": "confirmation.requested", "plan": plan, "question": QUESTION, "requester": "werserk"}),
    )
}

fn answer_event(time: &str, text: &str, by: &str) -> String {
    chat_event(time, json!({"type": "confirmation.answered", "text": text, "by": by}))
}

fn delete_event(time: &str, call: &str, uid: &str) -> String {
    chat_event(
        time,
        json!({"type": "tool.requested", "call": call, "tool": "task_delete", "args": {"uid": uid}}),
    )
}

/// Starts the chat and asks the question, each in a new process.
fn start_chat_with_question(store: &CliStore) {
    store.event(&chat_event("12:40:00", json!({"type": "session.started"})));
    store.event(&chat_event("12:40:01", json!({"type": "user.message", "text": "Удали 2 задачи про Варю"})));
    let put = store.event(&question_event("12:40:05"));
    assert_eq!((&put["decision"], &put["state"]), (&json!("allow"), &json!("awaiting_confirmation")));
    assert_eq!(store.count(ROWS_QUERY), 1);
}

/// Number of plan approvals in a decision.
fn approval_count(decision: &Value) -> usize {
    let effects = decision["effects"].as_array().cloned().unwrap_or_default();
    effects.iter().filter(|effect| effect["effect"] == "plan.approved").count()
}

#[test]
fn approval_after_a_restart_runs_the_plan_once() {
    for store in [CliStore::in_file("kira-file"), CliStore::project_store("kira-own")] {
        start_chat_with_question(&store);
        let (plan, question): (String, String) = store
            .open_database()
            .query_row("SELECT pending_plan, confirmation_question FROM session_state", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        let plan: Value = serde_json::from_str(&plan).unwrap();
        assert_eq!((&plan[1]["args"]["uid"], question.as_str()), (&json!(SECOND_TASK), QUESTION));
        // Before the approval nothing of it may run.
        assert_eq!(store.event(&delete_event("12:40:10", "c0", FIRST_TASK))["decision"], "block");
        let yes = store.event(&answer_event("12:40:20", "Да", "werserk"));
        assert_eq!((approval_count(&yes), &yes["state"]), (1, &json!("running")));
        assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
        for (call, uid) in [("c1", FIRST_TASK), ("c2", SECOND_TASK)] {
            assert_eq!(store.event(&delete_event("12:40:21", call, uid))["decision"], "allow", "{uid}");
            let done = json!({"type": "tool.finished", "call": call, "ok": true, "output": format!("deleted {uid}")});
            store.event(&chat_event("12:40:22", done));
        }
        let again = store.event(&answer_event("12:40:40", "Да", "werserk"));
        assert_eq!((approval_count(&again), &again["decision"]), (0, &json!("allow")));
        // The plan is settled and not asked about again; a new question is a new plan.
        assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    }
}

#[test]
fn unclear_answers_run_nothing() {
    for (name, text, rows) in [("no", "не удаляй", 0), ("list", "Скинь полный список задач.", 1)]
    {
        let store = CliStore::in_file(&format!("kira-{name}"));
        start_chat_with_question(&store);
        let said = store.event(&answer_event("12:40:20", text, "werserk"));
        assert_eq!(approval_count(&said), 0, "{text}");
        assert_eq!(store.count(ROWS_QUERY), rows, "{text}");
        assert_eq!(store.event(&delete_event("12:40:25", "c1", FIRST_TASK))["decision"], "block", "{text}");
    }
}

#[test]
fn expired_approval_asks_again_and_runs_nothing() {
    let store = CliStore::in_file("kira-late");
    start_chat_with_question(&store);
    let late = store.event(&answer_event("13:40:06", "Да", "werserk"));
    assert_eq!((approval_count(&late), &late["decision"]), (0, &json!("block")));
    assert_eq!(late["trips"][0]["reason"], "confirmation_expired");
    assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    assert_eq!(store.event(&delete_event("13:40:10", "c1", FIRST_TASK))["decision"], "block");
    let put = store.event(&question_event("13:41:00"));
    assert_eq!(put["state"], "awaiting_confirmation");
    assert_eq!(store.count(ROWS_QUERY), 1, "it is asked again");
    assert_eq!(approval_count(&store.event(&answer_event("13:41:10", "Да", "werserk"))), 1);
}

#[test]
fn approval_by_another_person_is_rejected() {
    let store = CliStore::in_file("kira-else");
    start_chat_with_question(&store);
    let other = store.event(&answer_event("12:40:20", "Да", "varya"));
    assert_eq!((approval_count(&other), &other["decision"]), (0, &json!("block")));
    assert_eq!((&other["state"], store.count(ROWS_QUERY)), (&json!("awaiting_confirmation"), 1));
    assert_eq!(approval_count(&store.event(&answer_event("12:40:30", "Да", "werserk"))), 1);
}

#[test]
fn manually_deleted_row_revokes_the_plan() {
    let store = CliStore::in_file("kira-deleted");
    start_chat_with_question(&store);
    store.open_database().execute("DELETE FROM session_state", []).unwrap();
    assert_eq!(approval_count(&store.event(&answer_event("12:40:20", "Да", "werserk"))), 0);
    assert_eq!(store.event(&delete_event("12:40:21", "c1", FIRST_TASK))["decision"], "block");
}

#[test]
fn manually_changed_row_is_quarantined() {
    let changes = [
        ("plan", "UPDATE session_state SET pending_plan = replace(pending_plan, 'cfb2cc5f', '00000000')"),
        ("nonsense", "UPDATE session_state SET pending_plan = '[{'"),
        ("requester", "UPDATE session_state SET requester = 'varya'"),
        ("expiry", "UPDATE session_state SET expires_at = '2099-01-01 00:00:00'"),
    ];
    for (name, change) in changes {
        let store = CliStore::in_file(&format!("kira-changed-{name}"));
        start_chat_with_question(&store);
        assert_eq!(store.open_database().execute(change, []).unwrap(), 1);
        let status = store.json(&["status", CHAT_SESSION]);
        assert!(status["pending"]["set_aside"].is_string(), "{name}: {status}");
        let yes = store.event(&answer_event("12:40:20", "Да", "werserk"));
        assert_eq!((approval_count(&yes), &yes["state"]), (0, &json!("running")), "{name}");
        assert_eq!(store.count("SELECT count(*) FROM session_state"), 0, "{name}");
        assert_eq!(store.count("SELECT count(*) FROM flyball_set_aside"), 1, "{name}");
        assert_eq!(store.event(&delete_event("12:40:21", "c1", FIRST_TASK))["decision"], "block", "{name}");
    }
}

/// The lines of a history. If only some events have a time, the others get that of their neighbor: stamping them with
/// the current time would put years between two events. Histories without any time are stamped on arrival.
fn timed_lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut events: Vec<Value> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    if events.iter().all(|event| event["at"].is_null()) || events.iter().all(|event| !event["at"].is_null()) {
        return text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    }
    let mut at = events.iter().find(|event| !event["at"].is_null()).unwrap()["at"].clone();
    for event in &mut events {
        if event["at"].is_null() {
            event["at"] = at.clone();
        }
        at = event["at"].clone();
    }
    events.iter().map(Value::to_string).collect()
}

/// Decisions with one process per event.
fn decisions_one_process_per_event(dir: &Path, url: &str, file: &Path) -> Vec<String> {
    timed_lines(file)
        .iter()
        .map(|line| {
            let run = run_flyball(dir, &["observe", "--store", url], line.as_bytes(), &[]);
            assert_eq!(run.err, "", "{}", file.display());
            run.out.trim_end().to_owned()
        })
        .collect()
}

/// Checks all histories, a few in parallel.
fn for_each_history(check: impl Fn(&Path) + Sync) {
    let files: Vec<PathBuf> =
        fixture_histories("guards").into_iter().chain(fixture_histories("original-systems")).collect();
    assert!(files.len() >= 36);
    let queue = Mutex::new(files.into_iter());
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(file) = next() {
                    check(&file);
                }
            });
        }
    });
}

#[test]
fn one_process_per_event_gives_recorded_decisions() {
    for_each_history(|file| {
        let name = file.file_stem().unwrap().to_string_lossy();
        let dir = test_dir(&format!("single-{name}"));
        assert_eq!(
            decisions_one_process_per_event(&dir, "sqlite:one.db", file),
            recorded_decisions(file),
            "{name}"
        );
    });
}

#[test]
fn one_process_per_event_on_postgres_gives_recorded_decisions() {
    let Ok(server) = std::env::var("FLYBALL_TEST_POSTGRES") else {
        println!("skipped: FLYBALL_TEST_POSTGRES is not set");
        return;
    };
    let psql = |command: &str| {
        let run = Command::new("psql").args([&server, "-qc", command]).output().expect("psql");
        assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
    };
    for_each_history(|file| {
        let name = file.file_stem().unwrap().to_string_lossy();
        let database = format!("flyball_cli_{}_{}", std::process::id(), name.replace('-', "_"));
        psql(&format!("CREATE DATABASE {database}"));
        let (before, after) = server.split_once("://").expect("an address");
        let host = after.split(['/', '?']).next().unwrap_or(after);
        let dir = test_dir(&format!("server-{name}"));
        let decisions = decisions_one_process_per_event(&dir, &format!("{before}://{host}/{database}"), file);
        psql(&format!("DROP DATABASE {database} WITH (FORCE)"));
        assert_eq!(decisions, recorded_decisions(file), "{name}");
    });
}

#[test]
fn piped_file_is_committed_in_batches_and_answered_in_order() {
    let store = CliStore::in_file("groups");
    let lines: Vec<String> = (1..=1000)
        .map(|n| match n {
            500 => "nonsense".to_owned(),
            _ => json!({"type": "user.message", "session": format!("s{}", n % 3), "text": n.to_string()})
                .to_string(),
        })
        .collect();
    let answers = store.observe(&lines.join("\n"));
    assert_eq!(answers.len(), 1000);
    assert_eq!(answers[499]["error"]["code"], "invalid_json");
    assert_eq!(answers[499]["error"]["place"], "<stdin>:500");
    assert_eq!((&answers[997]["session"], &answers[997]["seq"]), (&json!("s2"), &json!(332)));
    // A batch is one change of each session in it.
    let changes = store.count("SELECT sum(rev) FROM flyball_sessions");
    assert!(changes < 300, "{changes} changes for 999 events");
    assert_eq!(store.count("SELECT count(*) FROM flyball_events"), 999);
}

#[test]
fn caller_that_waits_for_each_answer_gets_it() {
    use std::io::{BufRead, BufReader, Write};
    let dir = test_dir("lock-step");
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["observe", "--store"])
        .current_dir(&dir)
        .env_clear()
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ask = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=5 {
        // A blank line after the event must not delay its answer.
        writeln!(ask, "{}\n", json!({"type": "user.message", "text": n.to_string()})).unwrap();
        ask.flush().unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["seq"], n);
    }
    drop(ask);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_store_nothing_is_written() {
    let dir = test_dir("nothing-kept");
    let line = br#"{"type":"user.message","text":"hello"}"#;
    for env in [&[][..], &[("FLYBALL_STORE", "memory:")], &[("FLYBALL_STORE", "")]] {
        let run = run_flyball(&dir, &["observe"], line, env);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        assert!(run.out.contains(r#""seq":1"#));
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "only .git");
    // The environment variable works like the flag.
    let run = run_flyball(&dir, &["observe"], line, &[("FLYBALL_STORE", "sqlite:e.db")]);
    assert!(run.out.contains(r#""seq":1"#) && dir.join("e.db").is_file());
    let run = run_flyball(&dir, &["observe"], line, &[("FLYBALL_STORE", "sqlite:e.db")]);
    assert!(run.out.contains(r#""seq":2"#), "{}", run.out);
}

#[test]
fn project_store_is_found_from_subfolders_and_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let store = CliStore::project_store("private");
    store.event(r#"{"type":"user.message","text":"hello"}"#);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&store.folder.join(".flyball")), mode(&store.path())), (0o700, 0o600));
    let below = store.folder.join("deep/below");
    std::fs::create_dir_all(&below).unwrap();
    let run = run_flyball(&below, &["observe", "--store"], br#"{"type":"user.message","text":"hi"}"#, &[]);
    assert!(run.out.contains(r#""seq":2"#), "{}", run.out);
    let run = run_flyball(&below, &["list", "--json"], b"", &[]);
    assert!(run.out.contains(r#""events":2"#), "{}{}", run.out, run.err);
}

#[test]
fn redelivered_id_gets_the_same_answer_and_a_different_body_conflicts() {
    let store = CliStore::in_file("ids");
    let first = store.event(r#"{"type":"user.message","id":"m1","text":"one"}"#);
    assert_eq!(store.event(r#"{"type":"user.message","id":"m1","text":"one"}"#), first);
    let other = store.event(r#"{"type":"user.message","id":"m1","text":"two"}"#);
    assert_eq!(other["error"]["code"], "event_conflict");
    assert_eq!(store.event(r#"{"type":"user.message","id":"m2","text":"three"}"#)["seq"], 2);
}

#[test]
fn tasks_example_works_across_processes() {
    let store = CliStore::project_store("store-example");
    let file = |name: &str| {
        let path = repo_root().join("examples/tasks").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let approvals = |answers: &[Value]| {
        let effects =
            answers.iter().flat_map(|answer| answer["effects"].as_array().cloned().unwrap_or_default());
        effects.filter(|effect| effect["effect"] == "plan.approved").count()
    };
    assert_eq!(approvals(&store.observe(&file("ask.jsonl"))), 0);
    assert_eq!(store.count(ROWS_QUERY), 1);
    assert_eq!(approvals(&store.observe(&file("list.jsonl"))), 0);
    assert_eq!(store.count(ROWS_QUERY), 1);
    assert_eq!(approvals(&store.observe(&file("yes.jsonl"))), 1);
    assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    // Resent, it gets the same answer and is counted once.
    let before = store.count("SELECT seq FROM flyball_sessions");
    assert_eq!(approvals(&store.observe(&file("yes.jsonl"))), 1);
    assert_eq!(store.count("SELECT seq FROM flyball_sessions"), before);
}
