//! The dashboard through the real binary: login, forms, content; and session content is never markup. The same pages
//! are tested in a real browser in `xtask/browser`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap or panic fails the test")]

#[path = "pages/browser_client.rs"]
mod browser_client;
#[path = "pages/coverage.rs"]
mod coverage;
#[path = "pages/injection_payloads.rs"]
mod injection_payloads;
#[path = "pages/login.rs"]
mod login;
#[path = "pages/markup_checker.rs"]
mod markup_checker;
#[path = "serve/server_harness.rs"]
mod server_harness;

use browser_client::{BrowserClient, PageResponse, hidden_field, percent_encode};
use flyball_server::AuthRole;
use serde_json::{Value, json};
use server_harness::{TestServer, test_dir};

fn start_server(name: &str) -> TestServer {
    TestServer::start(&test_dir(name), &["--no-socket"])
}

fn request(session: &str, number: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "call": format!("c{number}"), "tool": "bash",
        "args": {"command": "make <all>"}})
}

/// Repeats the same call until the session is halted.
fn halt_session(server: &TestServer, agent: &str, session: &str) {
    for number in 0..5 {
        server.submit_event(agent, &request(session, number));
        let finished = json!({"type": "tool.finished", "session": session, "call": format!("c{number}"), "ok": true,
            "output": "nothing to be done"});
        server.submit_event(agent, &finished);
    }
    let last =
        [5, 6, 7].map(|number| server.submit_event(agent, &request(session, number))["decision"].clone());
    assert_eq!(last, ["block", "block", "halt"]);
}

fn request_approval(server: &TestServer, agent: &str, session: &str) {
    let event = json!({"type": "confirmation.requested", "session": session, "question": "Delete both?",
        "plan": [{"tool": "delete", "args": {"id": 1}}, {"tool": "delete", "args": {"id": 2}}]});
    assert_eq!(server.submit_event(agent, &event)["state"], "awaiting_confirmation");
}

#[test]
fn unauthenticated_browser_is_redirected_to_login() {
    let server = start_server("stranger");
    let stranger = BrowserClient::new(&server);
    for path in
        ["/", "/sessions", "/sessions/x", "/session?name=x", "/sessions/x/graph.svg", "/health", "/nowhere"]
    {
        let answer = stranger.get(path);
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").starts_with("/login"), "{path}: {}", answer.header("location"));
        let (status, body) = server.request("GET", path, None, None);
        assert_eq!(status, 401, "a program gets an error: {path}");
        assert!(body.contains("key_missing"), "{body}");
    }
    for path in ["/act/release", "/act/approve", "/logout"] {
        assert_eq!(stranger.post(path, &[("csrf_token", "x")]).status, 401, "{path}");
    }
    let login = stranger.get("/login?to=%2Fsessions%2Fx");
    assert_eq!(login.status, 200);
    markup_checker::assert_page_is_safe(&login.body);
    assert_eq!(stranger.get("/login?to=https%3A%2F%2Fevil.invalid%2F").body.matches("evil").count(), 0);
}

#[test]
fn login_works_with_a_key_or_a_one_time_link_and_never_for_agents() {
    let mut server = start_server("login");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let mut browser = BrowserClient::new(&server);
    assert_eq!(browser.log_in(&agent).status, 401);
    assert_eq!(browser.log_in("flyball_operator_0").status, 401);
    assert_eq!(browser.get("/").status, 303);

    let entered = browser.log_in(&person);
    assert_eq!((entered.status, entered.header("location").as_str()), (303, "/"));
    let cookie = entered.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&person) && !cookie.contains("Secure"), "{cookie}");
    let inbox = browser.get("/");
    assert_eq!(inbox.status, 200);
    assert!(inbox.body.contains("anna") && inbox.body.contains("Nothing needs your attention."));

    let csrf_token = hidden_field(&inbox.body, "csrf_token");
    assert_eq!(browser.post("/logout", &[("csrf_token", "guess")]).status, 403);
    assert_eq!(browser.post("/logout", &[("csrf_token", &csrf_token)]).status, 303);
    assert_eq!(browser.get("/").status, 303, "the cookie is invalid even if it is sent again");

    let link = server.wait_for_output("a link", |said| {
        let at = said.find("/login?link=")? + "/login?link=".len();
        Some(said.get(at..)?.split_whitespace().next()?.to_owned())
    });
    let mut second = BrowserClient::new(&server);
    for _ in 0..3 {
        assert_eq!(
            second.get(&format!("/login?link={link}")).status,
            200,
            "loading the link does not use it up"
        );
    }
    assert_eq!(second.log_in(&link).status, 303);
    assert_eq!(second.get("/").status, 200);
    assert_eq!(BrowserClient::new(&server).log_in(&link).status, 401, "the link works once");
}

