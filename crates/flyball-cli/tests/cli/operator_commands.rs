//! Operator commands: inspect, answer, release, stop, clean up; as text and as JSON.

use crate::command_harness::{CliStore, run_flyball, test_dir};
use serde_json::{Value, json};

/// Repeats the same call until the session is halted.
fn halt_by_repetition(store: &CliStore, session: &str, calls: usize) {
    let mut lines = vec![json!({"type": "session.started", "session": session}).to_string()];
    for n in 1..=calls {
        let call = format!("c{n}");
        lines.push(json!({"type": "tool.requested", "session": session, "call": call, "tool": "bash", "args": {"command": "ls"}}).to_string());
        lines.push(
            json!({"type": "tool.finished", "session": session, "call": call, "ok": true, "output": "a b c"})
                .to_string(),
        );
    }
    store.observe(&lines.join("\n"));
}

/// Requests approval of a plan in a session.
fn request_approval(store: &CliStore, session: &str, requester: Option<&str>) {
    let plan = json!([{"tool": "delete_task", "args": {"id": 7}}]);
    let ask = json!({"type": "confirmation.requested", "session": session, "plan": plan, "question": "Delete task 7?", "requester": requester});
    store.event(&ask.to_string());
}

/// Bounces between phases until the session is blocked.
fn bounce_until_blocked(store: &CliStore, session: &str) {
    let mut lines = vec![
        json!({"type": "session.started", "session": session, "policy": {"preset": "simple", "guards": {"visits": {"limit": 2}}}})
            .to_string(),
    ];
    for _ in 0..4 {
        lines.push(json!({"type": "turn.started", "session": session, "node": "test"}).to_string());
        lines.push(json!({"type": "turn.finished", "session": session, "node": "test"}).to_string());
    }
    store.observe(&lines.join("\n"));
}

#[track_caller]
fn assert_output(store: &CliStore, args: &[&str], code: i32, parts: &[&str]) {
    let run = store.run(args);
    assert_eq!(run.code, code, "{args:?}: {}{}", run.out, run.err);
    for part in parts {
        assert!(run.out.contains(part), "{args:?} lacks {part:?}:\n{}{}", run.out, run.err);
    }
    assert!(run.out.contains("Next: flyball "), "{args:?} names no next command:\n{}", run.out);
    assert!(!run.out.contains('\u{1b}'), "no color without a terminal");
}

