//! The pages through the shipped program: who gets in, what a form needs, what is shown; and that nothing that a
//! session says is ever more than text. The same pages in a real browser are in `xtask/browser`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test that is how a failure is told")]

#[path = "serve/kit.rs"]
mod kit;
#[path = "pages/login.rs"]
mod login;
#[path = "pages/markup.rs"]
mod markup;
#[path = "pages/payloads.rs"]
mod payloads;
#[path = "pages/posts.rs"]
mod posts;
#[path = "pages/visitor.rs"]
mod visitor;

use flyball_serve::Role;
use kit::{Server, folder};
use serde_json::{Value, json};
use visitor::{Answer, Visitor, encoded, field};

fn started(name: &str) -> Server {
    Server::start(&folder(name), &["--no-socket"])
}

fn request(session: &str, number: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "call": format!("c{number}"), "tool": "bash",
        "args": {"command": "make <all>"}})
}

/// Makes the same call until the session is halted.
fn halted(server: &Server, agent: &str, session: &str) {
    for number in 0..5 {
        server.event(agent, &request(session, number));
        let finished = json!({"type": "tool.finished", "session": session, "call": format!("c{number}"), "ok": true,
            "output": "nothing to be done"});
        server.event(agent, &finished);
    }
    let last = [5, 6, 7].map(|number| server.event(agent, &request(session, number))["decision"].clone());
    assert_eq!(last, ["block", "block", "halt"]);
}

fn asked(server: &Server, agent: &str, session: &str) {
    let event = json!({"type": "confirmation.requested", "session": session, "question": "Delete both?",
        "plan": [{"tool": "delete", "args": {"id": 1}}, {"tool": "delete", "args": {"id": 2}}]});
    assert_eq!(server.event(agent, &event)["state"], "awaiting_confirmation");
}

#[test]
fn nobody_sees_a_page_without_a_login_and_a_browser_is_sent_to_it() {
    let server = started("stranger");
    let stranger = Visitor::new(&server);
    for path in
        ["/", "/sessions", "/sessions/x", "/session?name=x", "/sessions/x/graph.svg", "/health", "/nowhere"]
    {
        let answer = stranger.get(path);
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").starts_with("/login"), "{path}: {}", answer.header("location"));
        let (status, body) = server.ask("GET", path, None, None);
        assert_eq!(status, 401, "a program is told so: {path}");
        assert!(body.contains("key_missing"), "{body}");
    }
    for path in ["/act/release", "/act/approve", "/logout"] {
        assert_eq!(stranger.post(path, &[("word", "x")]).status, 401, "{path}");
    }
    let login = stranger.get("/login?to=%2Fsessions%2Fx");
    assert_eq!(login.status, 200);
    markup::check(&login.body);
    assert_eq!(stranger.get("/login?to=https%3A%2F%2Fevil.invalid%2F").body.matches("evil").count(), 0);
}

#[test]
fn a_person_logs_in_with_a_key_or_once_with_a_link_and_an_agent_never() {
    let mut server = started("login");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let mut visitor = Visitor::new(&server);
    assert_eq!(visitor.enter(&agent).status, 401);
    assert_eq!(visitor.enter("flyball_operator_0").status, 401);
    assert_eq!(visitor.get("/").status, 303);

    let entered = visitor.enter(&person);
    assert_eq!((entered.status, entered.header("location").as_str()), (303, "/"));
    let cookie = entered.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&person) && !cookie.contains("Secure"), "{cookie}");
    let inbox = visitor.get("/");
    assert_eq!(inbox.status, 200);
    assert!(inbox.body.contains("anna") && inbox.body.contains("Nothing waits for a person."));

    let word = field(&inbox.body, "word");
    assert_eq!(visitor.post("/logout", &[("word", "guess")]).status, 403);
    assert_eq!(visitor.post("/logout", &[("word", &word)]).status, 303);
    assert_eq!(visitor.get("/").status, 303, "the cookie is void, also if it is sent again");

    let link = server.until("a link", |said| {
        let at = said.find("/login?link=")? + "/login?link=".len();
        Some(said.get(at..)?.split_whitespace().next()?.to_owned())
    });
    let mut second = Visitor::new(&server);
    for _ in 0..3 {
        assert_eq!(second.get(&format!("/login?link={link}")).status, 200, "looking does not use it up");
    }
    assert_eq!(second.enter(&link).status, 303);
    assert_eq!(second.get("/").status, 200);
    assert_eq!(Visitor::new(&server).enter(&link).status, 401, "it lets in once");
}

