//! Failures: the answer follows the policy, in time, in the host's format, and visibly.

use crate::command_harness;
use crate::host_payloads::ToolCallEnd;
use crate::scripted_host::{HookResult, ScriptedHost, install_hook, run_with_stdin};
use flyball_integrations::hook::{Host, HostReaction, host_reaction};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Well below the timeout of any host.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(9);

/// Checks every host in parallel, because most of these tests wait for a deadline.
fn for_each_host(check: impl Fn(Host) + Sync) {
    std::thread::scope(|scope| {
        for host in Host::ALL {
            let check = &check;
            scope.spawn(move || check(host));
        }
    });
}

fn ls_args() -> Value {
    json!({"command": "ls"})
}

fn rm_args() -> Value {
    json!({"command": "rm -r build"})
}

/// Calls the hook before a tool, with additional variables.
fn call_before_tool(agent: &mut ScriptedHost, args: &Value, env: &[(&str, &str)]) -> HookResult {
    let n = agent.next_stamp();
    let host = agent.payloads.host;
    let (event, input) = agent.payloads.before_tool(n, &format!("call-{n}"), host.shell_tool(), args);
    let mut command = agent.command(event);
    command.envs(env.iter().copied());
    let began = Instant::now();
    let output = run_with_stdin(command, input.to_string().as_bytes());
    assert!(began.elapsed() < ANSWER_TIMEOUT, "{}", host.as_str());
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let means = host_reaction(host, event, &out, &err, output.status.code().unwrap());
    assert!(!matches!(means, HostReaction::HookFailed(_)), "{}: {means:?}", host.as_str());
    HookResult { reaction: means, out, err }
}

/// Checks an internal failure: reads continue, changes are denied, and both are reported.
fn assert_follows_on_error(host: Host, folder: &Path, env: &[(&str, &str)], code: &str) {
    for (on_error, reads, writes) in [("reads", false, false), ("allow", false, true), ("block", true, false)]
    {
        std::fs::write(folder.join("flyball.yaml"), format!("on_error: {on_error}\n")).unwrap();
        command_harness::trust_policy(folder);
        let mut agent = ScriptedHost::new(host, folder);
        agent.stamp = 100 * on_error.len() as u64;
        let (read, write) =
            (call_before_tool(&mut agent, &ls_args(), env), call_before_tool(&mut agent, &rm_args(), env));
        let at = format!("{} on_error: {on_error}, {code}", host.as_str());
        assert_eq!(read.is_stopped(), reads, "{at}: {:?}", read.reaction);
        assert_eq!(write.is_stopped(), !writes, "{at}: {:?}", write.reaction);
        for result in [read, write] {
            let reported = format!("{}{}", result.out, result.err);
            assert!(reported.contains("Flyball") && reported.contains(code), "{at}: {reported}");
        }
    }
}

#[test]
fn store_that_cannot_be_opened_follows_on_error() {
    for host in Host::ALL {
        let folder = install_hook(host, "no-store");
        std::fs::write(folder.join("no-folder"), "a file").unwrap();
        let url = format!("sqlite:{}", folder.join("no-folder/x.db").display());
        assert_follows_on_error(host, &folder, &[("FLYBALL_STORE", &url)], "store_");
    }
}

#[test]
fn file_that_is_no_store_follows_on_error() {
    let text = "this is no database, and never was one; it is only a text ".repeat(99);
    for_each_host(|host| {
        let folder = install_hook(host, "no-database");
        std::fs::write(folder.join("x.db"), &text).unwrap();
        let url = format!("sqlite:{}", folder.join("x.db").display());
        assert_follows_on_error(host, &folder, &[("FLYBALL_STORE", &url)], "store_");
        assert_follows_on_error(host, &folder, &[("FLYBALL_STORE", "nonsense:")], "store_");
    });
}

