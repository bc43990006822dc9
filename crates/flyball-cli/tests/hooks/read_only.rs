//! Flyball fails: what is known to be read-only runs, everything else is refused, on every host.

use crate::agent::{Agent, fed, installed};
use flyball_adapt::hook::{Host, Understood, understood};
use serde_json::{Value, json};
use std::path::Path;

const EFFECTS: &str = include_str!("../../../../fixtures/shell/effects.txt");
const READ_ONLY: &str = include_str!("../../../../fixtures/shell/read-only.txt");

/// How Flyball is made to fail.
#[derive(Clone, Copy)]
enum Failure {
    UnreadablePolicy,
    UnusableStore,
}

/// A project in which every decision fails.
fn failing(host: Host, name: &str, failure: Failure) -> (Agent, Vec<(&'static str, String)>) {
    let folder = installed(host, name);
    let env = match failure {
        Failure::UnreadablePolicy => {
            std::fs::write(folder.join("flyball.yaml"), "guards: {repetitoin: off}\n").unwrap();
            Vec::new()
        }
        Failure::UnusableStore => {
            std::fs::write(folder.join("no-folder"), "a file").unwrap();
            vec![("FLYBALL_STORE", format!("sqlite:{}", folder.join("no-folder/x.db").display()))]
        }
    };
    (Agent::new(host, &folder), env)
}

/// Whether the hook refuses a call.
fn refuses(agent: &mut Agent, env: &[(&'static str, String)], tool: &str, args: &Value) -> bool {
    let n = agent.tick();
    let (event, input) = agent.voice.before(n, &format!("call-{n}"), tool, args);
    let mut command = agent.command(event);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = fed(command, input.to_string().as_bytes());
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let means = understood(agent.voice.host, event, &out, &err, output.status.code().expect("no signal"));
    assert!(!matches!(means, Understood::Broken(_)), "{tool} {args}: {means:?}");
    assert!(format!("{out}{err}").contains("Flyball"), "the failure is reported: {tool} {args}: {out}{err}");
    matches!(means, Understood::Refuses(_))
}

/// Every `step`th command of both tables, on several threads.
fn check_tables(host: Host, name: &str, failure: Failure, step: usize) {
    let rows = EFFECTS.lines().map(|line| (line, true)).chain(READ_ONLY.lines().map(|line| (line, false)));
    let rows: Vec<(&str, bool)> = rows.step_by(step).collect();
    let share = rows.len().div_ceil(4);
    std::thread::scope(|scope| {
        for (part, rows) in rows.chunks(share).enumerate() {
            scope.spawn(move || {
                let (mut agent, env) = failing(host, &format!("{name}-{part}"), failure);
                for (line, refused) in rows {
                    let args = json!({"command": line.replace('␤', "\n")});
                    let found = refuses(&mut agent, &env, host.shell(), &args);
                    assert_eq!(found, *refused, "{}: {line}", host.as_str());
                }
            });
        }
    });
}

#[test]
fn shell_commands_pass_only_if_known_to_be_read_only() {
    assert!(EFFECTS.lines().count() >= 150 && READ_ONLY.lines().count() >= 80);
    check_tables(Host::ClaudeCode, "reads-policy", Failure::UnreadablePolicy, 1);
}

#[test]
fn shell_commands_are_checked_alike_on_every_host_and_for_every_failure() {
    for (step, host) in Host::ALL.into_iter().enumerate() {
        check_tables(host, "reads-store", Failure::UnusableStore, 23 + step);
        check_tables(host, "reads-host", Failure::UnreadablePolicy, 29 + step);
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
        let (mut agent, env) = failing(host, "reads-tools", Failure::UnreadablePolicy);
        for tool in reading {
            assert!(!refuses(&mut agent, &env, tool, &path), "{} {tool}", host.as_str());
        }
        for tool in writing.iter().chain(&unknown) {
            assert!(refuses(&mut agent, &env, tool, &path), "{} {tool}", host.as_str());
        }
    }
}

#[test]
fn the_policy_declares_what_a_tool_does() {
    for host in Host::ALL {
        let (mut agent, env) = failing(host, "reads-declared", Failure::UnusableStore);
        let policy =
            "tools: {mcp__db__query: {effect: read}, Read: {effect: write}, read_file: {effect: write}}\n";
        declare(&agent, policy);
        assert!(
            !refuses(&mut agent, &env, "mcp__db__query", &json!({"sql": "select 1"})),
            "{}",
            host.as_str()
        );
        assert!(refuses(&mut agent, &env, "Read", &json!({"path": "a"})), "{}", host.as_str());
        assert!(refuses(&mut agent, &env, "read_file", &json!({"path": "a"})), "{}", host.as_str());
    }
}

/// Writes the policy that the agent works under.
fn declare(agent: &Agent, policy: &str) {
    let folder = Path::new(&agent.voice.folder);
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    // Only a trusted file may say that a tool does no harm.
    crate::kit::trusted(folder);
}