#[test]
fn every_answer_forbids_what_we_do_not_need() {
    let server = started("headers");
    let person = server.key("anna", Role::Operator);
    let mut visitor = Visitor::new(&server);
    let mut answers = vec![visitor.enter(&person)];
    answers.extend(
        ["/", "/sessions", "/health", "/login", "/sessions/none", "/nowhere", "/healthz"]
            .map(|path| visitor.get(path)),
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
    assert_eq!(visitor.get("/sessions/none").status, 404);
    let style = visitor.get("/assets/style.css");
    assert_eq!((style.status, style.header("content-type").as_str()), (200, "text/css; charset=utf-8"));
    let again = visitor.get_with("/assets/style.css", &[("If-None-Match", &style.header("etag"))]);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(visitor.get("/assets/..%2Fmod.rs").status, 404);
}

#[test]
fn a_form_needs_the_word_of_its_login_and_a_page_of_ours() {
    let server = started("forms");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    halted(&server, &agent, "s/1");
    let mut visitor = Visitor::new(&server);
    visitor.enter_with_script(&person);
    let inbox = visitor.get("/").body;
    let (word, session, key) = (field(&inbox, "word"), field(&inbox, "session"), field(&inbox, "key"));
    let guard = field(&inbox, "guard");
    let form = |word: &str, why: &str| {
        vec![
            ("word", word.to_owned()),
            ("session", session.clone()),
            ("guard", guard.clone()),
            ("key", key.clone()),
            ("why", why.to_owned()),
            ("back", "inbox".to_owned()),
        ]
    };
    let sent = |fields: &[(&str, String)], origin: Option<&str>| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        visitor.post_from("/act/release", &fields, origin)
    };
    let own = Some(server.place.as_str());
    for (what, status) in [
        (sent(&form("", "why"), own), 403),
        (sent(&form("guess", "why"), own), 403),
        (sent(&form(&word, "why"), Some("https://evil.invalid")), 403),
        (sent(&form(&word, "why"), Some("null")), 403),
        (sent(&form(&word, "why"), None), 403),
        (sent(&form(&word, "  "), own), 422),
    ] {
        assert_eq!(what.status, status, "{}", what.body);
        assert_eq!(server.event(&agent, &request("s/1", 90))["decision"], "halt");
    }
    let other = server.key("ben", Role::Operator);
    let mut second = Visitor::new(&server);
    second.enter_with_script(&other);
    let fields = [("word", word.as_str()), ("session", &session), ("why", "x")];
    assert_eq!(second.post("/act/release", &fields).status, 403, "the word of somebody else's login");

    let done = sent(&form(&word, "it was the disk"), own);
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/?did=released&in=s%2F1"),
        "{}",
        done.body
    );
    let after = server.event(&agent, &request("s/1", 91))["decision"].clone();
    assert!(["allow", "warn"].contains(&after.as_str().unwrap()), "it goes on: {after}");
    assert_eq!(
        sent(&form(&word, "it was the disk"), own).status,
        303,
        "a second click is answered as the first"
    );
    let page = visitor.get("/sessions/s%2F1").body;
    assert_eq!(
        page.matches("it was the disk").count(),
        2,
        "once in the story, once in the whole event: {page}"
    );
    assert!(page.contains("anna"), "who did it");
}

#[test]
fn a_plan_is_approved_once_with_the_ticket_of_the_page() {
    let server = started("plan");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    asked(&server, &agent, "p");
    let mut visitor = Visitor::new(&server);
    visitor.enter_with_script(&person);
    let inbox = visitor.get("/").body;
    assert!(inbox.contains("Delete both?") && inbox.contains("2 steps"), "{inbox}");
    let (word, ticket) = (field(&inbox, "word"), field(&inbox, "ticket"));
    let form = |ticket: &str, key: &str| {
        visitor.post(
            "/act/approve",
            &[("word", &word), ("session", "p"), ("ticket", ticket), ("key", key), ("back", "inbox")],
        )
    };
    assert_eq!(form("guess", "k1").status, 409);
    assert_eq!(field(&visitor.get("/").body, "ticket"), ticket, "the same person is shown the same ticket");
    let approved = form(&ticket, "k2");
    assert_eq!(approved.header("location"), "/?did=approved&in=p", "{}", approved.body);
    assert_eq!(form(&ticket, "k2").header("location"), "/?did=approved&in=p", "the same click again");
    assert_eq!(form(&ticket, "k3").status, 409, "the ticket is used up");
    assert!(visitor.get("/?did=approved&in=p").body.contains("Approved. The plan runs once."));
    let events = server.event(&agent, &json!({"type": "user.message", "session": "p", "text": "x"}));
    assert_eq!(events["seq"], 3, "question, one answer, this");

    asked(&server, &agent, "q");
    let page = visitor.get("/sessions/q").body;
    let denied =
        visitor.post("/act/deny", &[("word", &word), ("session", "q"), ("key", &field(&page, "key"))]);
    assert_eq!(denied.header("location"), "/sessions/q?did=denied");
    let requested = json!({"type": "confirmation.requested", "session": "r", "question": "?", "requester": "carl",
        "plan": [{"tool": "delete"}]});
    server.event(&agent, &requested);
    let page = visitor.get("/sessions/r").body;
    assert!(page.contains("only carl may say yes") && !page.contains("/act/approve"), "{page}");
}

