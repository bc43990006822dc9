//! State between calls of the hook: counts, halts, subagents; and nothing is counted twice.

use crate::command_harness;
use crate::host_payloads::ToolCallEnd;
use crate::scripted_host::{HookResult, ScriptedHost, install_hook};
use flyball_integrations::hook::{Host, HostReaction};
use serde_json::{Value, json};
use std::path::Path;

fn ls_args() -> Value {
    json!({"command": "ls"})
}

/// One call with its result.
fn call_with_result(agent: &mut ScriptedHost, args: &Value) -> HookResult {
    let n = agent.next_stamp();
    let (id, tool) = (format!("call-{n}"), agent.payloads.host.shell_tool());
    let result = agent.call_hook(&agent.payloads.before_tool(n, &id, tool, args));
    if !result.is_stopped() {
        agent.call_hook(&agent.payloads.after_tool(
            n,
            &id,
            tool,
            args,
            &ToolCallEnd::Succeeded(&json!("a b c")),
        ));
    }
    result
}

fn session_status(folder: &Path, session: &str) -> Value {
    let run = command_harness::run_flyball(folder, &["status", session, "--json"], b"", &[]);
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err))
}

/// Makes identical calls until the session is halted.
fn run_until_halted(agent: &mut ScriptedHost) {
    for _ in 0..8 {
        call_with_result(agent, &ls_args());
    }
    assert_eq!(session_status(&agent.folder, &agent.session())["state"], "halted");
}

#[test]
fn hook_called_twice_for_one_call_counts_once() {
    for host in Host::ALL {
        let folder = install_hook(host, "twice");
        let mut agent = ScriptedHost::new(host, &folder);
        let payload = agent.payloads.before_tool(1, "call-1", host.shell_tool(), &ls_args());
        for _ in 0..9 {
            assert_eq!(agent.call_hook(&payload).reaction, HostReaction::Continues, "{}", host.as_str());
        }
        let ended = agent.payloads.after_tool(
            2,
            "call-1",
            host.shell_tool(),
            &ls_args(),
            &ToolCallEnd::Succeeded(&json!("a b c")),
        );
        for _ in 0..3 {
            assert_eq!(agent.call_hook(&ended).reaction, HostReaction::Continues, "{}", host.as_str());
        }
        agent.stamp = 10;
        // Four more run, and the next one is denied.
        for n in 2..=6 {
            assert_eq!(
                call_with_result(&mut agent, &ls_args()).is_stopped(),
                n == 6,
                "{} {n}",
                host.as_str()
            );
        }
    }
}