#[test]
fn every_response_has_security_headers() {
    let server = start_server("headers");
    let person = server.create_key("anna", AuthRole::Operator);
    let mut browser = BrowserClient::new(&server);
    let mut answers = vec![browser.log_in(&person)];
    answers.extend(
        ["/", "/sessions", "/health", "/login", "/sessions/none", "/nowhere", "/healthz"]
            .map(|path| browser.get(path)),
    );
    for answer in &answers {
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let rest =
            ["x-content-type-options", "referrer-policy", "cache-control"].map(|name| answer.header(name));
        assert_eq!(rest, ["nosniff", "same-origin", "no-store"]);
    }
    assert_eq!(browser.get("/sessions/none").status, 404);
    let style = browser.get("/assets/style.css");
    assert_eq!((style.status, style.header("content-type").as_str()), (200, "text/css; charset=utf-8"));
    let again = browser.get_with("/assets/style.css", &[("If-None-Match", &style.header("etag"))]);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(browser.get("/assets/..%2Fmod.rs").status, 404);
}

#[test]
fn form_requires_a_csrf_token_and_our_origin() {
    let server = start_server("forms");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    halt_session(&server, &agent, "s/1");
    let mut browser = BrowserClient::new(&server);
    browser.log_in_with_script(&person);
    let inbox = browser.get("/").body;
    let (csrf_token, session, key) =
        (hidden_field(&inbox, "csrf_token"), hidden_field(&inbox, "session"), hidden_field(&inbox, "key"));
    let guard = hidden_field(&inbox, "guard");
    let form = |csrf_token: &str, why: &str| {
        vec![
            ("csrf_token", csrf_token.to_owned()),
            ("session", session.clone()),
            ("guard", guard.clone()),
            ("key", key.clone()),
            ("why", why.to_owned()),
            ("back", "inbox".to_owned()),
        ]
    };
    let sent = |fields: &[(&str, String)], origin: Option<&str>| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.post_from("/act/release", &fields, origin)
    };
    let own = Some(server.base_url.as_str());
    for (what, status) in [
        (sent(&form("", "why"), own), 403),
        (sent(&form("guess", "why"), own), 403),
        (sent(&form(&csrf_token, "why"), Some("https://evil.invalid")), 403),
        (sent(&form(&csrf_token, "why"), Some("null")), 403),
        (sent(&form(&csrf_token, "why"), None), 403),
        (sent(&form(&csrf_token, "  "), own), 422),
    ] {
        assert_eq!(what.status, status, "{}", what.body);
        assert_eq!(server.submit_event(&agent, &request("s/1", 90))["decision"], "halt");
    }
    let other = server.create_key("ben", AuthRole::Operator);
    let mut second = BrowserClient::new(&server);
    second.log_in_with_script(&other);
    let fields = [("csrf_token", csrf_token.as_str()), ("session", &session), ("why", "x")];
    assert_eq!(second.post("/act/release", &fields).status, 403, "the CSRF token of another login");

    let done = sent(&form(&csrf_token, "it was the disk"), own);
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/?did=released&in=s%2F1"),
        "{}",
        done.body
    );
    let after = server.submit_event(&agent, &request("s/1", 91))["decision"].clone();
    assert!(["allow", "warn"].contains(&after.as_str().unwrap()), "it continues: {after}");
    assert_eq!(
        sent(&form(&csrf_token, "it was the disk"), own).status,
        303,
        "a second click gets the same response"
    );
    let page = browser.get("/sessions/s%2F1").body;
    assert_eq!(
        page.matches("it was the disk").count(),
        2,
        "once in the timeline, once in the whole event: {page}"
    );
    assert!(page.contains("anna"), "the operator is shown");
}