#[test]
fn a_session_is_told_with_its_evidence_its_policy_and_its_repeats() {
    let folder = folder("told");
    let policy = "version: 1\npreset: agent\nguards:\n  repetition: {limit: 5}\n";
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    let server = Server::start(&folder, &["--no-socket"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    halted(&server, &agent, "loop");
    let mut visitor = Visitor::new(&server);
    visitor.enter(&person);
    let page = visitor.get("/sessions/loop").body;
    markup::check(&page);
    for part in [
        "Stuck: the same call, the same result, ",
        "against a limit of <b>5</b>",
        "guards.repetition.limit = 5",
        "flyball.yaml, line 4",
        "× 3</b>",
        "make &lt;all&gt;",
        "flyball release loop --guard repetition --why",
    ] {
        assert!(page.contains(part), "{part} is not in the page:\n{page}");
    }
    let question = json!({"type": "question.asked", "session": "asks", "text": "Which day?"});
    server.event(&agent, &question);
    let inbox = visitor.get("/").body;
    assert!(inbox.contains("2 sessions wait") && inbox.contains("Which day?"), "{inbox}");
    let word = field(&inbox, "word");
    let said = [
        ("word", word.as_str()),
        ("session", "asks"),
        ("text", "Friday"),
        ("key", "k"),
        ("back", "inbox"),
        ("secret", person.as_str()),
    ];
    assert_eq!(visitor.post("/act/say", &said).header("location"), "/?did=said&in=asks");
    let after = visitor.get("/").body;
    assert!(after.contains("1 session waits"), "an answered question waits no more: {after}");
    let found = visitor.get("/sessions?state=halted&q=LOO").body;
    assert!(found.contains("/sessions/loop") && !found.contains("/sessions/asks"), "{found}");
    let health = visitor.get("/health").body;
    assert!(health.contains("repetition") && health.contains("Decisions a minute"), "{health}");
    markup::check(&health);
}

#[test]
fn a_long_story_is_told_in_windows_with_its_repeats_folded() {
    let server = started("story");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let mut visitor = Visitor::new(&server);
    visitor.enter(&person);
    for _ in 0..105 {
        for signal in ["first", "second"] {
            let event =
                json!({"type": "progress", "session": "long", "signal": signal, "done": 3, "total": 9});
            server.event(&agent, &event);
        }
    }
    let page = visitor.get("/sessions/long").body;
    assert!(page.contains("Events 11 to 210 of 210"), "{page}");
    assert!(page.contains("These 2 × <b>100</b>"), "blocks that take turns are folded");
    assert!(page.contains(">First<") && page.contains(">Older<") && !page.contains(">Newer<"));
    let first = visitor.get("/sessions/long?from=1").body;
    assert!(
        first.contains("Events 1 to 200 of 210") && first.contains(">Newer<") && first.contains(">Last<")
    );
    for odd in ["from=0", "from=99999999999999999999", "from=211", "from=x", "trip=0", "trip=99999"] {
        assert_eq!(visitor.get(&format!("/sessions/long?{odd}")).status, 200, "{odd}");
    }
}

#[test]
fn names_of_any_kind_lead_to_their_pages() {
    let server = started("names");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let mut visitor = Visitor::new(&server);
    visitor.enter(&person);
    for name in
        ["a/b", "..", ".", "a?b#c", "ü ы", "%2F", "a\nb", "a\u{0}b", "graph.svg", "x/graph.svg", "\"'<>&"]
    {
        server.event(&agent, &json!({"type": "user.message", "session": name, "text": "hello there"}));
        let list = visitor.get("/sessions").body;
        let link =
            list.split("data-open href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
        let page: Answer = visitor.get(&link);
        assert_eq!(page.status, 200, "{name:?} at {link}");
        assert!(page.body.contains("hello there"), "{name:?} at {link}");
        let (word, session) = (field(&page.body, "word"), field(&page.body, "session"));
        let stop =
            [("word", word.as_str()), ("session", &session), ("why", "enough"), ("key", &encoded(name))];
        assert_eq!(visitor.post("/act/stop", &stop).status, 303, "{name:?}");
        let after = server.event(&agent, &json!({"type": "tool.requested", "session": name, "tool": "t"}));
        assert_eq!(after["decision"], "halt", "{name:?} was stopped");
    }
}

#[test]
fn nothing_that_a_session_says_is_more_than_text() {
    let server = started("escaping");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let all = payloads::all();
    assert!(all.len() >= 300, "{}", all.len());
    let names = payloads::play(&server, &agent, &all);
    let mut visitor = Visitor::new(&server);
    visitor.enter(&person);
    let mut pages: Vec<String> = vec!["/health".to_owned()];
    let count = (all.len() + names.len()) / 25 + 1;
    pages.extend((1..=count).flat_map(|page| [format!("/?page={page}"), format!("/sessions?page={page}")]));
    pages.extend(all.iter().step_by(9).flat_map(|text| {
        let text = encoded(text);
        [
            format!("/sessions?q={text}&state={text}"),
            format!("/login?link={text}&to={text}"),
            format!("/?did={text}&in={text}&reason={text}"),
        ]
    }));
    let mut shown = 0;
    for path in &pages {
        let answer = visitor.get(path);
        assert_eq!(answer.status, 200, "{path}");
        markup::check(&answer.body);
        shown += answer.body.matches("data-item").count();
    }
    assert!(shown >= all.len() * 2, "{shown} cards and rows for {} payloads", all.len());
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (all, names, visitor) = (&all, &names, &visitor);
            scope.spawn(move || {
                for (texts, name) in all.chunks(payloads::TOGETHER).zip(names).skip(part).step_by(4) {
                    let place = format!("/sessions/{}", encoded(name));
                    let answer = visitor.get(&place);
                    assert_eq!(answer.status, 200, "{name:?}");
                    markup::check(&answer.body);
                    let page = markup::letters(&markup::read(&answer.body));
                    for text in texts {
                        assert!(page.contains(&markup::letters(text)), "{text:?} is not shown");
                    }
                    let drawing = visitor.get(&format!("{place}/graph.svg"));
                    assert!(drawing.header("content-security-policy").contains("default-src 'none'"));
                    markup::check_drawing(&drawing.body);
                }
            });
        }
    });
}

