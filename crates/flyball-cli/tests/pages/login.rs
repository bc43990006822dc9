//! Power of a login cookie: nothing without the CSRF token, and no approval without a recent proof.

use crate::browser_client::{BrowserClient, hidden_field};
use crate::server_harness::{TestServer, test_dir};
use crate::{halt_session, request, request_approval};
use flyball_server::AuthRole;
use serde_json::{Value, json};

/// Paths that expose session content, as pages and through the API.
const READ_PATHS: [&str; 9] = [
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

fn session_state(server: &TestServer, agent: &str, session: &str) -> Value {
    let (_, body) = server.request("GET", &format!("/v1/sessions/{session}"), Some(agent), None);
    serde_json::from_str::<Value>(&body).unwrap()["state"].clone()
}

#[test]
fn stolen_cookie_can_neither_read_nor_act() {
    let server = TestServer::start(&test_dir("stolen"), &["--no-socket"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    request_approval(&server, &agent, "p");
    halt_session(&server, &agent, "h");
    let mut owner = BrowserClient::new(&server);
    let entered = owner.log_in_with_script(&person);
    assert_eq!(entered.status, 200, "{}", entered.body);
    assert!(!entered.header("set-cookie").contains(&owner.csrf_token), "the token is not in a cookie");
    let inbox = owner.get("/").body;
    assert!(inbox.contains("Delete both?"), "{inbox}");

    // A program that has the cookie, for example from a server on another port, and imitates a browser.
    let mut thief = BrowserClient::new(&server);
    thief.cookie = owner.cookie.clone();
    let browser = [("Sec-Fetch-Site", "same-origin"), ("Origin", server.base_url.as_str())];
    for path in READ_PATHS {
        let answer = thief.get_with(path, &browser);
        for secret in ["Delete both?", "make", &owner.csrf_token, "ticket", "data-item"] {
            assert!(!answer.body.contains(secret), "{path} exposes {secret}: {}", answer.body);
        }
        let page = !path.starts_with("/v1") && path != "/metrics";
        assert_eq!(answer.status, if page { 200 } else { 403 }, "{path}: {}", answer.body);
        thief.csrf_token = "guess".to_owned();
        assert!(!thief.get_with(path, &browser).body.contains("Delete both?"), "{path} with a wrong token");
        thief.csrf_token.clear();
    }
    for act in ["approve", "deny", "release", "stop", "say"] {
        for csrf_token in ["", "guess", owner.cookie.as_str()] {
            let fields =
                [("csrf_token", csrf_token), ("session", "p"), ("why", "x"), ("text", "yes"), ("key", "k")];
            assert_eq!(thief.post(&format!("/act/{act}"), &fields).status, 403, "{act} with {csrf_token:?}");
        }
    }
    let headers = [
        ("Cookie", owner.cookie.as_str()),
        ("Origin", server.base_url.as_str()),
        ("Content-Type", "application/json"),
    ];
    for (path, body) in [
        ("/v1/sessions/p/confirmation", r#"{"answer":"yes","ticket":"x"}"#),
        ("/v1/sessions/h/releases", r#"{"why":"x"}"#),
        ("/v1/sessions/p/stop", r#"{"why":"x"}"#),
        ("/v1/events", r#"{"type":"turn.started","session":"x"}"#),
        ("/v1/runs", r#"{"workflow":"x"}"#),
    ] {
        let (status, response) = server.request_with_headers("POST", path, &headers, Some(body));
        assert!(status == 403 && response.contains("csrf_token_missing"), "{path}: {status} {response}");
    }
    assert_eq!(
        [session_state(&server, &agent, "p"), session_state(&server, &agent, "h")],
        ["awaiting_confirmation", "halted"]
    );
    let (_, log) = server.request("GET", "/v1/audit?limit=1000", Some(&person), None);
    assert!(log.contains("csrf_token_missing") && log.contains("csrf_token_invalid"), "{log}");
}

#[test]
fn requests_from_other_origins_are_rejected() {
    let server = TestServer::start(&test_dir("origins"), &["--no-socket", "--host", "flyball.example"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    request_approval(&server, &agent, "p");
    let mut owner = BrowserClient::new(&server);
    owner.log_in_with_script(&person);
    let (csrf_token, ticket) = {
        let page = owner.get("/").body;
        (hidden_field(&page, "csrf_token"), hidden_field(&page, "ticket"))
    };
    // Even with the token and the ticket: a page on another port is another origin.
    for site in ["same-site", "cross-site", "odd"] {
        for mode in ["cors", "no-cors"] {
            let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)];
            assert_eq!(owner.get_with("/", &headers).status, 403, "{site} {mode}");
        }
        let opened = owner.get_with("/", &[("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate")]);
        assert_eq!(opened.header("location"), "/login", "a link from another site: {site}");
        let fields = format!("csrf_token={csrf_token}&session=p&ticket={ticket}&key=k");
        let headers = [
            ("Cookie", owner.cookie.as_str()),
            ("Origin", server.base_url.as_str()),
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", "navigate"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        assert_eq!(
            server.request_with_headers("POST", "/act/approve", &headers, Some(&fields)).0,
            403,
            "{site}"
        );
    }
    let tls = server.base_url.replace("http://", "https://");
    let port = server.base_url.rsplit(':').next().unwrap();
    let other = format!("http://127.0.0.1:{}", if port == "1" { "2" } else { "1" });
    let name = server.base_url.replace("127.0.0.1", "localhost");
    for origin in [tls.as_str(), &other, &name, "null", "http://127.0.0.1", "file://"] {
        let fields = [
            ("csrf_token", csrf_token.as_str()),
            ("session", "p"),
            ("ticket", ticket.as_str()),
            ("key", "k"),
        ];
        assert_eq!(owner.post_from("/act/approve", &fields, Some(origin)).status, 403, "{origin}");
    }
    assert_eq!(session_state(&server, &agent, "p"), "awaiting_confirmation");
    let own =
        [("csrf_token", csrf_token.as_str()), ("session", "p"), ("ticket", ticket.as_str()), ("key", "k")];
    assert_eq!(owner.post("/act/approve", &own).status, 303, "the same form from our own page is accepted");
}

#[test]
fn approval_requires_the_key_again_after_proof_max_age() {
    let server = TestServer::start(&test_dir("proof"), &["--no-socket", "--proof-max-age", "1s"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let other = server.create_key("ben", AuthRole::Operator);
    request_approval(&server, &agent, "p");
    halt_session(&server, &agent, "h");
    let mut owner = BrowserClient::new(&server);
    owner.log_in_with_script(&person);
    std::thread::park_timeout(std::time::Duration::from_millis(1_200));
    let page = owner.get("/sessions/p").body;
    let (csrf_token, ticket) = (hidden_field(&page, "csrf_token"), hidden_field(&page, "ticket"));
    let form = |act: &str, session: &str, secret: &str| {
        let fields = [
            ("csrf_token", csrf_token.as_str()),
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
            crate::markup_checker::assert_page_is_safe(&answer.body);
        }
    }
    let headers = [
        ("Cookie", owner.cookie.as_str()),
        ("Origin", server.base_url.as_str()),
        ("Flyball-CSRF", owner.csrf_token.as_str()),
        ("Content-Type", "application/json"),
    ];
    let yes = json!({"answer": "yes", "ticket": ticket}).to_string();
    let (status, response) =
        server.request_with_headers("POST", "/v1/sessions/p/confirmation", &headers, Some(&yes));
    assert!(status == 403 && response.contains("proof_required"), "{response}");
    assert_eq!(
        [session_state(&server, &agent, "p"), session_state(&server, &agent, "h")],
        ["awaiting_confirmation", "halted"]
    );
    assert_eq!(form("approve", "p", &person).header("location"), "/?did=approved&in=p");
    assert_eq!(
        form("release", "h", "").header("location"),
        "/?did=released&in=h",
        "the proof is valid for a while"
    );
    std::thread::park_timeout(std::time::Duration::from_millis(1_200));
    request_approval(&server, &agent, "q");
    assert_eq!(form("deny", "q", "").header("location"), "/?did=denied&in=q", "denying needs no proof");
}

#[test]
fn login_without_script_can_read_and_needs_the_key_for_each_action() {
    let server = TestServer::start(&test_dir("plain"), &["--no-socket"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    request_approval(&server, &agent, "p");
    halt_session(&server, &agent, "h");
    let mut browser = BrowserClient::new(&server);
    browser.log_in(&person);
    let page = browser.get("/sessions/p").body;
    assert!(page.contains("name=\"secret\"") && page.contains("Your key"), "{page}");
    crate::markup_checker::assert_page_is_safe(&page);
    let (csrf_token, ticket) = (hidden_field(&page, "csrf_token"), hidden_field(&page, "ticket"));
    let form = |act: &str, secret: &str, key: &str| {
        let fields = [
            ("csrf_token", csrf_token.as_str()),
            ("session", if act == "release" { "h" } else { "p" }),
            ("ticket", ticket.as_str()),
            ("key", key),
            ("why", "looked at it"),
            ("secret", secret),
        ];
        browser.post(&format!("/act/{act}"), &fields)
    };
    assert_eq!([form("approve", "", "a").status, form("release", "", "b").status], [403, 403]);
    assert_eq!(session_state(&server, &agent, "p"), "awaiting_confirmation");
    assert_eq!(form("approve", &person, "c").header("location"), "/sessions/p?did=approved");
    assert_eq!(form("release", "", "d").status, 403, "each action needs the key");
    assert_eq!(form("release", &person, "e").status, 303);
    let (status, response) =
        server.request_with_headers("GET", "/v1/inbox", &[("Cookie", &browser.cookie)], None);
    assert!(status == 403 && response.contains("csrf_token_missing"), "{response}");
    assert_eq!(server.submit_event(&agent, &request("h", 90))["state"], "running");
}

#[test]
fn two_servers_on_one_host_keep_separate_logins() {
    let servers = ["first", "second"]
        .map(|name| TestServer::start(&test_dir(&format!("two-{name}")), &["--no-socket"]));
    let cookies = servers.each_ref().map(|server| {
        let mut browser = BrowserClient::new(server);
        browser.log_in(&server.create_key("anna", AuthRole::Operator));
        browser.cookie
    });
    let both = cookies.join("; ");
    assert_ne!(cookies[0].split('=').next(), cookies[1].split('=').next(), "{both}");
    for server in &servers {
        let answer =
            server.request_with_headers("GET", "/", &[("Cookie", &both), ("Accept", "text/html")], None);
        assert_eq!(answer.0, 200);
    }
}
