//! A newcomer's test: `git grep` for the obvious words of a task lists the right file first.

use crate::assert_no_violations;
use crate::files::repo_root;
use std::process::Command;

/// The question, what to grep for (whole words, an extended regular expression), and the file with the answer.
const TASKS: [(&str, &str, &str); 24] = [
    ("Where is a request authenticated?", "fn authenticate", "crates/flyball-server/src/auth/mod.rs"),
    (
        "Where are routes and their roles declared?",
        "struct RoutePolicy",
        "crates/flyball-server/src/routes.rs",
    ),
    ("Where does the group commit happen?", "Group commit", "crates/flyball-store/src/recorder/commit.rs"),
    (
        "Where do async callers queue for a commit?",
        "struct SubmitQueue",
        "crates/flyball-store/src/submit_queue.rs",
    ),
    (
        "Where is Codex's hook input decoded?",
        "fn decode_codex",
        "crates/flyball-integrations/src/hook/decode/codex.rs",
    ),
    (
        "Where is Claude Code's hook input decoded?",
        "fn decode_claude_code",
        "crates/flyball-integrations/src/hook/decode/claude_code.rs",
    ),
    (
        "Where is a stored session loaded again?",
        "fn rehydrate",
        "crates/flyball-store/src/recorder/rehydrate.rs",
    ),
    (
        "Where are undelivered notifications sent?",
        "struct OutboxDispatcher",
        "crates/flyball-store/src/dispatcher.rs",
    ),
    ("Where are secrets redacted?", "struct Redactor", "crates/flyball-store/src/redact.rs"),
    ("Where is a CSRF token checked?", "csrf_token", "crates/flyball-server/src/auth/browser_login.rs"),
    (
        "Where is a webhook's signature checked?",
        "fn check_signature",
        "crates/flyball-server/src/api/labels.rs",
    ),
    ("Where does the server shut down?", "graceful shutdown", "crates/flyball-server/src/http_server.rs"),
    ("Where does a run renew its lease?", "Heartbeat", "crates/flyball-runner/src/engine/mod.rs"),
    (
        "Where is a run replayed from its history?",
        "struct ReplayLog",
        "crates/flyball-runner/src/engine/replay_log.rs",
    ),
    (
        "Where does an MCP client confirm a call?",
        "elicitation",
        "crates/flyball-integrations/src/mcp/guard.rs",
    ),
    (
        "Where is a policy suggested from an audit?",
        "fn suggest_policy",
        "crates/flyball-integrations/src/audit/suggest_policy.rs",
    ),
    ("Where are loops without progress detected?", "struct StallGuard", "crates/flyball/src/guards/stall.rs"),
    ("What does every guard implement?", "trait Guard", "crates/flyball/src/guards/guard.rs"),
    ("Where are the versions of the rules?", "enum RulesVersion", "crates/flyball/src/rules_version.rs"),
    (
        "Where are metrics written for Prometheus?",
        "fn to_prometheus",
        "crates/flyball/src/metrics/prometheus.rs",
    ),
    ("Where is a store restored from a backup?", "fn restore", "crates/flyball-store/src/sqlite/backup.rs"),
    ("Where are JUnit results parsed?", "fn parse_junit", "crates/flyball-checks/src/parsers/junit.rs"),
    ("Where is TLS set up?", "struct Tls", "crates/flyball-server/src/tls.rs"),
    (
        "Where are large outputs stored?",
        "struct LargeOutputs",
        "crates/flyball-store/src/large_outputs/mod.rs",
    ),
];

#[test]
fn obvious_words_lead_to_the_right_file_first() {
    let wrong = |(question, words, file): &(&str, &str, &str)| {
        let grep = ["grep", "--files-with-matches", "--word-regexp", "--extended-regexp", words, "--"];
        let listed = Command::new("git")
            .args(grep)
            .arg(":(glob)crates/*/src/**/*.rs")
            .current_dir(repo_root())
            .output();
        let listed = String::from_utf8_lossy(&listed.expect("git runs").stdout).into_owned();
        let first = listed.lines().next().unwrap_or("no file");
        (first != *file).then(|| format!("{question} `git grep -w '{words}'` lists {first} before {file}"))
    };
    assert_no_violations(&TASKS.iter().filter_map(wrong).collect::<Vec<_>>());
}
