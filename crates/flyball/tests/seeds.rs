//! The cases that the five seed documents name, as recorded histories with their exact decisions.
//!
//! Each `fixtures/seeds/NAME.jsonl` is replayed and compared with `NAME.decisions.jsonl` byte for byte
//! (`FLYBALL_BLESS=1` rewrites the latter). Beside that the tables here say what the seed demands of each file, so
//! that a rewritten decision file cannot hide a regression: every block and every halt of a history is listed, with
//! its reason and sentence, and so is every effect that lets something run or calls a person.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test that is how a failure is told")]

use flyball::{Decision, Event, HaltReason, PolicySource, Preset, Sessions, Status, Verdict};
use std::path::{Path, PathBuf};

/// What a seed demands of one event of a history.
struct Fact {
    /// The line of the file, from 1.
    line: usize,
    verdict: Verdict,
    /// The reason of one of the trips; empty if there must be none.
    reason: &'static str,
    /// The beginning of that trip's sentence.
    says: &'static str,
    /// What the text for the model must hold.
    feedback: &'static str,
    halt_reason: Option<HaltReason>,
    state: Option<Status>,
    /// Effects by name, with what their `text` or `label` begins with.
    effects: Vec<(&'static str, &'static str)>,
}

fn fact(line: usize, verdict: Verdict, reason: &'static str) -> Fact {
    Fact {
        line,
        verdict,
        reason,
        says: "",
        feedback: "",
        halt_reason: None,
        state: None,
        effects: Vec::new(),
    }
}

fn allow(line: usize) -> Fact {
    fact(line, Verdict::Allow, "")
}

fn warn(line: usize, reason: &'static str) -> Fact {
    fact(line, Verdict::Warn, reason)
}

fn block(line: usize, reason: &'static str) -> Fact {
    fact(line, Verdict::Block, reason)
}

/// A fresh halt: it tells the caller with `loop.halted`.
fn halt(line: usize, reason: &'static str, halt_reason: HaltReason) -> Fact {
    let mut fact = fact(line, Verdict::Halt, reason);
    fact.halt_reason = Some(halt_reason);
    fact.effects.push(("loop.halted", ""));
    fact.state(Status::Halted)
}

/// The answer of a session that is halted already.
fn still_halted(line: usize, reason: &'static str) -> Fact {
    fact(line, Verdict::Halt, reason).state(Status::Halted)
}

impl Fact {
    fn says(mut self, text: &'static str) -> Self {
        self.says = text;
        self
    }

    fn feedback(mut self, text: &'static str) -> Self {
        self.feedback = text;
        self
    }

    fn state(mut self, state: Status) -> Self {
        self.state = Some(state);
        self
    }

    fn effect(mut self, name: &'static str, text: &'static str) -> Self {
        self.effects.push((name, text));
        self
    }

    /// A block that waits for a person.
    fn calls_a_person(self) -> Self {
        self.state(Status::Blocked).effect("label.added", "flyball-hitl:loop-prevention")
    }

    /// The same under a policy with `loop_prevention`, whose labels have its own prefix.
    fn calls_a_person_as_shepherd(self) -> Self {
        self.state(Status::Blocked).effect("label.added", "ashep-hitl:loop-prevention")
    }
}

