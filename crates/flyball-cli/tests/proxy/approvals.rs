//! A model that calls a destructive tool: the answer is withheld until a person has approved the call.

use super::kit::{BOTH, Kind, Proxy, ask, flyball, folder, outline, question};
use flyball_model_server::{Behaviour, Repeat, SaidCall, Script, Server};
use flyball_run::provider::{Message, Request, ToolSpec};
use serde_json::json;

const DESTRUCTIVE: [&str; 2] = ["--set", "tools.wipe.effect=destructive"];

fn wipes(number: usize) -> Behaviour {
    let call = |name: &str, args| SaidCall {
        id: Some(format!("toolu_{number}_{name}")),
        name: name.to_owned(),
        args,
        raw_args: None,
    };
    let calls = vec![call("bash", json!({"command": "ls"})), call("wipe", json!({"disk": "a"}))];
    Behaviour { calls, ..Behaviour::text("I will wipe it.") }
}

fn asking() -> Request {
    let mut request = question("wipe disk a");
    let schema = json!({"type": "object", "properties": {"disk": {"type": "string"}}});
    let wipe = ToolSpec { name: "wipe".to_owned(), description: "wipes a disk".to_owned(), schema };
    request.tools.push(wipe);
    request
}

#[test]
fn an_answer_with_an_unapproved_destructive_call_does_not_reach_the_client() {
    for kind in BOTH {
        for stream in [true, false] {
            let folder = folder(&format!("withheld-{kind:?}-{stream}"));
            let script = Script { repeat: Repeat::Last, ..Script::new((0..9).map(wipes)) };
            let server = Server::start(script).unwrap();
            let proxy = Proxy::start(&folder, &server.url(), &DESTRUCTIVE);
            let provider = kind.provider(&proxy.url(), stream);
            let mut request = asking();
            let withheld = ask(provider.as_ref(), &request);
            assert!(withheld.calls.is_empty(), "{kind:?} {stream}: {withheld:?}");
            let [session] = proxy.sessions().try_into().expect("one session");
            let command = format!("flyball approve '{session}'");
            for words in ["[flyball] Confirm the deletion: wipe", "disk", &command] {
                assert!(withheld.text.contains(words), "{words}: {}", withheld.text);
            }
            let requested = |verdict: &str| ("tool.requested".to_owned(), verdict.to_owned());
            let calls = || -> Vec<(String, String)> {
                let all = outline(&proxy.records(&session)).into_iter();
                all.map(|(kind, verdict)| (kind, verdict.to_owned()))
                    .filter(|(kind, _)| kind == "tool.requested")
                    .collect()
            };
            assert_eq!(calls(), [requested("block")], "the call that ran nowhere is not counted as run");
            // The person approves, and the agent asks again with the answer that it got.
            let (code, out, err) = flyball(&proxy.folder, &["approve", &session]);
            assert_eq!(code, Some(0), "{out}{err}");
            request.messages.push(Message::Assistant { text: withheld.text, calls: Vec::new() });
            request.messages.push(Message::user("It is approved, go on."));
            let passed = ask(provider.as_ref(), &request);
            assert_eq!(passed.calls.len(), 2, "{kind:?} {stream}: {passed:?}");
            assert_eq!(calls(), [requested("block"), requested("allow"), requested("allow")]);
            // Once.
            request.messages.push(Message::Assistant { text: passed.text, calls: passed.calls.clone() });
            for call in &passed.calls {
                request.messages.push(Message::result(&call.id, true, "done"));
            }
            assert!(ask(provider.as_ref(), &request).calls.is_empty(), "{kind:?} {stream}");
        }
    }
}

#[test]
fn answers_without_such_a_call_pass_as_they_came() {
    for kind in BOTH {
        for stream in [true, false] {
            let folder = folder(&format!("passed-{kind:?}-{stream}"));
            let server = Server::start(Script::new([Behaviour::text("Nothing to wipe.")])).unwrap();
            let proxy = Proxy::start(&folder, &server.url(), &DESTRUCTIVE);
            let reply = ask(kind.provider(&proxy.url(), stream).as_ref(), &asking());
            assert_eq!(reply.text, "Nothing to wipe.", "{kind:?} {stream}");
        }
    }
}

#[test]
fn a_model_that_may_call_such_a_tool_is_not_asked_while_nothing_can_be_decided() {
    let folder = folder("undecided");
    let server = Server::start(Script { repeat: Repeat::Last, ..Script::new([wipes(1)]) }).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[&DESTRUCTIVE[..], &["--on-error", "allow"]].concat());
    let provider = Kind::OpenAi.provider(&proxy.url(), false);
    ask(provider.as_ref(), &asking());
    let store = folder.join(".flyball/flyball.db");
    std::fs::remove_file(&store).unwrap();
    let reached = server.requests().len();
    let mut other = asking();
    other.messages.push(Message::user("and disk b"));
    let refused = provider.ask(&other, &flyball_run::process::Cancel::new(), &mut |_| {});
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(server.requests().len(), reached);
}
