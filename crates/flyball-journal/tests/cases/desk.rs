//! What people see and do: rows, labels, errands, lists, pruning.

use super::engine::{change, errand};
use crate::kit::{Place, event, recorder, submit};
use flyball::{Status, Verdict};
use flyball_journal::{ErrandState, Settled, Unit, Which};

const ASK: &str = r#"{"type":"confirmation.requested","session":"telegram:916542313","id":"ask","at":1760186400000,"requester":"werserk","question":"Подтверди удаление: task-1, task-2. Это действие необратимо. Уверен?","plan":[{"tool":"task_delete","args":{"uid":"task-1"}},{"tool":"task_delete","args":{"uid":"task-2"}}]}"#;
const CHAT: &str = "telegram:916542313";

fn answer(text: &str, at: u64) -> String {
    format!(
        r#"{{"type":"confirmation.answered","session":"{CHAT}","at":{at},"by":"werserk","text":"{text}"}}"#
    )
}

pub(crate) fn an_errand_is_claimed_by_one_and_settled_once(place: &dyn Place) {
    let store = place.open();
    let mut first = change(None, "a", None);
    first.errands = (1..=5).map(|number| errand("a", number)).collect();
    store.append(&[Unit { changes: vec![first] }]).unwrap();
    let mine = store.claim(3, 600_000).unwrap();
    let yours = place.open().claim(10, 600_000).unwrap();
    assert_eq!((mine.len(), yours.len()), (3, 2));
    assert!(store.claim(10, 600_000).unwrap().is_empty(), "all are taken");
    let key = &mine.first().unwrap().key;
    store.settle(key, &Settled::Done).unwrap();
    store.settle(key, &Settled::Again { error: "late".to_owned(), after_ms: 0 }).unwrap();
    assert_eq!(store.errands(ErrandState::Done, 10).unwrap().len(), 1, "what is done stays done");
    let other = &yours.first().unwrap().key;
    store.settle(other, &Settled::Again { error: "no".to_owned(), after_ms: 0 }).unwrap();
    let again = store.claim(10, 600_000).unwrap();
    assert_eq!(again.len(), 1);
    let again = again.first().unwrap();
    assert_eq!((&again.key, again.attempts, again.error.as_deref()), (other, 1, Some("no")));
}

pub(crate) fn a_dead_errand_can_be_tried_again(place: &dyn Place) {
    let store = place.open();
    let mut first = change(None, "a", None);
    first.errands = vec![errand("a", 1)];
    store.append(&[Unit { changes: vec![first] }]).unwrap();
    let key = store.claim(1, 600_000).unwrap().pop().unwrap().key;
    assert!(!store.retry(&key).unwrap(), "it is not dead");
    store.settle(&key, &Settled::Dead { error: "gone".to_owned() }).unwrap();
    let dead = store.errands(ErrandState::Dead, 10).unwrap();
    assert_eq!(store.errand_count(ErrandState::Dead).unwrap(), dead.len() as u64);
    assert_eq!(dead.first().unwrap().error.as_deref(), Some("gone"));
    assert!(store.claim(1, 1).unwrap().is_empty());
    assert!(store.retry(&key).unwrap() && !store.retry("nobody").unwrap());
    assert_eq!(store.claim(1, 1).unwrap().len(), 1);
}

pub(crate) fn a_plan_that_waits_has_exactly_one_row(place: &dyn Place) {
    let settled = [
        ("Да", Some("plan.approved")),
        ("нет", Some("plan.rejected")),
        ("не удаляй", Some("plan.rejected")),
        ("Скинь полный список задач.", None),
    ];
    for (at, (said, effect)) in settled.into_iter().enumerate() {
        // An approved plan is not asked about again, so each answer has a chat of its own.
        let chat = format!("telegram:{at}");
        let own = |line: &str| line.replace(CHAT, &chat);
        assert_eq!(submit(place, &own(ASK)).state, Status::AwaitingConfirmation);
        let row = place.open().pending(&chat).unwrap().unwrap();
        assert_eq!(row.created_at, "2025-10-11 12:40:00");
        assert_eq!(row.expires_at.as_deref(), Some("2025-10-11 13:40:00"));
        assert_eq!(
            row.pending_plan,
            r#"[{"args":{"uid":"task-1"},"tool":"task_delete"},{"args":{"uid":"task-2"},"tool":"task_delete"}]"#
        );
        let decision = submit(place, &own(&answer(said, 1_760_186_460_000)));
        let named = |name: &str| decision.effects.iter().any(|found| found.effect == name);
        assert!(effect.is_none_or(named), "{said}: {decision:?}");
        assert_eq!(named("plan.approved"), said == "Да", "{said}");
        assert_eq!(place.open().pending(&chat).unwrap().is_some(), effect.is_none(), "{said}");
        let second = submit(place, &own(&answer("Да", 1_760_186_470_000)));
        let approved = second.effects.iter().any(|found| found.effect == "plan.approved");
        assert_eq!(approved, effect.is_none(), "{said}: a second answer");
        assert!(place.open().pending(&chat).unwrap().is_none());
    }
    submit(place, ASK);
    let late = submit(place, &answer("Да", 1_760_190_000_001));
    assert!(late.effects.iter().any(|found| found.effect == "plan.expired"), "{late:?}");
    assert!(place.open().pending(CHAT).unwrap().is_none());
}

