//! The cases of the five original documents, as recorded histories with their exact decisions.
//!
//! Each `fixtures/original-systems/NAME.jsonl` is replayed and compared with `NAME.decisions.jsonl` byte for byte
//! (`FLYBALL_BLESS=1` rewrites the latter). In addition, the tables here list what each file must contain, so that a
//! rewritten decision file cannot hide a regression: every block and every halt of a history with its reason and
//! message, and every effect that allows something or escalates to a person.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use flyball::{Decision, Event, HaltReason, PolicySource, Preset, SessionPhase, Sessions, Verdict};
use std::path::{Path, PathBuf};

/// Requirements on one event of a history.
struct ExpectedDecision {
    /// Line number in the file, from 1.
    line: usize,
    verdict: Verdict,
    /// The reason of one of the trips; empty if there must be none.
    reason: &'static str,
    /// Prefix of that trip's message.
    message: &'static str,
    /// Text that the feedback for the model must contain.
    feedback: &'static str,
    halt_reason: Option<HaltReason>,
    state: Option<SessionPhase>,
    /// Effects by name, with a prefix of their `text` or `label`.
    effects: Vec<(&'static str, &'static str)>,
}

fn expected(line: usize, verdict: Verdict, reason: &'static str) -> ExpectedDecision {
    ExpectedDecision {
        line,
        verdict,
        reason,
        message: "",
        feedback: "",
        halt_reason: None,
        state: None,
        effects: Vec::new(),
    }
}

fn allow(line: usize) -> ExpectedDecision {
    expected(line, Verdict::Allow, "")
}

fn warn(line: usize, reason: &'static str) -> ExpectedDecision {
    expected(line, Verdict::Warn, reason)
}

fn block(line: usize, reason: &'static str) -> ExpectedDecision {
    expected(line, Verdict::Block, reason)
}

/// A new halt, reported with `loop.halted`.
fn halt(line: usize, reason: &'static str, halt_reason: HaltReason) -> ExpectedDecision {
    let mut fact = expected(line, Verdict::Halt, reason);
    fact.halt_reason = Some(halt_reason);
    fact.effects.push(("loop.halted", ""));
    fact.state(SessionPhase::Halted)
}

/// The decision of a session that is already halted.
fn still_halted(line: usize, reason: &'static str) -> ExpectedDecision {
    expected(line, Verdict::Halt, reason).state(SessionPhase::Halted)
}

impl ExpectedDecision {
    fn message(mut self, text: &'static str) -> Self {
        self.message = text;
        self
    }

    fn feedback(mut self, text: &'static str) -> Self {
        self.feedback = text;
        self
    }

    fn state(mut self, state: SessionPhase) -> Self {
        self.state = Some(state);
        self
    }

    fn effect(mut self, name: &'static str, text: &'static str) -> Self {
        self.effects.push((name, text));
        self
    }

    /// A block that escalates to a person.
    fn escalates(self) -> Self {
        self.state(SessionPhase::Blocked).effect("label.added", "flyball-hitl:loop-prevention")
    }

    /// The same under a policy with `loop_prevention`, which implies a different label prefix.
    fn calls_a_person_with_ashep_labels(self) -> Self {
        self.state(SessionPhase::Blocked).effect("label.added", "ashep-hitl:loop-prevention")
    }
}

