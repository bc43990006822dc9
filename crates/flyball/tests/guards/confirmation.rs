//! `confirmation`: a plan runs on a clear yes by the one who was asked, in time, once; giving up means no.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, never, ok, only, quiet, silent,
    trips,
};
use flyball::{Status, Verdict};
use serde_json::{Value, json};

const ABORTED: &str = "Maximum confirmation attempts (3) exceeded. Aborting confirmation flow.";

fn alone() -> Value {
    only("confirmation", json!({}))
}

fn asked() -> History {
    History::under(alone()).clock(1_000_000).plan(&["t1", "t2"])
}

/// A plan that is asked about and given up, so many times, another plan each time.
fn given_up(history: History, times: usize) -> History {
    history.times(times, |history, at| {
        history.plan(&[["t1", "t2", "t3", "t4"][at % 4]]).times(4, |history, _| history.answer("hm"))
    })
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "three unclear answers are asked again, the fourth gives up",
            History::new().plan(&["t1"]).times(4, |history, _| history.answer("hm, what does that cost?")),
            [
                trips("confirmation", "confirmation_unclear", Warn)
                    .at(3)
                    .count(1, 3)
                    .state(Status::AwaitingConfirmation),
                trips("confirmation", "confirmation_aborted", Block)
                    .at(6)
                    .count(4, 3)
                    .events(&[2, 6])
                    .state(Status::Running)
                    .message(ABORTED),
            ],
        ),
        case(
            "the third unclear answer gives up if the policy says so",
            History::under(only("confirmation", json!({"abort_on_reaching_max": true})))
                .plan(&["t1"])
                .times(3, |history, _| history.answer("hm")),
            [trips("confirmation", "confirmation_aborted", Block).at(5).count(3, 3)],
        ),
        case(
            "a yes after an hour is too late",
            asked().later(3_600_000).answer("yes"),
            [trips("confirmation", "confirmation_expired", Block).at(3).state(Status::Running)],
        ),
        case(
            "a yes after the plan's own time is too late",
            asked().with(json!({"ttl_ms": 5_000})).later(5_000).answer("yes"),
            [trips("confirmation", "confirmation_expired", Block).at(3)],
        ),
        case(
            "somebody else says yes",
            asked().event("confirmation.answered", json!({"text": "yes", "by": "mallory"})),
            [trips("confirmation", "confirmation_refused", Block).at(3).state(Status::AwaitingConfirmation)],
        ),
        case(
            "a yes to another plan than the one that waits",
            asked().event("confirmation.answered", json!({"value": "yes", "digest": "0123"})),
            [trips("confirmation", "confirmation_refused", Block).at(3).state(Status::AwaitingConfirmation)],
        ),
        case(
            "a step of a plan that was dropped for a new request has no yes",
            asked().human("Show me the list of tasks.").ask("delete_task", json!({"id": "t1"})),
            [trips("confirmation", "confirmation_refused", Block).at(4).state(Status::Running)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case("a clear yes", asked().answer("yes"), [silent()]),
        case("a clear no", asked().answer("no"), [silent()]),
        case("cancelled", asked().answer("cancel"), [silent()]),
        case(
            "three unclear answers and then a clear one, which counts",
            asked().times(3, |history, _| history.answer("hm")).answer("yes"),
            [never("confirmation", Block)],
        ),
        case(
            "a button",
            asked().event("confirmation.answered", json!({"value": "yes", "by": "alice"})),
            [silent()],
        ),
        case("a yes just in time", asked().later(3_599_999).answer("yes"), [quiet("confirmation")]),
        case("a second yes", asked().answer("yes").answer("yes"), [silent()]),
        case("an answer to nothing", History::new().answer("yes"), [quiet("confirmation")]),
        case(
            "a clear no begins the count of unclear answers again",
            asked()
                .times(3, |history, _| history.answer("hm"))
                .answer("no")
                .plan(&["t1"])
                .times(3, |history, _| history.answer("hm")),
            [never("confirmation", Block)],
        ),
        case("a new request while a plan waits", asked().human("Show me the list of tasks."), [silent()]),
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

/// The contract's table of answers: decision, state and effects.
#[test]
fn every_answer_leads_where_the_contract_says() {
    let unclear = |n: usize| asked().times(n, |history, _| history.answer("hm"));
    let awaiting = Status::AwaitingConfirmation;
    for (name, history, verdict, state, effects) in [
        ("asked", asked(), Verdict::Allow, awaiting, vec![]),
        ("yes", asked().answer("yes"), Verdict::Allow, Status::Running, vec!["plan.approved", "say"]),
        ("no", asked().answer("no"), Verdict::Allow, Status::Running, vec!["plan.rejected", "say"]),
        ("cancel", asked().answer("cancel"), Verdict::Allow, Status::Running, vec!["plan.rejected", "say"]),
        (
            "a part of it",
            asked().answer("yes, but only t1"),
            Verdict::Allow,
            Status::Running,
            vec!["plan.rejected", "say"],
        ),
        ("unclear", unclear(3), Verdict::Warn, awaiting, vec!["say"]),
        ("unclear again", unclear(4), Verdict::Block, Status::Running, vec!["plan.aborted", "say"]),
        (
            "too late",
            asked().later(9_999_999).answer("yes"),
            Verdict::Block,
            Status::Running,
            vec!["plan.expired", "say"],
        ),
        (
            "somebody else",
            asked().event("confirmation.answered", json!({"text": "yes", "by": "mallory"})),
            Verdict::Block,
            awaiting,
            vec!["say"],
        ),
        ("a second yes", asked().answer("yes").answer("yes"), Verdict::Allow, Status::Running, vec!["say"]),
        ("another plan", asked().plan(&["t3"]), Verdict::Allow, awaiting, vec!["plan.replaced", "say"]),
        (
            "a new request",
            asked().human("Скинь полный список задач."),
            Verdict::Allow,
            Status::Running,
            vec!["plan.replaced", "say"],
        ),
        (
            "a new request after its time",
            asked().later(3_600_000).human("and now?"),
            Verdict::Allow,
            Status::Running,
            vec!["plan.expired", "say"],
        ),
        (
            "a yes after a new request",
            asked().human("and now?").answer("yes"),
            Verdict::Allow,
            Status::Running,
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
fn what_is_not_a_yes_never_approves() {
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
        let run = asked().answer(text).run();
        let effects = run.effects(3);
        assert!(!effects.contains(&"plan.approved"), "{text:?} approved the plan");
    }
    for text in ["yes", "Yes!", "да", "Да.", "sí", "ok, do it"] {
        let run = asked().answer(text).run();
        assert!(run.effects(3).contains(&"plan.approved"), "{text:?} is a yes");
    }
}

/// `user.message` asks for something new, `confirmation.answered` answers: only what is no answer drops the plan.
#[test]
fn what_a_person_says_beside_an_answer_drops_the_plan_only_if_it_is_none() {
    let awaiting = Status::AwaitingConfirmation;
    for text in ["yes", "Да", "no", "не удаляй", "cancel", "change the date", "", "  "] {
        let run = asked().human(text).run();
        assert_eq!((run.last().state, run.last().effects.len()), (awaiting, 0), "{text:?}");
        let run = asked().human(text).answer("yes").run();
        assert_eq!(run.effects(4)[0], "plan.approved", "{text:?}: the answer has its own event");
    }
    let long = format!("yes, {}", "and then the other one ".repeat(20));
    for text in ["Скинь полный список задач.", "what does it cost?", "hm", long.as_str()]
    {
        let run = asked().human(text).answer("yes").run();
        assert_eq!((run.at(3).state, run.effects(3)[0]), (Status::Running, "plan.replaced"), "{text:?}");
        assert_eq!(run.effects(4), ["say"], "{text:?}: a yes comes too late for it");
        assert_eq!(run.said(4).len(), 1);
    }
    for origin in ["agent", "schedule"] {
        let message = json!({"text": "Show me the list of tasks.", "origin": origin});
        let run = asked().event("user.message", message).run();
        assert_eq!((run.last().state, run.last().effects.len()), (awaiting, 0), "{origin}");
    }
}

#[test]
fn a_dropped_plan_is_told_in_the_language_of_its_question() {
    let dropped = |question: &str| {
        let plan = json!({"plan": [{"tool": "delete_task", "args": {}}], "question": question});
        History::under(alone()).event("confirmation.requested", plan).human("hm").run().said(3)
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
    let run = History::under(only("confirmation", texts)).plan(&["t1"]).human("hm").run();
    assert_eq!(run.said(3), ["Gone."], "the operator's own words");
}

/// A question between (a digression) burns no attempt if the policy lets the plan wait; time still ends it.
#[test]
fn the_policy_may_let_a_plan_wait_while_the_person_speaks_of_something_else() {
    let keeps = || {
        let policy = only("confirmation", json!({"on_new_request": "keep"}));
        History::under(policy).clock(1_000_000).plan(&["t1"])
    };
    let talk = keeps().times(9, |history, _| history.human("what does it cost?"));
    let run = talk.answer("yes").run();
    assert_eq!(run.said(11), ["I am still waiting for your answer. (yes/no) Delete t1?"]);
    assert!(run.effects(12).contains(&"plan.approved"), "{}", run.last().to_json());
    let run = keeps().later(3_600_000).human("what does it cost?").answer("yes").run();
    assert_eq!(run.effects(3), ["plan.expired", "say"]);
    assert_eq!(run.said(4), ["Nothing is waiting for your approval, so nothing was done."]);
}

#[test]
fn plans_given_up_three_times_call_a_person_and_a_clear_answer_starts_afresh() {
    let run = given_up(History::under(alone()), 3).run();
    assert_eq!((run.at(6).state, run.at(11).state), (Status::Running, Status::Running));
    assert_eq!(run.last().state, Status::Blocked, "{}", run.last().to_json());
    assert_eq!(run.effects(16), ["plan.aborted", "say", "label.added"]);
    let calm = given_up(given_up(History::under(alone()), 2).plan(&["t9"]).answer("no"), 2).run();
    assert_eq!(calm.last().state, Status::Running, "a clear answer between");
    let once = given_up(History::under(only("confirmation", json!({"aborts": 1}))), 1).run();
    assert_eq!(once.last().state, Status::Blocked);
    let never = given_up(History::under(only("confirmation", json!({"aborts": "off"}))), 9).run();
    assert_eq!(never.last().state, Status::Running);
}

/// What needs a yes runs on a yes alone.
#[test]
fn a_release_lets_no_step_of_a_plan_through() {
    for mode in ["grant", "reset", "keep"] {
        let stopped = given_up(History::under(alone()), 3).release("confirmation", mode);
        let run = stopped.ask("delete_task", json!({"id": "t3"})).run();
        assert_eq!(run.at(17).state, Status::Running, "{mode}: the stop is lifted");
        assert_eq!(run.last().decision, Verdict::Block, "{mode}: {}", run.last().to_json());
        let waiting = asked().release("confirmation", mode).ask("delete_task", json!({"id": "t1"})).run();
        assert_eq!(waiting.last().decision, Verdict::Block, "{mode}");
    }
    let run = given_up(given_up(History::under(alone()), 3).release("confirmation", "grant"), 2).run();
    assert_eq!(run.last().state, Status::Running, "after a release the aborts are counted afresh");
}

/// Every state of a plan, by a history that leads there.
#[test]
fn a_plan_goes_through_every_state_that_the_table_names() {
    use flyball::confirm::{Phase, TABLE};
    let delete = |history: History, id: &str| history.ask("delete_task", json!({"id": id}));
    let approved = || asked().answer("yes");
    let cases = [
        (Phase::Idle, History::under(alone())),
        (Phase::Awaiting, asked()),
        (Phase::Awaiting, asked().answer("hm")),
        (Phase::Approved, approved()),
        (Phase::Executing, delete(approved(), "t1")),
        (Phase::Executing, delete(approved(), "t1").finish(ok("gone"))),
        (Phase::Done, delete(delete(approved(), "t1").finish(ok("gone")), "t2").finish(ok("gone"))),
        (Phase::Rejected, asked().answer("no")),
        (Phase::Rejected, asked().human("something else")),
        (Phase::Expired, asked().later(3_600_000).answer("yes")),
        (Phase::Aborted, asked().times(4, |history, _| history.answer("hm"))),
    ];
    for (phase, history) in &cases {
        let run = history.run();
        let session = run.sessions.get("s1").unwrap();
        assert_eq!(session.state().report(session.policy()).confirmation, *phase);
    }
    for (from, _, to) in TABLE {
        for phase in [from, to] {
            assert!(cases.iter().any(|(known, _)| *known == phase), "{phase:?} is reached by no history");
        }
    }
}

#[test]
fn the_words_are_the_seeds() {
    let run = asked().times(4, |history, _| history.answer("hm")).run();
    assert_eq!(
        run.said(3),
        ["I didn't understand. Is this information correct? (yes/no) Delete t1, t2?"],
        "what is being confirmed is said again"
    );
    assert_eq!(
        run.said(6),
        ["I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"]
    );
    assert_eq!(asked().answer("yes").run().said(3), ["Great! Processing your request..."]);
    let plan = json!({"plan": [{"tool": "book_flight", "args": {}}], "question": "Book it?"});
    let change = History::new().event("confirmation.requested", plan).answer("no").run();
    assert_eq!(change.said(3), ["What would you like to change?"]);
    let russian = json!({"plan": [{"tool": "delete_task", "args": {}}], "targets": ["Варя", "Аня"]});
    let policy = json!({"guards": {"confirmation": {"language": "ru"}}});
    let run = History::under(policy).event("confirmation.requested", russian).run();
    assert_eq!(run.said(2), ["Подтверди удаление: Варя, Аня. Это действие необратимо. Уверен?"]);
}

#[test]
fn an_approved_plan_is_not_asked_about_again_until_it_has_run() {
    let steps = |history: History| {
        history.call("delete_task", json!({"id": "t1"}), ok("gone")).call(
            "delete_task",
            json!({"id": "t2"}),
            ok("gone"),
        )
    };
    let again = asked().answer("yes").plan(&["t1", "t2"]).run();
    assert_eq!((again.last().state, again.last().effects.len()), (Status::Running, 0));
    let done = steps(asked().answer("yes")).plan(&["t1", "t2"]).run();
    assert_eq!(done.last().state, Status::AwaitingConfirmation, "an approval is used once");
    let other = asked().answer("yes").plan(&["t1", "t9"]).run();
    assert_eq!(other.last().state, Status::AwaitingConfirmation, "another plan needs another yes");
    let no = asked().answer("no").plan(&["t1", "t2"]).run();
    assert_eq!(no.last().state, Status::AwaitingConfirmation);
}

#[test]
fn the_approval_names_the_plan_and_nothing_else() {
    let digest = |history: History| {
        let run = history.answer("yes").run();
        run.at(3).effects[0].fields["digest"].clone()
    };
    let plan = |ids: &[&str]| History::new().plan(ids);
    assert_eq!(digest(plan(&["t1", "t2"])), digest(plan(&["t1", "t2"])));
    assert_ne!(digest(plan(&["t1", "t2"])), digest(plan(&["t2", "t1"])));
    assert_ne!(digest(plan(&["t1"])), digest(plan(&["t2"])));
}

#[test]
fn a_pending_question_survives_a_restart() {
    let run = asked().run();
    let session = run.sessions.get("s1").unwrap();
    let stored = session.state().encode().unwrap();
    let source = flyball::PolicySource::preset(flyball::Preset::Agent);
    let state = flyball::State::decode(&stored).unwrap();
    let mut again = flyball::Session::resume(&source, state).unwrap();
    let yes = r#"{"type":"confirmation.answered","session":"s1","text":"Да","by":"alice"}"#;
    let decision = again.step(&flyball::Event::from_json(yes).unwrap()).unwrap();
    assert_eq!(decision.effects[0].effect, "plan.approved");
}

/// Giving up means no, and a late yes is no yes, in every mode that looks at confirmations at all.
#[test]
fn confirmation_obeys_its_mode_as_far_as_it_is_safe() {
    let unclear = |mode: &str| {
        let policy = only("confirmation", json!({"mode": mode}));
        History::under(policy).plan(&["t1"]).times(4, |history, _| history.answer("hm"))
    };
    for (mode, severity) in
        [("observe", flyball::Severity::Observe), ("warn", Warn), ("block", Block), ("staged", Block)]
    {
        let run =
            check(mode, &unclear(mode), &[trips("confirmation", "confirmation_aborted", severity).at(6)]);
        // Whatever the mode: the plan is gone, because giving up means no.
        assert!(run.effects(6).contains(&"plan.aborted"));
    }
    check("halt", &unclear("halt"), &[trips("confirmation", "confirmation_aborted", Halt).at(6)]);
    check("off", &unclear("off"), &[quiet("confirmation")]);
    assert_eq!(unclear("off").run().last().state, Status::Running);
}

#[test]
fn a_node_may_ask_once_only() {
    let policy = json!({"preset": "off", "guards": {"confirmation": "staged"}, "nodes": {"cashier": {"confirmation": {"unclear": 1}}}});
    let history = History::under(policy).by("cashier").plan(&["t1"]).answer("hm").answer("hm");
    check("the cashier", &history, &[trips("confirmation", "confirmation_aborted", Block).at(4).count(2, 1)]);
}

#[test]
fn fixtures_of_confirmation() {
    keep_fixtures("confirmation", &must_trip()[0], &must_not_trip()[0]);
}
