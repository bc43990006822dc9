//! `confirmation`: a plan runs only after a clear approval by the requester, in time, and once; an abort is a
//! rejection.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, never, ok,
    only_guard, quiet, silent, trips,
};
use flyball::{SessionPhase, Verdict};
use serde_json::{Value, json};

const ABORTED: &str = "Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.";

fn confirmation_only() -> Value {
    only_guard("confirmation", json!({}))
}

fn pending_plan() -> EventHistory {
    EventHistory::with_policy(confirmation_only()).at_time(1_000_000).request_confirmation(&["t1", "t2"])
}

/// A plan that is asked about and aborted a number of times, with a different plan each time.
fn abort_plans(history: EventHistory, times: usize) -> EventHistory {
    history.times(times, |history, at| {
        history
            .request_confirmation(&[["t1", "t2", "t3", "t4"][at % 4]])
            .times(4, |history, _| history.answer("hm"))
    })
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "three unclear answers are asked again, the fourth aborts",
            EventHistory::new()
                .request_confirmation(&["t1"])
                .times(4, |history, _| history.answer("hm, what does that cost?")),
            [
                trips("confirmation", "confirmation_unclear", Warn)
                    .at(3)
                    .count(1, 3)
                    .state(SessionPhase::AwaitingConfirmation),
                trips("confirmation", "confirmation_aborted", Block)
                    .at(6)
                    .count(4, 3)
                    .events(&[2, 6])
                    .state(SessionPhase::Running)
                    .message(ABORTED),
            ],
        ),
        case(
            "the third unclear answer aborts if the policy says so",
            EventHistory::with_policy(only_guard("confirmation", json!({"abort_on_reaching_max": true})))
                .request_confirmation(&["t1"])
                .times(3, |history, _| history.answer("hm")),
            [trips("confirmation", "confirmation_aborted", Block).at(5).count(3, 3)],
        ),
        case(
            "an approval after an hour is too late",
            pending_plan().after_ms(3_600_000).answer("yes"),
            [trips("confirmation", "confirmation_expired", Block).at(3).state(SessionPhase::Running)],
        ),
        case(
            "an approval after the plan's own expiry time is too late",
            pending_plan().with_fields(json!({"ttl_ms": 5_000})).after_ms(5_000).answer("yes"),
            [trips("confirmation", "confirmation_expired", Block).at(3)],
        ),
        case(
            "someone else approves",
            pending_plan().event("confirmation.answered", json!({"text": "yes", "by": "mallory"})),
            [trips("confirmation", "confirmation_refused", Block)
                .at(3)
                .state(SessionPhase::AwaitingConfirmation)],
        ),
        case(
            "an approval of a different plan than the pending one",
            pending_plan().event("confirmation.answered", json!({"value": "yes", "digest": "0123"})),
            [trips("confirmation", "confirmation_refused", Block)
                .at(3)
                .state(SessionPhase::AwaitingConfirmation)],
        ),
        case(
            "a step of a plan that was dropped for a new request has no approval",
            pending_plan()
                .user_message("Show me the list of tasks.")
                .request("delete_task", json!({"id": "t1"})),
            [trips("confirmation", "confirmation_refused", Block).at(4).state(SessionPhase::Running)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case("a clear approval", pending_plan().answer("yes"), [silent()]),
        case("a clear rejection", pending_plan().answer("no"), [silent()]),
        case("cancelled", pending_plan().answer("cancel"), [silent()]),
        case(
            "three unclear answers and then a clear one, which counts",
            pending_plan().times(3, |history, _| history.answer("hm")).answer("yes"),
            [never("confirmation", Block)],
        ),
        case(
            "a button",
            pending_plan().event("confirmation.answered", json!({"value": "yes", "by": "alice"})),
            [silent()],
        ),
        case(
            "an approval just in time",
            pending_plan().after_ms(3_599_999).answer("yes"),
            [quiet("confirmation")],
        ),
        case("a repeated approval", pending_plan().answer("yes").answer("yes"), [silent()]),
        case("an answer without a question", EventHistory::new().answer("yes"), [quiet("confirmation")]),
        case(
            "a clear rejection resets the count of unclear answers",
            pending_plan()
                .times(3, |history, _| history.answer("hm"))
                .answer("no")
                .request_confirmation(&["t1"])
                .times(3, |history, _| history.answer("hm")),
            [never("confirmation", Block)],
        ),
        case(
            "a new request while a plan is pending",
            pending_plan().user_message("Show me the list of tasks."),
            [silent()],
        ),
    ]
}

