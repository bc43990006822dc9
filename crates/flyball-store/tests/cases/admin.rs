//! Operator cases: confirmation rows, labels, outbox, lists, pruning.

use super::engine::{outbox_message, session_change};
use crate::common::{TestStore, event, recorder, submit};
use flyball::{SessionPhase, Verdict};
use flyball_store::{AppendUnit, DeliveryOutcome, OutboxState, SessionFilter};

const CONFIRMATION_REQUEST: &str = r#"{"type":"confirmation.requested","session":"telegram:916542313","id":"ask","at":1760186400000,"requester":"werserk","question":"Подтверди удаление: task-1, task-2. Это действие необратимо. Уверен?","plan":[{"tool":"task_delete","args":{"uid":"task-1"}},{"tool":"task_delete","args":{"uid":"task-2"}}]}"#;
const CHAT_SESSION: &str = "telegram:916542313";

fn answer_line(text: &str, at: u64) -> String {
    format!(
        r#"{{"type":"confirmation.answered","session":"{CHAT_SESSION}","at":{at},"by":"werserk","text":"{text}"}}"#
    )
}

pub(crate) fn outbox_message_is_claimed_by_one_and_delivered_once(test_store: &dyn TestStore) {
    let store = test_store.open();
    let mut first = session_change(None, "a", None);
    first.outbox_messages = (1..=5).map(|number| outbox_message("a", number)).collect();
    store.append(&[AppendUnit { changes: vec![first] }]).unwrap();
    let mine = store.claim_outbox(3, 600_000).unwrap();
    let yours = test_store.open().claim_outbox(10, 600_000).unwrap();
    assert_eq!((mine.len(), yours.len()), (3, 2));
    assert!(store.claim_outbox(10, 600_000).unwrap().is_empty(), "all are claimed");
    let key = &mine.first().unwrap().key;
    store.record_delivery(key, &DeliveryOutcome::Delivered).unwrap();
    store.record_delivery(key, &DeliveryOutcome::Retry { error: "late".to_owned(), after_ms: 0 }).unwrap();
    assert_eq!(store.outbox_messages(OutboxState::Done, 10).unwrap().len(), 1, "what is done stays done");
    let other = &yours.first().unwrap().key;
    store.record_delivery(other, &DeliveryOutcome::Retry { error: "no".to_owned(), after_ms: 0 }).unwrap();
    let again = store.claim_outbox(10, 600_000).unwrap();
    assert_eq!(again.len(), 1);
    let again = again.first().unwrap();
    assert_eq!((&again.key, again.attempts, again.error.as_deref()), (other, 1, Some("no")));
}

pub(crate) fn dead_outbox_message_can_be_retried(test_store: &dyn TestStore) {
    let store = test_store.open();
    let mut first = session_change(None, "a", None);
    first.outbox_messages = vec![outbox_message("a", 1)];
    store.append(&[AppendUnit { changes: vec![first] }]).unwrap();
    let key = store.claim_outbox(1, 600_000).unwrap().pop().unwrap().key;
    assert!(!store.retry_outbox(&key).unwrap(), "it is not dead");
    store.record_delivery(&key, &DeliveryOutcome::Dead { error: "gone".to_owned() }).unwrap();
    let dead = store.outbox_messages(OutboxState::Dead, 10).unwrap();
    assert_eq!(store.outbox_count(OutboxState::Dead).unwrap(), dead.len() as u64);
    assert_eq!(dead.first().unwrap().error.as_deref(), Some("gone"));
    assert!(store.claim_outbox(1, 1).unwrap().is_empty());
    assert!(store.retry_outbox(&key).unwrap() && !store.retry_outbox("nobody").unwrap());
    assert_eq!(store.claim_outbox(1, 1).unwrap().len(), 1);
}

