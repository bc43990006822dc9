//! Matching conversations to sessions: restarts, retries, forks, concurrency; and the same decisions as on other
//! paths.

use super::agent_loops::{push_tool_results, repeating_model};
use super::proxy_harness::{
    PROTOCOLS, ProviderProtocol, ProxyProcess, ask, event_outline, question_request, send, test_dir,
};
use flyball::{Event, PolicySource, Preset, Sessions};
use flyball_model_server::{ModelServer, ReplyBehavior, ServerScript};
use flyball_runner::provider::{ChatMessage, ModelRequest};
use serde_json::{Value, json};

#[test]
fn restart_between_requests_keeps_the_counts() {
    for kind in PROTOCOLS {
        let folder = test_dir(&format!("restart-{kind:?}"));
        let server = ModelServer::start(repeating_model("")).unwrap();
        let mut request = question_request("make the tests pass");
        let mut rounds = 0;
        loop {
            let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
            let reply = ask(kind.provider(&proxy.url(), true).as_ref(), &request);
            if reply.calls.is_empty() {
                assert!(reply.text.starts_with("[flyball]"), "{}", reply.text);
                let [session] = proxy.sessions().try_into().expect("one session");
                let calls = event_outline(&proxy.records(&session));
                let calls = calls.iter().filter(|(kind, _)| kind == "tool.requested").count();
                assert_eq!(calls, 8, "each call is counted once");
                break;
            }
            rounds += 1;
            assert!(rounds <= 8, "the counts were lost");
            proxy.stop();
            push_tool_results(&mut request, &reply);
        }
        assert_eq!(rounds, 8);
        let noted = server
            .requests()
            .iter()
            .filter(|request| super::agent_loops::flyball_note(&request.body).is_some())
            .count();
        assert_eq!(noted, 5, "notes survive a restart too");
    }
}

#[test]
fn concurrent_conversations_do_not_mix() {
    let folder = test_dir("two");
    let server = ModelServer::start(repeating_model("")).unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let provider = ProviderProtocol::Anthropic.provider(&proxy.url(), true);
    let (mut one, mut two) = (question_request("first task"), question_request("second task"));
    for _ in 0..5 {
        for request in [&mut one, &mut two] {
            let reply = ask(provider.as_ref(), request);
            assert_eq!(reply.calls.len(), 1, "five calls of each are fine, ten in one session would not be");
            push_tool_results(request, &reply);
        }
    }
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        let outline = event_outline(&proxy.records(&session));
        assert_eq!(outline.iter().filter(|(kind, _)| kind == "tool.finished").count(), 4, "{outline:?}");
        assert!(outline.iter().all(|(_, verdict)| *verdict != "block" && *verdict != "halt"));
    }
}

#[test]
fn same_task_started_again_is_a_new_session() {
    let folder = test_dir("again");
    let server = ModelServer::start(repeating_model("")).unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let provider = ProviderProtocol::OpenAi.provider(&proxy.url(), false);
    for run in 1..=4 {
        let mut request = question_request("the nightly job");
        for _ in 0..3 {
            let reply = ask(provider.as_ref(), &request);
            assert_eq!(reply.calls.len(), 1, "run {run}: {}", reply.text);
            push_tool_results(&mut request, &reply);
        }
    }
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 4, "{sessions:?}");
    assert!(sessions.iter().any(|session| session.ends_with("~4")), "{sessions:?}");
}

#[test]
fn resent_request_counts_once() {
    let folder = test_dir("retry");
    let server = ModelServer::start(ServerScript::new(std::iter::repeat_n(
        ReplyBehavior::text("").call("bash", json!({"command": "ls"})),
        12,
    )))
    .unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let provider = ProviderProtocol::OpenAi.provider(&proxy.url(), true);
    let request = question_request("look around");
    let mut last = None;
    for _ in 0..10 {
        last = Some(ask(provider.as_ref(), &request));
    }
    let mut request = request;
    push_tool_results(&mut request, &last.unwrap());
    assert_eq!(ask(provider.as_ref(), &request).calls.len(), 1);
    let [session] = proxy.sessions().try_into().expect("one session");
    let outline = event_outline(&proxy.records(&session));
    assert!(outline.iter().all(|(_, verdict)| *verdict == "allow"), "{outline:?}");
    assert_eq!(outline.iter().filter(|(kind, _)| kind == "user.message").count(), 1);
}

