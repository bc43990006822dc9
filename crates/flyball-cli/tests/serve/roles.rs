//! Every route with every role, and the documents generated from the same table.

use crate::client_requests::response_status;
use crate::server_harness::{TestServer, test_dir};
use flyball_server::{AuthRole, RouteInfo, openapi, route_table};
use std::path::{Path, PathBuf};

fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Requests a route with a body that may be invalid; only the authorization matters.
fn request_route(server: &TestServer, route: &RouteInfo, key: Option<&str>) -> String {
    let path = route
        .path
        .replace("{session}", "mine")
        .replace("{id}", "0")
        .replace("{code}", "overloaded")
        .replace("{what}", "stop")
        .replace("{name}", "style.css");
    let path = path.split('{').next().unwrap().to_owned();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let body = if route.method == "POST" { r#"{"type":"turn.started","session":"mine"}"# } else { "" };
    let host = server.base_url.trim_start_matches("http://");
    server.send_raw(
        format!(
            "{} {path} HTTP/1.1\r\nHost: {host}\r\n{key}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            route.method,
            body.len()
        )
        .as_bytes(),
    )
}

#[test]
fn every_route_admits_exactly_the_roles_in_the_table() {
    let server = TestServer::start(&test_dir("roles"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    server.submit_event(&agent, &serde_json::json!({"type": "turn.started", "session": "mine"}));
    let keys = [
        (None, None),
        (Some(AuthRole::Agent), Some(agent)),
        (Some(AuthRole::Host), Some(server.create_key("desk", AuthRole::Host))),
        (Some(AuthRole::Channel), Some(server.create_key("chat", AuthRole::Channel))),
        (Some(AuthRole::Operator), Some(server.create_key("anna", AuthRole::Operator))),
        (Some(AuthRole::Admin), Some(server.create_key("root", AuthRole::Admin))),
    ];
    let other = server.create_key_for("other-bot", AuthRole::Agent, "other/");
    let table = route_table();
    assert!(table.len() > 20, "the table is not empty");
    for route in &table {
        for (role, key) in &keys {
            let response = request_route(&server, route, key.as_deref());
            let what = format!("{} {} as {role:?}: {response}", route.method, route.path);
            match route.min_role {
                None => assert!(!matches!(response_status(&response), 0 | 401 | 403), "{what}"),
                // A page redirects a browser to the login.
                Some(_) if role.is_none() => assert!(
                    response_status(&response) == 401
                        || (response_status(&response) == 303 && !route.path.starts_with("/v1")),
                    "{what}"
                ),
                Some(needs) if *role < Some(needs) => assert_eq!(response_status(&response), 403, "{what}"),
                Some(_) => {
                    let is_forbidden =
                        response_status(&response) == 403 && response.contains("role_forbidden");
                    assert!(!is_forbidden && !matches!(response_status(&response), 0 | 401), "{what}");
                }
            }
        }
        let response = request_route(&server, route, Some(&other));
        let about = route.path.contains("{session}") || route.path == "/v1/events";
        if about && route.min_role == Some(AuthRole::Agent) {
            assert_eq!(response_status(&response), 403, "{} {}: {response}", route.method, route.path);
            assert!(response.contains("not_your_session"), "{response}");
        }
    }
}

#[test]
fn key_for_some_sessions_cannot_read_others() {
    let server = TestServer::start(&test_dir("limited"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    for session in ["mine/1", "hidden/2"] {
        server.submit_event(&agent, &serde_json::json!({"type": "turn.started", "session": session}));
    }
    let limited = [AuthRole::Agent, AuthRole::Host, AuthRole::Channel, AuthRole::Operator, AuthRole::Admin]
        .map(|role| (role, server.create_key_for(&format!("own-{}", role.as_str()), role, "mine/")));
    for route in route_table().iter().filter(|route| !route.path.contains('{')) {
        for (role, key) in
            limited.iter().filter(|(role, _)| route.min_role.is_some_and(|needs| *role >= needs))
        {
            let response = request_route(&server, route, Some(key));
            let what = format!("{} {} as {role:?}: {response}", route.method, route.path);
            assert!(!response.contains("hidden/"), "{what}");
            assert_eq!(response.contains("store_wide_key_required"), route.store_wide, "{what}");
            if route.store_wide {
                assert_eq!(response_status(&response), 403, "{what}");
            }
        }
    }
    let whole: Vec<String> =
        route_table().into_iter().filter(|route| route.store_wide).map(|route| route.path).collect();
    for path in ["/health", "/metrics", "/v1/metrics", "/v1/audit", "/v1/keys"] {
        assert!(whole.iter().any(|own| own == path), "{path} is store-wide");
    }
    // Otherwise it could create a key for all sessions.
    let admin = &limited[4].1;
    let wanted = serde_json::json!({"name": "more", "role": "admin"});
    let (status, response) = server.request_json("POST", "/v1/keys", admin, Some(&wanted));
    assert_eq!((status, &response["error"]["code"]), (403, &"store_wide_key_required".into()));
    // It sees its own sessions, and its pages do not link to what it may not see.
    let operator = &limited[3].1;
    let (_, list) = server.request_json("GET", "/v1/sessions", operator, None);
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{list}");
    let (status, page) = server.request("GET", "/sessions", Some(operator), None);
    assert!(status == 200 && page.contains("mine/1") && !page.contains("href=\"/health\""), "{page}");
    let (_, page) =
        server.request("GET", "/sessions", Some(&server.create_key("anna", AuthRole::Operator)), None);
    assert!(page.contains("hidden/2") && page.contains("href=\"/health\""), "{page}");
    let log = server.request("GET", "/v1/audit", Some(&server.create_key("boss", AuthRole::Admin)), None).1;
    assert!(
        log.contains("store_wide_key_required") && log.contains("own-admin"),
        "the refusals are audited: {log}"
    );
}

#[test]
fn documented_route_table_matches_the_router() {
    let mut table = "| method | path | needs |\n|---|---|---|\n".to_owned();
    for route in route_table() {
        let needs = route.min_role.map_or("nothing", AuthRole::as_str);
        let all = if route.store_wide { ", all" } else { "" };
        table.push_str(&format!("| {} | `{}` | {needs}{all} |\n", route.method, route.path));
    }
    let path = repo_root().join("docs/server.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- routes -->\n", "<!-- /routes -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (now, after) = rest.split_once(end).unwrap();
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(now, table, "regenerate it with `cargo xtask bless`");
}

#[test]
fn committed_openapi_matches_the_server_and_the_command() {
    let path = repo_root().join("docs/openapi.json");
    let text = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "regenerate it with `cargo xtask bless`");
    let printed =
        std::process::Command::new(env!("CARGO_BIN_EXE_flyball")).args(["schema", "openapi"]).output();
    assert_eq!(String::from_utf8(printed.unwrap().stdout).unwrap(), text);
    let server = TestServer::start(&test_dir("document"), &["--no-socket"]);
    let (status, served) =
        server.request_json("GET", "/v1/openapi.json", &server.create_key("bot", AuthRole::Agent), None);
    assert_eq!((status, served), (200, serde_json::from_str(&text).unwrap()));
}

#[test]
fn every_operation_documents_roles_and_errors() {
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
fn every_server_error_code_is_documented() {
    let server = TestServer::start(&test_dir("codes"), &["--no-socket"]);
    let mut codes = Vec::new();
    let sources = repo_root().join("crates/flyball-server/src");
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
            for made in text.split("ApiError::new(StatusCode::").skip(1) {
                let code = made.split('"').nth(1).unwrap();
                codes.push(code.to_owned());
            }
        }
    }
    assert!(codes.len() > 15, "found too few codes: {codes:?}");
    for code in codes {
        let (status, page) = server.request("GET", &format!("/errors/{code}"), None, None);
        assert_eq!(status, 200, "docs/errors.md lacks {code}");
        assert!(page.starts_with(&format!("{code}\n\n")), "{page}");
    }
    assert_eq!(server.request("GET", "/errors/no_code_at_all", None, None).0, 404);
}