type Case = (&'static str, Vec<Fact>);

const ASK_AGAIN: &str = "I didn't understand. Is this information correct? (yes/no)";
const ABORTED: &str =
    "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?";
const RETRY_ABORTED: &str = "I'm having trouble processing this. Let's start over.";

/// Seed 000: a dialogue manager. The first six are its own named tests.
fn soni() -> Vec<Case> {
    let again = |line| warn(line, "retries_exhausted").effect("say", ASK_AGAIN).state(Status::Running);
    let unclear = |line| {
        warn(line, "confirmation_unclear").effect("say", ASK_AGAIN).state(Status::AwaitingConfirmation)
    };
    let aborted = |line| {
        block(line, "confirmation_aborted")
            .says("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")
            .effect("plan.aborted", "")
            .effect("say", ABORTED)
            .state(Status::Running)
    };
    let cycle = |line| block(line, "cycle_detected").calls_a_person();
    let failed = |line| warn(line, "retries_exhausted");
    let given_up = |line, says| block(line, "retries_exhausted").says(says).effect("say", RETRY_ABORTED);
    vec![
        ("soni-retry-counted", vec![again(2).says("'confirmation' failed (attempt 1/3)")]),
        (
            "soni-retry-max",
            vec![
                again(2),
                again(3),
                again(4).says("'confirmation' failed (attempt 3/3)"),
                block(5, "retries_exhausted")
                    .says("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")
                    .effect("say", ABORTED),
            ],
        ),
        (
            "soni-retry-cleared",
            vec![
                again(3).says("'confirmation' failed (attempt 2/3)"),
                allow(4),
                again(5).says("'confirmation' failed (attempt 1/3)"),
                again(7).says("'confirmation' failed (attempt 3/3)"),
            ],
        ),
        (
            "soni-cycle-2-step",
            vec![
                allow(6),
                cycle(7).says("Oscillating cycle detected: understand→handle_confirmation→understand→"),
            ],
        ),
        ("soni-normal-flow", vec![allow(2), allow(3), allow(4), allow(5)]),
        ("soni-cycle-reset", vec![allow(6), allow(7), allow(12), cycle(13)]),
        (
            "soni-cycle-3-step",
            vec![
                allow(9),
                cycle(10).says(
                    "Oscillating cycle detected: understand→validate_slot→collect_next_slot→understand→",
                ),
            ],
        ),
        ("soni-cycle-4-step", vec![allow(12), cycle(13)]),
        ("soni-self-loop", vec![allow(6), cycle(7)]),
        (
            "soni-step-limit",
            vec![
                allow(27),
                block(28, "max_steps").says("25 of 25 transitions for one message are used"),
                allow(29),
                allow(30),
            ],
        ),
        (
            "soni-retry-operations",
            vec![
                failed(2),
                failed(4),
                given_up(5, "Max retries for correction exceeded"),
                failed(6),
                given_up(9, "Max retries for modification exceeded"),
                failed(10),
                given_up(13, "Max retries for collect_next_slot exceeded"),
            ],
        ),
        (
            "soni-confirm-yes",
            vec![
                allow(2).state(Status::AwaitingConfirmation),
                allow(3)
                    .effect("plan.approved", "")
                    .effect("say", "Great! Processing your request...")
                    .state(Status::Running),
            ],
        ),
        (
            "soni-confirm-no",
            vec![
                allow(3)
                    .effect("plan.rejected", "")
                    .effect("say", "What would you like to change?")
                    .state(Status::Running),
            ],
        ),
        (
            "soni-confirm-unclear-abort",
            vec![
                unclear(3),
                unclear(4),
                unclear(5).says("the answer was not understood (attempt 3/3)"),
                aborted(6),
            ],
        ),
        (
            "soni-confirm-unclear-then-yes",
            vec![
                unclear(5),
                allow(6)
                    .effect("plan.approved", "")
                    .effect("say", "Great! Processing your request...")
                    .state(Status::Running),
            ],
        ),
        ("soni-confirm-abort-on-reaching-max", vec![unclear(3), unclear(4), aborted(5)]),
        (
            "soni-confirm-aborts-call-a-person",
            vec![
                aborted(7),
                aborted(13),
                aborted(19).calls_a_person(),
                allow(20).effect("label.removed", "flyball-hitl:loop-prevention").state(Status::Running),
                block(21, "confirmation_refused"),
            ],
        ),
    ]
}

/// Seed 001: a deletion that asked for the same yes for ever.
fn kira() -> Vec<Case> {
    let asked = || allow(3).state(Status::AwaitingConfirmation);
    let approved = |line| {
        allow(line)
            .effect("plan.approved", "")
            .effect("say", "Отлично! Выполняю запрос...")
            .state(Status::Running)
    };
    let repeated = |line| {
        halt(line, "repeated_question", HaltReason::Stalled)
            .says("the same question was asked 3 times in a row")
    };
    vec![
        ("kira-yes-once", vec![asked(), approved(4), allow(5), allow(7), allow(9).state(Status::Running)]),
        (
            "kira-no",
            vec![
                asked(),
                allow(4)
                    .effect("plan.rejected", "")
                    .effect("say", "Хорошо, операция отменена. Могу помочь с чем-то другим?")
                    .state(Status::Running),
                allow(5),
            ],
        ),
        (
            "kira-list-request-is-no-yes",
            vec![
                asked(),
                warn(4, "confirmation_unclear").effect("say", "").state(Status::AwaitingConfirmation),
                approved(5),
            ],
        ),
        (
            "kira-new-request-drops-the-plan",
            vec![
                asked(),
                allow(4)
                    .effect("plan.replaced", "")
                    .effect("say", "Прежний вопрос снят, потому что пришёл новый запрос.")
                    .state(Status::Running),
                allow(5),
                allow(7).state(Status::Running),
                block(8, "confirmation_refused"),
                allow(9),
                allow(10).state(Status::AwaitingConfirmation),
                approved(11),
            ],
        ),
        (
            "kira-expired",
            vec![
                asked(),
                block(4, "confirmation_expired")
                    .effect("plan.expired", "")
                    .effect("say", "Подтверждение пришло слишком поздно")
                    .state(Status::Running),
                allow(5),
            ],
        ),
        (
            "kira-somebody-else",
            vec![
                asked(),
                block(4, "confirmation_refused")
                    .effect("say", "Подтвердить может только тот, кто об этом попросил.")
                    .state(Status::AwaitingConfirmation),
                approved(5),
            ],
        ),
        ("kira-same-question", vec![allow(3), warn(5, "repeated_question"), repeated(7)]),
        (
            "kira-approved-plan-asked-again",
            vec![
                approved(4),
                warn(5, "repeated_question").state(Status::Running),
                allow(6).state(Status::Running),
                repeated(7),
            ],
        ),
    ]
}

/// Seed 002: a coding agent in a loop.
fn dex() -> Vec<Case> {
    let sixth = "tool 'grep' called 6 times consecutively with identical parameters";
    let blocked = "Tool call blocked: tool 'grep' called 6 times consecutively with identical parameters. \
                   Try a different approach or parameters.";
    let gate = |line| block(line, "quality_gate_blocked").says("completion blocked by tests");
    vec![
        (
            "dex-repetition",
            vec![
                allow(2),
                allow(4),
                warn(10, "repetition_loop"),
                block(12, "repetition_loop").says(sixth).feedback(blocked).state(Status::Running),
                block(13, "repetition_loop").says(sixth),
                halt(14, "repetition_loop", HaltReason::Stalled).says(sixth),
                still_halted(15, "repetition_loop"),
            ],
        ),
        ("dex-repetition-other-call-resets", vec![warn(10, "repetition_loop"), allow(12), allow(14), allow(16)]),
        (
            "dex-validation",
            vec![
                warn(2, "validation_failure")
                    .says("validation failure 1/3: unexpected end of JSON input")
                    .feedback("Failed to parse your response: unexpected end of JSON input. Please try again with valid JSON."),
                warn(3, "validation_failure").says("validation failure 2/3: "),
                allow(4),
                warn(5, "validation_failure").says("validation failure 1/3: "),
                warn(6, "validation_failure").says("validation failure 2/3: "),
                halt(7, "validation_failure", HaltReason::RepeatedError).says("validation failure 3/3: "),
            ],
        ),
        (
            "dex-max-runtime",
            vec![
                allow(2),
                warn(4, "max_runtime"),
                allow(6),
                allow(7),
                halt(8, "max_runtime", HaltReason::BudgetExceeded)
                    .says("session terminated: max runtime exceeded (4h"),
            ],
        ),
        (
            "dex-gate-blocked",
            vec![
                gate(3).feedback("Your `TASK_COMPLETE` request was blocked").state(Status::Running),
                block(5, "quality_gate_blocked").says("completion blocked by build"),
                allow(6),
                allow(7),
            ],
        ),
        (
            "dex-gate-exhausted",
            vec![gate(3), gate(5), gate(7), gate(9), halt(11, "quality_gate_exhausted", HaltReason::RepeatedError)],
        ),
        ("dex-gate-same-failure", vec![gate(3), gate(5), halt(7, "repeated_error", HaltReason::RepeatedError)]),
        (
            "dex-gate-item",
            vec![
                block(3, "quality_gate_blocked"),
                block(5, "quality_gate_blocked"),
                halt(7, "loop_thrashing", HaltReason::Stalled)
                    .says("'docs updated' blocked the completion 3 times"),
            ],
        ),
        ("dex-consecutive-failures", vec![allow(9), warn(11, "consecutive_failures").says("5 failures in a row")]),
    ]
}

/// Seed 003: phases of an issue.
fn shepherd() -> Vec<Case> {
    let visits = "Phase 'test' exceeded max_visits (5) with 5 visits";
    let sixth = || block(15, "visit_limit").says(visits).calls_a_person_as_shepherd();
    let cycle = |line, says| block(line, "cycle_detected").says(says).calls_a_person_as_shepherd();
    vec![
        ("shepherd-length-2", vec![allow(4), cycle(5, "Oscillating cycle detected: fix→test→fix→test")]),
        ("shepherd-length-3", vec![allow(7), cycle(8, "Oscillating cycle detected: A→B→C→B→A")]),
        (
            "shepherd-issue-789",
            vec![
                allow(7),
                cycle(8, "Oscillating cycle detected: implement→test→fix→implement→test→fix→implement"),
            ],
        ),
        (
            "shepherd-plan-review",
            vec![allow(6), cycle(7, "Oscillating cycle detected: plan→implement→review→plan")],
        ),
        ("shepherd-one-rework", (2..=7).map(allow).collect()),
        ("shepherd-issue-123", vec![allow(5), allow(7), allow(13), sixth()]),
        (
            "shepherd-release",
            vec![
                sixth(),
                allow(16).effect("label.removed", "ashep-hitl:loop-prevention").state(Status::Running),
                warn(17, "visit_limit").state(Status::Running),
                allow(18),
                allow(19).state(Status::Running),
            ],
        ),
        (
            "shepherd-release-reset",
            vec![
                sixth(),
                allow(16).effect("label.removed", "ashep-hitl:loop-prevention").state(Status::Running),
                allow(17),
                allow(25),
                block(27, "visit_limit").says(visits).calls_a_person_as_shepherd(),
            ],
        ),
        (
            "shepherd-no-hitl",
            vec![
                allow(3),
                block(4, "visit_limit")
                    .says("Phase 'deploy' exceeded max_visits (2) with 2 visits")
                    .state(Status::Blocked),
            ],
        ),
        (
            "shepherd-issue-456",
            vec![
                allow(11),
                allow(12),
                block(13, "transition_limit")
                    .says("Transition test→fix exceeded max_transitions (5) with 5 occurrences")
                    .calls_a_person_as_shepherd(),
            ],
        ),
        ("shepherd-disabled", (2..=16).map(allow).collect()),
    ]
}

/// Seed 004: loops of a node graph.
fn vuhlp() -> Vec<Case> {
    let stalled = |line| halt(line, "stalled", HaltReason::Stalled);
    let budget = |line, reason| halt(line, reason, HaltReason::BudgetExceeded);
    vec![
        (
            "vuhlp-loop-budget",
            vec![allow(37), warn(43, "max_cycle_iterations"), budget(55, "max_cycle_iterations")],
        ),
        // Nothing is switched off here: inside a declared loop its budget comes before the limits on transitions.
        ("vuhlp-loop-budget-defaults", vec![budget(55, "max_cycle_iterations")]),
        (
            "vuhlp-loop-budget-raised",
            vec![
                budget(19, "max_cycle_iterations"),
                allow(20).state(Status::Running),
                allow(21),
                budget(27, "max_cycle_iterations"),
            ],
        ),
        (
            "vuhlp-node-turns",
            vec![allow(12), budget(14, "node_budget").says("node 'planner' has used 6 of 6 turns")],
        ),
        ("vuhlp-turn-timeout", vec![warn(3, "turn_timeout"), allow(4), budget(5, "turn_timeout")]),
        ("vuhlp-same-output", vec![allow(5), stalled(7).says("'verifier' gave the same output 3 times")]),
        ("vuhlp-same-structured-output", vec![allow(5), stalled(7)]),
        ("vuhlp-diff-unchanged", vec![allow(4), stalled(11).says("'diff' did not change in 2 observations")]),
        (
            "vuhlp-failing-set-unchanged",
            vec![allow(3), stalled(4).says("the same 2 failures of 'tests' 3 times")],
        ),
        (
            "vuhlp-no-new-minimum",
            vec![allow(5), stalled(6).says("'tests' has not become better in 3 observations")],
        ),
        ("vuhlp-oscillation", vec![allow(7), halt(9, "oscillating", HaltReason::Oscillating)]),
        ("vuhlp-oscillation-of-diffs", vec![allow(4), halt(5, "oscillating", HaltReason::Oscillating)]),
        ("vuhlp-progress-resets", vec![allow(49)]),
        ("vuhlp-zero-failing-is-success", (2..=6).map(allow).collect()),
        ("vuhlp-declared-signal-missing", vec![allow(8), stalled(14)]),
        ("vuhlp-undeclared-signal-missing", vec![allow(14)]),
        (
            "vuhlp-user-stop",
            vec![
                halt(4, "user_stop", HaltReason::UserStop).says("stopped by ana: wrong branch"),
                still_halted(5, "user_stop"),
            ],
        ),
        (
            "vuhlp-repeated-error",
            vec![
                warn(7, "repeated_error"),
                block(9, "repeated_error"),
                block(11, "repeated_error"),
                halt(13, "repeated_error", HaltReason::RepeatedError),
            ],
        ),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/seeds")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replays a history as `flyball replay` does.
fn replay(name: &str) -> Vec<Decision> {
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let lines = read(&format!("{name}.jsonl"));
    let fold = |(at, line)| {
        let answer = Event::from_json(line).and_then(|event| sessions.step(&event));
        answer.unwrap_or_else(|error| panic!("{name}.jsonl:{}: {error}", at + 1))
    };
    lines.lines().enumerate().map(fold).collect()
}

/// Compares with the recorded decisions, or records them.
fn compare(name: &str, decisions: &[Decision]) {
    let now: String = decisions.iter().map(|decision| decision.to_json() + "\n").collect();
    let file = format!("{name}.decisions.jsonl");
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(folder().join(&file), &now).unwrap();
    }
    let recorded = read(&file);
    for (at, (now, recorded)) in now.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(now, recorded, "{file}:{}", at + 1);
    }
    assert_eq!(now, recorded, "{file}");
}

/// Effects that let something run or call somebody: each must be a fact.
fn matters(effect: &str) -> bool {
    effect == "loop.halted" || effect.starts_with("plan.") || effect.starts_with("label.")
}

fn check(name: &str, decisions: &[Decision], facts: &[Fact]) {
    assert!(facts.iter().all(|fact| (1..=decisions.len()).contains(&fact.line)), "{name} is too short");
    for (at, decision) in decisions.iter().enumerate() {
        let place = format!("{name}.jsonl:{}: {}", at + 1, decision.to_json());
        let Some(fact) = facts.iter().find(|fact| fact.line == at + 1) else {
            assert!(decision.decision < Verdict::Block, "refuses what the seed lets pass: {place}");
            assert!(!decision.effects.iter().any(|effect| matters(&effect.effect)), "{place}");
            continue;
        };
        assert_eq!(decision.decision, fact.verdict, "{place}");
        assert_eq!(decision.trips.is_empty(), fact.reason.is_empty(), "{place}");
        let told = |trip: &&flyball::Trip| trip.reason == fact.reason && trip.message.starts_with(fact.says);
        let trip = decision.trips.iter().find(told);
        assert!(fact.reason.is_empty() || trip.is_some(), "no trip {} {}: {place}", fact.reason, fact.says);
        if fact.halt_reason.is_some() {
            assert_eq!(trip.and_then(|trip| trip.halt_reason), fact.halt_reason, "{place}");
        }
        assert!(decision.feedback.as_deref().unwrap_or("").contains(fact.feedback), "{place}");
        assert_eq!(fact.state.unwrap_or(decision.state), decision.state, "{place}");
        for (wanted, text) in &fact.effects {
            let found = decision.effects.iter().any(|effect| {
                let told = effect.fields.get("text").or_else(|| effect.fields.get("label"));
                let told = told.and_then(|told| told.as_str()).unwrap_or("");
                effect.effect == *wanted && told.starts_with(text)
            });
            assert!(found, "no effect {wanted} {text}: {place}");
        }
        for effect in decision.effects.iter().filter(|effect| matters(&effect.effect)) {
            assert!(fact.effects.iter().any(|(known, _)| *known == effect.effect), "{place}");
        }
    }
}

fn run(cases: &[Case]) {
    for (name, facts) in cases {
        let decisions = replay(name);
        check(name, &decisions, facts);
        compare(name, &decisions);
    }
}

#[test]
fn soni_confirmations_retries_and_state_cycles() {
    run(&soni());
}

#[test]
fn kira_a_deletion_is_confirmed_once_by_the_one_who_asked() {
    run(&kira());
}

#[test]
fn dex_repetition_validation_runtime_and_gates() {
    run(&dex());
}

#[test]
fn shepherd_visits_transitions_cycles_and_releases() {
    run(&shepherd());
}

#[test]
fn vuhlp_budgets_stalls_and_oscillation() {
    run(&vuhlp());
}

#[test]
fn an_approved_plan_is_approved_with_the_digest_of_what_was_shown() {
    let name = "kira-yes-once";
    let asked = read(&format!("{name}.jsonl")).lines().nth(2).map(Event::from_json).unwrap().unwrap();
    let flyball::Kind::ConfirmationRequested { plan, .. } = &asked.kind else { panic!("no question") };
    let decisions = replay(name);
    let approved = decisions.iter().flat_map(|decision| &decision.effects);
    let digests: Vec<_> = approved.filter(|effect| effect.effect == "plan.approved").collect();
    assert_eq!(digests.len(), 1);
    assert_eq!(digests[0].fields["digest"], flyball::confirm::plan_digest(plan));
}

#[test]
fn a_halted_loop_tells_which_loop_why_on_what_evidence_and_what_to_do() {
    for (name, reason, evidence, action) in [
        ("vuhlp-loop-budget", "budget_exceeded", "transitionTrail", "raise_budget"),
        ("vuhlp-diff-unchanged", "stalled", "diffHashes", "switch_to_interactive"),
        ("vuhlp-oscillation", "oscillating", "outputHashes", "spawn_reconciliation_node"),
        ("vuhlp-declared-signal-missing", "stalled", "diffHashes", "tighten_context_pack"),
    ] {
        let decisions = replay(name);
        let halted = decisions.iter().flat_map(|decision| &decision.effects);
        let halted: Vec<_> = halted.filter(|effect| effect.effect == "loop.halted").collect();
        assert_eq!(halted.len(), 1, "{name}");
        let fields = &halted[0].fields;
        assert!(fields["cycleId"].as_str().is_some_and(|id| id.starts_with("loop-")), "{name}: {fields:?}");
        assert_eq!(fields["haltReason"], reason, "{name}");
        assert!(
            fields["evidence"][evidence].as_array().is_some_and(|seen| !seen.is_empty()),
            "{name}: {fields:?}"
        );
        let actions = fields["suggestedActions"].as_array().unwrap();
        assert!(actions.iter().any(|known| known == action), "{name}: {actions:?}");
    }
    let failing = replay("vuhlp-failing-set-unchanged");
    let fields = &failing[3].effects[0].fields;
    assert_eq!(fields["evidence"]["failingTests"], serde_json::json!(["auth::expires", "auth::renews"]));
    assert_eq!(fields["evidence"]["trends"]["tests"], serde_json::json!([2, 2, 2]));
}

#[test]
fn every_recorded_history_has_its_facts() {
    let known: Vec<&str> =
        [soni(), kira(), dex(), shepherd(), vuhlp()].iter().flatten().map(|(name, _)| *name).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".jsonl").map(|name| name.strip_suffix(".decisions").unwrap_or(name));
        assert!(
            name.is_some_and(|name| known.contains(&name)),
            "fixtures/seeds/{file} is in no table of tests/seeds.rs"
        );
    }
}
