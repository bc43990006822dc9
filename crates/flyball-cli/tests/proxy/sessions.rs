//! Which conversation is which: restarts, retries, forks, several at once; and the same decisions as everywhere else.

use super::agents::{go_on, stubborn};
use super::kit::{BOTH, Kind, Proxy, ask, folder, outline, question, send};
use flyball::{Event, PolicySource, Preset, Sessions};
use flyball_model_server::{Behaviour, Script, Server};
use flyball_run::provider::{Message, Request};
use serde_json::{Value, json};

#[test]
fn a_restart_between_any_two_requests_keeps_the_counts() {
    for kind in BOTH {
        let folder = folder(&format!("restart-{kind:?}"));
        let server = Server::start(stubborn("")).unwrap();
        let mut request = question("make the tests pass");
        let mut rounds = 0;
        loop {
            let proxy = Proxy::start(&folder, &server.url(), &[]);
            let reply = ask(kind.provider(&proxy.url(), true).as_ref(), &request);
            if reply.calls.is_empty() {
                assert!(reply.text.starts_with("[flyball]"), "{}", reply.text);
                let [session] = proxy.sessions().try_into().expect("one session");
                let calls = outline(&proxy.records(&session));
                let calls = calls.iter().filter(|(kind, _)| kind == "tool.requested").count();
                assert_eq!(calls, 8, "each call is counted once");
                break;
            }
            rounds += 1;
            assert!(rounds <= 8, "the counts were lost");
            proxy.stop();
            go_on(&mut request, &reply);
        }
        assert_eq!(rounds, 8);
        let noted =
            server.requests().iter().filter(|request| super::agents::note(&request.body).is_some()).count();
        assert_eq!(noted, 5, "notes survive a restart too");
    }
}

#[test]
fn two_conversations_at_once_do_not_mix() {
    let folder = folder("two");
    let server = Server::start(stubborn("")).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let provider = Kind::Anthropic.provider(&proxy.url(), true);
    let (mut one, mut two) = (question("first task"), question("second task"));
    for _ in 0..5 {
        for request in [&mut one, &mut two] {
            let reply = ask(provider.as_ref(), request);
            assert_eq!(reply.calls.len(), 1, "five calls of each are fine, ten in one session would not be");
            go_on(request, &reply);
        }
    }
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        let outline = outline(&proxy.records(&session));
        assert_eq!(outline.iter().filter(|(kind, _)| kind == "tool.finished").count(), 4, "{outline:?}");
        assert!(outline.iter().all(|(_, verdict)| *verdict != "block" && *verdict != "halt"));
    }
}

#[test]
fn the_same_task_begun_again_is_another_session() {
    let folder = folder("again");
    let server = Server::start(stubborn("")).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let provider = Kind::OpenAi.provider(&proxy.url(), false);
    for run in 1..=4 {
        let mut request = question("the nightly job");
        for _ in 0..3 {
            let reply = ask(provider.as_ref(), &request);
            assert_eq!(reply.calls.len(), 1, "run {run}: {}", reply.text);
            go_on(&mut request, &reply);
        }
    }
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 4, "{sessions:?}");
    assert!(sessions.iter().any(|session| session.ends_with("~4")), "{sessions:?}");
}

#[test]
fn a_request_that_is_sent_again_counts_once() {
    let folder = folder("retry");
    let server = Server::start(Script::new(std::iter::repeat_n(
        Behaviour::text("").call("bash", json!({"command": "ls"})),
        12,
    )))
    .unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let provider = Kind::OpenAi.provider(&proxy.url(), true);
    let request = question("look around");
    let mut last = None;
    for _ in 0..10 {
        last = Some(ask(provider.as_ref(), &request));
    }
    let mut request = request;
    go_on(&mut request, &last.unwrap());
    assert_eq!(ask(provider.as_ref(), &request).calls.len(), 1);
    let [session] = proxy.sessions().try_into().expect("one session");
    let outline = outline(&proxy.records(&session));
    assert!(outline.iter().all(|(_, verdict)| *verdict == "allow"), "{outline:?}");
    assert_eq!(outline.iter().filter(|(kind, _)| kind == "user.message").count(), 1);
}