#[test]
fn a_stop_is_lifted_with_a_button_that_names_who_stopped_it() {
    let server = started("lift");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let bob = server.key("bob", Role::Operator);
    halted(&server, &agent, "s");
    let stop = json!({"why": "wrong <branch>"});
    let stopped = server.ask("POST", "/v1/sessions/s/stop", Some(&bob), Some(&stop.to_string()));
    assert_eq!(stopped.0, 200, "{}", stopped.1);
    server.event(&agent, &json!({"type": "session.ended", "session": "s"}));
    let mut visitor = Visitor::new(&server);
    visitor.enter_with_script(&person);
    let page = visitor.get("/sessions/s").body;
    markup::check(&page);
    assert!(page.contains("/act/lift") && page.contains("/act/release"), "{page}");
    assert!(page.contains("Lift the stop (stopped by bob: wrong &lt;branch&gt;)"), "{page}");
    assert!(visitor.get("/").body.contains("1 session waits"), "it has ended, and still waits");
    let (word, guard) = (field(&page, "word"), field(&page, "guard"));
    let act = |what: &str, guard: &str, key: &str, why: &str| {
        visitor.post(
            &format!("/act/{what}"),
            &[("word", word.as_str()), ("session", "s"), ("guard", guard), ("key", key), ("why", why)],
        )
    };
    assert_eq!(act("lift", "", "k0", " ").status, 422, "a reason is needed");
    let released = act("release", &guard, "k1", "it was the disk");
    assert_eq!(released.header("location"), "/sessions/s?did=still_stopped", "{}", released.body);
    for guard in ["", "human"] {
        assert_eq!(act("release", guard, &format!("k2{guard}"), "more").status, 409, "{guard:?}");
    }
    assert_eq!(server.event(&agent, &request("s", 90))["decision"], "halt");
    let page = visitor.get("/sessions/s").body;
    assert!(page.contains("/act/lift") && !page.contains("/act/release"), "{page}");
    let lifted = act("lift", "", "k3", "right branch");
    assert_eq!(lifted.header("location"), "/sessions/s?did=lifted", "{}", lifted.body);
    assert_eq!(act("lift", "", "k3", "right branch").header("location"), "/sessions/s?did=lifted");
    assert!(visitor.get("/").body.contains("Nothing waits for a person."));
}

#[test]
fn an_empty_answer_in_a_form_is_refused() {
    let server = started("empty-answer");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    server.event(&agent, &json!({"type": "question.asked", "session": "asks", "text": "Which day?"}));
    let mut visitor = Visitor::new(&server);
    visitor.enter_with_script(&person);
    let word = field(&visitor.get("/").body, "word");
    for text in ["", "  ", "\u{200b}"] {
        let said =
            [("word", word.as_str()), ("session", "asks"), ("text", text), ("key", "k"), ("back", "inbox")];
        let answer = visitor.post("/act/say", &said);
        assert!(answer.status == 422 && answer.body.contains("empty_answer"), "{}", answer.body);
    }
    assert!(visitor.get("/").body.contains("1 session waits"), "the question waits as before");
}