/// A project whose store has one event.
fn started_project(host: Host, name: &str) -> (PathBuf, PathBuf) {
    let folder = install_hook(host, name);
    let mut agent = ScriptedHost::new(host, &folder);
    assert!(!call_before_tool(&mut agent, &json!({"command": "pwd"}), &[]).is_stopped());
    let file = folder.join(".flyball/flyball.db");
    assert!(file.is_file());
    (folder, file)
}

#[test]
fn locked_store_follows_on_error() {
    for_each_host(|host| {
        let (folder, file) = started_project(host, "locked");
        let held = rusqlite::Connection::open(&file).unwrap();
        held.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert_follows_on_error(host, &folder, &[], "hook_deadline");
        let agent = ScriptedHost::new(host, &folder);
        let (event, input) = agent.payloads.before_tool(4_000, "soon", host.shell_tool(), &ls_args());
        let args = ["hook", host.as_str(), "--deadline", "200ms", "--event", event];
        let run = command_harness::run_flyball(&folder, &args, input.to_string().as_bytes(), &[]);
        assert!(format!("{}{}", run.out, run.err).contains("after 200 ms"), "{} {}", run.out, run.err);
        held.execute_batch("COMMIT").unwrap();
        std::fs::remove_file(folder.join("flyball.yaml")).unwrap();
        let mut agent = ScriptedHost::new(host, &folder);
        agent.stamp = 5_000;
        assert_eq!(call_before_tool(&mut agent, &ls_args(), &[]).reaction, HostReaction::Continues);
    });
}

#[test]
fn full_disk_follows_on_error() {
    // No file of this process may grow, so writes fail as on a full disk.
    for_each_host(|host| {
        let (folder, _) = started_project(host, "full");
        let mut agent = ScriptedHost::new(host, &folder);
        agent.stamp = 50;
        for (args, stopped) in [(ls_args(), false), (rm_args(), true)] {
            let n = agent.next_stamp();
            let (event, input) =
                agent.payloads.before_tool(n, &format!("call-{n}"), host.shell_tool(), &args);
            let own = agent.command(event);
            let mut limited = std::process::Command::new("sh");
            limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
            limited.arg(own.get_program()).args(own.get_args()).current_dir(&folder);
            limited.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            limited.stderr(std::process::Stdio::piped());
            let output = run_with_stdin(limited, input.to_string().as_bytes());
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let means = host_reaction(host, event, &out, &err, output.status.code().unwrap());
            assert_eq!(matches!(means, HostReaction::Blocks(_)), stopped, "{}: {out} {err}", host.as_str());
            let reported = format!("{out}{err}");
            assert!(
                reported.contains("Flyball") && reported.contains("store_"),
                "{}: {reported}",
                host.as_str()
            );
        }
    });
}

#[test]
fn unreadable_policy_follows_on_error() {
    for host in Host::ALL {
        let folder = install_hook(host, "bad-policy");
        std::fs::write(folder.join("flyball.yaml"), "guards: {repetitoin: off}\n").unwrap();
        let mut agent = ScriptedHost::new(host, &folder);
        let (read, write) =
            (call_before_tool(&mut agent, &ls_args(), &[]), call_before_tool(&mut agent, &rm_args(), &[]));
        assert!(!read.is_stopped() && write.is_stopped(), "{}", host.as_str());
        let reported = format!("{}{}", read.out, read.err);
        assert!(
            reported.contains("policy_unknown_guard") && reported.contains("flyball.yaml:1"),
            "{reported}"
        );
    }
}

