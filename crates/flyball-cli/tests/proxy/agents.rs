//! An agent that does the same again and again, and what the proxy does about it. The agent talks through the
//! providers' own code; the server refuses what the real ones refuse, so a note in the wrong place would be seen.

use super::kit::{BOTH, Kind, Proxy, ask, flyball, folder, outline, question};
use flyball_model_server::{Behaviour, Repeat, SaidCall, Script, Server};
use flyball_run::provider::{Message, Reply, Request, Stop};
use serde_json::{Value, json};

/// A model that calls the same tool for ever; each call has an id of its own.
pub(crate) fn stubborn(text: &str) -> Script {
    let said = |number: usize| {
        let call = SaidCall {
            id: Some(format!("toolu_{number}")),
            name: "bash".to_owned(),
            args: json!({"command": "cargo test"}),
            raw_args: None,
        };
        Behaviour { calls: vec![call], ..Behaviour::text(text) }
    };
    Script { repeat: Repeat::Last, ..Script::new((0..40).map(said)) }
}

/// Goes on with an answer: its calls are run, and all give the same.
pub(crate) fn go_on(request: &mut Request, reply: &Reply) {
    request.messages.push(Message::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
    for call in &reply.calls {
        request.messages.push(Message::result(&call.id, true, "2 passed, 1 failed"));
    }
}

/// Whether a request that reached the server brings a note, in its last message.
pub(crate) fn note(body: &Value) -> Option<String> {
    let last = body["messages"].as_array()?.last()?.to_string();
    last.contains("[flyball]").then_some(last)
}

#[test]
fn an_agent_that_repeats_itself_is_told_and_then_halted_until_it_is_released() {
    for kind in BOTH {
        for stream in [true, false] {
            let folder = folder(&format!("stubborn-{kind:?}-{stream}"));
            let server = Server::start(stubborn("")).unwrap();
            let proxy = Proxy::start(&folder, &server.url(), &[]);
            let provider = kind.provider(&proxy.url(), stream);
            let mut request = question("make the tests pass");
            let mut halted = None;
            for round in 1..=20 {
                let reply = ask(provider.as_ref(), &request);
                if reply.calls.is_empty() {
                    halted = Some((round, reply));
                    break;
                }
                go_on(&mut request, &reply);
            }
            let (round, reply) = halted.unwrap_or_else(|| panic!("{kind:?} {stream}: never halted"));
            let reached = server.requests();
            assert!(
                reached.iter().all(|request| request.status == 200),
                "the server refused one: {reached:?}"
            );
            assert_eq!(reached.len(), round - 1, "a halted request reaches nobody");
            assert_eq!(reply.stop, Stop::End);
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
            let verdicts: Vec<&str> = outline(&records)
                .into_iter()
                .filter_map(|(kind, verdict)| (kind == "tool.requested").then_some(verdict))
                .collect();
            // Five run, the third of them is warned of; the sixth and seventh are refused, the eighth halts.
            assert_eq!(
                verdicts,
                ["allow", "allow", "warn", "warn", "warn", "block", "block", "halt"],
                "{kind:?} {stream}"
            );
            let notes: Vec<bool> = reached.iter().map(|request| note(&request.body).is_some()).collect();
            assert_eq!(notes, [false, false, false, true, true, true, true, true], "{kind:?} {stream}");
            let refused = note(&reached[6].body).unwrap();
            assert!(refused.contains("Refused by the loop guard"), "{refused}");
            assert!(refused.contains("2 passed, 1 failed"), "the result is kept: {refused}");

            // The halt stands, also for a person's next words, until somebody releases it.
            request.messages.push(Message::assistant(&reply.text));
            request.messages.push(Message::user("go on"));
            assert!(ask(provider.as_ref(), &request).text.starts_with("[flyball]"));
            let (code, out, err) = flyball(&folder, &["release", &session, "--why", "looked at it"]);
            assert_eq!(code, Some(0), "{out}{err}");
            let reply = ask(provider.as_ref(), &request);
            assert_eq!(reply.calls.len(), 1, "{}", reply.text);
            let said: Vec<Value> =
                proxy.records(&session).iter().map(|r| serde_json::from_str(&r.text).unwrap()).collect();
            let said: Vec<_> = said.iter().filter(|event| event["type"] == "user.message").collect();
            assert_eq!(said.len(), 2, "our own answer is nobody's word: {said:?}");
            assert_eq!((&said[1]["text"], &said[1]["origin"]), (&json!("go on"), &json!("human")));
            proxy.stop();
        }
    }
}

#[test]
fn an_agent_that_gets_on_is_left_alone() {
    for kind in BOTH {
        let replies = (0..30).map(|number| {
            Behaviour::text(&format!("now file {number}"))
                .call("bash", json!({"command": format!("cat file{number}.rs")}))
        });
        let server = Server::start(Script::new(replies.chain([Behaviour::text("all done")]))).unwrap();
        let proxy = Proxy::start(&folder(&format!("quiet-{kind:?}")), &server.url(), &[]);
        let provider = kind.provider(&proxy.url(), true);
        let mut request = question("read everything");
        for number in 0..31 {
            let reply = ask(provider.as_ref(), &request);
            request
                .messages
                .push(Message::Assistant { text: reply.text.clone(), calls: reply.calls.clone() });
            for call in &reply.calls {
                request.messages.push(Message::result(&call.id, true, format!("fn number_{number}() {{}}")));
            }
        }
        assert!(
            server.requests().iter().all(|request| note(&request.body).is_none() && request.status == 200)
        );
        let [session] = proxy.sessions().try_into().expect("one session");
        let records = proxy.records(&session);
        assert!(records.iter().all(|record| record.verdict == flyball::Verdict::Allow));
        // One word of a person, thirty answers with a call and its result, and the end: nothing is counted twice.
        assert_eq!(records.len(), 1 + 30 * 3 + 1, "{:?}", outline(&records));
        let usage: u64 = records.iter().map(tokens).sum();
        assert_eq!(usage, 31 * (12 + 7), "every answer's tokens, once");
        proxy.stop();
    }
}

fn tokens(record: &flyball_journal::Record) -> u64 {
    let event: Value = serde_json::from_str(&record.text).unwrap();
    ["tokens_in", "tokens_out"].iter().filter_map(|name| event["usage"][name].as_u64()).sum()
}

#[test]
fn a_budget_of_tokens_ends_a_conversation() {
    let folder = folder("budget");
    let server = Server::start(stubborn("")).unwrap();
    let args = ["--preset", "off", "--set", "budgets.session.tokens=50"];
    let proxy = Proxy::start(&folder, &server.url(), &args);
    let provider = Kind::OpenAi.provider(&proxy.url(), true);
    let mut request = question("spend");
    let mut answers = 0;
    let last = loop {
        let reply = ask(provider.as_ref(), &request);
        if reply.calls.is_empty() {
            break reply;
        }
        answers += 1;
        assert!(answers < 10, "it goes on for ever");
        go_on(&mut request, &reply);
    };
    assert!(last.text.contains("'budget'"), "{}", last.text);
    assert_eq!(server.requests().len(), 3, "19 tokens an answer: the third is beyond 50");
}

#[test]
fn a_price_makes_a_budget_of_dollars() {
    spends("price", &["--price", "test-model=1000,100"]);
}

#[test]
fn a_list_of_prices_makes_a_budget_of_dollars_too() {
    let list = folder("price-list").join("mine.yaml");
    std::fs::write(&list, "version: 1\nmodels:\n  test-model: {input: 1000, output: 100}\n").unwrap();
    spends("price-listed", &["--prices", &list.display().to_string()]);
}

fn spends(name: &str, price: &[&str]) {
    let folder = folder(name);
    let server = Server::start(stubborn("")).unwrap();
    let args = [&["--preset", "off", "--set", "budgets.session.cost_usd=0.02"], price].concat();
    let proxy = Proxy::start(&folder, &server.url(), &args);
    let provider = Kind::Anthropic.provider(&proxy.url(), false);
    let mut request = question("spend");
    for _ in 0..2 {
        let reply = ask(provider.as_ref(), &request);
        assert_eq!(reply.calls.len(), 1, "{}", reply.text);
        go_on(&mut request, &reply);
    }
    // 12 tokens in and 7 out are 0.0127 dollars, twice.
    let reply = ask(provider.as_ref(), &request);
    assert!(reply.text.contains("'budget'"), "{}", reply.text);
}
