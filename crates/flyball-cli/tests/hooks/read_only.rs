//! When Flyball fails, calls known to be read-only run and all others are denied, on every host.

use crate::scripted_host::{ScriptedHost, install_hook, run_with_stdin};
use flyball_integrations::hook::{Host, HostReaction, host_reaction};
use serde_json::{Value, json};
use std::path::Path;

const EFFECTS: &str = include_str!("../../../../fixtures/shell/effects.txt");
const READ_ONLY: &str = include_str!("../../../../fixtures/shell/read-only.txt");

/// How Flyball is made to fail.
#[derive(Clone, Copy)]
enum InducedFailure {
    UnreadablePolicy,
    UnusableStore,
}

/// A project in which every decision fails.
fn failing_project(
    host: Host,
    name: &str,
    failure: InducedFailure,
) -> (ScriptedHost, Vec<(&'static str, String)>) {
    let folder = install_hook(host, name);
    let env = match failure {
        InducedFailure::UnreadablePolicy => {
            std::fs::write(folder.join("flyball.yaml"), "guards: {repetitoin: off}\n").unwrap();
            Vec::new()
        }
        InducedFailure::UnusableStore => {
            std::fs::write(folder.join("no-folder"), "a file").unwrap();
            vec![("FLYBALL_STORE", format!("sqlite:{}", folder.join("no-folder/x.db").display()))]
        }
    };
    (ScriptedHost::new(host, &folder), env)
}

/// Whether the hook denies a call.
fn is_refused(agent: &mut ScriptedHost, env: &[(&'static str, String)], tool: &str, args: &Value) -> bool {
    let n = agent.next_stamp();
    let (event, input) = agent.payloads.before_tool(n, &format!("call-{n}"), tool, args);
    let mut command = agent.command(event);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = run_with_stdin(command, input.to_string().as_bytes());
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let means =
        host_reaction(agent.payloads.host, event, &out, &err, output.status.code().expect("no signal"));
    assert!(!matches!(means, HostReaction::HookFailed(_)), "{tool} {args}: {means:?}");
    assert!(format!("{out}{err}").contains("Flyball"), "the failure is reported: {tool} {args}: {out}{err}");
    matches!(means, HostReaction::Blocks(_))
}

/// Checks every `step`th command of both tables, on several threads.
fn check_tables(host: Host, name: &str, failure: InducedFailure, step: usize) {
    let rows = EFFECTS.lines().map(|line| (line, true)).chain(READ_ONLY.lines().map(|line| (line, false)));
    let rows: Vec<(&str, bool)> = rows.step_by(step).collect();
    let share = rows.len().div_ceil(4);
    std::thread::scope(|scope| {
        for (part, rows) in rows.chunks(share).enumerate() {
            scope.spawn(move || {
                let (mut agent, env) = failing_project(host, &format!("{name}-{part}"), failure);
                for (line, refused) in rows {
                    let args = json!({"command": line.replace('␤', "\n")});
                    let found = is_refused(&mut agent, &env, host.shell_tool(), &args);
                    assert_eq!(found, *refused, "{}: {line}", host.as_str());
                }
            });
        }
    });
}

#[test]
fn shell_commands_pass_only_if_known_to_be_read_only() {
    assert!(EFFECTS.lines().count() >= 150 && READ_ONLY.lines().count() >= 80);
    check_tables(Host::ClaudeCode, "reads-policy", InducedFailure::UnreadablePolicy, 1);
}

#[test]
fn shell_commands_are_checked_alike_on_every_host_and_for_every_failure() {
    for (step, host) in Host::ALL.into_iter().enumerate() {
        check_tables(host, "reads-store", InducedFailure::UnusableStore, 23 + step);
        check_tables(host, "reads-host", InducedFailure::UnreadablePolicy, 29 + step);
    }
}

#[test]
fn tools_pass_only_if_the_host_defines_them_as_reading() {
    let path = json!({"file_path": "a", "path": "a", "pattern": "x", "command": "view"});
    for host in Host::ALL {
        let (reading, writing): (&[&str], &[&str]) = match host {
            Host::ClaudeCode => (
                &["Read", "Grep", "Glob", "LS", "BashOutput", "AskUserQuestion"],
                &["Write", "Edit", "NotebookEdit", "Task", "WebFetch", "KillShell", "PowerShell", "Skill"],
            ),
            Host::Codex => {
                (&["read_file", "list_dir", "grep_files"], &["apply_patch", "spawn_agent", "write_stdin"])
            }
            Host::Gemini => (
                &["read_file", "read_many_files", "list_directory", "glob", "search_file_content"],
                &["write_file", "replace", "save_memory", "web_fetch"],
            ),
            Host::Copilot => {
                (&["view", "grep", "glob"], &["create", "edit", "write_bash", "powershell", "task"])
            }
            Host::Cursor => (&["Read", "Grep", "LS"], &["Write", "Delete", "Task", "MCP:read_file"]),
            Host::Goose => (
                &["developer__text_editor", "developer__tree"],
                &["computercontroller__web_scrape", "developer__write", "memory__remember"],
            ),
            Host::Opencode => {
                (&["read", "grep", "glob", "list"], &["write", "edit", "patch", "webfetch", "task"])
            }
        };
        let unknown =
            ["mcp__github__get_issue", "mcp__db__query", "github_list", "get_weather", "READ", "Read "];
        let (mut agent, env) = failing_project(host, "reads-tools", InducedFailure::UnreadablePolicy);
        for tool in reading {
            assert!(!is_refused(&mut agent, &env, tool, &path), "{} {tool}", host.as_str());
        }
        for tool in writing.iter().chain(&unknown) {
            assert!(is_refused(&mut agent, &env, tool, &path), "{} {tool}", host.as_str());
        }
    }
}

#[test]
fn the_policy_declares_what_a_tool_does() {
    for host in Host::ALL {
        let (mut agent, env) = failing_project(host, "reads-declared", InducedFailure::UnusableStore);
        let policy =
            "tools: {mcp__db__query: {effect: read}, Read: {effect: write}, read_file: {effect: write}}\n";
        write_policy(&agent, policy);
        assert!(
            !is_refused(&mut agent, &env, "mcp__db__query", &json!({"sql": "select 1"})),
            "{}",
            host.as_str()
        );
        assert!(is_refused(&mut agent, &env, "Read", &json!({"path": "a"})), "{}", host.as_str());
        assert!(is_refused(&mut agent, &env, "read_file", &json!({"path": "a"})), "{}", host.as_str());
    }
}

/// Writes the agent's policy.
fn write_policy(agent: &ScriptedHost, policy: &str) {
    let folder = Path::new(&agent.payloads.folder);
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    // Only a trusted file may declare a tool harmless.
    crate::command_harness::trust_policy(folder);
}