#[test]
fn invalid_input_is_blocked_before_a_tool_and_allowed_elsewhere() {
    for host in Host::ALL {
        let folder = install_hook(host, "garbage");
        let mut agent = ScriptedHost::new(host, &folder);
        let (event, whole) = agent.payloads.before_tool(1, "c1", host.shell_tool(), &ls_args());
        let whole = whole.to_string();
        let half = &whole.as_bytes()[..whole.len() / 2];
        for input in [&b""[..], b"\n", half, b"\xff\x00\xfe", b"null", b"[1,2]", b"{\"a\":"] {
            let result = agent.call_hook_with_bytes(event, input);
            assert!(result.is_stopped(), "{} {input:?}: {:?}", host.as_str(), result.reaction);
            assert!(format!("{}{}", result.out, result.err).contains("hook_input"), "{}", result.out);
        }
        let stamp = agent.next_stamp();
        for payload in
            [agent.payloads.turn_ended(stamp, "x"), Some(agent.payloads.prompt(stamp, "x", "user"))]
                .into_iter()
                .flatten()
        {
            let result = agent.call_hook_with_bytes(payload.0, b"{\"half");
            assert!(!result.is_stopped(), "{} {}: {:?}", host.as_str(), payload.0, result.reaction);
        }
    }
}

#[test]
fn fifty_megabyte_input_is_answered_in_time() {
    for host in Host::ALL {
        let folder = install_hook(host, "large");
        let agent = ScriptedHost::new(host, &folder);
        let large = json!("0123456789abcdef".repeat(50 << 16));
        let after = agent.payloads.after_tool(
            1,
            "c1",
            host.shell_tool(),
            &ls_args(),
            &ToolCallEnd::Succeeded(&large),
        );
        let args = json!({"path": "x", "content": large});
        for (n, (event, input)) in
            [after, agent.payloads.before_tool(2, "c2", "write_file", &args)].into_iter().enumerate()
        {
            let input = input.to_string();
            let began = Instant::now();
            let result = agent.call_hook_with_bytes(event, input.as_bytes());
            assert!(began.elapsed() < ANSWER_TIMEOUT);
            assert!(n == 1 || !result.is_stopped(), "{}: a finished call is never denied", host.as_str());
        }
        let store = folder.join(".flyball/flyball.db");
        assert!(store.metadata().map_or(0, |meta| meta.len()) < 4_000_000, "only a bounded part is stored");
    }
}

#[test]
fn unknown_event_is_allowed_and_reported() {
    for host in Host::ALL {
        let folder = install_hook(host, "unknown");
        let input = json!({"hook_event_name": "PreFrobnicate", "event": "PreFrobnicate", "session_id": "s1",
            "sessionId": "s1", "conversation_id": "s1", "cwd": folder});
        let args = ["hook", host.as_str(), "--event", "PreFrobnicate"];
        let run = command_harness::run_flyball(&folder, &args, input.to_string().as_bytes(), &[]);
        assert_eq!(run.code, 0, "{}", host.as_str());
        assert!(format!("{}{}", run.out, run.err).contains("PreFrobnicate"), "{}", run.out);
        let means = host_reaction(host, "PreFrobnicate", &run.out, &run.err, run.code);
        assert!(matches!(means, HostReaction::Continues), "{}: {means:?}", host.as_str());
    }
}

#[test]
fn host_that_never_closes_stdin_is_answered() {
    for_each_host(|host| {
        let agent = ScriptedHost::new(host, &install_hook(host, "hangs"));
        let (event, _) = agent.payloads.before_tool(1, "c1", host.shell_tool(), &ls_args());
        let began = Instant::now();
        let mut child = agent.command(event).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"session_id\":").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(began.elapsed() < ANSWER_TIMEOUT);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let means = host_reaction(host, event, &out, &err, output.status.code().unwrap());
        let reported = format!("{out}{err}");
        assert!(matches!(means, HostReaction::Blocks(_)), "{}: {reported}", host.as_str());
        assert!(reported.contains("hook_deadline"), "{}: {reported}", host.as_str());
        drop(stdin);
    });
}

#[test]
fn killed_hook_is_retried_and_counted_once() {
    for_each_host(check_killed_hook);
}

