//! Every route for everybody, and the documents that are made from the same table.

use crate::asking::status;
use crate::kit::{Server, folder};
use flyball_serve::{Door, Role, doors, openapi};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Asks a route with a body that it may or may not like; what matters is whether it is let in.
fn knock(server: &Server, door: &Door, key: Option<&str>) -> String {
    let path = door
        .path
        .replace("{session}", "mine")
        .replace("{id}", "0")
        .replace("{code}", "overloaded")
        .replace("{what}", "stop")
        .replace("{name}", "style.css");
    let path = path.split('{').next().unwrap().to_owned();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let body = if door.method == "POST" { r#"{"type":"turn.started","session":"mine"}"# } else { "" };
    let host = server.place.trim_start_matches("http://");
    server.raw(
        format!(
            "{} {path} HTTP/1.1\r\nHost: {host}\r\n{key}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            door.method,
            body.len()
        )
        .as_bytes(),
    )
}

#[test]
fn every_route_lets_in_whom_the_table_says_and_nobody_else() {
    let server = Server::start(&folder("roles"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    server.event(&agent, &serde_json::json!({"type": "turn.started", "session": "mine"}));
    let keys = [
        (None, None),
        (Some(Role::Agent), Some(agent)),
        (Some(Role::Host), Some(server.key("desk", Role::Host))),
        (Some(Role::Channel), Some(server.key("chat", Role::Channel))),
        (Some(Role::Operator), Some(server.key("anna", Role::Operator))),
        (Some(Role::Admin), Some(server.key("root", Role::Admin))),
    ];
    let other = server.key_for("other-bot", Role::Agent, "other/");
    let table = doors();
    assert!(table.len() > 20, "the table is not empty");
    for door in &table {
        for (role, key) in &keys {
            let told = knock(&server, door, key.as_deref());
            let what = format!("{} {} as {role:?}: {told}", door.method, door.path);
            match door.needs {
                None => assert!(!matches!(status(&told), 0 | 401 | 403), "{what}"),
                // A page sends a browser to where it can log in.
                Some(_) if role.is_none() => assert!(
                    status(&told) == 401 || (status(&told) == 303 && !door.path.starts_with("/v1")),
                    "{what}"
                ),
                Some(needs) if *role < Some(needs) => assert_eq!(status(&told), 403, "{what}"),
                Some(_) => {
                    let shut = status(&told) == 403 && told.contains("role_forbidden");
                    assert!(!shut && !matches!(status(&told), 0 | 401), "{what}");
                }
            }
        }
        let told = knock(&server, door, Some(&other));
        let about = door.path.contains("{session}") || door.path == "/v1/events";
        if about && door.needs == Some(Role::Agent) {
            assert_eq!(status(&told), 403, "{} {}: {told}", door.method, door.path);
            assert!(told.contains("not_your_session"), "{told}");
        }
    }
}

#[test]
fn a_key_for_some_sessions_learns_nothing_of_the_others() {
    let server = Server::start(&folder("limited"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    for session in ["mine/1", "hidden/2"] {
        server.event(&agent, &serde_json::json!({"type": "turn.started", "session": session}));
    }
    let limited = [Role::Agent, Role::Host, Role::Channel, Role::Operator, Role::Admin]
        .map(|role| (role, server.key_for(&format!("own-{}", role.as_str()), role, "mine/")));
    for door in doors().iter().filter(|door| !door.path.contains('{')) {
        for (role, key) in limited.iter().filter(|(role, _)| door.needs.is_some_and(|needs| *role >= needs)) {
            let told = knock(&server, door, Some(key));
            let what = format!("{} {} as {role:?}: {told}", door.method, door.path);
            assert!(!told.contains("hidden/"), "{what}");
            assert_eq!(told.contains("whole_store"), door.whole, "{what}");
            if door.whole {
                assert_eq!(status(&told), 403, "{what}");
            }
        }
    }
    let whole: Vec<String> = doors().into_iter().filter(|door| door.whole).map(|door| door.path).collect();
    for path in ["/health", "/metrics", "/v1/metrics", "/v1/audit", "/v1/keys"] {
        assert!(whole.iter().any(|own| own == path), "{path} tells of all sessions");
    }
    // It could otherwise make itself a key for everything.
    let admin = &limited[4].1;
    let wanted = serde_json::json!({"name": "more", "role": "admin"});
    let (status, told) = server.json("POST", "/v1/keys", admin, Some(&wanted));
    assert_eq!((status, &told["error"]["code"]), (403, &"whole_store".into()));
    // What is its own, it sees; and its page has no way to where it may not go.
    let operator = &limited[3].1;
    let (_, list) = server.json("GET", "/v1/sessions", operator, None);
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{list}");
    let (status, page) = server.ask("GET", "/sessions", Some(operator), None);
    assert!(status == 200 && page.contains("mine/1") && !page.contains("href=\"/health\""), "{page}");
    let (_, page) = server.ask("GET", "/sessions", Some(&server.key("anna", Role::Operator)), None);
    assert!(page.contains("hidden/2") && page.contains("href=\"/health\""), "{page}");
    let log = server.ask("GET", "/v1/audit", Some(&server.key("boss", Role::Admin)), None).1;
    assert!(log.contains("whole_store") && log.contains("own-admin"), "the refusals are noted: {log}");
}

#[test]
fn the_table_in_the_document_is_the_table_of_the_router() {
    let mut table = "| method | path | needs |\n|---|---|---|\n".to_owned();
    for door in doors() {
        let needs = door.needs.map_or("nothing", Role::as_str);
        let all = if door.whole { ", all" } else { "" };
        table.push_str(&format!("| {} | `{}` | {needs}{all} |\n", door.method, door.path));
    }
    let path = root().join("docs/server.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- routes -->\n", "<!-- /routes -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (now, after) = rest.split_once(end).unwrap();
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(now, table, "write it anew with `cargo xtask bless`");
}

#[test]
fn the_committed_document_is_what_the_server_and_the_command_say() {
    let path = root().join("docs/openapi.json");
    let text = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "write it anew with `cargo xtask bless`");
    let printed =
        std::process::Command::new(env!("CARGO_BIN_EXE_flyball")).args(["schema", "openapi"]).output();
    assert_eq!(String::from_utf8(printed.unwrap().stdout).unwrap(), text);
    let server = Server::start(&folder("document"), &["--no-socket"]);
    let (status, served) = server.json("GET", "/v1/openapi.json", &server.key("bot", Role::Agent), None);
    assert_eq!((status, served), (200, serde_json::from_str(&text).unwrap()));
}

#[test]
fn every_operation_says_who_may_and_what_can_go_wrong() {
    let document = serde_json::to_value(openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(operation["x-role"].is_string(), "{what}");
            let retry = &operation["responses"]["429"]["headers"]["Retry-After"];
            assert!(retry.is_object(), "{what}");
            assert!(operation["responses"]["401"].is_object(), "{what}");
        }
    }
}

#[test]
fn every_code_of_the_server_has_a_page() {
    let server = Server::start(&folder("codes"), &["--no-socket"]);
    let mut codes = Vec::new();
    let sources = root().join("crates/flyball-serve/src");
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
            for made in text.split("Problem::new(StatusCode::").skip(1) {
                let code = made.split('"').nth(1).unwrap();
                codes.push(code.to_owned());
            }
        }
    }
    assert!(codes.len() > 15, "the codes are found: {codes:?}");
    for code in codes {
        let (status, page) = server.ask("GET", &format!("/errors/{code}"), None, None);
        assert_eq!(status, 200, "docs/errors.md lacks {code}");
        assert!(page.starts_with(&format!("{code}\n\n")), "{page}");
    }
    assert_eq!(server.ask("GET", "/errors/no_code_at_all", None, None).0, 404);
}