#[test]
fn confirmation_trips() {
    check_all(&must_trip());
}

#[test]
fn confirmation_does_not_trip() {
    check_all(&must_not_trip());
}

/// The table of answers: decision, state and effects.
#[test]
fn every_answer_gives_the_documented_decision_and_effects() {
    let unclear = |n: usize| pending_plan().times(n, |history, _| history.answer("hm"));
    let awaiting = SessionPhase::AwaitingConfirmation;
    for (name, history, verdict, state, effects) in [
        ("asked", pending_plan(), Verdict::Allow, awaiting, vec![]),
        (
            "yes",
            pending_plan().answer("yes"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.approved", "say"],
        ),
        (
            "no",
            pending_plan().answer("no"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.rejected", "say"],
        ),
        (
            "cancel",
            pending_plan().answer("cancel"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.rejected", "say"],
        ),
        (
            "a part of it",
            pending_plan().answer("yes, but only t1"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.rejected", "say"],
        ),
        ("unclear", unclear(3), Verdict::Warn, awaiting, vec!["say"]),
        ("unclear again", unclear(4), Verdict::Block, SessionPhase::Running, vec!["plan.aborted", "say"]),
        (
            "too late",
            pending_plan().after_ms(9_999_999).answer("yes"),
            Verdict::Block,
            SessionPhase::Running,
            vec!["plan.expired", "say"],
        ),
        (
            "someone else",
            pending_plan().event("confirmation.answered", json!({"text": "yes", "by": "mallory"})),
            Verdict::Block,
            awaiting,
            vec!["say"],
        ),
        (
            "a repeated approval",
            pending_plan().answer("yes").answer("yes"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["say"],
        ),
        (
            "another plan",
            pending_plan().request_confirmation(&["t3"]),
            Verdict::Allow,
            awaiting,
            vec!["plan.replaced", "say"],
        ),
        (
            "a new request",
            pending_plan().user_message("Скинь полный список задач."),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.replaced", "say"],
        ),
        (
            "a new request after its time",
            pending_plan().after_ms(3_600_000).user_message("and now?"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["plan.expired", "say"],
        ),
        (
            "an approval after a new request",
            pending_plan().user_message("and now?").answer("yes"),
            Verdict::Allow,
            SessionPhase::Running,
            vec!["say"],
        ),
    ] {
        let run = history.run();
        let decision = run.last();
        let seen = run.effects(run.decisions.len());
        assert_eq!((decision.decision, decision.state, seen), (verdict, state, effects), "{name}");
    }
}

#[test]
fn only_a_clear_yes_approves() {
    for text in [
        "Скинь полный список задач.",
        "не удаляй",
        "Никогда",
        "Когда это было?",
        "token expired?",
        "don't delete",
        "I know",
        "yes?",
        "yes, but only t1",
        "",
    ] {
        let run = pending_plan().answer(text).run();
        let effects = run.effects(3);
        assert!(!effects.contains(&"plan.approved"), "{text:?} approved the plan");
    }
    for text in ["yes", "Yes!", "да", "Да.", "sí", "ok, do it"] {
        let run = pending_plan().answer(text).run();
        assert!(run.effects(3).contains(&"plan.approved"), "{text:?} must approve");
    }
}

/// `user.message` requests something new, `confirmation.answered` answers: only a message that is not an answer drops
/// the plan.
#[test]
fn user_message_drops_the_plan_only_if_it_is_not_an_answer() {
    let awaiting = SessionPhase::AwaitingConfirmation;
    for text in ["yes", "Да", "no", "не удаляй", "cancel", "change the date", "", "  "] {
        let run = pending_plan().user_message(text).run();
        assert_eq!((run.last().state, run.last().effects.len()), (awaiting, 0), "{text:?}");
        let run = pending_plan().user_message(text).answer("yes").run();
        assert_eq!(run.effects(4)[0], "plan.approved", "{text:?}: answers have a separate event");
    }
    let long = format!("yes, {}", "and then the other one ".repeat(20));
    for text in ["Скинь полный список задач.", "what does it cost?", "hm", long.as_str()]
    {
        let run = pending_plan().user_message(text).answer("yes").run();
        assert_eq!(
            (run.at(3).state, run.effects(3)[0]),
            (SessionPhase::Running, "plan.replaced"),
            "{text:?}"
        );
        assert_eq!(run.effects(4), ["say"], "{text:?}: it is too late to approve");
        assert_eq!(run.messages(4).len(), 1);
    }
    for origin in ["agent", "schedule"] {
        let message = json!({"text": "Show me the list of tasks.", "origin": origin});
        let run = pending_plan().event("user.message", message).run();
        assert_eq!((run.last().state, run.last().effects.len()), (awaiting, 0), "{origin}");
    }
}

#[test]
fn dropped_plan_message_uses_the_question_language() {
    let dropped = |question: &str| {
        let plan = json!({"plan": [{"tool": "delete_task", "args": {}}], "question": question});
        EventHistory::with_policy(confirmation_only())
            .event("confirmation.requested", plan)
            .user_message("hm")
            .run()
            .messages(3)
    };
    for (question, said) in [
        (
            "Delete the task?",
            "I dropped the earlier question because you asked for something else. Nothing of it was done.",
        ),
        (
            "Удалить задачу?",
            "Прежний вопрос снят, потому что пришёл новый запрос. По нему ничего не сделано.",
        ),
        (
            "¿Quieres borrar la tarea?",
            "La pregunta anterior se descartó porque pediste otra cosa. No se ha hecho nada de ella.",
        ),
    ] {
        assert_eq!(dropped(question), [said]);
    }
    let texts = json!({"texts": {"confirm.dropped": "Gone."}});
    let run = EventHistory::with_policy(only_guard("confirmation", texts))
        .request_confirmation(&["t1"])
        .user_message("hm")
        .run();
    assert_eq!(run.messages(3), ["Gone."], "the operator's own words");
}

/// A digression uses no attempt if the policy keeps the plan pending; the plan still expires.
#[test]
fn on_new_request_keep_leaves_the_plan_pending() {
    let keeps = || {
        let policy = only_guard("confirmation", json!({"on_new_request": "keep"}));
        EventHistory::with_policy(policy).at_time(1_000_000).request_confirmation(&["t1"])
    };
    let talk = keeps().times(9, |history, _| history.user_message("what does it cost?"));
    let run = talk.answer("yes").run();
    assert_eq!(run.messages(11), ["I am still waiting for your answer. (yes/no) Delete t1?"]);
    assert!(run.effects(12).contains(&"plan.approved"), "{}", run.last().to_json());
    let run = keeps().after_ms(3_600_000).user_message("what does it cost?").answer("yes").run();
    assert_eq!(run.effects(3), ["plan.expired", "say"]);
    assert_eq!(run.messages(4), ["Nothing is waiting for your approval, so nothing was done."]);
}

#[test]
fn third_aborted_plan_escalates_and_a_clear_answer_resets_the_count() {
    let run = abort_plans(EventHistory::with_policy(confirmation_only()), 3).run();
    assert_eq!((run.at(6).state, run.at(11).state), (SessionPhase::Running, SessionPhase::Running));
    assert_eq!(run.last().state, SessionPhase::Blocked, "{}", run.last().to_json());
    assert_eq!(run.effects(16), ["plan.aborted", "say", "label.added"]);
    let calm = abort_plans(
        abort_plans(EventHistory::with_policy(confirmation_only()), 2)
            .request_confirmation(&["t9"])
            .answer("no"),
        2,
    )
    .run();
    assert_eq!(calm.last().state, SessionPhase::Running, "a clear answer in between");
    let once =
        abort_plans(EventHistory::with_policy(only_guard("confirmation", json!({"aborts": 1}))), 1).run();
    assert_eq!(once.last().state, SessionPhase::Blocked);
    let never =
        abort_plans(EventHistory::with_policy(only_guard("confirmation", json!({"aborts": "off"}))), 9).run();
    assert_eq!(never.last().state, SessionPhase::Running);
}

/// Plans that need approval run only when approved.
#[test]
fn release_does_not_approve_plan_steps() {
    for mode in ["grant", "reset", "keep"] {
        let stopped =
            abort_plans(EventHistory::with_policy(confirmation_only()), 3).release("confirmation", mode);
        let run = stopped.request("delete_task", json!({"id": "t3"})).run();
        assert_eq!(run.at(17).state, SessionPhase::Running, "{mode}: the stop is lifted");
        assert_eq!(run.last().decision, Verdict::Block, "{mode}: {}", run.last().to_json());
        let waiting =
            pending_plan().release("confirmation", mode).request("delete_task", json!({"id": "t1"})).run();
        assert_eq!(waiting.last().decision, Verdict::Block, "{mode}");
    }
    let run = abort_plans(
        abort_plans(EventHistory::with_policy(confirmation_only()), 3).release("confirmation", "grant"),
        2,
    )
    .run();
    assert_eq!(run.last().state, SessionPhase::Running, "after a release the aborts are counted from zero");
}

/// Every plan phase, by a history that leads to it.
#[test]
fn every_plan_phase_is_reachable() {
    use flyball::confirm::{PLAN_TRANSITIONS, PlanPhase};
    let delete = |history: EventHistory, id: &str| history.request("delete_task", json!({"id": id}));
    let approved = || pending_plan().answer("yes");
    let cases = [
        (PlanPhase::Idle, EventHistory::with_policy(confirmation_only())),
        (PlanPhase::Awaiting, pending_plan()),
        (PlanPhase::Awaiting, pending_plan().answer("hm")),
        (PlanPhase::Approved, approved()),
        (PlanPhase::Executing, delete(approved(), "t1")),
        (PlanPhase::Executing, delete(approved(), "t1").finish(ok("gone"))),
        (PlanPhase::Done, delete(delete(approved(), "t1").finish(ok("gone")), "t2").finish(ok("gone"))),
        (PlanPhase::Rejected, pending_plan().answer("no")),
        (PlanPhase::Rejected, pending_plan().user_message("something else")),
        (PlanPhase::Expired, pending_plan().after_ms(3_600_000).answer("yes")),
        (PlanPhase::Aborted, pending_plan().times(4, |history, _| history.answer("hm"))),
    ];
    for (phase, history) in &cases {
        let run = history.run();
        let session = run.sessions.get("s1").unwrap();
        assert_eq!(session.state().report(session.policy()).confirmation, *phase);
    }
    for (from, _, to) in PLAN_TRANSITIONS {
        for phase in [from, to] {
            assert!(cases.iter().any(|(known, _)| *known == phase), "{phase:?} is reached by no history");
        }
    }
}

#[test]
fn messages_match_the_original_system() {
    let run = pending_plan().times(4, |history, _| history.answer("hm")).run();
    assert_eq!(
        run.messages(3),
        ["I didn't understand. Is this information correct? (yes/no) Delete t1, t2?"],
        "the question is repeated"
    );
    assert_eq!(
        run.messages(6),
        ["I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"]
    );
    assert_eq!(pending_plan().answer("yes").run().messages(3), ["Great! Processing your request..."]);
    let plan = json!({"plan": [{"tool": "book_flight", "args": {}}], "question": "Book it?"});
    let change = EventHistory::new().event("confirmation.requested", plan).answer("no").run();
    assert_eq!(change.messages(3), ["What would you like to change?"]);
    let russian = json!({"plan": [{"tool": "delete_task", "args": {}}], "targets": ["Варя", "Аня"]});
    let policy = json!({"guards": {"confirmation": {"language": "ru"}}});
    let run = EventHistory::with_policy(policy).event("confirmation.requested", russian).run();
    assert_eq!(run.messages(2), ["Подтверди удаление: Варя, Аня. Это действие необратимо. Уверен?"]);
}

#[test]
fn approved_plan_is_not_asked_again_until_it_ran() {
    let steps = |history: EventHistory| {
        history.call("delete_task", json!({"id": "t1"}), ok("gone")).call(
            "delete_task",
            json!({"id": "t2"}),
            ok("gone"),
        )
    };
    let again = pending_plan().answer("yes").request_confirmation(&["t1", "t2"]).run();
    assert_eq!((again.last().state, again.last().effects.len()), (SessionPhase::Running, 0));
    let done = steps(pending_plan().answer("yes")).request_confirmation(&["t1", "t2"]).run();
    assert_eq!(done.last().state, SessionPhase::AwaitingConfirmation, "an approval is used once");
    let other = pending_plan().answer("yes").request_confirmation(&["t1", "t9"]).run();
    assert_eq!(other.last().state, SessionPhase::AwaitingConfirmation, "another plan needs another approval");
    let no = pending_plan().answer("no").request_confirmation(&["t1", "t2"]).run();
    assert_eq!(no.last().state, SessionPhase::AwaitingConfirmation);
}

#[test]
fn approval_digest_identifies_exactly_one_plan() {
    let digest = |history: EventHistory| {
        let run = history.answer("yes").run();
        run.at(3).effects[0].fields["digest"].clone()
    };
    let plan = |ids: &[&str]| EventHistory::new().request_confirmation(ids);
    assert_eq!(digest(plan(&["t1", "t2"])), digest(plan(&["t1", "t2"])));
    assert_ne!(digest(plan(&["t1", "t2"])), digest(plan(&["t2", "t1"])));
    assert_ne!(digest(plan(&["t1"])), digest(plan(&["t2"])));
}

#[test]
fn pending_plan_survives_a_restart() {
    let run = pending_plan().run();
    let session = run.sessions.get("s1").unwrap();
    let stored = session.state().encode().unwrap();
    let source = flyball::PolicySource::preset(flyball::Preset::Agent);
    let state = flyball::SessionState::decode(&stored).unwrap();
    let mut again = flyball::Session::resume(&source, state).unwrap();
    let yes = r#"{"type":"confirmation.answered","session":"s1","text":"Да","by":"alice"}"#;
    let decision = again.step(&flyball::Event::from_json(yes).unwrap()).unwrap();
    assert_eq!(decision.effects[0].effect, "plan.approved");
}

/// An abort is a rejection, and a late approval is none, in every mode except `off`.
#[test]
fn confirmation_obeys_its_mode_but_an_abort_never_approves() {
    let unclear = |mode: &str| {
        let policy = only_guard("confirmation", json!({"mode": mode}));
        EventHistory::with_policy(policy)
            .request_confirmation(&["t1"])
            .times(4, |history, _| history.answer("hm"))
    };
    for (mode, severity) in
        [("observe", flyball::TripSeverity::Observe), ("warn", Warn), ("block", Block), ("staged", Block)]
    {
        let run =
            check(mode, &unclear(mode), &[trips("confirmation", "confirmation_aborted", severity).at(6)]);
        // In every mode the plan is dropped, because an abort is a rejection.
        assert!(run.effects(6).contains(&"plan.aborted"));
    }
    check("halt", &unclear("halt"), &[trips("confirmation", "confirmation_aborted", Halt).at(6)]);
    check("off", &unclear("off"), &[quiet("confirmation")]);
    assert_eq!(unclear("off").run().last().state, SessionPhase::Running);
}

#[test]
fn unclear_limit_is_configurable_per_node() {
    let policy = json!({"preset": "off", "guards": {"confirmation": "staged"}, "nodes": {"cashier": {"confirmation": {"unclear": 1}}}});
    let history = EventHistory::with_policy(policy)
        .for_node("cashier")
        .request_confirmation(&["t1"])
        .answer("hm")
        .answer("hm");
    check("the cashier", &history, &[trips("confirmation", "confirmation_aborted", Block).at(4).count(2, 1)]);
}

#[test]
fn confirmation_fixtures_are_current() {
    check_fixtures("confirmation", &must_trip()[0], &must_not_trip()[0]);
}
