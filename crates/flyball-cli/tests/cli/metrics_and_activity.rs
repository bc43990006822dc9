//! Aggregates over many sessions: metrics as Prometheus text and JSON, and the activity feed.

use crate::command_harness::CliStore;
use serde_json::{Value, json};

/// A session that is warned, blocked and halted, and one that a gate blocks.
fn store_with_activity(name: &str) -> CliStore {
    let store = CliStore::project_store(name);
    let mut lines: Vec<String> = Vec::new();
    for n in 1..=9 {
        lines.push(json!({"type": "tool.requested", "session": "loops", "call": format!("c{n}"), "tool": "bash", "args": {"command": "ls"}}).to_string());
        lines.push(json!({"type": "tool.finished", "session": "loops", "call": format!("c{n}"), "ok": true, "output": "a"}).to_string());
    }
    lines.push(json!({"type": "user.message", "session": "works", "text": "make it so"}).to_string());
    lines.push(
        json!({"type": "gate.checked", "session": "works", "checks": [{"name": "tests", "passed": false}]})
            .to_string(),
    );
    store.observe(&lines.join("\n"));
    store
}

#[test]
fn metrics_count_over_all_sessions_as_prometheus_and_as_json() {
    let store = store_with_activity("counts-metrics");
    let text = store.run(&["metrics"]);
    assert_eq!(text.code, 0, "{}", text.err);
    for line in [
        "flyball_events_total 20",
        "flyball_gate_blocks_total 1",
        "flyball_halts_total{reason=\"stalled\"} 1",
        "flyball_sessions{health=\"exhausted\"} 1",
        "flyball_sessions{health=\"degraded\"} 1",
    ] {
        assert!(text.out.lines().any(|known| known == line), "no '{line}' in\n{}", text.out);
    }
    let all: Value = serde_json::from_str(&store.run(&["metrics", "--json"]).out).unwrap();
    assert_eq!(all["events"], 20);
    assert_eq!(all["sessions"]["exhausted"], 1);
    assert!(all["repetitions_blocked"].as_u64().unwrap() >= 3, "{all}");
    assert!(all["trips"].as_array().unwrap().iter().any(|trip| trip["guard"] == "repetition"), "{all}");
}

#[test]
fn activity_lists_events_by_kind() {
    let store = store_with_activity("counts-activity");
    let all = store.run(&["activity"]);
    assert_eq!(all.code, 0, "{}", all.err);
    assert!(all.out.contains("user_message"), "{}", all.out);
    let kinds = |args: &[&str]| -> Vec<(String, String)> {
        let run = store.run(args);
        let read = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let lines = run.out.lines().map(read);
        lines
            .map(|line| {
                (line["session"].as_str().unwrap().to_owned(), line["kind"].as_str().unwrap().to_owned())
            })
            .collect()
    };
    let gate = kinds(&["activity", "--json", "--kind", "quality_gate"]);
    assert_eq!(gate.len(), 2, "the gate's result and its effect: {gate:?}");
    let health = kinds(&["activity", "loops", "--json", "--kind", "loop_health"]);
    assert!(health.len() >= 6 && health.iter().all(|(session, _)| session == "loops"), "{health:?}");
    assert_eq!(kinds(&["activity", "--json", "--limit", "3"]).len(), 3);
}
