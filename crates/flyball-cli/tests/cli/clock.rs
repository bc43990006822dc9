//! Time: a clock set back does not extend a breaker, and suspension does not use up the runtime budget.

use crate::command_harness::{run_flyball, test_dir};
use serde_json::{Value, json};
use std::path::Path;

const HOUR_MS: u64 = 3_600_000;
/// Start time in 2023.
const START: u64 = 1_700_000_000_000;

/// The binary's decisions on these events.
fn decisions(folder: &Path, more: &[&str], events: &[Value]) -> Vec<Value> {
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let args = [&["observe"][..], more].concat();
    let run = run_flyball(folder, &args, lines.as_bytes(), &[]);
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn failed_operation(at: u64) -> Value {
    json!({"type": "operation.failed", "session": "s", "at": at, "operation": "deploy", "key": "web"})
}

#[test]
fn clock_set_back_does_not_extend_a_breaker() {
    let folder = test_dir("clock-back");
    // Fail until the breaker is open.
    let mut events: Vec<Value> = (0..8).map(|n| failed_operation(START + n * 1_000)).collect();
    let open = decisions(&folder, &[], &events);
    assert_eq!(open.last().unwrap()["decision"], "block", "{open:#?}");
    // The clock goes back by an hour, and five minutes pass: more than the cooldown.
    let back = START - HOUR_MS;
    events.push(failed_operation(back));
    events.push(failed_operation(back + 300_000));
    let after = decisions(&folder, &[], &events);
    assert_eq!(after[8]["decision"], "block", "no time has passed: {:#?}", after[8]);
    assert_ne!(after[9]["decision"], "block", "the cooldown is over: {:#?}", after[9]);
}

#[test]
fn slightly_out_of_order_times_do_not_speed_up_the_session() {
    let folder = test_dir("clock-disorder");
    // Two reporters whose clocks are ten seconds apart, for ten minutes.
    let events: Vec<Value> = (0..1_200_u64)
        .map(|n| json!({"type": "compaction", "session": "s", "at": START + n * 500 + (n % 2) * 10_000}))
        .chain([json!({"type": "turn.started", "session": "s", "at": START + 620_000})])
        .collect();
    let policy = "budgets: {session: {runtime: 11m}}\n";
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let last = decisions(&folder, &["--policy", "policy.yaml"], &events).pop().unwrap();
    assert_eq!(last["decision"], "allow", "{last:#?}");
}

#[test]
fn suspended_machine_does_not_use_up_the_runtime() {
    let folder = test_dir("clock-suspended");
    std::fs::write(folder.join("policy.yaml"), "budgets: {session: {runtime: 4h}}\n").unwrap();
    let events = |suspended: Option<u64>| {
        let mut events = vec![
            json!({"type": "session.started", "session": "s", "at": START, "suspended_ms": 5 * HOUR_MS}),
            json!({"type": "compaction", "session": "s", "at": START + 60_000, "suspended_ms": 5 * HOUR_MS}),
            json!({"type": "turn.started", "session": "s", "at": START + 9 * HOUR_MS}),
        ];
        if let Some(suspended) = suspended {
            events[2]["suspended_ms"] = json!(suspended);
        }
        events
    };
    let last =
        |suspended| decisions(&folder, &["--policy", "policy.yaml"], &events(suspended)).pop().unwrap();
    assert_eq!(last(None)["decision"], "halt", "nine hours of work");
    assert_eq!(last(Some(13 * HOUR_MS))["decision"], "allow", "eight of the nine hours were suspended");
    assert_eq!(last(Some(9 * HOUR_MS))["decision"], "halt", "four of the nine hours were suspended");
    assert_eq!(last(Some(0))["decision"], "halt", "the machine was restarted in between");
}
