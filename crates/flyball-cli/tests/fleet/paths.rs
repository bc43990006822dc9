//! Paths that want to lead somewhere: as names of workflows and of sessions, and in the address of a request. Nothing
//! outside is read, and nothing is written outside.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// What must not be seen.
const OUTSIDE: &str = "the words of a file outside";

/// Ways to say "up".
const UPS: [&str; 20] = [
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

/// Where it is to lead.
const TARGETS: [&str; 7] = [
    "outside",
    "outside.yaml",
    "outside.txt",
    "etc/passwd",
    "flyball.db",
    "outside%00.yaml",
    "outside.yaml/.",
];

/// What stands before it.
const BEFORE: [&str; 2] = ["", "asks/"];

/// The paths, each once.
fn corpus(folder: &Path) -> Vec<String> {
    let mut all = BTreeSet::new();
    for up in UPS {
        for target in TARGETS {
            for before in BEFORE {
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

/// All files below a folder but the server's own store.
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

/// Sends a path as it is, without anybody who tidies it up.
fn raw(server: &Server, key: &str, path: &str) -> String {
    let place = server.place.trim_start_matches("http://");
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A request that is no HTTP at all may be answered by hanging up.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn no_path_leads_out_of_the_folder_of_workflows_or_of_the_store() {
    let place = folder("paths");
    let inside = place.join("inside");
    let flows = inside.join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    let outside = format!(
        "version: 1\nname: outside\ngoal: {OUTSIDE}\nnodes:\n  - {{name: a, kind: command, run: [touch, reached], next: done}}\n"
    );
    for name in ["outside", "outside.yaml", "outside.txt", "inside/outside", "inside/outside.yaml"] {
        std::fs::write(place.join(name), &outside).unwrap();
    }
    std::fs::write(flows.join("asks.yaml"), outside.replace(OUTSIDE, "inside").replace("outside", "asks"))
        .unwrap();
    std::os::unix::fs::symlink(place.join("outside.yaml"), flows.join("link.yaml")).unwrap();
    let server = Server::start(&inside, &["--no-socket", "--workflows", "flows", "--workers", "1"]);
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let corpus = corpus(&place);
    assert!(corpus.len() >= 500, "{}", corpus.len());
    let before: BTreeSet<String> = files(&place);
    for path in &corpus {
        let body = json!({"workflow": path}).to_string();
        let (status, told) = server.ask("POST", "/v1/runs", Some(&person), Some(&body));
        assert!(status == 404 || status == 422, "{path:?}: {status} {told}");
        assert!(!told.contains(OUTSIDE), "{path:?}: {told}");
        // As the name of a session it is a name like any other.
        if !path.is_empty() {
            let event = json!({"type": "tool.finished", "session": path, "call": "c", "ok": true, "output": "x".repeat(300)});
            server.event(&agent, &event);
        }
        let typed: String = path.replace([' ', '\n', '\u{0}'], "%20");
        for start in ["/assets/", "/", "/v1/sessions/", "/v1/workflows/", "/v1/policies/"] {
            let told = raw(&server, &agent, &format!("{start}{typed}"));
            assert!(
                !told.contains(OUTSIDE) && !told.contains("root:x:0") && !told.contains("SQLite format"),
                "{start}{path:?}: {told}"
            );
        }
    }
    let (status, _) = server.ask("GET", "/healthz", None, None);
    assert_eq!(status, 200, "it is still there");
    let own = |name: &String| name.starts_with("inside/flyball.db") || name.starts_with("inside/.flyball");
    let new: Vec<String> = files(&place).difference(&before).filter(|name| !own(name)).cloned().collect();
    assert!(new.is_empty(), "{new:?}");
    for entry in std::fs::read_dir(&inside).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("flyball.db") {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    }
}