pub(crate) fn a_row_is_replaced_by_the_next_plan(place: &dyn Place) {
    submit(place, ASK);
    let first = place.open().pending(CHAT).unwrap().unwrap();
    let other = ASK.replace("\"ask\"", "\"other\"").replace("task-2", "task-3");
    submit(place, &other);
    let second = place.open().pending(CHAT).unwrap().unwrap();
    assert_ne!(first.digest, second.digest);
    assert!(second.pending_plan.contains("task-3"));
    let yes = submit(place, &answer("Да", 1_760_186_460_000));
    let approved = yes.effects.iter().find(|effect| effect.effect == "plan.approved").unwrap();
    assert_eq!(approved.fields.get("digest").unwrap(), &second.digest);
}

/// A session that a guard has blocked, with a label that calls a person.
fn blocked(place: &dyn Place, session: &str) {
    let policy = r#"{"preset":"simple","guards":{"visits":{"limit":2}}}"#;
    submit(
        place,
        &format!(r#"{{"type":"session.started","session":"{session}","at":1000,"policy":{policy}}}"#),
    );
    let mut last = None;
    for visit in 0..6 {
        let (from, to) = if visit % 2 == 0 { ("fix", "test") } else { ("test", "fix") };
        let line = format!(
            r#"{{"type":"transition.requested","session":"{session}","at":{},"from":"{from}","to":"{to}"}}"#,
            2_000 + visit
        );
        last = Some(submit(place, &line));
    }
    assert_eq!(last.unwrap().state, Status::Blocked);
}

pub(crate) fn a_label_comes_with_a_block_and_goes_with_a_release(place: &dyn Place) {
    blocked(place, "issue-1");
    let head = place.open().load("issue-1").unwrap().unwrap().head;
    assert_eq!(head.glance.label.as_deref(), Some("flyball-hitl:loop-prevention"));
    assert!(place.open().handles("issue-1").unwrap().label);
    let released =
        r#"{"type":"human.released","session":"issue-1","at":3000,"by":"ann","why":"looked at it"}"#;
    let decision = submit(place, released);
    assert!(decision.effects.iter().any(|effect| effect.effect == "label.removed"), "{decision:?}");
    assert!(!place.open().handles("issue-1").unwrap().label);
}

pub(crate) fn pruning_never_resets_a_live_counter(place: &dyn Place) {
    let line = |at: u64, kind: &str| {
        let call = at / 2;
        match kind {
            "ask" => format!(
                r#"{{"type":"tool.requested","session":"s","id":"a{at}","at":{at},"call":"c{call}","tool":"bash","args":{{"command":"ls"}}}}"#
            ),
            _ => format!(
                r#"{{"type":"tool.finished","session":"s","id":"f{at}","at":{at},"call":"c{call}","ok":true,"output":"same"}}"#
            ),
        }
    };
    let straight = recorder(crate::kit::InMemory::new().open());
    let mut old = None;
    for at in 0..40 {
        let line = line(at, if at % 2 == 0 { "ask" } else { "end" });
        let expected = straight.submit(event(&line)).unwrap();
        assert_eq!(submit(place, &line).to_json(), expected.to_json(), "event {at}");
        if at == 4 {
            old = Some((line, expected));
        }
        if at % 5 == 0 {
            place.open().prune(u64::MAX / 4, false).unwrap();
        }
    }
    let (line, first) = old.unwrap();
    let again = submit(place, &line);
    assert!(first.decision < Verdict::Block);
    assert_eq!((again.seq, again.decision), (first.seq, Verdict::Halt), "an id outlives its event");
    assert!(place.open().verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn pruning_takes_what_has_ended(place: &dyn Place) {
    for (session, at) in [("old", 1_000), ("young", 9_000)] {
        submit(place, &format!(r#"{{"type":"session.started","session":"{session}","at":{at}}}"#));
        submit(place, &format!(r#"{{"type":"session.ended","session":"{session}","at":{}}}"#, at + 1));
    }
    submit(place, r#"{"type":"session.started","session":"lives","at":1000}"#);
    let would = place.open().prune(5_000, true).unwrap();
    assert_eq!(would.sessions, 1);
    assert!(place.open().load("old").unwrap().is_some(), "a dry run takes nothing");
    assert_eq!(place.open().prune(5_000, false).unwrap().sessions, 1);
    assert!(place.open().load("old").unwrap().is_none());
    assert!(place.open().load("young").unwrap().is_some());
    assert!(place.open().load("lives").unwrap().is_some());
    submit(place, r#"{"type":"session.started","session":"old","at":20000}"#);
    assert_eq!(place.open().load("old").unwrap().unwrap().head.seq, 1);
    assert!(place.open().verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn lists_show_who_is_blocked_waiting_and_struggling(place: &dyn Place) {
    blocked(place, "blocked");
    submit(place, ASK);
    for at in 0..8 {
        let (call, kind) = (at / 2, if at % 2 == 0 { "requested" } else { "finished" });
        let rest = if at % 2 == 0 {
            r#""tool":"bash","args":{"command":"ls"}"#
        } else {
            r#""ok":true,"output":"x""#
        };
        submit(
            place,
            &format!(r#"{{"type":"tool.{kind}","session":"hard","at":{at},"call":"c{call}",{rest}}}"#),
        );
    }
    submit(place, r#"{"type":"session.started","session":"well","at":5}"#);
    let names = |which| -> Vec<String> {
        place.open().heads(which, 10).unwrap().into_iter().map(|head| head.session).collect()
    };
    assert_eq!(names(Which::Blocked), ["blocked"]);
    assert_eq!(names(Which::Waiting), [CHAT]);
    assert_eq!(names(Which::Struggling), ["hard"]);
    assert_eq!(names(Which::All).len(), 4);
    assert_eq!(place.open().heads(Which::All, 2).unwrap().len(), 2);
    let head = place.open().load("blocked").unwrap().unwrap().head;
    assert!(head.glance.stopped_by.unwrap().starts_with("visits: "));
    assert_eq!(head.glance.blocks, 2, "{:?}", Verdict::Block);
}

pub(crate) fn a_held_session_that_ended_still_waits_for_a_release(place: &dyn Place) {
    blocked(place, "blocked");
    submit(place, r#"{"type":"user.message","session":"stopped","at":1000,"text":"begin"}"#);
    submit(
        place,
        r#"{"type":"human.stopped","session":"stopped","at":1001,"by":"bob","why":"wrong branch"}"#,
    );
    submit(place, r#"{"type":"user.message","session":"fine","at":1000,"text":"begin"}"#);
    for session in ["blocked", "stopped", "fine"] {
        let ended = format!(r#"{{"type":"session.ended","session":"{session}","at":4000}}"#);
        assert_eq!(submit(place, &ended).state, Status::Ended);
    }
    let held = || -> Vec<String> {
        let heads = place.open().heads(Which::Blocked, 10).unwrap();
        let mut names: Vec<String> = heads.into_iter().map(|head| head.session).collect();
        names.sort();
        names
    };
    assert_eq!(held(), ["blocked", "stopped"]);
    assert!(place.open().heads(Which::Blocked, 10).unwrap().iter().all(|head| Which::Blocked.takes(head)));
    assert_eq!(place.open().prune(100_000, true).unwrap().sessions, 1);
    assert_eq!(place.open().prune(100_000, false).unwrap().sessions, 1);
    assert!(place.open().load("fine").unwrap().is_none());
    assert_eq!(held(), ["blocked", "stopped"], "pruning lifts no halt");
    let release = |session: &str, guard: &str| {
        submit(
            place,
            &format!(
                r#"{{"type":"human.released","session":"{session}","at":5000,"guard":"{guard}","by":"ann","why":"looked"}}"#
            ),
        )
    };
    release("blocked", "visits");
    release("stopped", "visits");
    assert_eq!(held(), ["stopped"], "the release of a guard leaves a person's stop");
    release("stopped", "human");
    assert!(held().is_empty());
}