pub(crate) fn pending_plan_has_exactly_one_confirmation_row(test_store: &dyn TestStore) {
    let settled = [
        ("Да", Some("plan.approved")),
        ("нет", Some("plan.rejected")),
        ("не удаляй", Some("plan.rejected")),
        ("Скинь полный список задач.", None),
    ];
    for (at, (said, effect)) in settled.into_iter().enumerate() {
        // An approved plan is not asked about again, so each answer needs a new chat.
        let chat = format!("telegram:{at}");
        let own = |line: &str| line.replace(CHAT_SESSION, &chat);
        assert_eq!(submit(test_store, &own(CONFIRMATION_REQUEST)).state, SessionPhase::AwaitingConfirmation);
        let row = test_store.open().pending(&chat).unwrap().unwrap();
        assert_eq!(row.created_at, "2025-10-11 12:40:00");
        assert_eq!(row.expires_at.as_deref(), Some("2025-10-11 13:40:00"));
        assert_eq!(
            row.pending_plan,
            r#"[{"args":{"uid":"task-1"},"tool":"task_delete"},{"args":{"uid":"task-2"},"tool":"task_delete"}]"#
        );
        let decision = submit(test_store, &own(&answer_line(said, 1_760_186_460_000)));
        let named = |name: &str| decision.effects.iter().any(|found| found.effect == name);
        assert!(effect.is_none_or(named), "{said}: {decision:?}");
        assert_eq!(named("plan.approved"), said == "Да", "{said}");
        assert_eq!(test_store.open().pending(&chat).unwrap().is_some(), effect.is_none(), "{said}");
        let second = submit(test_store, &own(&answer_line("Да", 1_760_186_470_000)));
        let approved = second.effects.iter().any(|found| found.effect == "plan.approved");
        assert_eq!(approved, effect.is_none(), "{said}: a second answer");
        assert!(test_store.open().pending(&chat).unwrap().is_none());
    }
    submit(test_store, CONFIRMATION_REQUEST);
    let late = submit(test_store, &answer_line("Да", 1_760_190_000_001));
    assert!(late.effects.iter().any(|found| found.effect == "plan.expired"), "{late:?}");
    assert!(test_store.open().pending(CHAT_SESSION).unwrap().is_none());
}

pub(crate) fn confirmation_row_is_replaced_by_the_next_plan(test_store: &dyn TestStore) {
    submit(test_store, CONFIRMATION_REQUEST);
    let first = test_store.open().pending(CHAT_SESSION).unwrap().unwrap();
    let other = CONFIRMATION_REQUEST.replace("\"ask\"", "\"other\"").replace("task-2", "task-3");
    submit(test_store, &other);
    let second = test_store.open().pending(CHAT_SESSION).unwrap().unwrap();
    assert_ne!(first.digest, second.digest);
    assert!(second.pending_plan.contains("task-3"));
    let yes = submit(test_store, &answer_line("Да", 1_760_186_460_000));
    let approved = yes.effects.iter().find(|effect| effect.effect == "plan.approved").unwrap();
    assert_eq!(approved.fields.get("digest").unwrap(), &second.digest);
}

