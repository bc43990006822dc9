//! Approvals on an engine: a blocked call is stored in the confirmation row, and evaluated again once it is approved.

use crate::common::{TestStore, event, recorder_with};
use flyball::policy::{PolicyLayer, ValueOrigin};
use flyball::{Decision, ErrorCode, PolicySource, Preset, SessionPhase, Verdict};
use flyball_store::{RecordError, Recorder};
use serde_json::{Value, json};

fn recorder_with_policy(place: &dyn TestStore) -> Recorder {
    let tree = json!({"tools": {"delete": {"effect": "destructive"}}});
    let source =
        PolicySource::new(vec![PolicyLayer::from_value(ValueOrigin::CommandLine, tree)], Preset::Agent);
    recorder_with(place.open(), source.unwrap())
}

fn submit(recorder: &Recorder, mut line: Value) -> Decision {
    line["session"] = json!("s");
    recorder.submit(event(&line.to_string())).unwrap()
}

fn delete_request(id: &str, file: &str) -> Value {
    json!({"type": "tool.requested", "id": id, "call": id, "tool": "delete", "args": {"file": file}})
}

pub(crate) fn blocked_calls_wait_in_one_row(place: &dyn TestStore) {
    assert_eq!(
        submit(&recorder_with_policy(place), delete_request("e1", "a")).state,
        SessionPhase::AwaitingConfirmation
    );
    let first = place.open().pending("s").unwrap().unwrap();
    assert_eq!(first.pending_plan, r#"[{"tool":"delete","args":{"file":"a"}}]"#);
    assert!(first.confirmation_question.contains("delete"), "{first:?}");
    // A call that does not affect the plan leaves the row unchanged.
    submit(&recorder_with_policy(place), json!({"type": "tool.requested", "tool": "ls", "args": {}}));
    assert_eq!(place.open().pending("s").unwrap(), Some(first.clone()));
    submit(&recorder_with_policy(place), delete_request("e2", "b"));
    let both = place.open().pending("s").unwrap().unwrap();
    assert_ne!(first.digest, both.digest);
    assert!(both.pending_plan.contains(r#""a""#) && both.pending_plan.contains(r#""b""#), "{both:?}");
    // A plan that is too long to be kept in the session is still in the row.
    submit(&recorder_with_policy(place), json!({"type": "confirmation.answered", "value": "no"}));
    assert_eq!(place.open().pending("s").unwrap(), None);
    submit(&recorder_with_policy(place), delete_request("e3", &"long ".repeat(2_000)));
    let long = place.open().pending("s").unwrap().unwrap();
    assert!(long.pending_plan.len() > 10_000, "{} bytes", long.pending_plan.len());
    let yes = submit(&recorder_with_policy(place), json!({"type": "confirmation.answered", "value": true}));
    let approved = yes.effects.iter().find(|effect| effect.effect == "plan.approved").unwrap();
    assert_eq!((&approved.fields["plan"], &approved.fields["asked"]), (&Value::Null, &json!(5)));
    assert_eq!(
        submit(&recorder_with_policy(place), delete_request("e4", &"long ".repeat(2_000))).decision,
        Verdict::Allow
    );
}

pub(crate) fn blocked_call_is_reevaluated_once_approved(place: &dyn TestStore) {
    // Recent and old ids: remembered by the session, by the events after the last snapshot, and by the store.
    for (round, distance) in [0_u64, 1, 40, 70, 200].into_iter().enumerate() {
        let (id, file) = (format!("e{round}"), format!("f{round}"));
        let blocked = submit(&recorder_with_policy(place), delete_request(&id, &file));
        assert_eq!(blocked.decision, Verdict::Block, "{distance}");
        let recorder = recorder_with_policy(place);
        let busy = |what: &str, n: u64| json!({"type": "tool.requested", "id": format!("{what}{round}-{n}"), "tool": "ls", "args": {"n": n, "what": what}});
        (0..distance).for_each(|n| drop(submit(&recorder, busy("before", n))));
        assert_eq!(
            submit(&recorder, delete_request(&id, &file)),
            blocked,
            "{distance}: nothing has changed yet"
        );
        submit(&recorder, json!({"type": "confirmation.answered", "value": "yes"}));
        let allowed = submit(&recorder_with_policy(place), delete_request(&id, &file));
        assert_eq!(allowed.decision, Verdict::Allow, "{distance}: {allowed:?}");
        (0..distance).for_each(|n| drop(submit(&recorder, busy("after", n))));
        // Acknowledged as allowed: the answer stays the same, even after another approval.
        submit(&recorder, delete_request(&format!("other{round}"), "other"));
        submit(&recorder, json!({"type": "confirmation.answered", "value": "yes"}));
        for recorder in [&recorder, &recorder_with_policy(place)] {
            assert_eq!(submit(recorder, delete_request(&id, &file)), allowed, "{distance}");
        }
        assert_eq!(
            submit(&recorder, delete_request(&format!("new{round}"), &file)).decision,
            Verdict::Block,
            "{distance}"
        );
        submit(&recorder, json!({"type": "confirmation.answered", "value": "no"}));
        submit(&recorder, json!({"type": "user.message", "text": "continue with the next one"}));
    }
    assert_eq!(place.open().verify(&mut |_| ()).unwrap(), Vec::<String>::new());
}

pub(crate) fn id_cannot_spoof_a_later_evaluation(place: &dyn TestStore) {
    let recorder = recorder_with_policy(place);
    submit(&recorder, delete_request("e1", "a"));
    let mut forged = delete_request("e1\u{1f}1", "a");
    forged["session"] = json!("s");
    match recorder.submit(event(&forged.to_string())) {
        Err(RecordError::Event(error)) => assert_eq!(error.code, ErrorCode::WrongType),
        other => panic!("{other:?}"),
    }
}
