//! Large outputs and refused completions over HTTP: the same answers as through the pipe, for those who may see them.

use crate::database::Database;
use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::{Value, json};

fn large() -> String {
    (0..30_000).map(|n| format!("line {n} of the log, with an ä\n")).collect()
}

fn received(text: &str) -> Value {
    json!({"type": "output.received", "session": "s", "call": "c1", "text": text})
}

fn get(server: &Server, key: &str, path: &str) -> (u16, Value) {
    let (status, body) = server.ask("GET", path, Some(key), None);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// The whole output, slice by slice.
fn whole(server: &Server, key: &str, reference: &str) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let (status, slice) =
            get(server, key, &format!("/v1/outputs/{reference}?offset={offset}&limit=400000"));
        assert_eq!(status, 200, "{slice}");
        text.push_str(slice["text"].as_str().unwrap());
        match slice["next"].as_u64() {
            Some(next) => offset = next,
            None => return text,
        }
    }
}

#[test]
fn a_large_output_is_stored_and_read_by_those_who_see_the_session() {
    let server = Server::start(&folder("outputs"), &["--no-socket"]);
    let (bot, other) = (server.key("bot", Role::Agent), server.key("other", Role::Agent));
    let anna = server.key("anna", Role::Operator);
    let decision = server.event(&bot, &received(&large()));
    let output = &decision["output"];
    let reference = output["ref"].as_str().unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(
        (&output["bytes"], &output["preview"]),
        (&json!(large().len()), &json!(large().chars().take(1_000).collect::<String>()))
    );
    for key in [&bot, &anna] {
        assert_eq!(whole(&server, key, reference), large());
    }
    let path = format!("/v1/outputs/{reference}");
    assert_eq!(get(&server, &other, &path).0, 404, "one of another key is as one that is not there");
    let (_, found) = get(&server, &bot, &format!("{path}?search=line%2029999%20"));
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
        assert_eq!(get(&server, &bot, &path).0, code, "{path}");
    }
    assert_eq!(server.event(&bot, &received("small")).get("output"), None);
    server.event(&bot, &json!({"type": "session.ended", "session": "s"}));
    assert_eq!(get(&server, &bot, &path).0, 404, "it goes with its session");
}

#[test]
fn an_output_may_be_larger_than_other_events() {
    let server = Server::start(&folder("outputs-size"), &["--no-socket"]);
    let bot = server.key("bot", Role::Agent);
    let text = "x".repeat(3 * 1024 * 1024);
    let decision = server.event(&bot, &received(&text));
    assert_eq!(decision["output"]["bytes"], text.len());
    let other = json!({"type": "user.message", "session": "s", "text": text});
    assert_eq!(server.ask("POST", "/v1/events", Some(&bot), Some(&other.to_string())).0, 413);
}

#[test]
fn with_a_database_every_server_reads_what_another_one_stored() {
    let Some(database) = Database::new() else { return };
    let (first, second) = (folder("outputs-first"), folder("outputs-second"));
    let first = Server::on(&first, &database.url, &["--no-socket"]);
    let second = Server::on(&second, &database.url, &["--no-socket"]);
    let bot = first.key("bot", Role::Agent);
    let text = format!("\u{0}{}", large());
    let decision = first.event(&bot, &received(&text));
    let reference = decision["output"]["ref"].as_str().unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(whole(&second, &bot, reference), text);
    second.event(&bot, &json!({"type": "session.ended", "session": "s"}));
    assert_eq!(get(&first, &bot, &format!("/v1/outputs/{reference}")).0, 404);
}

#[test]
fn raw_checks_are_parsed_and_blocked_with_the_same_event_one_by_one_or_among_many() {
    let server = Server::start(&folder("raw-checks"), &["--no-socket"]);
    let bot = server.key("bot", Role::Agent);
    let checked = |session: &str| {
        json!({"type": "gate.checked", "session": session, "checks": [
            {"name": "types", "kind": "tsc", "output": "src/a.ts(2,3): error TS2322: Type 'string' is not assignable to type 'number'.\n"}]})
    };
    let blocked = |decision: &Value| {
        let effects = decision["effects"].as_array().unwrap().clone();
        effects.into_iter().find(|effect| effect["effect"] == "completion.blocked").expect("the effect")
    };
    let one = blocked(&server.event(&bot, &checked("a")));
    assert_eq!(
        one["details"],
        json!(["src/a.ts:2: Type 'string' is not assignable to type 'number'. [TS2322]"])
    );
    let many = json!([checked("b"), {"type": "gate.checked", "session": "b", "checks": [{"name": "t", "kind": "jset"}]}]);
    let (status, body) = server.ask("POST", "/v1/events", Some(&bot), Some(&many.to_string()));
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, blocked(&answers[0])["text"].clone()), (200, one["text"].clone()));
    assert_eq!(answers[1]["error"]["code"], "unknown_check_kind");
}