/// Submits a session that a guard blocks, with a label that requests attention.
fn submit_blocked_session(test_store: &dyn TestStore, session: &str) {
    let policy = r#"{"preset":"simple","guards":{"visits":{"limit":2}}}"#;
    submit(
        test_store,
        &format!(r#"{{"type":"session.started","session":"{session}","at":1000,"policy":{policy}}}"#),
    );
    let mut last = None;
    for visit in 0..6 {
        let (from, to) = if visit % 2 == 0 { ("fix", "test") } else { ("test", "fix") };
        let line = format!(
            r#"{{"type":"transition.requested","session":"{session}","at":{},"from":"{from}","to":"{to}"}}"#,
            2_000 + visit
        );
        last = Some(submit(test_store, &line));
    }
    assert_eq!(last.unwrap().state, SessionPhase::Blocked);
}

pub(crate) fn label_is_set_by_a_block_and_cleared_by_a_release(test_store: &dyn TestStore) {
    submit_blocked_session(test_store, "issue-1");
    let head = test_store.open().load("issue-1").unwrap().unwrap().head;
    assert_eq!(head.summary.label.as_deref(), Some("flyball-hitl:loop-prevention"));
    assert!(test_store.open().operator_rows("issue-1").unwrap().label);
    let released =
        r#"{"type":"human.released","session":"issue-1","at":3000,"by":"ann","why":"looked at it"}"#;
    let decision = submit(test_store, released);
    assert!(decision.effects.iter().any(|effect| effect.effect == "label.removed"), "{decision:?}");
    assert!(!test_store.open().operator_rows("issue-1").unwrap().label);
}

pub(crate) fn pruning_never_resets_counters_of_live_sessions(test_store: &dyn TestStore) {
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
    let straight = recorder(crate::common::MemoryTestStore::new().open());
    let mut old = None;
    for at in 0..40 {
        let line = line(at, if at % 2 == 0 { "ask" } else { "end" });
        let expected = straight.submit(event(&line)).unwrap();
        assert_eq!(submit(test_store, &line).to_json(), expected.to_json(), "event {at}");
        if at == 4 {
            old = Some((line, expected));
        }
        if at % 5 == 0 {
            test_store.open().prune(u64::MAX / 4, false).unwrap();
        }
    }
    let (line, first) = old.unwrap();
    let again = submit(test_store, &line);
    assert!(first.decision < Verdict::Block);
    assert_eq!((again.seq, again.decision), (first.seq, Verdict::Halt), "an id outlives its pruned event");
    assert!(test_store.open().verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn pruning_removes_ended_sessions(test_store: &dyn TestStore) {
    for (session, at) in [("old", 1_000), ("young", 9_000)] {
        submit(test_store, &format!(r#"{{"type":"session.started","session":"{session}","at":{at}}}"#));
        submit(test_store, &format!(r#"{{"type":"session.ended","session":"{session}","at":{}}}"#, at + 1));
    }
    submit(test_store, r#"{"type":"session.started","session":"lives","at":1000}"#);
    let would = test_store.open().prune(5_000, true).unwrap();
    assert_eq!(would.sessions, 1);
    assert!(test_store.open().load("old").unwrap().is_some(), "a dry run deletes nothing");
    assert_eq!(test_store.open().prune(5_000, false).unwrap().sessions, 1);
    assert!(test_store.open().load("old").unwrap().is_none());
    assert!(test_store.open().load("young").unwrap().is_some());
    assert!(test_store.open().load("lives").unwrap().is_some());
    submit(test_store, r#"{"type":"session.started","session":"old","at":20000}"#);
    assert_eq!(test_store.open().load("old").unwrap().unwrap().head.seq, 1);
    assert!(test_store.open().verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn session_filters_select_blocked_awaiting_and_warned(test_store: &dyn TestStore) {
    submit_blocked_session(test_store, "blocked");
    submit(test_store, CONFIRMATION_REQUEST);
    for at in 0..8 {
        let (call, kind) = (at / 2, if at % 2 == 0 { "requested" } else { "finished" });
        let rest = if at % 2 == 0 {
            r#""tool":"bash","args":{"command":"ls"}"#
        } else {
            r#""ok":true,"output":"x""#
        };
        submit(
            test_store,
            &format!(r#"{{"type":"tool.{kind}","session":"hard","at":{at},"call":"c{call}",{rest}}}"#),
        );
    }
    submit(test_store, r#"{"type":"session.started","session":"well","at":5}"#);
    let names = |which| -> Vec<String> {
        test_store.open().list_sessions(which, 10).unwrap().into_iter().map(|head| head.session).collect()
    };
    assert_eq!(names(SessionFilter::Blocked), ["blocked"]);
    assert_eq!(names(SessionFilter::Waiting), [CHAT_SESSION]);
    assert_eq!(names(SessionFilter::Warned), ["hard"]);
    assert_eq!(names(SessionFilter::All).len(), 4);
    assert_eq!(test_store.open().list_sessions(SessionFilter::All, 2).unwrap().len(), 2);
    let head = test_store.open().load("blocked").unwrap().unwrap().head;
    assert!(head.summary.stopped_by.unwrap().starts_with("visits: "));
    assert_eq!(head.summary.blocks, 2, "{:?}", Verdict::Block);
}

pub(crate) fn held_session_that_ended_still_needs_a_release(test_store: &dyn TestStore) {
    submit_blocked_session(test_store, "blocked");
    submit(test_store, r#"{"type":"user.message","session":"stopped","at":1000,"text":"begin"}"#);
    submit(
        test_store,
        r#"{"type":"human.stopped","session":"stopped","at":1001,"by":"bob","why":"wrong branch"}"#,
    );
    submit(test_store, r#"{"type":"user.message","session":"fine","at":1000,"text":"begin"}"#);
    for session in ["blocked", "stopped", "fine"] {
        let ended = format!(r#"{{"type":"session.ended","session":"{session}","at":4000}}"#);
        assert_eq!(submit(test_store, &ended).state, SessionPhase::Ended);
    }
    let held = || -> Vec<String> {
        let heads = test_store.open().list_sessions(SessionFilter::Blocked, 10).unwrap();
        let mut names: Vec<String> = heads.into_iter().map(|head| head.session).collect();
        names.sort();
        names
    };
    assert_eq!(held(), ["blocked", "stopped"]);
    assert!(
        test_store
            .open()
            .list_sessions(SessionFilter::Blocked, 10)
            .unwrap()
            .iter()
            .all(|head| SessionFilter::Blocked.matches(head))
    );
    assert_eq!(test_store.open().prune(100_000, true).unwrap().sessions, 1);
    assert_eq!(test_store.open().prune(100_000, false).unwrap().sessions, 1);
    assert!(test_store.open().load("fine").unwrap().is_none());
    assert_eq!(held(), ["blocked", "stopped"], "pruning does not lift a halt");
    let release = |session: &str, guard: &str| {
        submit(
            test_store,
            &format!(
                r#"{{"type":"human.released","session":"{session}","at":5000,"guard":"{guard}","by":"ann","why":"looked"}}"#
            ),
        )
    };
    release("blocked", "visits");
    release("stopped", "visits");
    assert_eq!(held(), ["stopped"], "releasing a guard does not release an operator's stop");
    release("stopped", "human");
    assert!(held().is_empty());
}
