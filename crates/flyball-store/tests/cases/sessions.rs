//! Recorder cases on an engine: exactly once, across restarts, policies and child sessions.

use crate::common::{TestStore, event, recorder, recorder_with, submit};
use flyball::policy::{PolicyLayer, ValueOrigin};
use flyball::{Decision, ErrorCode, PolicySource, Preset, Sessions, Verdict};
use flyball_store::{PolicyChangeMode, RecordError, Recorder, RecorderOptions, StoreErrorKind, Submission};
use std::sync::Arc;

fn call(session: &str, number: u64, command: &str) -> [String; 2] {
    let at = 1_000 * number;
    [
        format!(
            r#"{{"type":"tool.requested","session":"{session}","id":"a{number}","at":{at},"call":"c{number}","tool":"bash","args":{{"command":"{command}"}}}}"#
        ),
        format!(
            r#"{{"type":"tool.finished","session":"{session}","id":"f{number}","at":{at},"call":"c{number}","ok":true,"output":"done {command}"}}"#
        ),
    ]
}

pub(crate) fn old_event_id_gets_its_original_answer(test_store: &dyn TestStore) {
    let mut sent = Vec::new();
    let recorder_now = recorder(test_store.open());
    for number in 0..150 {
        // The first calls repeat, so that the loop guard has something to report.
        let command = if number < 8 { "ls".to_owned() } else { format!("ls {number}") };
        for line in call("s", number, &command) {
            let decision = recorder_now.submit(event(&line)).unwrap();
            sent.push((line, decision));
        }
    }
    assert!(sent.iter().any(|(_, decision)| decision.decision == Verdict::Block));
    let again = recorder(test_store.open());
    for (line, decision) in &sent {
        let answer = again.submit(event(line)).unwrap();
        // The loop halted the session: a permission given before is not given again.
        if line.contains("tool.requested") && decision.decision < Verdict::Block {
            assert_eq!((answer.seq, answer.decision), (decision.seq, Verdict::Halt), "{line}");
        } else {
            assert_eq!(&answer, decision, "{line}");
        }
    }
    assert_eq!(test_store.open().load("s").unwrap().unwrap().head.seq, 300, "nothing was counted twice");
}

/// Requests only: each has an id and a call, and a session remembers it under both.
fn requests(count: u64) -> Vec<String> {
    (0..count).map(|number| call("s", number, &format!("ls {number}"))[0].clone()).collect()
}

pub(crate) fn event_id_is_recognized_at_every_distance(test_store: &dyn TestStore) {
    let lines = requests(240);
    let follows = recorder(test_store.open());
    let mut answers: Vec<Decision> = Vec::new();
    for (now, line) in lines.iter().enumerate() {
        answers.push(follows.submit(event(line)).unwrap());
        for distance in [1, 31, 33, 63, 64, 65, 66, 80, 95, 96, 97, 127, 128, 129, 200] {
            let Some(then) = now.checked_sub(distance) else { continue };
            assert_eq!(
                follows.submit(event(&lines[then])).unwrap(),
                answers[then],
                "{distance} before {now}"
            );
            if now % 9 == 0 {
                // A new recorder gives the same answer.
                let comes = recorder(test_store.open()).submit(event(&lines[then])).unwrap();
                assert_eq!(comes, answers[then], "{distance} before {now}, after a restart");
            }
        }
    }
    assert_eq!(test_store.open().load("s").unwrap().unwrap().head.seq, 240, "nothing was counted twice");
}

pub(crate) fn event_id_is_recognized_behind_a_long_batch(test_store: &dyn TestStore) {
    let mut lines = requests(240);
    let follows = recorder(test_store.open());
    let first: Vec<Decision> = lines.drain(..40).map(|line| follows.submit(event(&line)).unwrap()).collect();
    lines.extend(requests(40));
    let answers = follows.submit_all(lines.iter().map(|line| event(line)).collect());
    let again: Vec<Decision> = answers.into_iter().skip(200).map(Result::unwrap).collect();
    assert_eq!(again, first);
    assert_eq!(test_store.open().load("s").unwrap().unwrap().head.seq, 240, "nothing was counted twice");
}

