//! What a login cookie is good for: nothing without the CSRF token, and no approval without a fresh proof.

use crate::kit::{Server, folder};
use crate::visitor::{Visitor, field};
use crate::{asked, halted, request};
use flyball_serve::Role;
use serde_json::{Value, json};

/// Paths that tell something about a session, as pages and for programs.
const READS: [&str; 9] = [
    "/",
    "/sessions",
    "/sessions/p",
    "/session?name=p",
    "/health",
    "/v1/inbox",
    "/v1/sessions/p/events",
    "/v1/live?after=0-0",
    "/metrics",
];

fn state(server: &Server, agent: &str, session: &str) -> Value {
    let (_, body) = server.ask("GET", &format!("/v1/sessions/{session}"), Some(agent), None);
    serde_json::from_str::<Value>(&body).unwrap()["state"].clone()
}

#[test]
fn stolen_cookie_neither_reads_nor_acts() {
    let server = Server::start(&folder("stolen"), &["--no-socket"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    asked(&server, &agent, "p");
    halted(&server, &agent, "h");
    let mut owner = Visitor::new(&server);
    let entered = owner.enter_with_script(&person);
    assert_eq!(entered.status, 200, "{}", entered.body);
    assert!(!entered.header("set-cookie").contains(&owner.token), "the token is in no cookie");
    let inbox = owner.get("/").body;
    assert!(inbox.contains("Delete both?"), "{inbox}");

    // A program that has the cookie, for example from a server on another port, and sends what a browser sends.
    let mut thief = Visitor::new(&server);
    thief.cookie = owner.cookie.clone();
    let browser = [("Sec-Fetch-Site", "same-origin"), ("Origin", server.place.as_str())];
    for path in READS {
        let answer = thief.get_with(path, &browser);
        for secret in ["Delete both?", "make", &owner.token, "ticket", "data-item"] {
            assert!(!answer.body.contains(secret), "{path} tells {secret}: {}", answer.body);
        }
        let page = !path.starts_with("/v1") && path != "/metrics";
        assert_eq!(answer.status, if page { 200 } else { 403 }, "{path}: {}", answer.body);
        thief.token = "guess".to_owned();
        assert!(!thief.get_with(path, &browser).body.contains("Delete both?"), "{path} with a wrong token");
        thief.token.clear();
    }
    for act in ["approve", "deny", "release", "stop", "say"] {
        for word in ["", "guess", owner.cookie.as_str()] {
            let fields = [("word", word), ("session", "p"), ("why", "x"), ("text", "yes"), ("key", "k")];
            assert_eq!(thief.post(&format!("/act/{act}"), &fields).status, 403, "{act} with {word:?}");
        }
    }
    let headers = [
        ("Cookie", owner.cookie.as_str()),
        ("Origin", server.place.as_str()),
        ("Content-Type", "application/json"),
    ];
    for (path, body) in [
        ("/v1/sessions/p/confirmation", r#"{"answer":"yes","ticket":"x"}"#),
        ("/v1/sessions/h/releases", r#"{"why":"x"}"#),
        ("/v1/sessions/p/stop", r#"{"why":"x"}"#),
        ("/v1/events", r#"{"type":"turn.started","session":"x"}"#),
        ("/v1/runs", r#"{"workflow":"x"}"#),
    ] {
        let (status, told) = server.ask_with("POST", path, &headers, Some(body));
        assert!(status == 403 && told.contains("csrf_token_missing"), "{path}: {status} {told}");
    }
    assert_eq!(
        [state(&server, &agent, "p"), state(&server, &agent, "h")],
        ["awaiting_confirmation", "halted"]
    );
    let (_, log) = server.ask("GET", "/v1/audit?limit=1000", Some(&person), None);
    assert!(log.contains("csrf_token_missing") && log.contains("form_refused"), "{log}");
}

#[test]
fn requests_of_other_origins_are_refused() {
    let server = Server::start(&folder("origins"), &["--no-socket", "--host", "flyball.example"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    asked(&server, &agent, "p");
    let mut owner = Visitor::new(&server);
    owner.enter_with_script(&person);
    let (word, ticket) = {
        let page = owner.get("/").body;
        (field(&page, "word"), field(&page, "ticket"))
    };
    // Even with the token and the ticket: a page of another port is another origin.
    for site in ["same-site", "cross-site", "odd"] {
        for mode in ["cors", "no-cors"] {
            let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)];
            assert_eq!(owner.get_with("/", &headers).status, 403, "{site} {mode}");
        }
        let opened = owner.get_with("/", &[("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate")]);
        assert_eq!(opened.header("location"), "/login", "a link of somebody else: {site}");
        let fields = format!("word={word}&session=p&ticket={ticket}&key=k");
        let headers = [
            ("Cookie", owner.cookie.as_str()),
            ("Origin", server.place.as_str()),
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", "navigate"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        assert_eq!(server.ask_with("POST", "/act/approve", &headers, Some(&fields)).0, 403, "{site}");
    }
    let tls = server.place.replace("http://", "https://");
    let port = server.place.rsplit(':').next().unwrap();
    let other = format!("http://127.0.0.1:{}", if port == "1" { "2" } else { "1" });
    let name = server.place.replace("127.0.0.1", "localhost");
    for origin in [tls.as_str(), &other, &name, "null", "http://127.0.0.1", "file://"] {
        let fields = [("word", word.as_str()), ("session", "p"), ("ticket", ticket.as_str()), ("key", "k")];
        assert_eq!(owner.post_from("/act/approve", &fields, Some(origin)).status, 403, "{origin}");
    }
    assert_eq!(state(&server, &agent, "p"), "awaiting_confirmation");
    let own = [("word", word.as_str()), ("session", "p"), ("ticket", ticket.as_str()), ("key", "k")];
    assert_eq!(owner.post("/act/approve", &own).status, 303, "and from a page of ours it is fine");
}

#[test]
fn approval_needs_the_key_again_after_a_while() {
    let server = Server::start(&folder("proof"), &["--no-socket", "--proof-max-age", "1s"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let other = server.key("ben", Role::Operator);
    asked(&server, &agent, "p");
    halted(&server, &agent, "h");
    let mut owner = Visitor::new(&server);
    owner.enter_with_script(&person);
    std::thread::park_timeout(std::time::Duration::from_millis(1_200));
    let page = owner.get("/sessions/p").body;
    let (word, ticket) = (field(&page, "word"), field(&page, "ticket"));
    let form = |act: &str, session: &str, secret: &str| {
        let fields = [
            ("word", word.as_str()),
            ("session", session),
            ("ticket", ticket.as_str()),
            ("key", &format!("{act}-{session}")),
            ("why", "looked at it"),
            ("back", "inbox"),
            ("secret", secret),
        ];
        owner.post(&format!("/act/{act}"), &fields)
    };
    for secret in ["", "flyball_operator_0", &other, &agent, &owner.cookie] {
        for (act, session) in [("approve", "p"), ("release", "h")] {
            let answer = form(act, session, secret);
            assert_eq!(answer.status, 403, "{act} with {secret:?}: {}", answer.body);
            assert!(answer.body.contains("Your key") && answer.body.contains(&ticket), "{}", answer.body);
            crate::markup::check(&answer.body);
        }
    }
    let headers = [
        ("Cookie", owner.cookie.as_str()),
        ("Origin", server.place.as_str()),
        ("Flyball-CSRF", owner.token.as_str()),
        ("Content-Type", "application/json"),
    ];
    let yes = json!({"answer": "yes", "ticket": ticket}).to_string();
    let (status, told) = server.ask_with("POST", "/v1/sessions/p/confirmation", &headers, Some(&yes));
    assert!(status == 403 && told.contains("proof_required"), "{told}");
    assert_eq!(
        [state(&server, &agent, "p"), state(&server, &agent, "h")],
        ["awaiting_confirmation", "halted"]
    );
    assert_eq!(form("approve", "p", &person).header("location"), "/?did=approved&in=p");
    assert_eq!(
        form("release", "h", "").header("location"),
        "/?did=released&in=h",
        "the proof holds for a while"
    );
    std::thread::park_timeout(std::time::Duration::from_millis(1_200));
    asked(&server, &agent, "q");
    assert_eq!(form("deny", "q", "").header("location"), "/?did=denied&in=q", "a no needs no proof");
}

#[test]
fn login_without_the_script_reads_and_needs_the_key_for_each_act() {
    let server = Server::start(&folder("plain"), &["--no-socket"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    asked(&server, &agent, "p");
    halted(&server, &agent, "h");
    let mut visitor = Visitor::new(&server);
    visitor.enter(&person);
    let page = visitor.get("/sessions/p").body;
    assert!(page.contains("name=\"secret\"") && page.contains("Your key"), "{page}");
    crate::markup::check(&page);
    let (word, ticket) = (field(&page, "word"), field(&page, "ticket"));
    let form = |act: &str, secret: &str, key: &str| {
        let fields = [
            ("word", word.as_str()),
            ("session", if act == "release" { "h" } else { "p" }),
            ("ticket", ticket.as_str()),
            ("key", key),
            ("why", "looked at it"),
            ("secret", secret),
        ];
        visitor.post(&format!("/act/{act}"), &fields)
    };
    assert_eq!([form("approve", "", "a").status, form("release", "", "b").status], [403, 403]);
    assert_eq!(state(&server, &agent, "p"), "awaiting_confirmation");
    assert_eq!(form("approve", &person, "c").header("location"), "/sessions/p?did=approved");
    assert_eq!(form("release", "", "d").status, 403, "each act needs it");
    assert_eq!(form("release", &person, "e").status, 303);
    let (status, told) = server.ask_with("GET", "/v1/inbox", &[("Cookie", &visitor.cookie)], None);
    assert!(status == 403 && told.contains("csrf_token_missing"), "{told}");
    assert_eq!(server.event(&agent, &request("h", 90))["state"], "running");
}

#[test]
fn two_servers_on_one_host_keep_their_logins_apart() {
    let servers =
        ["first", "second"].map(|name| Server::start(&folder(&format!("two-{name}")), &["--no-socket"]));
    let cookies = servers.each_ref().map(|server| {
        let mut visitor = Visitor::new(server);
        visitor.enter(&server.key("anna", Role::Operator));
        visitor.cookie
    });
    let both = cookies.join("; ");
    assert_ne!(cookies[0].split('=').next(), cookies[1].split('=').next(), "{both}");
    for server in &servers {
        let answer = server.ask_with("GET", "/", &[("Cookie", &both), ("Accept", "text/html")], None);
        assert_eq!(answer.0, 200);
    }
}
