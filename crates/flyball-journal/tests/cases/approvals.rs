//! Approvals over an engine: a blocked call waits in the row, and is judged anew once a person has approved it.

use crate::kit::{Place, event, recorder_with};
use flyball::policy::{Layer, Origin};
use flyball::{Code, Decision, PolicySource, Preset, Status, Verdict};
use flyball_journal::{Recorder, Refusal};
use serde_json::{Value, json};

fn governed(place: &dyn Place) -> Recorder {
    let tree = json!({"tools": {"delete": {"effect": "destructive"}}});
    let source = PolicySource::new(vec![Layer::from_value(Origin::CommandLine, tree)], Preset::Agent);
    recorder_with(place.open(), source.unwrap())
}

fn send(recorder: &Recorder, mut line: Value) -> Decision {
    line["session"] = json!("s");
    recorder.submit(event(&line.to_string())).unwrap()
}

fn delete(id: &str, file: &str) -> Value {
    json!({"type": "tool.requested", "id": id, "call": id, "tool": "delete", "args": {"file": file}})
}

pub(crate) fn blocked_calls_wait_in_one_row(place: &dyn Place) {
    assert_eq!(send(&governed(place), delete("e1", "a")).state, Status::AwaitingConfirmation);
    let first = place.open().pending("s").unwrap().unwrap();
    assert_eq!(first.pending_plan, r#"[{"tool":"delete","args":{"file":"a"}}]"#);
    assert!(first.confirmation_question.contains("delete"), "{first:?}");
    // A call that changes nothing of the plan leaves the row as it is.
    send(&governed(place), json!({"type": "tool.requested", "tool": "ls", "args": {}}));
    assert_eq!(place.open().pending("s").unwrap(), Some(first.clone()));
    send(&governed(place), delete("e2", "b"));
    let both = place.open().pending("s").unwrap().unwrap();
    assert_ne!(first.digest, both.digest);
    assert!(both.pending_plan.contains(r#""a""#) && both.pending_plan.contains(r#""b""#), "{both:?}");
    // One that is too long to be kept in the session is in the row all the same.
    send(&governed(place), json!({"type": "confirmation.answered", "value": "no"}));
    assert_eq!(place.open().pending("s").unwrap(), None);
    send(&governed(place), delete("e3", &"long ".repeat(2_000)));
    let long = place.open().pending("s").unwrap().unwrap();
    assert!(long.pending_plan.len() > 10_000, "{} bytes", long.pending_plan.len());
    let yes = send(&governed(place), json!({"type": "confirmation.answered", "value": true}));
    let approved = yes.effects.iter().find(|effect| effect.effect == "plan.approved").unwrap();
    assert_eq!((&approved.fields["plan"], &approved.fields["asked"]), (&Value::Null, &json!(5)));
    assert_eq!(send(&governed(place), delete("e4", &"long ".repeat(2_000))).decision, Verdict::Allow);
}

pub(crate) fn a_blocked_call_is_judged_anew_once_it_is_approved(place: &dyn Place) {
    // Near and far: remembered by the session itself, by the events after the last snapshot, and by the store.
    for (round, distance) in [0_u64, 1, 40, 70, 200].into_iter().enumerate() {
        let (id, file) = (format!("e{round}"), format!("f{round}"));
        let blocked = send(&governed(place), delete(&id, &file));
        assert_eq!(blocked.decision, Verdict::Block, "{distance}");
        let recorder = governed(place);
        let busy = |what: &str, n: u64| json!({"type": "tool.requested", "id": format!("{what}{round}-{n}"), "tool": "ls", "args": {"n": n, "what": what}});
        (0..distance).for_each(|n| drop(send(&recorder, busy("before", n))));
        assert_eq!(send(&recorder, delete(&id, &file)), blocked, "{distance}: nothing has changed yet");
        send(&recorder, json!({"type": "confirmation.answered", "value": "yes"}));
        let allowed = send(&governed(place), delete(&id, &file));
        assert_eq!(allowed.decision, Verdict::Allow, "{distance}: {allowed:?}");
        (0..distance).for_each(|n| drop(send(&recorder, busy("after", n))));
        // Acknowledged as permitted: the same answer from now on, also after another approval.
        send(&recorder, delete(&format!("other{round}"), "other"));
        send(&recorder, json!({"type": "confirmation.answered", "value": "yes"}));
        for recorder in [&recorder, &governed(place)] {
            assert_eq!(send(recorder, delete(&id, &file)), allowed, "{distance}");
        }
        assert_eq!(
            send(&recorder, delete(&format!("new{round}"), &file)).decision,
            Verdict::Block,
            "{distance}"
        );
        send(&recorder, json!({"type": "confirmation.answered", "value": "no"}));
        send(&recorder, json!({"type": "user.message", "text": "go on with the next one"}));
    }
    assert_eq!(place.open().verify(&mut |_| ()).unwrap(), Vec::<String>::new());
}

pub(crate) fn an_id_cannot_pretend_to_be_a_later_judgement(place: &dyn Place) {
    let recorder = governed(place);
    send(&recorder, delete("e1", "a"));
    let mut forged = delete("e1\u{1f}1", "a");
    forged["session"] = json!("s");
    match recorder.submit(event(&forged.to_string())) {
        Err(Refusal::Event(error)) => assert_eq!(error.code, Code::WrongType),
        other => panic!("{other:?}"),
    }
}