#[test]
fn named_session_has_its_sub_agents_as_children() {
    let folder = test_dir("named");
    let server =
        ModelServer::start(ServerScript::new((0..3).map(|n| ReplyBehavior::text(&format!("answer {n}")))))
            .unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let head = format!("{}\r\nx-flyball-session: nightly", ProviderProtocol::OpenAi.request_head());
    for text in ["the plan", "a helper's own task"] {
        let body = ProviderProtocol::OpenAi.request_body(&json!([{"role": "user", "content": text}]), false);
        let response = send(&proxy.address, &head, &body);
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(proxy.sessions(), ["nightly", "nightly~2"]);
    let started: Value = serde_json::from_str(&proxy.records("nightly~2")[0].text).unwrap();
    assert_eq!((&started["type"], &started["parent"]), (&json!("session.started"), &json!("nightly")));
    // Stopping the session stops its helpers.
    let (code, out, err) =
        super::proxy_harness::run_flyball(&folder, &["stop", "nightly", "--why", "enough"]);
    assert!(code.is_some_and(|code| code != 1 && code != 2), "{out}{err}");
    let body = ProviderProtocol::OpenAi
        .request_body(&json!([{"role": "user", "content": "a helper's own task"}]), false);
    let response = send(&proxy.address, &head, &body);
    assert!(response.text().contains("[flyball] This session was halted"), "{}", response.text());
    assert_eq!(response.flyball_headers.get("x-flyball-decision").map(String::as_str), Some("halt"));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn coding_agent_session_id_is_recognized() {
    let server =
        ModelServer::start(ServerScript::new((0..4).map(|n| ReplyBehavior::text(&format!("answer {n}")))))
            .unwrap();
    let proxy = ProxyProcess::start(&test_dir("own-name"), &server.url(), &[]);
    let json_id = json!({"device_id": "d", "session_id": "abc-2"}).to_string();
    for (user, session) in [("user_1f_account_2e_session_abc-1", "abc-1"), (json_id.as_str(), "abc-2")] {
        let mut body = json!({"model": "m", "max_tokens": 9, "metadata": {"user_id": user}});
        body["messages"] = json!([{"role": "user", "content": "hello"}]);
        let response =
            send(&proxy.address, &ProviderProtocol::Anthropic.request_head(), body.to_string().as_bytes());
        assert_eq!(response.flyball_headers.get("x-flyball-session").map(String::as_str), Some(session));
    }
    // A user is not a conversation: two conversations of one user stay separate.
    for text in ["one", "two"] {
        let mut body = json!({"model": "m", "max_tokens": 9, "metadata": {"user_id": "user-7"}});
        body["messages"] = json!([{"role": "user", "content": text}]);
        send(&proxy.address, &ProviderProtocol::Anthropic.request_head(), body.to_string().as_bytes());
    }
    assert_eq!(proxy.sessions().len(), 4, "{:?}", proxy.sessions());
}

#[test]
fn compacted_history_continues_the_same_session() {
    let folder = test_dir("compacted");
    let server = ModelServer::start(repeating_model("")).unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let head = format!("{}\r\nx-flyball-session: long", ProviderProtocol::OpenAi.request_head());
    let mut messages = vec![json!({"role": "user", "content": "make the tests pass"})];
    let mut halted = 0;
    for round in 1..=9 {
        let response =
            send(&proxy.address, &head, &ProviderProtocol::OpenAi.request_body(&json!(messages), false));
        let message = response.json()["choices"][0]["message"].clone();
        let Some(call) = message["tool_calls"][0]["id"].as_str() else {
            halted = round;
            break;
        };
        let result = json!({"role": "tool", "tool_call_id": call, "content": "1 failed"});
        messages.extend([message.clone(), result]);
        if round == 4 {
            // Only the last call and its result are kept, after a summary.
            messages.drain(..messages.len() - 2);
            messages.insert(0, json!({"role": "user", "content": "so far: the tests fail"}));
        }
    }
    assert_eq!(halted, 9, "eight calls, regardless of the shortened history");
    assert_eq!(proxy.sessions(), ["long"]);
}

/// Histories that consist of calls, results and messages can be converted to conversations.
#[test]
fn proxy_and_replay_give_the_same_decisions() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
    let mut played = 0;
    for guard in ["repetition", "cycle", "recurrence", "error_streak", "monologue"] {
        for quiet in ["", ".quiet"] {
            let file = root.join(format!("{guard}{quiet}.jsonl"));
            let text = std::fs::read_to_string(&file).unwrap();
            let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let Some((script, requests)) = conversation(&events) else { continue };
            played += 1;
            let folder = test_dir(&format!("same-{guard}{quiet}"));
            let server = ModelServer::start(script).unwrap();
            let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
            let head = format!("{}\r\nx-flyball-session: s1", ProviderProtocol::Anthropic.request_head());
            let mut halted = false;
            for messages in requests {
                let response =
                    send(&proxy.address, &head, &ProviderProtocol::Anthropic.request_body(&messages, false));
                assert_eq!(response.status, 200, "{guard}: {}", response.text());
                halted |=
                    response.flyball_headers.get("x-flyball-decision").is_some_and(|said| said == "halt");
                if halted {
                    break;
                }
            }
            let records = proxy.records("s1");
            let mut sessions = Sessions::new(PolicySource::new(Vec::new(), Preset::Agent).unwrap());
            let mut strictest = flyball::Verdict::Allow;
            for record in &records {
                let mut event = Event::from_json(&record.text).unwrap();
                event.at = record.at;
                let decision = sessions.step(&event).unwrap();
                assert_eq!(decision.to_json(), record.decision_json, "{guard}{quiet}");
                strictest = strictest.max(decision.decision);
            }
            // A guard that trips in the file also trips in the conversation.
            let mut sessions = Sessions::new(PolicySource::new(Vec::new(), Preset::Agent).unwrap());
            let wanted =
                text.lines().map(|line| sessions.step(&Event::from_json(line).unwrap()).unwrap().decision);
            let wanted = wanted.max().unwrap();
            assert_eq!(strictest, wanted, "{guard}{quiet}");
        }
    }
    assert!(played >= 6, "only {played} histories were played");
}

/// A history as a conversation: the model's replies, and the client's requests.
fn conversation(events: &[Value]) -> Option<(ServerScript, Vec<Value>)> {
    let mut messages: Vec<Value> = vec![json!({"role": "user", "content": "begin"})];
    let (mut replies, mut requests) = (Vec::new(), Vec::new());
    for event in events {
        match event["type"].as_str()? {
            "session.started" => {}
            "tool.requested" => {
                let (name, args) = (event["tool"].as_str()?, event["args"].clone());
                if !args.is_object() {
                    return None;
                }
                requests.push(json!(messages));
                let id = format!("toolu_{}", replies.len());
                let mut said = ReplyBehavior::text("").call(name, args.clone());
                said.calls[0].id = Some(id.clone());
                replies.push(said);
                let call = json!({"type": "tool_use", "id": id, "name": name, "input": args});
                messages.push(json!({"role": "assistant", "content": [call]}));
                // Until its result is known.
                messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": ""}]}));
            }
            "tool.finished" => {
                let block = messages.last_mut()?.pointer_mut("/content/0")?;
                let failed = event["ok"] == json!(false);
                let said =
                    if failed && !event["error"].is_null() { &event["error"] } else { &event["output"] };
                block["content"] = json!(said.as_str().map_or_else(|| said.to_string(), str::to_owned));
                block["is_error"] = json!(failed);
            }
            "assistant.message" => {
                requests.push(json!(messages));
                let text = event["text"].as_str()?;
                replies.push(ReplyBehavior::text(text));
                messages.push(json!({"role": "assistant", "content": text}));
                messages.push(json!({"role": "user", "content": [{"type": "text", "text": "hm"}]}));
                return None;
            }
            _ => return None,
        }
    }
    requests.push(json!(messages));
    replies.push(ReplyBehavior::text("done"));
    Some((ServerScript::new(replies), requests))
}

/// The server validates every request like the real ones: each call is followed by its result, and roles alternate.
#[test]
fn note_is_never_inserted_before_a_tool_result() {
    let folder = test_dir("pairing");
    let server = ModelServer::start(repeating_model("I will try once more.")).unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    for kind in PROTOCOLS {
        let provider = kind.provider(&proxy.url(), true);
        let mut request = ModelRequest { system: Some(format!("{kind:?}")), ..question_request("try") };
        let mut noted = 0;
        for _ in 0..12 {
            let before = server.requests().len();
            let reply = ask(provider.as_ref(), &request);
            let reached = server.requests();
            if let Some(reached) = reached.get(before) {
                assert_eq!(reached.status, 200, "{:?}", reached.problem);
                noted += usize::from(super::agent_loops::flyball_note(&reached.body).is_some());
            }
            if reply.calls.is_empty() {
                break;
            }
            request
                .messages
                .push(ChatMessage::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
            for call in &reply.calls {
                request.messages.push(ChatMessage::result(&call.id, false, "error: it does not compile"));
            }
        }
        assert!(noted > 0, "{kind:?}: no note");
    }
}