fn check_killed_hook(host: Host) {
    let folder = install_hook(host, "killed");
    let mut agent = ScriptedHost::new(host, &folder);
    for n in 1..=5_u64 {
        let (event, input) =
            agent.payloads.before_tool(n, &format!("call-{n}"), host.shell_tool(), &ls_args());
        // Killed at a different moment each time: before, during and after the input.
        for part in 0..=4_usize {
            let mut child = agent.command(event).spawn().unwrap();
            let text = input.to_string();
            let mut stdin = child.stdin.take().unwrap();
            let _ = stdin.write_all(&text.as_bytes()[..text.len() * part / 4]);
            if part == 4 {
                drop(stdin);
                let _ = child.wait_timeout(n);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let result = agent.call_hook(&(event, input));
        assert!(!result.is_stopped(), "{} call {n}: {:?}", host.as_str(), result.reaction);
        agent.call_hook(&agent.payloads.after_tool(
            n,
            &format!("call-{n}"),
            host.shell_tool(),
            &ls_args(),
            &ToolCallEnd::Succeeded(&json!("a")),
        ));
    }
    agent.stamp = 6;
    assert!(
        call_before_tool(&mut agent, &ls_args(), &[]).is_stopped(),
        "{}: five ran, the sixth is denied",
        host.as_str()
    );
    let verified =
        command_harness::run_flyball(&folder, &["doctor", "--json"], b"", &[("PATH", "/usr/bin:/bin")]);
    assert!(verified.out.contains(r#""check":"integrity","ok":true"#), "{}", verified.out);
}

/// Waits for a child for some milliseconds, a different number each time.
trait WaitTimeout {
    fn wait_timeout(&mut self, ms: u64) -> bool;
}

impl WaitTimeout for std::process::Child {
    fn wait_timeout(&mut self, ms: u64) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(ms * 3) {
            if matches!(self.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

#[test]
fn sixth_identical_call_is_blocked_after_the_clock_was_set_back() {
    for host in Host::ALL {
        let folder = install_hook(host, "clock");
        let mut agent = ScriptedHost::new(host, &folder);
        // The session's last event is in the future for this clock.
        let event = json!({"type": "compaction", "session": agent.session(), "at": 4_000_000_000_000_u64});
        let line = event.to_string();
        let run = command_harness::run_flyball(&folder, &["observe", "--store"], line.as_bytes(), &[]);
        assert_eq!(run.code, 0, "{}", run.err);
        for n in 1..=6 {
            let result = call_before_tool(&mut agent, &ls_args(), &[]);
            assert_eq!(result.is_stopped(), n == 6, "{} {n}: {:?}", host.as_str(), result.reaction);
            let stamp = agent.stamp;
            let id = format!("call-{stamp}");
            if !result.is_stopped() {
                agent.call_hook(&agent.payloads.after_tool(
                    stamp,
                    &id,
                    host.shell_tool(),
                    &ls_args(),
                    &ToolCallEnd::Succeeded(&json!("a")),
                ));
            }
        }
    }
}

#[test]
fn clock_jump_ahead_counts_against_the_runtime_budget() {
    for (runtime, stops) in [("4h", true), ("0", false)] {
        for_each_host(|host| {
            let folder = install_hook(host, &format!("ahead-{runtime}"));
            let policy = format!("budgets: {{session: {{runtime: {runtime}}}}}\n");
            std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
            command_harness::trust_policy(&folder);
            let mut agent = ScriptedHost::new(host, &folder);
            // The session's last event is long before this clock's time.
            let event = json!({"type": "compaction", "session": agent.session(), "at": 1_000});
            let run = command_harness::run_flyball(
                &folder,
                &["observe", "--store"],
                event.to_string().as_bytes(),
                &[],
            );
            assert_eq!(run.code, 0, "{}", run.err);
            let result = call_before_tool(&mut agent, &ls_args(), &[]);
            assert_eq!(result.is_stopped(), stops, "{} {runtime}: {:?}", host.as_str(), result.reaction);
        });
    }
}
