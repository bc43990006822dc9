//! Path traversal in workflow names, session names and request paths: nothing outside is read or written.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Content that must not be exposed.
const OUTSIDE_TEXT: &str = "content of an outside file";

/// Spellings of the parent directory.
const PARENT_SPELLINGS: [&str; 20] = [
    "../",
    "..\\",
    "..%2f",
    "..%2F",
    "%2e%2e/",
    "%2e%2e%2f",
    "%2E%2E%2F",
    "..%5c",
    "%2e%2e%5c",
    "..%252f",
    "%252e%252e%252f",
    "....//",
    "....\\/",
    "..;/",
    "..%00/",
    "..%c0%af",
    "%c0%ae%c0%ae/",
    "\u{2025}/",
    "./../",
    "a/../../",
];

/// Traversal targets.
const TARGETS: [&str; 7] = [
    "outside",
    "outside.yaml",
    "outside.txt",
    "etc/passwd",
    "flyball.db",
    "outside%00.yaml",
    "outside.yaml/.",
];

/// Prefixes of the traversal.
const PREFIXES: [&str; 2] = ["", "asks/"];

/// All traversal paths, without duplicates.
fn traversal_paths(folder: &Path) -> Vec<String> {
    let mut all = BTreeSet::new();
    for up in PARENT_SPELLINGS {
        for target in TARGETS {
            for before in PREFIXES {
                all.extend([1, 2, 8].map(|times| format!("{before}{}{target}", up.repeat(times))));
            }
        }
    }
    let absolute = folder.join("outside");
    all.extend(
        ["", "file://", "file:", "//", "\\\\?\\", "~/", "-"]
            .map(|start| format!("{start}{}", absolute.display())),
    );
    let odd = [
        "", ".", "..", "/", "\\", "~", "-", "--help", "\u{0}", "CON", "a\nb", "$HOME", "`id`", "$(id)",
        "link", "%",
    ];
    all.extend(odd.map(str::to_owned));
    all.into_iter().collect()
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path.clone());
            }
            all.insert(path.strip_prefix(folder).unwrap().display().to_string());
        }
    }
    all
}

/// Sends a path without normalizing it.
fn send_raw_path(server: &TestServer, key: &str, path: &str) -> String {
    let base_url = server.base_url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(base_url).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {base_url}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // Malformed HTTP may be answered by closing the connection.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn no_path_escapes_the_workflow_folder_or_the_store() {
    let base_url = test_dir("paths");
    let inside = base_url.join("inside");
    let flows = inside.join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    let outside = format!(
        "version: 1\nname: outside\ngoal: {OUTSIDE_TEXT}\nnodes:\n  - {{name: a, kind: command, run: [touch, reached], next: done}}\n"
    );
    for name in ["outside", "outside.yaml", "outside.txt", "inside/outside", "inside/outside.yaml"] {
        std::fs::write(base_url.join(name), &outside).unwrap();
    }
    std::fs::write(
        flows.join("asks.yaml"),
        outside.replace(OUTSIDE_TEXT, "inside").replace("outside", "asks"),
    )
    .unwrap();
    std::os::unix::fs::symlink(base_url.join("outside.yaml"), flows.join("link.yaml")).unwrap();
    let server = TestServer::start(&inside, &["--no-socket", "--workflows", "flows", "--workers", "1"]);
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let corpus = traversal_paths(&base_url);
    assert!(corpus.len() >= 500, "{}", corpus.len());
    let before: BTreeSet<String> = files(&base_url);
    for path in &corpus {
        let body = json!({"workflow": path}).to_string();
        let (status, response) = server.request("POST", "/v1/runs", Some(&person), Some(&body));
        assert!(status == 404 || status == 422, "{path:?}: {status} {response}");
        assert!(!response.contains(OUTSIDE_TEXT), "{path:?}: {response}");
        // As a session name, it is a name like any other.
        if !path.is_empty() {
            let event = json!({"type": "tool.finished", "session": path, "call": "c", "ok": true, "output": "x".repeat(300)});
            server.submit_event(&agent, &event);
        }
        let typed: String = path.replace([' ', '\n', '\u{0}'], "%20");
        for start in ["/assets/", "/", "/v1/sessions/", "/v1/workflows/", "/v1/policies/"] {
            let response = send_raw_path(&server, &agent, &format!("{start}{typed}"));
            assert!(
                !response.contains(OUTSIDE_TEXT)
                    && !response.contains("root:x:0")
                    && !response.contains("SQLite format"),
                "{start}{path:?}: {response}"
            );
        }
    }
    let (status, _) = server.request("GET", "/healthz", None, None);
    assert_eq!(status, 200, "the server is still running");
    let own = |name: &String| name.starts_with("inside/flyball.db") || name.starts_with("inside/.flyball");
    let new: Vec<String> = files(&base_url).difference(&before).filter(|name| !own(name)).cloned().collect();
    assert!(new.is_empty(), "{new:?}");
    for entry in std::fs::read_dir(&inside).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("flyball.db") {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    }
}