type OriginalCase = (&'static str, Vec<ExpectedDecision>);

const ASK_AGAIN: &str = "I didn't understand. Is this information correct? (yes/no)";
const ABORTED: &str =
    "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?";
const RETRY_ABORTED: &str = "I'm having trouble processing this. Let's start over.";

/// Soni, a dialogue manager. The first six are its documented tests.
fn soni() -> Vec<OriginalCase> {
    let again = |line| warn(line, "retries_exhausted").effect("say", ASK_AGAIN).state(SessionPhase::Running);
    let unclear = |line| {
        warn(line, "confirmation_unclear").effect("say", ASK_AGAIN).state(SessionPhase::AwaitingConfirmation)
    };
    let aborted = |line| {
        block(line, "confirmation_aborted")
            .message("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")
            .effect("plan.aborted", "")
            .effect("say", ABORTED)
            .state(SessionPhase::Running)
    };
    let cycle = |line| block(line, "cycle_detected").escalates();
    let failed = |line| warn(line, "retries_exhausted");
    let given_up = |line, says| block(line, "retries_exhausted").message(says).effect("say", RETRY_ABORTED);
    vec![
        ("soni-retry-counted", vec![again(2).message("'confirmation' failed (attempt 1/3)")]),
        (
            "soni-retry-max",
            vec![
                again(2),
                again(3),
                again(4).message("'confirmation' failed (attempt 3/3)"),
                block(5, "retries_exhausted")
                    .message("Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.")
                    .effect("say", ABORTED),
            ],
        ),
        (
            "soni-retry-cleared",
            vec![
                again(3).message("'confirmation' failed (attempt 2/3)"),
                allow(4),
                again(5).message("'confirmation' failed (attempt 1/3)"),
                again(7).message("'confirmation' failed (attempt 3/3)"),
            ],
        ),
        (
            "soni-cycle-2-step",
            vec![
                allow(6),
                cycle(7).message("Oscillating cycle detected: understand→handle_confirmation→understand→"),
            ],
        ),
        ("soni-normal-flow", vec![allow(2), allow(3), allow(4), allow(5)]),
        ("soni-cycle-reset", vec![allow(6), allow(7), allow(12), cycle(13)]),
        (
            "soni-cycle-3-step",
            vec![
                allow(9),
                cycle(10).message(
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
                block(28, "max_steps").message("one message has used 25 of 25 transitions"),
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
                allow(2).state(SessionPhase::AwaitingConfirmation),
                allow(3)
                    .effect("plan.approved", "")
                    .effect("say", "Great! Processing your request...")
                    .state(SessionPhase::Running),
            ],
        ),
        (
            "soni-confirm-no",
            vec![
                allow(3)
                    .effect("plan.rejected", "")
                    .effect("say", "What would you like to change?")
                    .state(SessionPhase::Running),
            ],
        ),
        (
            "soni-confirm-unclear-abort",
            vec![
                unclear(3),
                unclear(4),
                unclear(5).message("the answer was not understood (attempt 3/3)"),
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
                    .state(SessionPhase::Running),
            ],
        ),
        ("soni-confirm-abort-on-reaching-max", vec![unclear(3), unclear(4), aborted(5)]),
        (
            "soni-confirm-aborts-call-a-person",
            vec![
                aborted(7),
                aborted(13),
                aborted(19).escalates(),
                allow(20)
                    .effect("label.removed", "flyball-hitl:loop-prevention")
                    .state(SessionPhase::Running),
                block(21, "confirmation_refused"),
            ],
        ),
    ]
}

/// Kira: a deletion that asked for the same confirmation forever.
fn kira() -> Vec<OriginalCase> {
    let asked = || allow(3).state(SessionPhase::AwaitingConfirmation);
    let approved = |line| {
        allow(line)
            .effect("plan.approved", "")
            .effect("say", "Отлично! Выполняю запрос...")
            .state(SessionPhase::Running)
    };
    let repeated = |line| {
        halt(line, "repeated_question", HaltReason::Stalled)
            .message("the same question was asked 3 times in a row")
    };
    vec![
        (
            "kira-approved-once",
            vec![asked(), approved(4), allow(5), allow(7), allow(9).state(SessionPhase::Running)],
        ),
        (
            "kira-denied",
            vec![
                asked(),
                allow(4)
                    .effect("plan.rejected", "")
                    .effect("say", "Хорошо, операция отменена. Могу помочь с чем-то другим?")
                    .state(SessionPhase::Running),
                allow(5),
            ],
        ),
        (
            "kira-list-request-is-not-an-approval",
            vec![
                asked(),
                warn(4, "confirmation_unclear").effect("say", "").state(SessionPhase::AwaitingConfirmation),
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
                    .state(SessionPhase::Running),
                allow(5),
                allow(7).state(SessionPhase::Running),
                block(8, "confirmation_refused"),
                allow(9),
                allow(10).state(SessionPhase::AwaitingConfirmation),
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
                    .state(SessionPhase::Running),
                allow(5),
            ],
        ),
        (
            "kira-answered-by-another-person",
            vec![
                asked(),
                block(4, "confirmation_refused")
                    .effect("say", "Подтвердить может только тот, кто об этом попросил.")
                    .state(SessionPhase::AwaitingConfirmation),
                approved(5),
            ],
        ),
        ("kira-same-question", vec![allow(3), warn(5, "repeated_question"), repeated(7)]),
        (
            "kira-approved-plan-asked-again",
            vec![
                approved(4),
                warn(5, "repeated_question").state(SessionPhase::Running),
                allow(6).state(SessionPhase::Running),
                repeated(7),
            ],
        ),
    ]
}

/// Dex: a coding agent in a loop.
fn dex() -> Vec<OriginalCase> {
    let sixth = "tool 'grep' called 6 times consecutively with identical parameters";
    let blocked = "Tool call blocked: tool 'grep' called 6 times consecutively with identical parameters. \
                   Try a different approach or parameters.";
    let gate = |line| block(line, "quality_gate_blocked").message("completion blocked by tests");
    vec![
        (
            "dex-repetition",
            vec![
                allow(2),
                allow(4),
                warn(10, "repetition_loop"),
                block(12, "repetition_loop").message(sixth).feedback(blocked).state(SessionPhase::Running),
                block(13, "repetition_loop").message(sixth),
                halt(14, "repetition_loop", HaltReason::Stalled).message(sixth),
                still_halted(15, "repetition_loop"),
            ],
        ),
        ("dex-repetition-other-call-resets", vec![warn(10, "repetition_loop"), allow(12), allow(14), allow(16)]),
        (
            "dex-validation",
            vec![
                warn(2, "validation_failure")
                    .message("validation failure 1/3: unexpected end of JSON input")
                    .feedback("Failed to parse your response: unexpected end of JSON input. Please try again with valid JSON."),
                warn(3, "validation_failure").message("validation failure 2/3: "),
                allow(4),
                warn(5, "validation_failure").message("validation failure 1/3: "),
                warn(6, "validation_failure").message("validation failure 2/3: "),
                halt(7, "validation_failure", HaltReason::RepeatedError).message("validation failure 3/3: "),
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
                    .message("session terminated: max runtime exceeded (4h"),
            ],
        ),
        (
            "dex-gate-blocked",
            vec![
                gate(3).feedback("Your `TASK_COMPLETE` request was blocked").state(SessionPhase::Running),
                block(5, "quality_gate_blocked").message("completion blocked by build"),
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
                    .message("'docs updated' blocked the completion 3 times"),
            ],
        ),
        ("dex-consecutive-failures", vec![allow(9), warn(11, "consecutive_failures").message("5 failures in a row")]),
    ]
}

/// Agent Shepherd: phases of an issue.
fn shepherd() -> Vec<OriginalCase> {
    let visits = "Phase 'test' exceeded max_visits (5) with 5 visits";
    let sixth = || block(15, "visit_limit").message(visits).calls_a_person_with_ashep_labels();
    let cycle = |line, says| block(line, "cycle_detected").message(says).calls_a_person_with_ashep_labels();
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
                allow(16).effect("label.removed", "ashep-hitl:loop-prevention").state(SessionPhase::Running),
                warn(17, "visit_limit").state(SessionPhase::Running),
                allow(18),
                allow(19).state(SessionPhase::Running),
            ],
        ),
        (
            "shepherd-release-reset",
            vec![
                sixth(),
                allow(16).effect("label.removed", "ashep-hitl:loop-prevention").state(SessionPhase::Running),
                allow(17),
                allow(25),
                block(27, "visit_limit").message(visits).calls_a_person_with_ashep_labels(),
            ],
        ),
        (
            "shepherd-no-hitl",
            vec![
                allow(3),
                block(4, "visit_limit")
                    .message("Phase 'deploy' exceeded max_visits (2) with 2 visits")
                    .state(SessionPhase::Blocked),
            ],
        ),
        (
            "shepherd-issue-456",
            vec![
                allow(11),
                allow(12),
                block(13, "transition_limit")
                    .message("Transition test→fix exceeded max_transitions (5) with 5 occurrences")
                    .calls_a_person_with_ashep_labels(),
            ],
        ),
        ("shepherd-disabled", (2..=16).map(allow).collect()),
    ]
}

