//! Caller check: a process started by an agent, a run or a tool server cannot act as an operator.

use crate::command_harness::{run_flyball, test_dir};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Attempts of a program to approve itself: `$F` is the binary, `$S` the session, `$D` the store.
const SELF_APPROVAL_ATTEMPTS: [&str; 11] = [
    r#""$F" approve "$S" --by anna --store "$D""#,
    r#"env -i "$F" approve "$S" --by anna --store "$D""#,
    r#"env -u FLYBALL_RUN -u FLYBALL_MCP -u CLAUDECODE setsid -w "$F" approve "$S" --by anna --store "$D""#,
    r#"env -i sh -c '"$0" send "$1" yes --by anna --store "$2"; exit $?' "$F" "$S" "$D""#,
    r#""$F" release "$S" --guard repetition --why more --by anna --store "$D""#,
    r#""$F" unlabel "$S" --why done --by anna --store "$D""#,
    r#""$F" token create mine --role operator --store "$D""#,
    r#"env -i "$F" hook claude-code uninstall"#,
    r#"env -i "$F" doctor --accept --store "$D""#,
    r#"echo '{"type":"confirmation.answered","session":"'"$S"'","value":"yes","by":"anna"}' | "$F" observe --store "$D""#,
    r#"echo '{"type":"human.released","session":"'"$S"'","guard":"repetition","by":"anna"}' | "$F" observe --store "$D""#,
];

/// Requests approval of a plan in a session.
fn request_approval(folder: &Path, session: &str) {
    let event = format!(
        r#"{{"type":"confirmation.requested","session":"{session}","question":"Delete?","plan":[{{"tool":"rm","args":{{}}}}]}}"#
    );
    let store = store_url(folder);
    let run = run_flyball(folder, &["observe", "--store", &store], event.as_bytes(), &[]);
    assert_eq!(run.code, 4, "it waits: {}", run.err);
}

fn store_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("s.db").display())
}

/// The script that makes all attempts and logs the results.
fn attempts_script(folder: &Path, session: &str) -> String {
    let (log, program) = (folder.join("tries.log"), env!("CARGO_BIN_EXE_flyball"));
    let path = folder.join("tries.sh");
    let mut text = format!("F='{program}'; S='{session}'; D='{}'\n", store_url(folder));
    for attempt in SELF_APPROVAL_ATTEMPTS {
        writeln!(text, "{{ {attempt}; echo \"exit $?\"; }} >> '{}' 2>&1", log.display()).unwrap();
    }
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Checks that every attempt failed with the same message, that the plan still waits, and that a person can approve
/// it.
fn assert_all_rejected(folder: &Path, session: &str) {
    let log = std::fs::read_to_string(folder.join("tries.log")).unwrap();
    assert_eq!(
        log.matches("agent_not_allowed").count(),
        SELF_APPROVAL_ATTEMPTS.len() + 2,
        "the last two report on both streams: {log}"
    );
    assert_eq!(log.matches("exit 1").count(), SELF_APPROVAL_ATTEMPTS.len(), "{log}");
    let store = store_url(folder);
    let run = run_flyball(folder, &["approve", session, "--by", "anna", "--store", &store], b"", &[]);
    assert!(run.out.contains("Approved"), "{}{}", run.out, run.err);
}

#[test]
fn program_of_a_run_cannot_answer_for_a_person() {
    let folder = test_dir("speaking-run");
    request_approval(&folder, "plan");
    let script = attempts_script(&folder, "plan");
    let flow = format!(
        "version: 1\nname: self\nnodes:\n  - {{name: a, kind: command, run: [sh, '{script}'], next: done}}\n"
    );
    std::fs::write(folder.join("self.yaml"), flow).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let store = store_url(&folder);
    let run = run_flyball(&folder, &["run", "self.yaml", "--store", &store], b"", &[("PATH", &path)]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_all_rejected(&folder, "plan");
}

#[test]
fn mcp_server_cannot_answer_for_a_person() {
    let folder = test_dir("speaking-mcp");
    request_approval(&folder, "plan");
    let script = attempts_script(&folder, "plan");
    let path = std::env::var("PATH").unwrap_or_default();
    let store = store_url(&folder);
    let run = run_flyball(&folder, &["mcp", "--store", &store, "--", "sh", &script], b"", &[("PATH", &path)]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_all_rejected(&folder, "plan");
}

#[test]
fn coding_agent_cannot_answer_in_its_own_session() {
    let folder = test_dir("speaking-host");
    request_approval(&folder, "claude-code:s1");
    let script = attempts_script(&folder, "claude-code:s1");
    let done = Command::new("sh").arg(&script).env("CLAUDECODE", "1").status().unwrap();
    assert!(done.success());
    assert_all_rejected(&folder, "claude-code:s1");
    // Other sessions are not affected, and a person may work inside the same process tree.
    request_approval(&folder, "other");
    let store = store_url(&folder);
    let args = ["approve", "other", "--by", "anna", "--store", &store];
    let run = run_flyball(&folder, &args, b"", &[("CLAUDECODE", "1")]);
    assert!(run.out.contains("Approved"), "{}{}", run.out, run.err);
}

#[test]
fn coding_agent_cannot_restart_its_own_session() {
    let folder = test_dir("speaking-anew");
    let store = store_url(&folder);
    let say = |session: &str, event: &str, agent: &[(&str, &str)]| {
        let event = event.replace("$S", session);
        run_flyball(&folder, &["observe", "--store", &store], event.as_bytes(), agent)
    };
    let tries = [
        r#"{"type":"user.message","session":"$S","text":"go on"}"#,
        r#"{"type":"session.started","session":"$S","policy":{"preset":"off"}}"#,
        r#"{"type":"session.started","session":"$S","reopen":true}"#,
    ];
    for event in tries {
        let run = say("claude-code:s1", event, &[("CLAUDECODE", "1")]);
        assert!(run.code == 1 && run.out.contains("agent_not_allowed"), "{event}: {}{}", run.out, run.err);
        let other = say("other", event, &[("CLAUDECODE", "1")]);
        assert_eq!(other.code, 0, "a session that it starts is its own: {}{}", other.out, other.err);
        let person = say("claude-code:s1", event, &[]);
        assert_eq!(person.code, 0, "{event}: {}{}", person.out, person.err);
    }
    let agent = r#"{"type":"user.message","session":"$S","text":"go on","origin":"agent"}"#;
    assert_eq!(say("claude-code:s1", agent, &[("CLAUDECODE", "1")]).code, 0);
}
