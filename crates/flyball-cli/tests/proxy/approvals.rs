//! A model that calls a destructive tool: the answer is withheld until a person approves the call.

use super::proxy_harness::{
    PROTOCOLS, ProviderProtocol, ProxyProcess, ask, event_outline, question_request, run_flyball, test_dir,
};
use flyball_model_server::{ModelServer, RepeatMode, ReplyBehavior, ScriptedCall, ServerScript};
use flyball_runner::provider::{ChatMessage, ModelRequest, ModelToolSpec};
use serde_json::json;

const DESTRUCTIVE: [&str; 2] = ["--set", "tools.wipe.effect=destructive"];

fn destructive_reply(number: usize) -> ReplyBehavior {
    let call = |name: &str, args| ScriptedCall {
        id: Some(format!("toolu_{number}_{name}")),
        name: name.to_owned(),
        args,
        raw_args: None,
    };
    let calls = vec![call("bash", json!({"command": "ls"})), call("wipe", json!({"disk": "a"}))];
    ReplyBehavior { calls, ..ReplyBehavior::text("I will wipe it.") }
}

fn wipe_request() -> ModelRequest {
    let mut request = question_request("wipe disk a");
    let schema = json!({"type": "object", "properties": {"disk": {"type": "string"}}});
    let wipe = ModelToolSpec { name: "wipe".to_owned(), description: "wipes a disk".to_owned(), schema };
    request.tools.push(wipe);
    request
}

#[test]
fn reply_with_an_unapproved_destructive_call_is_withheld() {
    for kind in PROTOCOLS {
        for stream in [true, false] {
            let folder = test_dir(&format!("withheld-{kind:?}-{stream}"));
            let script =
                ServerScript { repeat: RepeatMode::Last, ..ServerScript::new((0..9).map(destructive_reply)) };
            let server = ModelServer::start(script).unwrap();
            let proxy = ProxyProcess::start(&folder, &server.url(), &DESTRUCTIVE);
            let provider = kind.provider(&proxy.url(), stream);
            let mut request = wipe_request();
            let withheld = ask(provider.as_ref(), &request);
            assert!(withheld.calls.is_empty(), "{kind:?} {stream}: {withheld:?}");
            let [session] = proxy.sessions().try_into().expect("one session");
            let command = format!("flyball approve '{session}'");
            for words in ["[flyball] Confirm the deletion: wipe", "disk", &command] {
                assert!(withheld.text.contains(words), "{words}: {}", withheld.text);
            }
            let requested = |verdict: &str| ("tool.requested".to_owned(), verdict.to_owned());
            let calls = || -> Vec<(String, String)> {
                let all = event_outline(&proxy.records(&session)).into_iter();
                all.map(|(kind, verdict)| (kind, verdict.to_owned()))
                    .filter(|(kind, _)| kind == "tool.requested")
                    .collect()
            };
            assert_eq!(calls(), [requested("block")], "a call that did not run is not counted as run");
            // A person approves, and the agent repeats the request with the answer that it got.
            let (code, out, err) = run_flyball(&proxy.folder, &["approve", &session]);
            assert_eq!(code, Some(0), "{out}{err}");
            request.messages.push(ChatMessage::Assistant { text: withheld.text, calls: Vec::new() });
            request.messages.push(ChatMessage::user("It is approved, go on."));
            let passed = ask(provider.as_ref(), &request);
            assert_eq!(passed.calls.len(), 2, "{kind:?} {stream}: {passed:?}");
            assert_eq!(calls(), [requested("block"), requested("allow"), requested("allow")]);
            // The approval is valid once.
            request.messages.push(ChatMessage::Assistant { text: passed.text, calls: passed.calls.clone() });
            for call in &passed.calls {
                request.messages.push(ChatMessage::result(&call.id, true, "done"));
            }
            assert!(ask(provider.as_ref(), &request).calls.is_empty(), "{kind:?} {stream}");
        }
    }
}

#[test]
fn replies_without_destructive_calls_pass_unchanged() {
    for kind in PROTOCOLS {
        for stream in [true, false] {
            let folder = test_dir(&format!("passed-{kind:?}-{stream}"));
            let server =
                ModelServer::start(ServerScript::new([ReplyBehavior::text("Nothing to wipe.")])).unwrap();
            let proxy = ProxyProcess::start(&folder, &server.url(), &DESTRUCTIVE);
            let reply = ask(kind.provider(&proxy.url(), stream).as_ref(), &wipe_request());
            assert_eq!(reply.text, "Nothing to wipe.", "{kind:?} {stream}");
        }
    }
}

#[test]
fn model_with_destructive_tools_is_not_called_while_the_store_fails() {
    let folder = test_dir("undecided");
    let server = ModelServer::start(ServerScript {
        repeat: RepeatMode::Last,
        ..ServerScript::new([destructive_reply(1)])
    })
    .unwrap();
    let proxy =
        ProxyProcess::start(&folder, &server.url(), &[&DESTRUCTIVE[..], &["--on-error", "allow"]].concat());
    let provider = ProviderProtocol::OpenAi.provider(&proxy.url(), false);
    ask(provider.as_ref(), &wipe_request());
    let store = folder.join(".flyball/flyball.db");
    std::fs::remove_file(&store).unwrap();
    let reached = server.requests().len();
    let mut other = wipe_request();
    other.messages.push(ChatMessage::user("and disk b"));
    let refused = provider.ask(&other, &flyball_runner::process::CancelToken::new(), &mut |_| {});
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(server.requests().len(), reached);
}