#[test]
fn a_session_can_be_named_and_its_helpers_are_its_children() {
    let folder = folder("named");
    let server = Server::start(Script::new((0..3).map(|n| Behaviour::text(&format!("answer {n}"))))).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let head = format!("{}\r\nx-flyball-session: nightly", Kind::OpenAi.head());
    for text in ["the plan", "a helper's own task"] {
        let body = Kind::OpenAi.body(&json!([{"role": "user", "content": text}]), false);
        let heard = send(&proxy.address, &head, &body);
        assert_eq!(heard.status, 200, "{}", heard.text());
    }
    assert_eq!(proxy.sessions(), ["nightly", "nightly~2"]);
    let started: Value = serde_json::from_str(&proxy.records("nightly~2")[0].text).unwrap();
    assert_eq!((&started["type"], &started["parent"]), (&json!("session.started"), &json!("nightly")));
    // What stops the session stops its helpers.
    let (code, out, err) = super::kit::flyball(&folder, &["stop", "nightly", "--why", "enough"]);
    assert!(code.is_some_and(|code| code != 1 && code != 2), "{out}{err}");
    let body = Kind::OpenAi.body(&json!([{"role": "user", "content": "a helper's own task"}]), false);
    let heard = send(&proxy.address, &head, &body);
    assert!(heard.text().contains("[flyball] This session was halted"), "{}", heard.text());
    assert_eq!(heard.ours.get("x-flyball-decision").map(String::as_str), Some("halt"));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_coding_agents_own_session_is_known() {
    let server = Server::start(Script::new((0..4).map(|n| Behaviour::text(&format!("answer {n}"))))).unwrap();
    let proxy = Proxy::start(&folder("own-name"), &server.url(), &[]);
    let json_id = json!({"device_id": "d", "session_id": "abc-2"}).to_string();
    for (user, session) in [("user_1f_account_2e_session_abc-1", "abc-1"), (json_id.as_str(), "abc-2")] {
        let mut body = json!({"model": "m", "max_tokens": 9, "metadata": {"user_id": user}});
        body["messages"] = json!([{"role": "user", "content": "hello"}]);
        let heard = send(&proxy.address, &Kind::Anthropic.head(), body.to_string().as_bytes());
        assert_eq!(heard.ours.get("x-flyball-session").map(String::as_str), Some(session));
    }
    // A user is not a conversation: two of them under one user do not meet.
    for text in ["one", "two"] {
        let mut body = json!({"model": "m", "max_tokens": 9, "metadata": {"user_id": "user-7"}});
        body["messages"] = json!([{"role": "user", "content": text}]);
        send(&proxy.address, &Kind::Anthropic.head(), body.to_string().as_bytes());
    }
    assert_eq!(proxy.sessions().len(), 4, "{:?}", proxy.sessions());
}

#[test]
fn a_shortened_history_goes_on_in_the_same_session() {
    let folder = folder("compacted");
    let server = Server::start(stubborn("")).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let head = format!("{}\r\nx-flyball-session: long", Kind::OpenAi.head());
    let mut messages = vec![json!({"role": "user", "content": "make the tests pass"})];
    let mut halted = 0;
    for round in 1..=9 {
        let heard = send(&proxy.address, &head, &Kind::OpenAi.body(&json!(messages), false));
        let message = heard.json()["choices"][0]["message"].clone();
        let Some(call) = message["tool_calls"][0]["id"].as_str() else {
            halted = round;
            break;
        };
        let result = json!({"role": "tool", "tool_call_id": call, "content": "1 failed"});
        messages.extend([message.clone(), result]);
        if round == 4 {
            // Only the last call and its result are kept, behind a summary.
            messages.drain(..messages.len() - 2);
            messages.insert(0, json!({"role": "user", "content": "so far: the tests fail"}));
        }
    }
    assert_eq!(halted, 9, "eight calls, whatever became of the history");
    assert_eq!(proxy.sessions(), ["long"]);
}

/// The histories of the guards that are made of calls, results and words can be told as conversations.
#[test]
fn decisions_are_those_of_replay() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
    let mut told = 0;
    for guard in ["repetition", "cycle", "recurrence", "error_streak", "monologue"] {
        for quiet in ["", ".quiet"] {
            let file = root.join(format!("{guard}{quiet}.jsonl"));
            let text = std::fs::read_to_string(&file).unwrap();
            let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let Some((script, requests)) = conversation(&events) else { continue };
            told += 1;
            let folder = folder(&format!("same-{guard}{quiet}"));
            let server = Server::start(script).unwrap();
            let proxy = Proxy::start(&folder, &server.url(), &[]);
            let head = format!("{}\r\nx-flyball-session: s1", Kind::Anthropic.head());
            let mut halted = false;
            for messages in requests {
                let heard = send(&proxy.address, &head, &Kind::Anthropic.body(&messages, false));
                assert_eq!(heard.status, 200, "{guard}: {}", heard.text());
                halted |= heard.ours.get("x-flyball-decision").is_some_and(|said| said == "halt");
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
                assert_eq!(decision.to_json(), record.decision, "{guard}{quiet}");
                strictest = strictest.max(decision.decision);
            }
            // And what the guard finds in the file, it finds in the conversation.
            let mut sessions = Sessions::new(PolicySource::new(Vec::new(), Preset::Agent).unwrap());
            let wanted =
                text.lines().map(|line| sessions.step(&Event::from_json(line).unwrap()).unwrap().decision);
            let wanted = wanted.max().unwrap();
            assert_eq!(strictest, wanted, "{guard}{quiet}");
        }
    }
    assert!(told >= 6, "only {told} histories were told");
}

/// A history as a conversation: what the model says, and what the client sends, request by request.
fn conversation(events: &[Value]) -> Option<(Script, Vec<Value>)> {
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
                let mut said = Behaviour::text("").call(name, args.clone());
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
                replies.push(Behaviour::text(text));
                messages.push(json!({"role": "assistant", "content": text}));
                messages.push(json!({"role": "user", "content": [{"type": "text", "text": "hm"}]}));
                return None;
            }
            _ => return None,
        }
    }
    requests.push(json!(messages));
    replies.push(Behaviour::text("done"));
    Some((Script::new(replies), requests))
}

/// The server checks every request as the real ones do: each call has its result right after it, roles in turn.
#[test]
fn a_note_is_never_put_before_a_result() {
    let folder = folder("pairing");
    let server = Server::start(stubborn("I will try once more.")).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    for kind in BOTH {
        let provider = kind.provider(&proxy.url(), true);
        let mut request = Request { system: Some(format!("{kind:?}")), ..question("try") };
        let mut noted = 0;
        for _ in 0..12 {
            let before = server.requests().len();
            let reply = ask(provider.as_ref(), &request);
            let reached = server.requests();
            if let Some(reached) = reached.get(before) {
                assert_eq!(reached.status, 200, "{:?}", reached.problem);
                noted += usize::from(super::agents::note(&reached.body).is_some());
            }
            if reply.calls.is_empty() {
                break;
            }
            request
                .messages
                .push(Message::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
            for call in &reply.calls {
                request.messages.push(Message::result(&call.id, false, "error: it does not compile"));
            }
        }
        assert!(noted > 0, "{kind:?}: never told");
    }
}