pub(crate) fn event_id_with_another_body_is_a_conflict(test_store: &dyn TestStore) {
    for number in 0..100 {
        call("s", number, &format!("ls {number}")).iter().for_each(|line| {
            submit(test_store, line);
        });
    }
    for number in [1, 99] {
        let [other, _] = call("s", number, "rm -r .");
        match recorder(test_store.open()).submit(event(&other)) {
            Err(RecordError::Event(error)) => assert_eq!(error.code, ErrorCode::EventConflict),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(test_store.open().load("s").unwrap().unwrap().head.seq, 200);
}

pub(crate) fn reused_call_id_is_stored_and_counted(test_store: &dyn TestStore) {
    let line = |at: u64, id: &str| {
        format!(
            r#"{{"type":"tool.requested","session":"s","at":{at},{id}"call":"c1","tool":"bash","args":{{"command":"ls"}}}}"#
        )
    };
    submit(test_store, &line(1, ""));
    submit(test_store, &line(2, ""));
    // Also in one batch, and with ids.
    let both = vec![event(&line(3, r#""id":"e3","#)), event(&line(4, r#""id":"e4","#))];
    let seqs: Vec<u64> =
        recorder(test_store.open()).submit_all(both).into_iter().map(|answer| answer.unwrap().seq).collect();
    assert_eq!(seqs, [3, 4]);
    let counted = submit(test_store, &line(5, ""));
    assert_eq!(counted.trips.first().map(|trip| trip.count), Some(5));
    assert_eq!(submit(test_store, &line(6, "")).decision, Verdict::Block);
    assert_eq!(test_store.open().load("s").unwrap().unwrap().head.seq, 6);
}

pub(crate) fn append_after_losing_the_lease_is_rejected(test_store: &dyn TestStore) {
    let store = test_store.open();
    let worker = recorder(Arc::clone(&store));
    let mine = store.lease("s", "me", 600_000).unwrap().unwrap();
    worker.hold_lease(&mine);
    worker.submit(event(r#"{"type":"session.started","session":"s","at":1}"#)).unwrap();
    // A user's answer arrives through another process, and the worker continues from it.
    submit(test_store, r#"{"type":"user.message","session":"s","at":2,"text":"hello"}"#);
    let decision = worker.submit(event(r#"{"type":"compaction","session":"s","at":3}"#)).unwrap();
    assert_eq!(decision.seq, 3);
    assert!(store.renew_lease(&mine, 0).unwrap());
    let yours = store.lease("s", "you", 600_000).unwrap().unwrap();
    assert!(yours.epoch > mine.epoch);
    match worker.submit(event(r#"{"type":"compaction","session":"s","at":4}"#)) {
        Err(RecordError::Store(error)) => assert_eq!(error.kind, StoreErrorKind::LeaseLost),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.load("s").unwrap().unwrap().head.seq, 3);
    worker.drop_lease("s");
    assert_eq!(worker.submit(event(r#"{"type":"compaction","session":"s","at":4}"#)).unwrap().seq, 4);
}

pub(crate) fn session_can_be_leased_before_its_first_event(test_store: &dyn TestStore) {
    let store = test_store.open();
    let lease = store.lease("new", "me", 600_000).unwrap().unwrap();
    let worker = recorder(Arc::clone(&store));
    worker.hold_lease(&lease);
    assert_eq!(worker.submit(event(r#"{"type":"session.started","session":"new","at":1}"#)).unwrap().seq, 1);
    assert_eq!(store.records("new", 1, 1).unwrap().pop().unwrap().epoch, lease.epoch);
    submit(test_store, r#"{"type":"compaction","session":"new","at":2}"#);
    assert_eq!(store.load("new").unwrap().unwrap().head.seq, 2);
}

pub(crate) fn child_uses_parent_budget_across_restarts(test_store: &dyn TestStore) {
    let lines = [
        r#"{"type":"session.started","session":"p","at":1,"policy":{"budgets":{"session":{"tokens":100}}}}"#,
        r#"{"type":"session.started","session":"c","at":2,"parent":"p"}"#,
        r#"{"type":"turn.started","session":"c","at":3,"usage":{"tokens_in":40,"tokens_out":10}}"#,
        r#"{"type":"session.started","session":"g","at":4,"parent":"c"}"#,
        r#"{"type":"turn.started","session":"g","at":5,"usage":{"tokens_in":30,"tokens_out":10}}"#,
        r#"{"type":"turn.started","session":"p","at":6,"usage":{"tokens_in":5,"tokens_out":1}}"#,
        r#"{"type":"turn.started","session":"c","at":7,"usage":{"tokens_in":30,"tokens_out":10}}"#,
        r#"{"type":"turn.started","session":"g","at":8}"#,
        r#"{"type":"turn.started","session":"p","at":9}"#,
    ];
    let mut straight = Sessions::new(PolicySource::preset(Preset::Agent));
    let expected: Vec<Decision> =
        lines.iter().map(|line| straight.step(&event(line).event).unwrap()).collect();
    assert!(expected.iter().any(|decision| decision.decision >= Verdict::Block), "the budget is used up");
    for (line, decision) in lines.iter().zip(&expected) {
        assert_eq!(&submit(test_store, line), decision, "{line}");
    }
}

pub(crate) fn stricter_policy_continues_from_the_same_state(test_store: &dyn TestStore) {
    let strict = || {
        let tree = serde_json::json!({"guards": {"repetition": {"limit": 2, "warn_at": 1}}});
        let layer = PolicyLayer::from_value(ValueOrigin::File { name: "strict".to_owned() }, tree);
        PolicySource::new(vec![layer], Preset::Agent).unwrap()
    };
    let loose = || PolicySource::preset(Preset::Agent);
    let step = |source: PolicySource, number: u64| {
        let recorder = recorder_with(test_store.open(), source);
        let [ask, end] = call("s", number, "ls");
        let decision = recorder.submit(event(&ask)).unwrap();
        recorder.submit(event(&end)).unwrap();
        decision.decision
    };
    assert_eq!(step(loose(), 1), Verdict::Allow);
    assert_eq!(step(loose(), 2), Verdict::Allow);
    assert_eq!(step(strict(), 3), Verdict::Block, "the strict policy counts the first two");
    // The session is rehydrated under the policy it was decided under; looser values need an operator.
    assert_eq!(step(loose(), 4), Verdict::Block);
    let told = |test_store: &dyn TestStore| {
        let records = test_store.open().records("s", 1, u64::MAX).unwrap();
        records.into_iter().filter(|record| record.text.contains("policy.changed")).count()
    };
    assert_eq!(told(test_store), 1, "only the stricter policy is recorded");
    let options = RecorderOptions { policy_changes: PolicyChangeMode::Accept, ..RecorderOptions::default() };
    let accepting = Recorder::new(test_store.open(), loose(), options);
    let [ask, end] = call("s", 5, "ls");
    assert_eq!(accepting.submit(event(&ask)).unwrap().decision, Verdict::Warn);
    accepting.submit(event(&end)).unwrap();
    assert_eq!(told(test_store), 1);
    assert!(test_store.open().verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn two_recorders_on_one_session_store_every_event_once(test_store: &dyn TestStore) {
    let recorders: Vec<_> = (0..2).map(|_| recorder(test_store.open())).collect();
    let events = 40;
    std::thread::scope(|scope| {
        for (at, recorder) in recorders.iter().enumerate() {
            for lane in 0..2 {
                scope.spawn(move || {
                    for number in 0..events {
                        let line = format!(
                            r#"{{"type":"progress","session":"shared","id":"{at}-{lane}-{number}","at":{number},"signal":"n","value":{number}}}"#
                        );
                        let incoming = Submission::parse(line, None).unwrap();
                        let first = recorder.submit(incoming.clone()).unwrap();
                        assert_eq!(recorder.submit(incoming).unwrap(), first);
                    }
                });
            }
        }
    });
    let store = test_store.open();
    let records = store.records("shared", 1, u64::MAX).unwrap();
    assert_eq!(records.len() as u64, 4 * events);
    assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == seq));
    let ids: std::collections::BTreeSet<_> = records.iter().map(|record| record.id.clone()).collect();
    assert_eq!(ids.len(), records.len());
    let mut straight = Sessions::new(PolicySource::preset(Preset::Agent));
    for record in &records {
        assert_eq!(straight.step(&event(&record.text).event).unwrap().to_json(), record.decision_json);
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_empty());
}

pub(crate) fn rejected_event_leaves_no_trace(test_store: &dyn TestStore) {
    let bad = r#"{"type":"session.started","session":"s","at":1,"policy":{"guards":{"nonsense":1}}}"#;
    match recorder(test_store.open()).submit(event(bad)) {
        Err(RecordError::Event(error)) => assert_eq!(error.code, ErrorCode::BadPolicy),
        other => panic!("{other:?}"),
    }
    assert_eq!(test_store.open().load("s").unwrap(), None);
    // The other sessions of the same batch are stored.
    let good = r#"{"type":"session.started","session":"t","at":1}"#;
    let answers = recorder(test_store.open()).submit_all(vec![event(good), event(bad), event(good)]);
    assert!(answers.iter().map(Result::is_ok).eq([true, false, true]));
    assert_eq!(test_store.open().load("t").unwrap().unwrap().head.seq, 2);
}

pub(crate) fn stored_sessions_verify(test_store: &dyn TestStore) {
    let recorder = recorder(test_store.open());
    for number in 0..100 {
        for line in call(&format!("s{}", number % 7), number, &format!("ls {number}")) {
            recorder.submit(event(&line)).unwrap();
        }
    }
    assert_eq!(recorder.store().verify(&mut |_| ()).unwrap(), Vec::<String>::new());
}
