//! The counts over all sessions: the recorded histories of the seeds give the numbers that a person would count.

#![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

use flyball::metrics::{Attempts, Confirmations, Health, Metrics};
use flyball::{Event, PolicySource, Preset, Sessions};
use std::path::Path;

fn counted(names: &[&str]) -> Metrics {
    let mut metrics = Metrics::default();
    for name in names {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/seeds").join(format!("{name}.jsonl"));
        let mut sessions = Sessions::new(PolicySource::preset(Preset::Workflow));
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let mut event = Event::from_json(line).unwrap();
            let decision = sessions.step(&event).unwrap();
            // Histories may share a name of a session.
            event.session = format!("{name}/{}", event.session);
            metrics.take(&event, &decision);
        }
    }
    metrics
}

#[test]
fn refused_visits_transitions_and_circles_and_people_called() {
    let metrics = counted(&["shepherd-issue-123", "shepherd-issue-456", "shepherd-issue-789"]);
    assert_eq!(
        (metrics.phase_visits_blocked, metrics.transitions_blocked, metrics.cycles_detected),
        (1, 1, 1),
        "{metrics:?}"
    );
    assert_eq!(metrics.hitl_triggered, 3, "as many as refusals, while every refusal calls a person");
    assert_eq!(counted(&["shepherd-no-hitl"]).hitl_triggered, 0);
}

#[test]
fn retries_an_operation_and_openings_of_breakers() {
    let metrics = counted(&["soni-retry-max", "soni-retry-cleared"]);
    let all: Vec<(&String, &Attempts)> = metrics.operations.iter().collect();
    assert!(all.iter().any(|(_, tried)| tried.breaker_opened > 0 && tried.failed > 3), "{all:?}");
    assert!(all.iter().any(|(_, tried)| tried.succeeded > 0), "{all:?}");
}

#[test]
fn what_became_of_questions() {
    let names = ["kira-yes-once", "kira-no", "kira-expired", "soni-confirm-unclear-abort"];
    let Confirmations { asked, confirmed, rejected, unclear, expired, aborted, .. } =
        counted(&names).confirmations;
    assert!(asked >= 4, "{asked}");
    assert_eq!((confirmed, rejected, expired, aborted), (1, 1, 1, 1));
    assert_eq!(unclear, 3);
}

#[test]
fn repetitions_answers_gates_and_halts() {
    let metrics = counted(&["dex-repetition", "dex-validation", "dex-gate-exhausted", "dex-max-runtime"]);
    assert!(metrics.repetitions_blocked >= 1);
    assert_eq!(metrics.validation_failures, 5, "as many as there are in the history");
    assert_eq!(metrics.gate_blocks, 5);
    assert_eq!(metrics.halts.get("budget_exceeded"), Some(&1), "{:?}", metrics.halts);
    assert!(metrics.halts.values().sum::<u64>() >= 3, "{:?}", metrics.halts);
}

#[test]
fn health_of_a_session() {
    let mut metrics = Metrics::default();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let mut seen: Vec<Health> = Vec::new();
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
    assert_eq!(seen, [Health::Ok, Health::Degraded, Health::Exhausted]);
    assert_eq!(metrics.sessions()[&Health::Exhausted], 1);
}

#[test]
fn prometheus_reads_every_line() {
    let text = counted(&["shepherd-issue-123", "kira-yes-once", "soni-retry-max"]).to_prometheus();
    let mut families = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(rest.split(' ').next().unwrap().to_owned()), "{line} stands twice");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        assert!(families.contains(family), "{line} comes before its type");
        assert!(value.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{line}");
    }
    for name in ["phase_visits_blocked", "transitions_blocked", "cycles_detected", "hitl_triggered"] {
        assert!(families.contains(&format!("flyball_{name}_total")), "{families:?}");
    }
    assert!(text.contains("flyball_confirmations_total{outcome=\"confirmed\"} 1"), "{text}");
}
