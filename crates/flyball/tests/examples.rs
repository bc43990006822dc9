//! Tests of the examples: each is replayed as `flyball replay` does, and its key facts are checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use flyball::policy::{PolicyFormat, parse};
use flyball::{Decision, Event, PolicySource, Preset, SessionPhase, Sessions, TripSeverity, Verdict};
use std::path::{Path, PathBuf};

/// Maximum number of events in an example.
const MAX_LINES: usize = 80;
/// Maximum number of lines on its page.
const MAX_PAGE_LINES: usize = 60;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn replay(name: &str) -> Vec<Decision> {
    let policy = folder(name).join("policy.yaml");
    let layers = if policy.exists() {
        vec![
            parse(&read(&policy), PolicyFormat::Yaml, "policy.yaml")
                .unwrap_or_else(|errors| panic!("{errors}")),
        ]
    } else {
        Vec::new()
    };
    let source = PolicySource::new(layers, Preset::Agent).unwrap_or_else(|errors| panic!("{errors}"));
    let mut sessions = Sessions::new(source);
    let text = read(&folder(name).join("events.jsonl"));
    assert!(text.lines().count() <= MAX_LINES, "{name} has more than {MAX_LINES} events");
    let fold = |(at, line)| {
        let answer = Event::from_json(line).and_then(|event| sessions.step(&event));
        answer.unwrap_or_else(|error| panic!("{name}/events.jsonl:{}: {error}", at + 1))
    };
    text.lines().enumerate().map(fold).collect()
}

/// (session, event of the session, verdict, guard, reason)
type ExpectedRefusal = (&'static str, u64, Verdict, &'static str, &'static str);

/// Blocks and halts of each example, first occurrences only, in file order.
fn expected_refusals() -> Vec<(&'static str, Vec<ExpectedRefusal>)> {
    use Verdict::{Block, Halt};
    vec![
        (
            "agent-loop",
            vec![
                ("fix-login", 32, Block, "recurrence", "recurrence"),
                ("fix-login", 36, Halt, "recurrence", "recurrence"),
                ("fix-menu", 21, Block, "cycle", "cycle_detected"),
            ],
        ),
        (
            "booking",
            vec![
                ("booking-7", 18, Block, "confirmation", "confirmation_aborted"),
                ("booking-7", 26, Block, "cycle", "cycle_detected"),
            ],
        ),
        (
            "tasks",
            vec![
                ("telegram:916542313", 4, Block, "confirmation", "confirmation_refused"),
                ("telegram:916542313", 14, Block, "confirmation", "confirmation_expired"),
                ("telegram:1183", 7, Halt, "question", "repeated_question"),
            ],
        ),
        (
            "ralph",
            vec![
                ("ralph-3", 18, Block, "repetition", "repetition_loop"),
                ("ralph-3", 22, Block, "gate", "quality_gate_blocked"),
                ("ralph-3", 40, Halt, "gate", "repeated_error"),
            ],
        ),
        (
            "issues",
            vec![
                ("Issue-123", 15, Block, "visits", "visit_limit"),
                ("Issue-789", 8, Block, "cycle", "cycle_detected"),
            ],
        ),
        ("coder-verifier", vec![("run-12", 40, Halt, "stall", "stalled")]),
        ("polling", Vec::new()),
    ]
}

#[test]
fn examples_are_refused_exactly_where_documented() {
    for (name, expected) in expected_refusals() {
        let mut seen: Vec<(String, u64, Verdict, String, String)> = Vec::new();
        for decision in replay(name).into_iter().filter(|decision| decision.decision >= Verdict::Block) {
            let grave =
                decision.trips.iter().find(|trip| trip.severity.verdict() == decision.decision).unwrap();
            let known = seen.iter().any(|(session, _, verdict, guard, reason)| {
                (session, verdict, guard, reason)
                    == (&decision.session, &decision.decision, &grave.guard, &grave.reason)
            });
            if !known {
                let (guard, reason) = (grave.guard.clone(), grave.reason.clone());
                seen.push((decision.session.clone(), decision.seq, decision.decision, guard, reason));
            }
        }
        let seen: Vec<_> =
            seen.iter().map(|(s, seq, v, g, r)| (s.as_str(), *seq, *v, g.as_str(), r.as_str())).collect();
        assert_eq!(seen, expected, "{name}");
    }
}

fn effects<'a>(decisions: &'a [Decision], name: &str) -> Vec<(&'a str, u64, &'a flyball::Effect)> {
    let each = |decision: &'a Decision| {
        decision.effects.iter().map(|effect| (decision.session.as_str(), decision.seq, effect))
    };
    decisions.iter().flat_map(each).filter(|(_, _, effect)| effect.effect == name).collect()
}

