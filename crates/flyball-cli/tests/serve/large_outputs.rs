//! Large outputs and refused completions over HTTP: same results as on stdin, for keys that may see the session.

use crate::database::PostgresTestDatabase;
use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::{Value, json};

fn large_text() -> String {
    (0..30_000).map(|n| format!("line {n} of the log, with an ä\n")).collect()
}

fn output_event(text: &str) -> Value {
    json!({"type": "output.received", "session": "s", "call": "c1", "text": text})
}

fn get_json(server: &TestServer, key: &str, path: &str) -> (u16, Value) {
    let (status, body) = server.request("GET", path, Some(key), None);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Reads a whole output in slices.
fn read_whole_output(server: &TestServer, key: &str, reference: &str) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let (status, slice) =
            get_json(server, key, &format!("/v1/outputs/{reference}?offset={offset}&limit=400000"));
        assert_eq!(status, 200, "{slice}");
        text.push_str(slice["text"].as_str().unwrap());
        match slice["next"].as_u64() {
            Some(next) => offset = next,
            None => return text,
        }
    }
}

#[test]
fn large_output_is_readable_by_keys_that_see_the_session() {
    let server = TestServer::start(&test_dir("outputs"), &["--no-socket"]);
    let (bot, other) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("other", AuthRole::Agent));
    let anna = server.create_key("anna", AuthRole::Operator);
    let decision = server.submit_event(&bot, &output_event(&large_text()));
    let output = &decision["output"];
    let reference = output["ref"].as_str().unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(
        (&output["bytes"], &output["preview"]),
        (&json!(large_text().len()), &json!(large_text().chars().take(1_000).collect::<String>()))
    );
    for key in [&bot, &anna] {
        assert_eq!(read_whole_output(&server, key, reference), large_text());
    }
    let path = format!("/v1/outputs/{reference}");
    assert_eq!(get_json(&server, &other, &path).0, 404, "another key's output looks like a missing one");
    let (_, found) = get_json(&server, &bot, &format!("{path}?search=line%2029999%20"));
    assert_eq!(found["matches"][0]["line"], 30_000, "{found}");
    for (path, code) in [
        (format!("{path}?limit=0"), 422),
        (format!("{path}?limit=2000000"), 422),
        (format!("{path}?offest=1"), 422),
        (format!("{path}?search="), 422),
        ("/v1/outputs/../../etc/passwd".to_owned(), 404),
        (format!("/v1/outputs/{}", "0".repeat(65)), 404),
        (format!("/v1/outputs/{}-{}", "0".repeat(32), "0".repeat(32)), 404),
    ] {
        assert_eq!(get_json(&server, &bot, &path).0, code, "{path}");
    }
    assert_eq!(server.submit_event(&bot, &output_event("small")).get("output"), None);
    server.submit_event(&bot, &json!({"type": "session.ended", "session": "s"}));
    assert_eq!(get_json(&server, &bot, &path).0, 404, "the output is deleted with its session");
}

#[test]
fn an_output_may_be_larger_than_other_events() {
    let server = TestServer::start(&test_dir("outputs-size"), &["--no-socket"]);
    let bot = server.create_key("bot", AuthRole::Agent);
    let text = "x".repeat(3 * 1024 * 1024);
    let decision = server.submit_event(&bot, &output_event(&text));
    assert_eq!(decision["output"]["bytes"], text.len());
    let other = json!({"type": "user.message", "session": "s", "text": text});
    assert_eq!(server.request("POST", "/v1/events", Some(&bot), Some(&other.to_string())).0, 413);
}

#[test]
fn servers_on_one_database_share_outputs() {
    let Some(database) = PostgresTestDatabase::new() else { return };
    let (first, second) = (test_dir("outputs-first"), test_dir("outputs-second"));
    let first = TestServer::start_on(&first, &database.url, &["--no-socket"]);
    let second = TestServer::start_on(&second, &database.url, &["--no-socket"]);
    let bot = first.create_key("bot", AuthRole::Agent);
    let text = format!("\u{0}{}", large_text());
    let decision = first.submit_event(&bot, &output_event(&text));
    let reference = decision["output"]["ref"].as_str().unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(read_whole_output(&second, &bot, reference), text);
    second.submit_event(&bot, &json!({"type": "session.ended", "session": "s"}));
    assert_eq!(get_json(&first, &bot, &format!("/v1/outputs/{reference}")).0, 404);
}

#[test]
fn raw_checks_are_blocked_alike_singly_and_in_batches() {
    let server = TestServer::start(&test_dir("raw-checks"), &["--no-socket"]);
    let bot = server.create_key("bot", AuthRole::Agent);
    let checked = |session: &str| {
        json!({"type": "gate.checked", "session": session, "checks": [
            {"name": "types", "kind": "tsc", "output": "src/a.ts(2,3): error TS2322: Type 'string' is not assignable to type 'number'.\n"}]})
    };
    let blocked = |decision: &Value| {
        let effects = decision["effects"].as_array().unwrap().clone();
        effects.into_iter().find(|effect| effect["effect"] == "completion.blocked").expect("the effect")
    };
    let one = blocked(&server.submit_event(&bot, &checked("a")));
    assert_eq!(
        one["details"],
        json!(["src/a.ts:2: Type 'string' is not assignable to type 'number'. [TS2322]"])
    );
    let many = json!([checked("b"), {"type": "gate.checked", "session": "b", "checks": [{"name": "t", "kind": "jset"}]}]);
    let (status, body) = server.request("POST", "/v1/events", Some(&bot), Some(&many.to_string()));
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, blocked(&answers[0])["text"].clone()), (200, one["text"].clone()));
    assert_eq!(answers[1]["error"]["code"], "unknown_check_kind");
}