/// vuhlp: loops of a node graph.
fn vuhlp() -> Vec<OriginalCase> {
    let stalled = |line| halt(line, "stalled", HaltReason::Stalled);
    let budget = |line, reason| halt(line, reason, HaltReason::BudgetExceeded);
    vec![
        (
            "vuhlp-loop-budget",
            vec![allow(37), warn(43, "max_cycle_iterations"), budget(55, "max_cycle_iterations")],
        ),
        // Nothing is turned off here: inside a declared loop its budget takes precedence over the transition limits.
        ("vuhlp-loop-budget-defaults", vec![budget(55, "max_cycle_iterations")]),
        (
            "vuhlp-loop-budget-raised",
            vec![
                budget(19, "max_cycle_iterations"),
                allow(20).state(SessionPhase::Running),
                allow(21),
                budget(27, "max_cycle_iterations"),
            ],
        ),
        (
            "vuhlp-node-turns",
            vec![allow(12), budget(14, "node_budget").message("node 'planner' has used 6 of 6 turns")],
        ),
        ("vuhlp-turn-timeout", vec![warn(3, "turn_timeout"), allow(4), budget(5, "turn_timeout")]),
        (
            "vuhlp-same-output",
            vec![allow(5), stalled(7).message("'verifier' produced the same output 3 times")],
        ),
        ("vuhlp-same-structured-output", vec![allow(5), stalled(7)]),
        (
            "vuhlp-diff-unchanged",
            vec![allow(4), stalled(11).message("'diff' did not change in 2 observations")],
        ),
        (
            "vuhlp-failing-set-unchanged",
            vec![allow(3), stalled(4).message("'tests' reported the same 2 failures 3 times")],
        ),
        (
            "vuhlp-no-new-minimum",
            vec![allow(5), stalled(6).message("'tests' has not improved in 3 observations")],
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
                halt(4, "user_stop", HaltReason::UserStop).message("stopped by ana: wrong branch"),
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/original-systems")
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
fn compare_recorded(name: &str, decisions: &[Decision]) {
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

/// Effects that allow something or escalate: each must be listed.
fn is_significant(effect: &str) -> bool {
    effect == "loop.halted" || effect.starts_with("plan.") || effect.starts_with("label.")
}

fn check_decisions(name: &str, decisions: &[Decision], facts: &[ExpectedDecision]) {
    assert!(facts.iter().all(|fact| (1..=decisions.len()).contains(&fact.line)), "{name} is too short");
    for (at, decision) in decisions.iter().enumerate() {
        let place = format!("{name}.jsonl:{}: {}", at + 1, decision.to_json());
        let Some(fact) = facts.iter().find(|fact| fact.line == at + 1) else {
            assert!(decision.decision < Verdict::Block, "blocks what the document allows: {place}");
            assert!(!decision.effects.iter().any(|effect| is_significant(&effect.effect)), "{place}");
            continue;
        };
        assert_eq!(decision.decision, fact.verdict, "{place}");
        assert_eq!(decision.trips.is_empty(), fact.reason.is_empty(), "{place}");
        let matches =
            |trip: &&flyball::Trip| trip.reason == fact.reason && trip.message.starts_with(fact.message);
        let trip = decision.trips.iter().find(matches);
        assert!(
            fact.reason.is_empty() || trip.is_some(),
            "no trip {} {}: {place}",
            fact.reason,
            fact.message
        );
        if fact.halt_reason.is_some() {
            assert_eq!(trip.and_then(|trip| trip.halt_reason), fact.halt_reason, "{place}");
        }
        assert!(decision.feedback.as_deref().unwrap_or("").contains(fact.feedback), "{place}");
        assert_eq!(fact.state.unwrap_or(decision.state), decision.state, "{place}");
        for (wanted, text) in &fact.effects {
            let found = decision.effects.iter().any(|effect| {
                let shown = effect.fields.get("text").or_else(|| effect.fields.get("label"));
                let shown = shown.and_then(|shown| shown.as_str()).unwrap_or("");
                effect.effect == *wanted && shown.starts_with(text)
            });
            assert!(found, "no effect {wanted} {text}: {place}");
        }
        for effect in decision.effects.iter().filter(|effect| is_significant(&effect.effect)) {
            assert!(fact.effects.iter().any(|(known, _)| *known == effect.effect), "{place}");
        }
    }
}

fn run(cases: &[OriginalCase]) {
    for (name, facts) in cases {
        let decisions = replay(name);
        check_decisions(name, &decisions, facts);
        compare_recorded(name, &decisions);
    }
}

#[test]
fn soni_confirmations_retries_and_state_cycles() {
    run(&soni());
}

#[test]
fn kira_deletion_is_confirmed_once_by_the_requester() {
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
fn approval_carries_the_digest_of_the_shown_plan() {
    let name = "kira-approved-once";
    let asked = read(&format!("{name}.jsonl")).lines().nth(2).map(Event::from_json).unwrap().unwrap();
    let flyball::EventKind::ConfirmationRequested { plan, .. } = &asked.kind else { panic!("no question") };
    let decisions = replay(name);
    let approved = decisions.iter().flat_map(|decision| &decision.effects);
    let digests: Vec<_> = approved.filter(|effect| effect.effect == "plan.approved").collect();
    assert_eq!(digests.len(), 1);
    assert_eq!(digests[0].fields["digest"], flyball::confirm::plan_digest(plan));
}

#[test]
fn loop_halted_has_cycle_id_reason_evidence_and_actions() {
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
fn every_recorded_history_has_expectations() {
    let known: Vec<&str> =
        [soni(), kira(), dex(), shepherd(), vuhlp()].iter().flatten().map(|(name, _)| *name).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".jsonl").map(|name| name.strip_suffix(".decisions").unwrap_or(name));
        assert!(
            name.is_some_and(|name| known.contains(&name)),
            "fixtures/original-systems/{file} is in no table of tests/original_systems.rs"
        );
    }
}