#[test]
fn booking_clear_yes_counts_after_unclear_answers_and_giving_up_means_no() {
    let decisions = replay("booking");
    let approved = effects(&decisions, "plan.approved");
    assert_eq!(approved.iter().map(|(_, seq, _)| *seq).collect::<Vec<_>>(), [10]);
    assert_eq!(effects(&decisions, "plan.aborted").iter().map(|(_, seq, _)| *seq).collect::<Vec<_>>(), [18]);
    assert_eq!(decisions.last().unwrap().state, SessionPhase::Blocked);
}

#[test]
fn tasks_plan_is_approved_once() {
    let decisions = replay("tasks");
    let approved = effects(&decisions, "plan.approved");
    assert_eq!(
        approved.iter().map(|(s, seq, _)| (*s, *seq)).collect::<Vec<_>>(),
        [("telegram:916542313", 6)]
    );
    assert_eq!(effects(&decisions, "plan.expired").len(), 1);
}

#[test]
fn issues_label_is_added_on_block_and_removed_on_release() {
    let decisions = replay("issues");
    for (effect, expected) in [
        ("label.added", vec![("Issue-123", 15), ("Issue-789", 8)]),
        ("label.removed", vec![("Issue-123", 16)]),
    ] {
        let found = effects(&decisions, effect);
        assert!(found.iter().all(|(_, _, effect)| effect.fields["label"] == "ashep-hitl:loop-prevention"));
        assert_eq!(found.iter().map(|(s, seq, _)| (*s, *seq)).collect::<Vec<_>>(), expected);
    }
    let reworked_once = decisions.iter().filter(|decision| decision.session == "Issue-790");
    assert!(reworked_once.clone().count() > 0);
    assert!(reworked_once.into_iter().all(|decision| decision.trips.is_empty()));
}

#[test]
fn coder_verifier_halt_shows_trend_and_failing_tests() {
    let decisions = replay("coder-verifier");
    let halted = effects(&decisions, "loop.halted");
    assert_eq!(halted.len(), 1);
    let evidence = &halted[0].2.fields["evidence"];
    assert_eq!(evidence["trends"]["tests"], serde_json::json!([7, 4, 2, 2, 2]));
    assert_eq!(evidence["failingTests"], serde_json::json!(["ship::dates", "ship::zones"]));
    assert!(halted[0].2.fields["cycleId"].is_string());
}

#[test]
fn polling_and_batches_are_allowed() {
    for decision in replay("polling") {
        assert_eq!(decision.decision, Verdict::Allow, "{}", decision.to_json());
        assert!(decision.trips.is_empty(), "{}", decision.to_json());
    }
}

#[test]
fn example_pages_match_the_actual_decisions() {
    for (name, _) in expected_refusals() {
        let page = read(&folder(name).join("README.md"));
        assert!(page.lines().count() <= MAX_PAGE_LINES, "{name}");
        let policy = if folder(name).join("policy.yaml").exists() {
            format!(" --policy examples/{name}/policy.yaml")
        } else {
            String::new()
        };
        let command = format!("\ncargo run --release -- replay examples/{name}/events.jsonl{policy}\n");
        assert!(page.contains(&command), "{name}: no command on the page");
        let decisions = replay(name);
        for line in page.lines() {
            let mut words = line.split_whitespace();
            let (Some("event"), Some(Ok(seq)), Some(severity)) = (
                words.next(),
                words.next().and_then(|seq| seq.split('–').next()).map(str::parse::<u64>),
                words.next(),
            ) else {
                continue;
            };
            if severity == "do" {
                let done = |decision: &Decision| decision.seq == seq && !decision.effects.is_empty();
                assert!(decisions.iter().any(done), "{name}: {line}");
                continue;
            }
            let severity = match severity {
                "warn" => TripSeverity::Warn,
                "block" => TripSeverity::Block,
                "halt" => TripSeverity::Halt,
                other => panic!("{name}: {other}"),
            };
            let matches = |decision: &Decision| {
                decision.seq == seq && decision.trips.iter().any(|trip| trip.severity == severity)
            };
            assert!(decisions.iter().any(matches), "{name}: {line}");
        }
    }
}