#[test]
fn plan_is_approved_once_with_the_page_ticket() {
    let server = start_server("plan");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    request_approval(&server, &agent, "p");
    let mut browser = BrowserClient::new(&server);
    browser.log_in_with_script(&person);
    let inbox = browser.get("/").body;
    assert!(inbox.contains("Delete both?") && inbox.contains("2 steps"), "{inbox}");
    let (csrf_token, ticket) = (hidden_field(&inbox, "csrf_token"), hidden_field(&inbox, "ticket"));
    let form = |ticket: &str, key: &str| {
        browser.post(
            "/act/approve",
            &[
                ("csrf_token", &csrf_token),
                ("session", "p"),
                ("ticket", ticket),
                ("key", key),
                ("back", "inbox"),
            ],
        )
    };
    assert_eq!(form("guess", "k1").status, 409);
    assert_eq!(hidden_field(&browser.get("/").body, "ticket"), ticket, "the same user gets the same ticket");
    let approved = form(&ticket, "k2");
    assert_eq!(approved.header("location"), "/?did=approved&in=p", "{}", approved.body);
    assert_eq!(form(&ticket, "k2").header("location"), "/?did=approved&in=p", "a retry of the same click");
    assert_eq!(form(&ticket, "k3").status, 409, "the ticket is used up");
    assert!(browser.get("/?did=approved&in=p").body.contains("Approved. The plan can run once."));
    let events = server.submit_event(&agent, &json!({"type": "user.message", "session": "p", "text": "x"}));
    assert_eq!(events["seq"], 3, "question, one answer, this message");

    request_approval(&server, &agent, "q");
    let page = browser.get("/sessions/q").body;
    let denied = browser.post(
        "/act/deny",
        &[("csrf_token", &csrf_token), ("session", "q"), ("key", &hidden_field(&page, "key"))],
    );
    assert_eq!(denied.header("location"), "/sessions/q?did=denied");
    let requested = json!({"type": "confirmation.requested", "session": "r", "question": "?", "requester": "carl",
        "plan": [{"tool": "delete"}]});
    server.submit_event(&agent, &requested);
    let page = browser.get("/sessions/r").body;
    assert!(page.contains("only carl can approve it") && !page.contains("/act/approve"), "{page}");
}

