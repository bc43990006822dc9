//! Tests of the metrics over all sessions, with the recorded histories of the original systems.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flyball::metrics::{ConfirmationCounts, Metrics, OperationCounts, SessionHealth};
use flyball::{Event, PolicySource, Preset, Sessions};
use std::path::Path;

fn replay_metrics(names: &[&str]) -> Metrics {
    let mut metrics = Metrics::default();
    for name in names {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/original-systems")
            .join(format!("{name}.jsonl"));
        let mut sessions = Sessions::new(PolicySource::preset(Preset::Workflow));
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let mut event = Event::from_json(line).unwrap();
            let decision = sessions.step(&event).unwrap();
            // Histories may share a session name.
            event.session = format!("{name}/{}", event.session);
            metrics.take(&event, &decision);
        }
    }
    metrics
}

#[test]
fn blocked_visits_transitions_cycles_and_escalations_are_counted() {
    let metrics = replay_metrics(&["shepherd-issue-123", "shepherd-issue-456", "shepherd-issue-789"]);
    assert_eq!(
        (metrics.phase_visits_blocked, metrics.transitions_blocked, metrics.cycles_detected),
        (1, 1, 1),
        "{metrics:?}"
    );
    assert_eq!(metrics.hitl_triggered, 3, "one per refusal, because every refusal escalates to a person");
    assert_eq!(replay_metrics(&["shepherd-no-hitl"]).hitl_triggered, 0);
}

#[test]
fn operation_attempts_and_opened_breakers_are_counted() {
    let metrics = replay_metrics(&["soni-retry-max", "soni-retry-cleared"]);
    let all: Vec<(&String, &OperationCounts)> = metrics.operations.iter().collect();
    assert!(all.iter().any(|(_, tried)| tried.breaker_opened > 0 && tried.failed > 3), "{all:?}");
    assert!(all.iter().any(|(_, tried)| tried.succeeded > 0), "{all:?}");
}

#[test]
fn confirmation_outcomes_are_counted() {
    let names = ["kira-approved-once", "kira-denied", "kira-expired", "soni-confirm-unclear-abort"];
    let ConfirmationCounts { asked, confirmed, rejected, unclear, expired, aborted, .. } =
        replay_metrics(&names).confirmations;
    assert!(asked >= 4, "{asked}");
    assert_eq!((confirmed, rejected, expired, aborted), (1, 1, 1, 1));
    assert_eq!(unclear, 3);
}

#[test]
fn repetitions_validation_failures_gates_and_halts_are_counted() {
    let metrics =
        replay_metrics(&["dex-repetition", "dex-validation", "dex-gate-exhausted", "dex-max-runtime"]);
    assert!(metrics.repetitions_blocked >= 1);
    assert_eq!(metrics.validation_failures, 5, "as many as in the history");
    assert_eq!(metrics.gate_blocks, 5);
    assert_eq!(metrics.halts.get("budget_exceeded"), Some(&1), "{:?}", metrics.halts);
    assert!(metrics.halts.values().sum::<u64>() >= 3, "{:?}", metrics.halts);
}

#[test]
fn session_health_follows_the_decisions() {
    let mut metrics = Metrics::default();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let mut seen: Vec<SessionHealth> = Vec::new();
    for call in 0..9 {
        for text in [
            format!(
                r#"{{"type":"tool.requested","call":"c{call}","tool":"bash","args":{{"command":"ls"}}}}"#
            ),
            format!(r#"{{"type":"tool.finished","call":"c{call}","ok":true,"output":"a b c"}}"#),
        ] {
            let event = Event::from_json(&text).unwrap();
            metrics.take(&event, &sessions.step(&event).unwrap());
            let now = metrics.health("default").unwrap();
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
    }
    assert_eq!(seen, [SessionHealth::Ok, SessionHealth::Degraded, SessionHealth::Exhausted]);
    assert_eq!(metrics.sessions_by_health()[&SessionHealth::Exhausted], 1);
}

#[test]
fn prometheus_text_is_well_formed() {
    let text =
        replay_metrics(&["shepherd-issue-123", "kira-approved-once", "soni-retry-max"]).to_prometheus();
    let mut families = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(rest.split(' ').next().unwrap().to_owned()), "duplicate line: {line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        assert!(families.contains(family), "no TYPE before: {line}");
        assert!(value.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{line}");
    }
    for name in ["phase_visits_blocked", "transitions_blocked", "cycles_detected", "hitl_triggered"] {
        assert!(families.contains(&format!("flyball_{name}_total")), "{families:?}");
    }
    assert!(text.contains("flyball_confirmations_total{outcome=\"confirmed\"} 1"), "{text}");
}
