//! Durations are read the same way everywhere, and times are shown in the zone of the reader.

use crate::command_harness::{CliStore, run_flyball, test_dir};
use serde_json::json;

/// A zone without a name in any database, so that the test needs no zone files: 5 hours 30 minutes east of UTC.
const ZONE: &str = "XST-5:30";

const PAYLOAD: &[u8] = br#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t1"}"#;

#[test]
fn every_duration_flag_and_key_accepts_the_same_spellings() {
    let folder = test_dir("durations");
    let spellings = [
        ("90s", true),
        ("10m", true),
        ("1m30s", true),
        ("1.5m", true),
        ("2 min", true),
        ("5 parsecs", false),
        ("-1s", false),
    ];
    for (text, right) in spellings {
        let setting = format!("budgets.session.runtime={text}");
        let workflow = json!({"version": 1, "name": "w", "nodes": [{"name": "a", "kind": "command", "run": "true",
            "retry": {"attempts": 2, "initial": text}, "on_success": "done", "on_failure": "failed"}]});
        std::fs::write(folder.join("workflow.yaml"), workflow.to_string()).unwrap();
        let commands: [&[&str]; 5] = [
            &["prune", "--dry-run", "--store", "sqlite:new.db", "--older-than", text],
            &["token", "create", "ci", "--role", "agent", "--store", "sqlite:new.db", "--expires", text],
            &["config", "--set", &setting],
            &["hook", "claude-code", "--event", "PreToolUse", "--deadline", text],
            &["check", "workflow.yaml"],
        ];
        assert_eq!(run_flyball(&folder, &["observe", "--store", "sqlite:new.db"], b"", &[]).code, 0);
        for args in commands {
            let run = run_flyball(&folder, args, PAYLOAD, &[("USER", "anna")]);
            assert_eq!(run.code == 0, right, "{args:?}: {}{}", run.out, run.err);
        }
    }
}

#[test]
fn age_without_a_unit_is_rejected() {
    let store = CliStore::project_store("age-without-unit");
    store.event(r#"{"type":"session.started","session":"s"}"#);
    let run = store.run(&["prune", "--older-than", "30"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.err.contains("error[bad_duration]: --older-than: invalid duration \"30\""), "{}", run.err);
}

#[test]
fn screens_show_local_time_with_its_zone_and_json_does_not() {
    let store = CliStore::project_store("local-time");
    store.event(r#"{"type":"user.message","session":"s","text":"hello","at":1760186405000}"#);
    let shown = |args: &[&str], zone: &str| run_flyball(&store.folder, args, b"", &[("TZ", zone)]).out;
    let local = shown(&["activity"], ZONE);
    assert!(local.contains("2025-10-11 18:10:05 XST"), "{local}");
    let utc = shown(&["activity"], "UTC");
    assert!(utc.contains("2025-10-11 12:40:05 UTC"), "{utc}");
    let status = shown(&["status", "s"], ZONE);
    assert!(status.contains(" XST ("), "{status}");
    assert_eq!(shown(&["activity", "--json"], ZONE), shown(&["activity", "--json"], "UTC"));
}