#[test]
fn session_page_shows_evidence_policy_and_repeats() {
    let folder = test_dir("evidence");
    let policy = "version: 1\npreset: agent\nguards:\n  repetition: {limit: 5}\n";
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    let server = TestServer::start(&folder, &["--no-socket"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    halt_session(&server, &agent, "loop");
    let mut browser = BrowserClient::new(&server);
    browser.log_in(&person);
    let page = browser.get("/sessions/loop").body;
    markup_checker::assert_page_is_safe(&page);
    for part in [
        "Stuck: the same call, the same result, ",
        "limit <b>5</b>",
        "guards.repetition.limit = 5",
        "flyball.yaml, line 4",
        "× 3</b>",
        "make &lt;all&gt;",
        "flyball release loop --guard repetition --why",
    ] {
        assert!(page.contains(part), "{part} is not in the page:\n{page}");
    }
    let question = json!({"type": "question.asked", "session": "asks", "text": "Which day?"});
    server.submit_event(&agent, &question);
    let inbox = browser.get("/").body;
    assert!(inbox.contains("2 sessions need") && inbox.contains("Which day?"), "{inbox}");
    let csrf_token = hidden_field(&inbox, "csrf_token");
    let said = [
        ("csrf_token", csrf_token.as_str()),
        ("session", "asks"),
        ("text", "Friday"),
        ("key", "k"),
        ("back", "inbox"),
        ("secret", person.as_str()),
    ];
    assert_eq!(browser.post("/act/say", &said).header("location"), "/?did=said&in=asks");
    let after = browser.get("/").body;
    assert!(after.contains("1 session needs"), "an answered question leaves the inbox: {after}");
    let found = browser.get("/sessions?state=halted&q=LOO").body;
    assert!(found.contains("/sessions/loop") && !found.contains("/sessions/asks"), "{found}");
    let health = browser.get("/health").body;
    assert!(health.contains("repetition") && health.contains("Decisions per minute"), "{health}");
    markup_checker::assert_page_is_safe(&health);
}

#[test]
fn long_timeline_is_paginated_with_repeats_collapsed() {
    let server = start_server("story");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let mut browser = BrowserClient::new(&server);
    browser.log_in(&person);
    for _ in 0..105 {
        for signal in ["first", "second"] {
            let event =
                json!({"type": "progress", "session": "long", "signal": signal, "done": 3, "total": 9});
            server.submit_event(&agent, &event);
        }
    }
    let page = browser.get("/sessions/long").body;
    assert!(page.contains("Events 11 to 210 of 210"), "{page}");
    assert!(page.contains("These 2 events × <b>100</b>"), "repeated blocks are folded");
    assert!(page.contains(">First<") && page.contains(">Older<") && !page.contains(">Newer<"));
    let first = browser.get("/sessions/long?from=1").body;
    assert!(
        first.contains("Events 1 to 200 of 210") && first.contains(">Newer<") && first.contains(">Last<")
    );
    for odd in ["from=0", "from=99999999999999999999", "from=211", "from=x", "trip=0", "trip=99999"] {
        assert_eq!(browser.get(&format!("/sessions/long?{odd}")).status, 200, "{odd}");
    }
}

#[test]
fn session_names_of_any_kind_link_to_their_pages() {
    let server = start_server("names");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let mut browser = BrowserClient::new(&server);
    browser.log_in(&person);
    for name in
        ["a/b", "..", ".", "a?b#c", "ü ы", "%2F", "a\nb", "a\u{0}b", "graph.svg", "x/graph.svg", "\"'<>&"]
    {
        server.submit_event(&agent, &json!({"type": "user.message", "session": name, "text": "hello there"}));
        let list = browser.get("/sessions").body;
        let link =
            list.split("data-open href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
        let page: PageResponse = browser.get(&link);
        assert_eq!(page.status, 200, "{name:?} at {link}");
        assert!(page.body.contains("hello there"), "{name:?} at {link}");
        let (csrf_token, session) =
            (hidden_field(&page.body, "csrf_token"), hidden_field(&page.body, "session"));
        let stop = [
            ("csrf_token", csrf_token.as_str()),
            ("session", &session),
            ("why", "enough"),
            ("key", &percent_encode(name)),
        ];
        assert_eq!(browser.post("/act/stop", &stop).status, 303, "{name:?}");
        let after =
            server.submit_event(&agent, &json!({"type": "tool.requested", "session": name, "tool": "t"}));
        assert_eq!(after["decision"], "halt", "{name:?} was stopped");
    }
}

#[test]
fn session_text_is_never_markup() {
    let server = start_server("escaping");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let all = injection_payloads::all_payloads();
    assert!(all.len() >= 300, "{}", all.len());
    let names = injection_payloads::submit_payloads(&server, &agent, &all);
    let mut browser = BrowserClient::new(&server);
    browser.log_in(&person);
    let mut pages: Vec<String> = vec!["/health".to_owned()];
    let count = (all.len() + names.len()) / 25 + 1;
    pages.extend((1..=count).flat_map(|page| [format!("/?page={page}"), format!("/sessions?page={page}")]));
    pages.extend(all.iter().step_by(9).flat_map(|text| {
        let text = percent_encode(text);
        [
            format!("/sessions?q={text}&state={text}"),
            format!("/login?link={text}&to={text}"),
            format!("/?did={text}&in={text}&reason={text}"),
        ]
    }));
    let mut shown = 0;
    for path in &pages {
        let answer = browser.get(path);
        assert_eq!(answer.status, 200, "{path}");
        markup_checker::assert_page_is_safe(&answer.body);
        shown += answer.body.matches("data-item").count();
    }
    assert!(shown >= all.len() * 2, "{shown} cards and rows for {} payloads", all.len());
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (all, names, browser) = (&all, &names, &browser);
            scope.spawn(move || {
                for (texts, name) in
                    all.chunks(injection_payloads::PAYLOADS_PER_SESSION).zip(names).skip(part).step_by(4)
                {
                    let path = format!("/sessions/{}", percent_encode(name));
                    let answer = browser.get(&path);
                    assert_eq!(answer.status, 200, "{name:?}");
                    markup_checker::assert_page_is_safe(&answer.body);
                    let page = markup_checker::letters_only(&markup_checker::decode_entities(&answer.body));
                    for text in texts {
                        assert!(page.contains(&markup_checker::letters_only(text)), "{text:?} is not shown");
                    }
                    let drawing = browser.get(&format!("{path}/graph.svg"));
                    assert!(drawing.header("content-security-policy").contains("default-src 'none'"));
                    markup_checker::check_drawing(&drawing.body);
                }
            });
        }
    });
}

