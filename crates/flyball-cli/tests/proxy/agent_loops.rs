//! Looping agents and the proxy's reaction. The agent uses the real provider clients, and the server rejects what the
//! real ones reject, so a misplaced note would fail.

use super::proxy_harness::{
    PROTOCOLS, ProviderProtocol, ProxyProcess, ask, event_outline, question_request, run_flyball, test_dir,
};
use flyball_model_server::{ModelServer, RepeatMode, ReplyBehavior, ScriptedCall, ServerScript};
use flyball_runner::provider::{ChatMessage, FinishReason, ModelReply, ModelRequest};
use serde_json::{Value, json};

/// A model that calls the same tool forever, each time with a new id.
pub(crate) fn repeating_model(text: &str) -> ServerScript {
    let said = |number: usize| {
        let call = ScriptedCall {
            id: Some(format!("toolu_{number}")),
            name: "bash".to_owned(),
            args: json!({"command": "cargo test"}),
            raw_args: None,
        };
        ReplyBehavior { calls: vec![call], ..ReplyBehavior::text(text) }
    };
    ServerScript { repeat: RepeatMode::Last, ..ServerScript::new((0..40).map(said)) }
}

/// Appends an answer and the results of its calls, which are always the same.
pub(crate) fn push_tool_results(request: &mut ModelRequest, reply: &ModelReply) {
    request.messages.push(ChatMessage::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
    for call in &reply.calls {
        request.messages.push(ChatMessage::result(&call.id, true, "2 passed, 1 failed"));
    }
}

/// The note in the last message of a request, if there is one.
pub(crate) fn flyball_note(body: &Value) -> Option<String> {
    let last = body["messages"].as_array()?.last()?.to_string();
    last.contains("[flyball]").then_some(last)
}

#[test]
fn repeating_agent_is_warned_and_halted_until_released() {
    for kind in PROTOCOLS {
        for stream in [true, false] {
            let folder = test_dir(&format!("stubborn-{kind:?}-{stream}"));
            let server = ModelServer::start(repeating_model("")).unwrap();
            let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
            let provider = kind.provider(&proxy.url(), stream);
            let mut request = question_request("make the tests pass");
            let mut halted = None;
            for round in 1..=20 {
                let reply = ask(provider.as_ref(), &request);
                if reply.calls.is_empty() {
                    halted = Some((round, reply));
                    break;
                }
                push_tool_results(&mut request, &reply);
            }
            let (round, reply) = halted.unwrap_or_else(|| panic!("{kind:?} {stream}: never halted"));
            let reached = server.requests();
            assert!(
                reached.iter().all(|request| request.status == 200),
                "the server rejected one: {reached:?}"
            );
            assert_eq!(reached.len(), round - 1, "a halted request does not reach the server");
            assert_eq!(reply.stop, FinishReason::End);
            let used = reply.usage;
            assert!(
                used.estimated || (used.tokens_in, used.tokens_out) == (0, 0),
                "it cost nothing: {used:?}"
            );
            assert!(
                reply.text.starts_with("[flyball] This session was halted by the guard"),
                "{}",
                reply.text
            );

            let [session] = proxy.sessions().try_into().expect("one session");
            assert!(reply.text.contains(&format!("flyball release '{session}'")), "{}", reply.text);
            let records = proxy.records(&session);
            let verdicts: Vec<&str> = event_outline(&records)
                .into_iter()
                .filter_map(|(kind, verdict)| (kind == "tool.requested").then_some(verdict))
                .collect();
            // Five calls run, the third with a warning; the sixth and seventh are denied, the eighth halts.
            assert_eq!(
                verdicts,
                ["allow", "allow", "warn", "warn", "warn", "block", "block", "halt"],
                "{kind:?} {stream}"
            );
            let notes: Vec<bool> =
                reached.iter().map(|request| flyball_note(&request.body).is_some()).collect();
            assert_eq!(notes, [false, false, false, true, true, true, true, true], "{kind:?} {stream}");
            let refused = flyball_note(&reached[6].body).unwrap();
            assert!(refused.contains("Denied by the loop guard"), "{refused}");
            assert!(refused.contains("2 passed, 1 failed"), "the result is kept: {refused}");

            // The halt also applies to the user's next message, until an operator releases it.
            request.messages.push(ChatMessage::assistant(&reply.text));
            request.messages.push(ChatMessage::user("go on"));
            assert!(ask(provider.as_ref(), &request).text.starts_with("[flyball]"));
            let (code, out, err) = run_flyball(&folder, &["release", &session, "--why", "looked at it"]);
            assert_eq!(code, Some(0), "{out}{err}");
            let reply = ask(provider.as_ref(), &request);
            assert_eq!(reply.calls.len(), 1, "{}", reply.text);
            let said: Vec<Value> =
                proxy.records(&session).iter().map(|r| serde_json::from_str(&r.text).unwrap()).collect();
            let said: Vec<_> = said.iter().filter(|event| event["type"] == "user.message").collect();
            assert_eq!(said.len(), 2, "our own answer is not a user message: {said:?}");
            assert_eq!((&said[1]["text"], &said[1]["origin"]), (&json!("go on"), &json!("human")));
            proxy.stop();
        }
    }
}

#[test]
fn agent_that_makes_progress_is_left_alone() {
    for kind in PROTOCOLS {
        let replies = (0..30).map(|number| {
            ReplyBehavior::text(&format!("now file {number}"))
                .call("bash", json!({"command": format!("cat file{number}.rs")}))
        });
        let server =
            ModelServer::start(ServerScript::new(replies.chain([ReplyBehavior::text("all done")]))).unwrap();
        let proxy = ProxyProcess::start(&test_dir(&format!("quiet-{kind:?}")), &server.url(), &[]);
        let provider = kind.provider(&proxy.url(), true);
        let mut request = question_request("read everything");
        for number in 0..31 {
            let reply = ask(provider.as_ref(), &request);
            request
                .messages
                .push(ChatMessage::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
            for call in &reply.calls {
                request.messages.push(ChatMessage::result(
                    &call.id,
                    true,
                    format!("fn number_{number}() {{}}"),
                ));
            }
        }
        assert!(
            server
                .requests()
                .iter()
                .all(|request| flyball_note(&request.body).is_none() && request.status == 200)
        );
        let [session] = proxy.sessions().try_into().expect("one session");
        let records = proxy.records(&session);
        assert!(records.iter().all(|record| record.verdict == flyball::Verdict::Allow));
        // One user message, thirty answers with a call and its result, and the end: nothing is counted twice.
        assert_eq!(records.len(), 1 + 30 * 3 + 1, "{:?}", event_outline(&records));
        let usage: u64 = records.iter().map(token_count).sum();
        assert_eq!(usage, 31 * (12 + 7), "every answer's tokens, once");
        proxy.stop();
    }
}

fn token_count(record: &flyball_store::EventRecord) -> u64 {
    let event: Value = serde_json::from_str(&record.text).unwrap();
    ["tokens_in", "tokens_out"].iter().filter_map(|name| event["usage"][name].as_u64()).sum()
}

#[test]
fn token_budget_ends_a_conversation() {
    let folder = test_dir("budget");
    let server = ModelServer::start(repeating_model("")).unwrap();
    let args = ["--preset", "off", "--set", "budgets.session.tokens=50"];
    let proxy = ProxyProcess::start(&folder, &server.url(), &args);
    let provider = ProviderProtocol::OpenAi.provider(&proxy.url(), true);
    let mut request = question_request("spend");
    let mut answers = 0;
    let last = loop {
        let reply = ask(provider.as_ref(), &request);
        if reply.calls.is_empty() {
            break reply;
        }
        answers += 1;
        assert!(answers < 10, "it never ends");
        push_tool_results(&mut request, &reply);
    };
    assert!(last.text.contains("'budget'"), "{}", last.text);
    assert_eq!(server.requests().len(), 3, "19 tokens an answer: the third is beyond 50");
}

#[test]
fn price_flag_enables_a_dollar_budget() {
    check_dollar_budget("price", &["--price", "test-model=1000,100"]);
}

#[test]
fn price_list_enables_a_dollar_budget() {
    let list = test_dir("price-list").join("mine.yaml");
    std::fs::write(&list, "version: 1\nmodels:\n  test-model: {input: 1000, output: 100}\n").unwrap();
    check_dollar_budget("price-listed", &["--prices", &list.display().to_string()]);
}

fn check_dollar_budget(name: &str, price: &[&str]) {
    let folder = test_dir(name);
    let server = ModelServer::start(repeating_model("")).unwrap();
    let args = [&["--preset", "off", "--set", "budgets.session.cost_usd=0.02"], price].concat();
    let proxy = ProxyProcess::start(&folder, &server.url(), &args);
    let provider = ProviderProtocol::Anthropic.provider(&proxy.url(), false);
    let mut request = question_request("spend");
    for _ in 0..2 {
        let reply = ask(provider.as_ref(), &request);
        assert_eq!(reply.calls.len(), 1, "{}", reply.text);
        push_tool_results(&mut request, &reply);
    }
    // 12 input and 7 output tokens cost 0.0127 dollars, twice.
    let reply = ask(provider.as_ref(), &request);
    assert!(reply.text.contains("'budget'"), "{}", reply.text);
}