#[test]
fn concurrent_hook_calls_are_all_counted() {
    for host in [Host::ClaudeCode, Host::Copilot] {
        let folder = install_hook(host, "at-once");
        let agent = ScriptedHost::new(host, &folder);
        let result: Vec<HookResult> = std::thread::scope(|scope| {
            let one = |n: u64| {
                let agent = &agent;
                let args = json!({"command": format!("cat {}", ["a", "b", "c", "d", "e", "f", "g", "h"][n as usize])});
                scope.spawn(move || {
                    agent.call_hook(&agent.payloads.before_tool(n, &format!("c{n}"), "bash", &args))
                })
            };
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(result.iter().all(|result| result.reaction == HostReaction::Continues), "{}", host.as_str());
        assert_eq!(session_status(&folder, &agent.session())["report"]["events"], 8, "{}", host.as_str());
    }
}

#[test]
fn deferred_call_keeps_its_answer() {
    let folder = install_hook(Host::ClaudeCode, "deferred");
    let mut agent = ScriptedHost::new(Host::ClaudeCode, &folder);
    for _ in 0..5 {
        call_with_result(&mut agent, &ls_args());
    }
    let payload = agent.payloads.before_tool(6, "call-6", "Bash", &ls_args());
    let first = agent.call_hook(&payload);
    assert!(first.is_stopped());
    for _ in 0..5 {
        assert_eq!(agent.call_hook(&payload).out, first.out, "the stored answer, not a new evaluation");
    }
    // The same id with other arguments is another call.
    let other = agent.payloads.before_tool(7, "call-6", "Bash", &json!({"command": "pwd"}));
    assert_eq!(agent.call_hook(&other).reaction, HostReaction::Continues);
}

#[test]
fn resumed_session_keeps_its_counts() {
    for host in Host::ALL {
        let folder = install_hook(host, "resumed");
        let mut agent = ScriptedHost::new(host, &folder);
        agent.call_hook(&agent.payloads.session_started("startup"));
        for _ in 0..5 {
            assert!(!call_with_result(&mut agent, &ls_args()).is_stopped());
        }
        if matches!(host, Host::ClaudeCode | Host::Codex | Host::Gemini | Host::Goose) {
            let (_, mut end) = agent.payloads.session_started("x");
            let key = if host == Host::Goose { "event" } else { "hook_event_name" };
            end[key] = json!("SessionEnd");
            agent.call_hook(&("SessionEnd", end));
        }
        agent.call_hook(&agent.payloads.session_started("resume"));
        assert!(call_with_result(&mut agent, &ls_args()).is_stopped(), "{}", host.as_str());
    }
}

#[test]
fn a_halt_lasts_until_a_person_releases_it() {
    for host in Host::ALL {
        let folder = install_hook(host, "halted");
        let mut agent = ScriptedHost::new(host, &folder);
        agent.call_hook(&agent.payloads.session_started("startup"));
        run_until_halted(&mut agent);
        let at = host.as_str();
        // Every call is denied now, and the message names the command that lifts the halt.
        let other = call_with_result(&mut agent, &json!({"command": "pwd"}));
        assert!(other.is_stopped(), "{at}");
        let release = format!("flyball release {} --why", agent.session());
        assert!(format!("{}{}", other.out, other.err).contains(&release), "{at}: {}", other.out);
        let stamp = agent.next_stamp();
        let human = agent.call_hook(&agent.payloads.prompt(stamp, "what now?", "user"));
        assert!(!human.is_stopped(), "{at}");
        assert!(
            format!("{}{}", human.out, human.err).contains(&release),
            "{at}: {} {}",
            human.out,
            human.err
        );
        let output = command_harness::run_flyball(
            &folder,
            &["release", &agent.session(), "--why", "looked at it"],
            b"",
            &[],
        );
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        assert!(!call_with_result(&mut agent, &json!({"command": "pwd"})).is_stopped(), "{at}");
    }
}

#[test]
fn scheduled_prompt_does_not_wake_a_halted_session() {
    let folder = install_hook(Host::ClaudeCode, "woken");
    let mut agent = ScriptedHost::new(Host::ClaudeCode, &folder);
    let stamp = agent.next_stamp();
    assert_eq!(
        agent.call_hook(&agent.payloads.prompt(stamp, "go on", "loop_wakeup")).reaction,
        HostReaction::Continues
    );
    run_until_halted(&mut agent);
    for source in ["loop_wakeup", "schedule_wakeup", "system", "poll_event"] {
        let stamp = agent.next_stamp();
        assert!(agent.call_hook(&agent.payloads.prompt(stamp, "go on", source)).is_stopped(), "{source}");
    }
}

#[test]
fn agent_can_always_end_its_turn() {
    for host in Host::ALL {
        let folder = install_hook(host, "ending");
        let mut agent = ScriptedHost::new(host, &folder);
        for _ in 0..12 {
            let stamp = agent.next_stamp();
            let Some(payload) = agent.payloads.turn_ended(stamp, "I will now begin.") else { continue };
            let result = agent.call_hook(&payload);
            assert!(
                !matches!(result.reaction, HostReaction::Blocks(_)),
                "{}: {:?}",
                host.as_str(),
                result.reaction
            );
            assert!(!result.out.contains("followup_message"), "{}", result.out);
        }
    }
}

#[test]
fn a_batch_counts_nothing_and_stops_a_halted_session() {
    let folder = install_hook(Host::ClaudeCode, "batch");
    let mut agent = ScriptedHost::new(Host::ClaudeCode, &folder);
    call_with_result(&mut agent, &ls_args());
    let before = session_status(&folder, &agent.session());
    let batch = json!({"session_id": "s1", "cwd": folder, "hook_event_name": "PostToolBatch", "tool_calls": [
        {"tool_name": "Bash", "tool_input": ls_args(), "tool_use_id": "call-1", "tool_response": "a b c"}]});
    assert_eq!(agent.call_hook(&("PostToolBatch", batch.clone())).reaction, HostReaction::Continues);
    assert_eq!(session_status(&folder, &agent.session())["report"]["events"], before["report"]["events"]);
    run_until_halted(&mut agent);
    assert!(matches!(agent.call_hook(&("PostToolBatch", batch)).reaction, HostReaction::Stops(_)));
}

#[test]
fn warning_is_delivered_once_where_the_host_supports_it() {
    for host in Host::ALL {
        let folder = install_hook(host, "warned");
        let mut agent = ScriptedHost::new(host, &folder);
        let mut warned = Vec::new();
        for n in 1..=4 {
            let stamp = agent.next_stamp();
            let id = format!("call-{n}");
            let before =
                agent.call_hook(&agent.payloads.before_tool(stamp, &id, host.shell_tool(), &ls_args()));
            let ended = agent.payloads.after_tool(
                stamp,
                &id,
                host.shell_tool(),
                &ls_args(),
                &ToolCallEnd::Succeeded(&json!("a")),
            );
            let after = agent.call_hook(&ended);
            for (place, result) in [("before", before), ("after", after)] {
                if let HostReaction::AddsContext(text) = result.reaction {
                    assert!(text.chars().count() <= 600 && text.contains("in a row"), "{text}");
                    warned.push((n, place));
                }
            }
        }
        let expected = match host {
            Host::ClaudeCode | Host::Codex | Host::Cursor => vec![(3, "before"), (4, "before")],
            Host::Gemini | Host::Copilot => vec![(3, "after"), (4, "after")],
            // The plugin keeps it until the call has ended.
            Host::Opencode => vec![(3, "before"), (4, "before")],
            Host::Goose => vec![],
        };
        assert_eq!(warned, expected, "{}", host.as_str());
    }
}

#[test]
fn sub_agents_are_children_of_their_session() {
    let folder = install_hook(Host::ClaudeCode, "children");
    let agent = ScriptedHost::new(Host::ClaudeCode, &folder);
    let inside = |n: u64, command: &str| {
        let (event, mut input) =
            agent.payloads.before_tool(n, &format!("call-{n}"), "Bash", &json!({"command": command}));
        input["agent_id"] = json!("a1");
        (event, input)
    };
    agent.call_hook(&agent.payloads.before_tool(1, "call-1", "Bash", &ls_args()));
    assert_eq!(agent.call_hook(&inside(2, "pwd")).reaction, HostReaction::Continues);
    let child = session_status(&folder, "claude-code:s1/a1");
    assert!(child.to_string().contains(r#""parent":"claude-code:s1""#), "{child}");
    // Stopping the session stops its subagents, and the message names the session to release.
    let output =
        command_harness::run_flyball(&folder, &["stop", "claude-code:s1", "--why", "enough"], b"", &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    let result = agent.call_hook(&inside(3, "id"));
    assert!(result.is_stopped());
    assert!(result.out.contains("flyball release claude-code:s1 --why"), "{}", result.out);
}

#[test]
fn sub_agents_share_the_budget_of_their_session() {
    let folder = install_hook(Host::Opencode, "budget");
    std::fs::write(folder.join("flyball.yaml"), "budgets: {session: {runtime: 1ms}}\n").unwrap();
    let mut agent = ScriptedHost::new(Host::Opencode, &folder);
    for _ in 0..2 {
        let stamp = agent.next_stamp();
        agent.call_hook(&agent.payloads.before_tool(
            stamp,
            &format!("p-{stamp}"),
            "bash",
            &json!({"command": format!("ls {stamp}")}),
        ));
    }
    let (event, mut input) = agent.payloads.before_tool(9, "call-9", "bash", &json!({"command": "pwd"}));
    (input["session_id"], input["parent_id"]) = (json!("s2"), json!("s1"));
    assert!(agent.call_hook(&(event, input)).is_stopped());
}

#[test]
fn outside_of_a_project_the_store_is_in_the_users_state_folder() {
    let folder = command_harness::test_dir("hooks-stateless");
    let (home, work) = (folder.join("home"), tempdir());
    std::fs::create_dir_all(&home).unwrap();
    let input = json!({"session_id": "s1", "cwd": work, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": ls_args(), "tool_use_id": "c1"});
    let env = [("HOME", home.to_str().unwrap())];
    let run =
        command_harness::run_flyball(&work, &["hook", "claude-code"], input.to_string().as_bytes(), &env);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(home.join(".local/state/flyball/flyball.db").is_file());
    assert!(!work.join(".flyball").exists());
    std::fs::remove_dir_all(work).unwrap();
}

/// A directory outside any repository.
fn tempdir() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("flyball-hooks-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn halt_survives_the_end_of_the_session() {
    for host in [Host::ClaudeCode, Host::Codex, Host::Gemini, Host::Goose] {
        let folder = install_hook(host, "halted-ended");
        let mut agent = ScriptedHost::new(host, &folder);
        agent.call_hook(&agent.payloads.session_started("startup"));
        run_until_halted(&mut agent);
        let (at, session) = (host.as_str(), agent.session());
        let (_, mut end) = agent.payloads.session_started("x");
        end[if host == Host::Goose { "event" } else { "hook_event_name" }] = json!("SessionEnd");
        agent.call_hook(&("SessionEnd", end));
        let list = command_harness::run_flyball(&folder, &["list", "--blocked", "--json"], b"", &[]);
        assert!(list.out.contains(&format!("\"{session}\"")), "{at}: {}", list.out);
        // The host may resume with or without a dedicated event.
        assert!(call_with_result(&mut agent, &json!({"command": "pwd"})).is_stopped(), "{at}");
        agent.call_hook(&agent.payloads.session_started("resume"));
        assert!(call_with_result(&mut agent, &json!({"command": "pwd"})).is_stopped(), "{at}");
        let output =
            command_harness::run_flyball(&folder, &["release", &session, "--why", "looked at it"], b"", &[]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        assert!(!call_with_result(&mut agent, &json!({"command": "pwd"})).is_stopped(), "{at}");
    }
}

#[test]
fn stopped_session_names_the_person_and_the_release_command() {
    let folder = install_hook(Host::ClaudeCode, "stopped");
    let mut agent = ScriptedHost::new(Host::ClaudeCode, &folder);
    call_with_result(&mut agent, &ls_args());
    let session = agent.session();
    let stop = ["stop", session.as_str(), "--by", "bob", "--why", "wrong branch"];
    assert_eq!(command_harness::run_flyball(&folder, &stop, b"", &[]).code, 0);
    let result = call_with_result(&mut agent, &json!({"command": "pwd"}));
    assert!(result.is_stopped());
    let payload = format!("{}{}", result.out, result.err);
    let command = format!("flyball release {session} --guard human --why");
    assert!(payload.contains(&command) && payload.contains("stopped by bob: wrong branch"), "{payload}");
}