#[test]
fn stop_is_lifted_with_a_button_that_names_who_stopped_it() {
    let server = start_server("lift");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let bob = server.create_key("bob", AuthRole::Operator);
    halt_session(&server, &agent, "s");
    let stop = json!({"why": "wrong <branch>"});
    let stopped = server.request("POST", "/v1/sessions/s/stop", Some(&bob), Some(&stop.to_string()));
    assert_eq!(stopped.0, 200, "{}", stopped.1);
    server.submit_event(&agent, &json!({"type": "session.ended", "session": "s"}));
    let mut browser = BrowserClient::new(&server);
    browser.log_in_with_script(&person);
    let page = browser.get("/sessions/s").body;
    markup_checker::assert_page_is_safe(&page);
    assert!(page.contains("/act/lift") && page.contains("/act/release"), "{page}");
    assert!(page.contains("Lift the stop (stopped by bob: wrong &lt;branch&gt;)"), "{page}");
    assert!(browser.get("/").body.contains("1 session needs"), "an ended session still needs a release");
    let (csrf_token, guard) = (hidden_field(&page, "csrf_token"), hidden_field(&page, "guard"));
    let act = |what: &str, guard: &str, key: &str, why: &str| {
        browser.post(
            &format!("/act/{what}"),
            &[
                ("csrf_token", csrf_token.as_str()),
                ("session", "s"),
                ("guard", guard),
                ("key", key),
                ("why", why),
            ],
        )
    };
    assert_eq!(act("lift", "", "k0", " ").status, 422, "a reason is required");
    let released = act("release", &guard, "k1", "it was the disk");
    assert_eq!(released.header("location"), "/sessions/s?did=still_stopped", "{}", released.body);
    for guard in ["", "human"] {
        assert_eq!(act("release", guard, &format!("k2{guard}"), "more").status, 409, "{guard:?}");
    }
    assert_eq!(server.submit_event(&agent, &request("s", 90))["decision"], "halt");
    let page = browser.get("/sessions/s").body;
    assert!(page.contains("/act/lift") && !page.contains("/act/release"), "{page}");
    let lifted = act("lift", "", "k3", "right branch");
    assert_eq!(lifted.header("location"), "/sessions/s?did=lifted", "{}", lifted.body);
    assert_eq!(act("lift", "", "k3", "right branch").header("location"), "/sessions/s?did=lifted");
    assert!(browser.get("/").body.contains("Nothing needs your attention."));
}

#[test]
fn empty_form_answer_is_rejected() {
    let server = start_server("empty-answer");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    server.submit_event(&agent, &json!({"type": "question.asked", "session": "asks", "text": "Which day?"}));
    let mut browser = BrowserClient::new(&server);
    browser.log_in_with_script(&person);
    let csrf_token = hidden_field(&browser.get("/").body, "csrf_token");
    for text in ["", "  ", "\u{200b}"] {
        let said = [
            ("csrf_token", csrf_token.as_str()),
            ("session", "asks"),
            ("text", text),
            ("key", "k"),
            ("back", "inbox"),
        ];
        let answer = browser.post("/act/say", &said);
        assert!(answer.status == 422 && answer.body.contains("empty_answer"), "{}", answer.body);
    }
    assert!(browser.get("/").body.contains("1 session needs"), "the question is still open");
}
