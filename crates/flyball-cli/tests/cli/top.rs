//! `flyball top` without a terminal: the table once, or one JSON object per session. Read-only.

use crate::command_harness::{CliStore, run_flyball, test_dir};
use serde_json::Value;

/// Creates sessions that run, are stopped, await approval or ask a question, and a parent with a child.
fn create_sessions(store: &CliStore) {
    let workflow = r#""workflow":{"nodes":["coder","verifier"],"edges":[{"from":"coder","to":"verifier"},{"from":"verifier","to":"coder"}],"signals":["tests"]}"#;
    let lines = [
        r#"{"type":"user.message","session":"runs","text":"hello"}"#.to_owned(),
        r#"{"type":"human.stopped","session":"stopped","by":"anna","why":"wrong branch"}"#.to_owned(),
        r#"{"type":"confirmation.requested","session":"yes","plan":[{"tool":"delete_task","args":{"id":7}}],"question":"Delete task 7?"}"#.to_owned(),
        r#"{"type":"question.asked","session":"asks","text":"Which day?"}"#.to_owned(),
        format!(r#"{{"type":"session.started","session":"family",{workflow}}}"#),
        r#"{"type":"session.started","session":"family/left.1","parent":"family"}"#.to_owned(),
        r#"{"type":"transition.requested","session":"family","from":"coder","to":"verifier"}"#.to_owned(),
        r#"{"type":"progress","session":"family","signal":"tests","failing":["a","b"]}"#.to_owned(),
        r#"{"type":"transition.requested","session":"family","from":"verifier","to":"coder"}"#.to_owned(),
        r#"{"type":"progress","session":"family","signal":"tests","failing":["a"]}"#.to_owned(),
        r#"{"type":"assistant.message","session":"family/left.1","text":"hi","usage":{"tokens_in":1200,"tokens_out":34,"cost_usd":0.25}}"#.to_owned(),
        r#"{"type":"user.message","session":"over","text":"bye"}"#.to_owned(),
        r#"{"type":"session.ended","session":"over","outcome":"success"}"#.to_owned(),
    ];
    store.observe(&lines.join("\n"));
}

#[test]
fn table_lists_all_sessions_with_those_needing_a_person_first() {
    let store = CliStore::in_file("top-once");
    create_sessions(&store);
    for args in [&["top", "--once"][..], &["top"]] {
        let run = store.run(args);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let lines: Vec<&str> = run.out.lines().collect();
        assert!(
            lines[0].contains(
                "7 sessions: 3 running, 1 awaiting_confirmation, 1 awaiting_answer, 1 halted, 1 ended"
            ),
            "{}",
            run.out
        );
        for column in ["SESSION", "STATE", "NODE", "LOOP", "TREND", "TOKENS", "COST", "AGE", "LAST DECISION"]
        {
            assert!(lines[1].contains(column), "{column}: {}", lines[1]);
        }
        let at = |name: &str| {
            let found = lines.iter().position(|line| line.trim_start_matches(['└', ' ']).starts_with(name));
            found.unwrap_or_else(|| panic!("{name}: {}", run.out))
        };
        let urgent = ["stopped", "yes", "asks"].map(at);
        assert!(urgent.iter().all(|row| (2..5).contains(row)), "{}", run.out);
        assert_eq!(at("left.1"), at("family") + 1, "{}", run.out);
        assert_eq!(at("over"), lines.len() - 1, "{}", run.out);
        for (name, parts) in [
            ("stopped", &["halted", "halt stopped by anna: wrong branch"][..]),
            ("yes", &["awaiting approval"]),
            ("asks", &["awaiting answer", "Which day?"]),
            ("family", &["coder", "Loop 1/8", "failing tests 2 → 1", "1,234", "$0.25"]),
            ("left.1", &["└ left.1", "running", "1,234", "$0.25"]),
        ] {
            for part in parts {
                assert!(lines[at(name)].contains(part), "{part}: {}", lines[at(name)]);
            }
        }
        assert!(!run.out.contains('\x1b'), "no colors without a terminal");
    }
    assert_eq!(store.run(&["top", "--once", "--limit", "2"]).out.lines().count(), 4);
}

#[test]
fn json_output_has_one_object_per_session() {
    let store = CliStore::project_store("top-json");
    create_sessions(&store);
    let run = store.run(&["top", "--json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let all: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(all.len(), 7);
    let one = |name: &str| all.iter().find(|one| one["session"] == name).expect("the session");
    assert_eq!(one("asks")["question"], "Which day?");
    assert_eq!((&one("asks")["needs_person"], &one("runs")["needs_person"]), (&true.into(), &false.into()));
    let family = one("family");
    assert_eq!((&family["loop"], &family["trend"]), (&"Loop 1/8".into(), &"failing tests 2 → 1".into()));
    assert_eq!((&family["loops"][0]["iterations"], &family["loops"][0]["limit"]), (&1.into(), &8.into()));
    assert_eq!((&family["tokens"], &family["cost_micro_usd"]), (&1234.into(), &250_000.into()));
    assert_eq!(one("family/left.1")["parent"], "family");
    let stopped = one("stopped");
    assert_eq!((&stopped["state"], &stopped["halt_reason"]), (&"halted".into(), &"user_stop".into()));
    assert_eq!(stopped["last_decision"]["message"], "stopped by anna: wrong branch");
    assert!(all[..3].iter().all(|one| one["needs_person"] == true), "{}", run.out);
}

#[test]
fn limits_are_those_of_the_session_policy() {
    let store = CliStore::project_store("top-limits");
    let started = r#"{"type":"session.started","session":"w","policy":{"budgets":{"loop":{"iterations":3}}},"workflow":{"nodes":["a","b"],"edges":[{"from":"a","to":"b"},{"from":"b","to":"a"}]}}"#;
    store.event(started);
    store.event(r#"{"type":"transition.requested","session":"w","from":"a","to":"b"}"#);
    assert!(store.run(&["top", "--once"]).out.contains("Loop 0/3"));
}

#[test]
fn top_changes_nothing() {
    let dir = test_dir("top-nothing");
    for args in [&["top", "--once"][..], &["top", "--json"], &["top"]] {
        let run = run_flyball(&dir, args, b"", &[]);
        assert_eq!(run.code, 1, "{}", run.out);
        assert!(run.err.starts_with("error[store_missing]: "), "{}", run.err);
    }
    assert!(!dir.join(".flyball").exists());
    let store = CliStore::project_store("top-empty");
    store.observe("");
    assert!(store.run(&["top", "--once"]).out.contains("no sessions yet"));
    assert_eq!(store.run(&["top", "--json"]).out, "");
    create_sessions(&store);
    let before = store.count("SELECT count(*) FROM flyball_events");
    store.run(&["top", "--once"]);
    assert_eq!(store.count("SELECT count(*) FROM flyball_events"), before);
}