#[test]
fn status_shows_the_store_and_pending_sessions() {
    let store = CliStore::project_store("people-status");
    halt_by_repetition(&store, "loops", 9);
    request_approval(&store, "asks", Some("anna"));
    store.event(r#"{"type":"user.message","session":"quiet","text":"hello"}"#);
    assert_output(
        &store,
        &["status"],
        0,
        &[
            "3 sessions: 1 running, 1 awaiting_confirmation, 1 halted",
            "Waiting for a person",
            "asks: Delete task 7?",
            "loops: halted by repetition: ",
            "quiet",
        ],
    );
    let all = store.json(&["status"]);
    assert_eq!(
        all["counts"],
        json!({"running": 1, "idle": 0, "lost": 0, "awaiting_confirmation": 1, "awaiting_answer": 0, "blocked": 0,
            "halted": 1, "ended": 0})
    );
    assert_eq!((all["waiting"].as_array().unwrap().len(), all["sessions"].as_array().unwrap().len()), (2, 3));
}

#[test]
fn session_status_shows_the_reason_and_the_next_command() {
    let store = CliStore::in_file("people-one");
    halt_by_repetition(&store, "loops", 9);
    request_approval(&store, "asks", Some("anna"));
    assert_output(
        &store,
        &["status", "loops"],
        0,
        &[
            "loops is halted",
            "identical parameters",
            "guard repetition",
            "tools: bash 5 (4 refused)",
            "flyball release loops --guard repetition --why",
        ],
    );
    assert_output(
        &store,
        &["status", "asks"],
        0,
        &[
            "Delete task 7?",
            "1. delete_task {\"id\":7}",
            "requested by anna",
            "approval is possible until",
            "flyball approve asks --by anna --store sqlite:events.db",
        ],
    );
    let one = store.json(&["status", "asks"]);
    assert_eq!(one["pending"]["plan"][0]["tool"], "delete_task");
    assert_eq!(
        (&one["state"], &one["pending"]["requester"]),
        (&json!("awaiting_confirmation"), &json!("anna"))
    );
    let one = store.json(&["status", "loops"]);
    assert_eq!(
        (&one["report"]["halt_reason"], one["lately"].as_array().unwrap().len()),
        (&json!("stalled"), 5)
    );
}

#[test]
fn status_shows_disabled_guards() {
    let store = CliStore::project_store("people-off");
    let started = json!({"type": "session.started", "session": "bare", "policy": {"loop_prevention": {"enabled": false}}});
    store.event(&started.to_string());
    assert_output(&store, &["status", "bare"], 0, &["switched off: visits, transitions"]);
    assert_eq!(store.json(&["status", "bare"])["report"]["off"], json!(["visits", "transitions"]));
    store.event(r#"{"type":"session.started","session":"guarded"}"#);
    assert!(!store.run(&["status", "guarded"]).out.contains("switched off"));
}

#[test]
fn new_request_replaces_the_pending_plan_with_a_note() {
    let store = CliStore::in_file("people-new-request");
    request_approval(&store, "asks", None);
    let rows = "SELECT count(*) FROM session_state";
    assert_eq!(store.count(rows), 1);
    let said =
        store.event(r#"{"type":"user.message","session":"asks","text":"Show me the list of tasks first."}"#);
    assert_eq!((&said["decision"], &said["state"]), (&json!("allow"), &json!("running")));
    assert_eq!(
        (&said["effects"][0]["effect"], &said["effects"][1]["effect"]),
        (&json!("plan.replaced"), &json!("say"))
    );
    assert_eq!(store.count(rows), 0, "the row is removed with the plan");
    assert_output(&store, &["approve", "asks"], 0, &["Nothing is awaiting approval"]);
}

#[test]
fn list_filters_by_status() {
    let store = CliStore::project_store("people-list");
    halt_by_repetition(&store, "loops", 9);
    halt_by_repetition(&store, "warned", 4);
    request_approval(&store, "asks", None);
    store.event(r#"{"type":"user.message","session":"quiet","text":"hello"}"#);
    let names = |args: &[&str]| {
        let mut names: Vec<String> = store
            .json(args)
            .as_array()
            .unwrap()
            .iter()
            .map(|head| head["session"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&["list"]), ["asks", "loops", "quiet", "warned"]);
    assert_eq!(names(&["list", "--blocked"]), ["loops"]);
    assert_eq!(names(&["list", "--waiting"]), ["asks"]);
    assert_eq!(names(&["list", "--struggling"]), ["warned"]);
    assert_eq!(names(&["list", "--blocked", "--waiting"]), ["asks", "loops"]);
    assert_eq!(names(&["list", "--limit", "1"]), ["quiet"]);
    assert_output(&store, &["list", "--blocked"], 0, &["loops", "halted", "repetition: "]);
    assert_output(&store, &["list", "--limit", "2"], 0, &["use --limit for more"]);
    let empty = CliStore::project_store("people-list-empty");
    empty.observe("");
    assert_output(&empty, &["list"], 0, &["No matching sessions"]);
    assert_output(&empty, &["status"], 0, &["No sessions yet"]);
    assert_eq!(empty.json(&["list"]), json!([]));
}

#[test]
fn explain_of_a_session_shows_the_evidence() {
    let store = CliStore::in_file("people-explain");
    halt_by_repetition(&store, "loops", 9);
    let run = store.run(&["explain", "loops"]);
    assert_eq!(run.code, 3, "{}", run.err);
    for part in [
        "loops was halted at event 16",
        "Evidence",
        r#"bash {"command":"ls"}"#,
        "a b c",
        "Next: flyball release loops",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let all = store.json(&["explain", "loops"]);
    assert_eq!(all["decision"]["trips"][0]["reason"], "repetition_loop");
    assert_eq!((&all["events"][0]["seq"], &all["events"][0]["result"]), (&json!(2), &json!("a b c")));
    // The same history from a file gives the same explanation.
    let file = store.folder.join("loops");
    std::fs::write(&file, br#"{"type":"compaction"}"#).unwrap();
    assert!(store.run(&["explain", "loops"]).out.contains("nothing tripped"), "a file takes precedence");
}

#[test]
fn explain_and_graph_report_an_unknown_file_or_session() {
    let store = CliStore::in_file("people-neither");
    store.event(r#"{"type":"user.message","session":"quiet","text":"hello"}"#);
    for command in ["explain", "graph"] {
        let run = store.run(&[command, "quite"]);
        assert_eq!(run.code, 1);
        assert!(run.err.starts_with("error[session_unknown]: "), "{}", run.err);
        assert!(run.err.contains("quiet"), "the nearest name: {}", run.err);
        let run = store.run(&[command, "nowhere.jsonl"]);
        assert!(run.err.starts_with("error[cannot_read]: nowhere.jsonl"), "{}", run.err);
    }
}

#[test]
fn session_graph_shows_badges() {
    let store = CliStore::project_store("people-graph");
    let lines = [
        r#"{"type":"session.started","session":"w","workflow":{"nodes":["coder","verifier"],"edges":[{"id":"e1","from":"coder","to":"verifier"},{"id":"e2","from":"verifier","to":"coder"}]}}"#,
        r#"{"type":"transition.requested","session":"w","from":"coder","to":"verifier"}"#,
        r#"{"type":"transition.requested","session":"w","from":"verifier","to":"coder"}"#,
    ];
    store.observe(&lines.join("\n"));
    let run = store.run(&["graph", "w"]);
    assert!(run.code == 0 && run.out.contains("Loop 1/8"), "{}{}", run.out, run.err);
    assert_eq!(store.json(&["graph", "w"])["session"]["loops"][0]["badge"], "Loop 1/8");
    store.event(r#"{"type":"user.message","session":"plain","text":"hello"}"#);
    assert!(store.run(&["graph", "plain"]).err.starts_with("error[no_workflow]: plain: "));
}

#[test]
fn release_lets_the_session_continue_within_limits() {
    let store = CliStore::in_file("people-release");
    halt_by_repetition(&store, "loops", 9);
    assert_output(
        &store,
        &["release", "loops", "--guard", "repetition", "--n", "2", "--why", "the disk was slow"],
        0,
        &["Released: repetition, 2 more", "1 release of 5", "may continue"],
    );
    let record = store.json(&["status", "loops"]);
    assert_eq!(
        (&record["state"], &record["report"]["releases"]["repetition"]),
        (&json!("running"), &json!(1))
    );
    let stored: String = store
        .open_database()
        .query_row("SELECT text FROM flyball_events WHERE text LIKE '%human.released%'", [], |row| row.get(0))
        .unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!((&stored["by"], &stored["why"]), (&json!("anna"), &json!("the disk was slow")), "who and why");
    assert_output(&store, &["release", "loops", "--why", "again"], 0, &["nothing to release"]);
    // Five releases of one guard are allowed; the sixth is denied with a reason.
    for n in 2..=5 {
        assert_eq!(store.run(&["release", "loops", "--guard", "repetition", "--why", "more"]).code, 0, "{n}");
    }
    assert_output(
        &store,
        &["release", "loops", "--guard", "repetition", "--why", "more"],
        3,
        &["Not released", "as often as the policy allows"],
    );
    let refused =
        store.json(&["release", "loops", "--guard", "repetition", "--why", "more", "--mode", "reset"]);
    assert_eq!(
        (&refused["decision"], &refused["trips"][0]["reason"]),
        (&json!("block"), &json!("release_refused"))
    );
    let run = store.run(&["release", "loops", "--guard", "repitition", "--why", "x"]);
    assert!(run.code == 1 && run.err.contains("did you mean `repetition`"), "{}", run.err);
    assert_eq!(store.run(&["release", "loops"]).code, 2, "a reason is required");
}

#[test]
fn approve_shows_what_may_run_and_repeating_it_is_harmless() {
    let store = CliStore::project_store("people-approve");
    request_approval(&store, "asks", Some("werserk"));
    assert_output(
        &store,
        &["approve", "asks"],
        3,
        &[
            "only werserk may answer, and you are anna",
            "Use --by only if you are that person",
            "Next: flyball status asks",
        ],
    );
    assert_output(
        &store,
        &["approve", "asks", "--by", "werserk", "--why", "checked"],
        0,
        &["Approved: exactly these steps may run now, once", "1. delete_task {\"id\":7}"],
    );
    let events = store.json(&["status", "asks"])["report"]["events"].clone();
    assert_output(&store, &["approve", "asks", "--by", "werserk"], 0, &["Nothing is awaiting approval"]);
    let none = store.json(&["approve", "asks", "--by", "werserk"]);
    assert_eq!((&none["decision"], &none["state"]), (&Value::Null, &json!("running")));
    assert_eq!(store.json(&["status", "asks"])["report"]["events"], events, "nothing was recorded");
    request_approval(&store, "other", None);
    let yes = store.json(&["approve", "other"]);
    assert_eq!((&yes["decision"], &yes["effects"][0]["effect"]), (&json!("allow"), &json!("plan.approved")));
}

#[test]
fn deny_runs_nothing() {
    let store = CliStore::in_file("people-deny");
    request_approval(&store, "asks", None);
    assert_output(
        &store,
        &["deny", "asks", "--why", "not that one"],
        0,
        &["Denied: no step of the plan may run"],
    );
    let call =
        r#"{"type":"tool.requested","session":"asks","call":"c","tool":"delete_task","args":{"id":7}}"#;
    assert_eq!(store.event(call)["decision"], "block");
    request_approval(&store, "more", None);
    assert_eq!(store.json(&["deny", "more"])["effects"][0]["effect"], "plan.rejected");
    assert_output(&store, &["deny", "more"], 0, &["Nothing is awaiting approval"]);
}

#[test]
fn answer_to_a_changed_or_expired_plan_is_rejected() {
    let store = CliStore::in_file("people-tampered");
    request_approval(&store, "changed", None);
    store.open_database().execute("UPDATE session_state SET pending_plan = '[]'", []).unwrap();
    assert_output(&store, &["status", "changed"], 0, &["modified outside Flyball"]);
    assert_output(
        &store,
        &["approve", "changed"],
        0,
        &["Nothing was approved: the stored plan was modified outside Flyball"],
    );
    let plan = json!([{"tool": "delete_task", "args": {"id": 7}}]);
    let old = json!({"type": "confirmation.requested", "session": "old", "plan": plan, "question": "Sure?", "at": 1_700_000_000_000_u64});
    store.event(&old.to_string());
    assert_output(&store, &["status", "old"], 0, &["approval expired at", "flyball deny old"]);
    assert_output(&store, &["approve", "old"], 3, &["Too late", "must ask again"]);
}

#[test]
fn stop_holds_until_a_release() {
    let store = CliStore::project_store("people-stop");
    halt_by_repetition(&store, "busy", 1);
    assert_output(
        &store,
        &["stop", "busy", "--why", "wrong branch"],
        0,
        &["Stopped", "stopped by anna: wrong branch", "--guard human"],
    );
    let call = r#"{"type":"tool.requested","session":"busy","call":"x","tool":"bash","args":{}}"#;
    assert_eq!(store.event(call)["decision"], "halt");
    request_approval(&store, "busy", None);
    assert_eq!(store.run(&["release", "busy", "--why", "right after all"]).code, 1, "it must be named");
    assert_output(
        &store,
        &["release", "busy", "--guard", "human", "--why", "right after all"],
        0,
        &["Lifted: the session was stopped by anna: wrong branch", "may continue"],
    );
    let again = store.json(&["stop", "busy", "--why", "no"]);
    assert_eq!((&again["decision"], &again["state"]), (&json!("halt"), &json!("halted")));
}

#[test]
fn send_answers_a_question_or_delivers_a_message() {
    let store = CliStore::in_file("people-send");
    request_approval(&store, "asks", None);
    assert_output(
        &store,
        &["send", "asks", "hm, not sure"],
        4,
        &["Not understood; the plan is still awaiting approval", "Delete task 7?"],
    );
    assert_output(&store, &["send", "asks", "yes please"], 0, &["Approved"]);
    assert_output(
        &store,
        &["send", "asks", "yes"],
        0,
        &["No answer is pending", "Nothing is waiting for your approval, so nothing was done."],
    );
    assert_output(&store, &["send", "asks", "thank you"], 0, &["Recorded as a message"]);
    let message = store.json(&["send", "asks", "one more thing"]);
    assert_eq!((&message["decision"], &message["effects"][0]["next"]), (&json!("allow"), &json!("pass_on")));
    assert_eq!(store.count("SELECT count(*) FROM flyball_events WHERE text LIKE '%person.message%'"), 5);
    // A message that is not an answer is a new request, and drops the plan.
    request_approval(&store, "other", None);
    assert_output(&store, &["send", "other", "show me all tasks first"], 0, &["new request", "dropped"]);
    assert!(store.json(&["status", "other"])["pending"].is_null());
    // Answers the agent's question.
    store.event(r#"{"type":"question.asked","session":"other","text":"Which day?"}"#);
    assert_output(&store, &["send", "other", "Friday"], 0, &["your answer to the session's question"]);
}

#[test]
fn removing_the_label_releases_the_session() {
    let store = CliStore::project_store("people-label");
    bounce_until_blocked(&store, "phases");
    assert_output(&store, &["status", "phases"], 0, &["phases is blocked", "hitl:loop-prevention is set"]);
    assert_output(
        &store,
        &["unlabel", "phases", "--why", "looked at it"],
        0,
        &["Released: visits", "The label was removed", "may continue"],
    );
    assert_output(&store, &["unlabel", "phases", "--why", "again"], 0, &["no label to remove"]);
    // Deleting the label in the database has the same effect: the next event finds the session released.
    bounce_until_blocked(&store, "more");
    assert_eq!(
        store.open_database().execute("DELETE FROM flyball_labels WHERE session = 'more'", []).unwrap(),
        1
    );
    assert_output(&store, &["status", "more"], 0, &["was removed: the next event will release the session"]);
    store.event(r#"{"type":"user.message","session":"more","text":"go on"}"#);
    assert_eq!(store.json(&["status", "more"])["state"], "running");
    bounce_until_blocked(&store, "third");
    let released = store.json(&["unlabel", "third", "--why", "fine"]);
    assert_eq!(released["effects"][0]["effect"], "label.removed");
}

#[test]
fn unknown_session_is_an_error_with_suggestions() {
    let store = CliStore::project_store("people-unknown");
    store.event(r#"{"type":"user.message","session":"telegram:916542313","text":"hello"}"#);
    let commands: [&[&str]; 7] = [
        &["status", "telegram:916542331"],
        &["approve", "telegram:916542331"],
        &["deny", "telegram:916542331"],
        &["send", "telegram:916542331", "hello"],
        &["stop", "telegram:916542331", "--why", "x"],
        &["unlabel", "telegram:916542331", "--why", "x"],
        &["release", "telegram:916542331", "--why", "x"],
    ];
    for args in commands {
        let run = store.run(args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.out);
        assert!(run.err.starts_with("error[session_unknown]: "), "{args:?}: {}", run.err);
        assert!(run.err.contains("telegram:916542313"), "{args:?}: {}", run.err);
    }
    assert_eq!(store.count("SELECT count(*) FROM flyball_sessions"), 1, "none was made by asking");
}

#[test]
fn prune_removes_old_data_and_keeps_counters() {
    let store = CliStore::in_file("people-prune");
    let old = r#"{"type":"user.message","session":"old","text":"x","at":1700000000000}
{"type":"session.ended","session":"old","at":1700000000001}"#;
    store.observe(old);
    // Long enough for a snapshot: events that it does not cover are kept.
    halt_by_repetition(&store, "loops", 20);
    let dry = store.json(&["prune", "--older-than", "30d", "--dry-run"]);
    assert_eq!((&dry["sessions"], &dry["dry_run"]), (&json!(1), &json!(true)));
    assert_output(
        &store,
        &["prune", "--older-than", "30d", "--dry-run"],
        0,
        &["Would delete", "1 session that had ended"],
    );
    assert!(store.run(&["status", "old"]).code == 0, "a dry run deletes nothing");
    assert_output(&store, &["prune", "--older-than", "30d"], 0, &["Deleted", "1 session that had ended"]);
    assert_eq!(store.run(&["status", "old"]).code, 1);
    // All old events of a live session may be pruned; its counters are kept.
    let before = store.json(&["status", "loops"])["report"].clone();
    assert!(store.json(&["prune", "--older-than", "0s"])["events"].as_u64().unwrap() > 0);
    assert_eq!(store.json(&["status", "loops"])["report"], before);
    assert_output(&store, &["explain", "loops"], 3, &["were pruned", "halted by repetition"]);
    let run = store.run(&["prune", "--older-than", "soon"]);
    assert!(run.code == 1 && run.err.starts_with("error[bad_duration]: "), "{}", run.err);
    assert_output(&store, &["prune"], 0, &["Deleted data older than"]);
    let off = store.run(&["prune", "--set", "journal.retention=off"]);
    assert!(off.code == 1 && off.err.contains("the policy keeps everything"), "{}", off.err);
}

#[test]
fn doctor_passes_on_a_working_setup() {
    let store = CliStore::project_store("people-doctor");
    store.event(r#"{"type":"user.message","text":"hello"}"#);
    assert_output(
        &store,
        &["doctor"],
        0,
        &["ok     round trip", "ok     engine      SQLite ", "All checks passed"],
    );
    let all = store.json(&["doctor"]);
    let checks: Vec<&str> =
        all["checks"].as_array().unwrap().iter().map(|c| c["check"].as_str().unwrap()).collect();
    assert_eq!(
        checks,
        [
            "flyball",
            "policy",
            "store",
            "engine",
            "permissions",
            "round trip",
            "clock",
            "times",
            "integrity",
            "outbox",
            "hook"
        ]
    );
    assert_eq!(all["ok"], true);
    // The probe session has ended and is not listed.
    assert_eq!(store.count("SELECT count(*) FROM flyball_sessions WHERE status <> 'ended'"), 1);
    assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    assert_eq!(store.json(&["list"]).as_array().unwrap().len(), 1);
}

#[test]
fn doctor_reports_problems() {
    use std::os::unix::fs::PermissionsExt;
    let store = CliStore::project_store("people-sick");
    store.event(r#"{"type":"user.message","session":"ahead","text":"x","at":"2999-01-01T00:00:00Z"}"#);
    store.event(r#"{"type":"user.message","session":"damaged","text":"x"}"#);
    store
        .open_database()
        .execute("UPDATE flyball_events SET text = replace(text, 'x', 'y') WHERE pos = 2", [])
        .unwrap();
    let dead = "INSERT INTO flyball_outbox VALUES ('k1', 's', 'notify', '0', '{}', 'dead', 5, 0, 'refused')";
    store.open_database().execute(dead, []).unwrap();
    std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(store.folder.join("flyball.yaml"), "guards: {repitition: {}}").unwrap();
    let run = store.run(&["doctor"]);
    assert_eq!(run.code, 1, "{}", run.out);
    for part in [
        "FAIL   policy",
        "FAIL   permissions",
        "chmod 600",
        "FAIL   times",
        "'ahead'",
        "FAIL   integrity",
        "FAIL   outbox",
        "flyball outbox --dead",
        "5 checks failed",
    ] {
        assert!(run.out.contains(part), "{part}:\n{}", run.out);
    }
    assert_eq!(store.json(&["doctor"])["ok"], false);
}

#[test]
fn outbox_lists_messages_and_retries_dead_ones() {
    let store = CliStore::in_file("people-outbox");
    store.observe("");
    assert_output(&store, &["outbox"], 0, &["No pending or failed messages"]);
    let put = |key: &str, state: &str| {
        let row = format!(
            "INSERT INTO flyball_outbox VALUES ('{key}', 's', 'notify', '0', '{{}}', '{state}', 5, 0, 'no route')"
        );
        store.open_database().execute(&row, []).unwrap();
    };
    put("s/1/0", "dead");
    put("s/2/0", "waiting");
    put("s/3/0", "done");
    assert_eq!(store.json(&["outbox"]).as_array().unwrap().len(), 2);
    assert_eq!(store.json(&["outbox", "--dead"])[0]["key"], "s/1/0");
    assert_eq!(store.json(&["outbox", "--waiting"])[0]["key"], "s/2/0");
    assert_output(&store, &["outbox", "--dead"], 0, &["no route", "flyball outbox --retry s/1/0"]);
    assert_output(&store, &["outbox", "--retry", "s/1/0"], 0, &["will be retried"]);
    assert_eq!(store.json(&["outbox", "--dead"]), json!([]));
    let run = store.run(&["outbox", "--retry", "s/1/0"]);
    assert!(run.code == 1 && run.err.starts_with("error[message_unknown]: "), "{}", run.err);
}

#[test]
fn read_only_commands_create_no_store() {
    let dir = test_dir("people-nothing");
    let commands: [&[&str]; 9] = [
        &["status"],
        &["status", "s"],
        &["list"],
        &["outbox"],
        &["prune", "--older-than", "1d"],
        &["approve", "s"],
        &["release", "s", "--why", "x"],
        &["stop", "s", "--why", "x"],
        &["send", "s", "x"],
    ];
    for args in commands {
        let run = run_flyball(&dir, args, b"", &[]);
        assert_eq!(run.code, 1, "{args:?}");
        assert!(run.err.starts_with("error[store_missing]: "), "{args:?}: {}", run.err);
        assert!(run.err.contains("flyball observe --store"), "{args:?}: {}", run.err);
    }
    let run = run_flyball(&dir, &["doctor"], b"", &[]);
    assert!(run.code == 1 && run.out.contains("FAIL   store"), "{}", run.out);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "only .git");
}
