//! A cloned repository attacks its guard: its policy file and hook entries may only tighten until the user trusts
//! exactly them; the project root, the store and the policy of a session are fixed when it starts.

use crate::command_harness;
use crate::host_payloads::ToolCallEnd;
use crate::recorded_histories::stored_records;
use crate::scripted_host::{ScriptedHost, install_hook, settings_file};
use flyball_integrations::hook::Host;
use serde_json::{Value, json};
use std::path::Path;

/// Number of identical calls.
const IDENTICAL_CALLS: u64 = 8;

/// One call of Claude Code, with flags and variables that a hook entry may have: whether it was denied, and the
/// host's message. A call that was not denied runs.
fn call_hook(folder: &Path, flags: &[&str], session: &str, n: u64, env: &[(&str, &str)]) -> (bool, String) {
    let mut input = json!({"session_id": session, "cwd": folder, "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": format!("c{n}")});
    let mut hook = |event: &str| {
        input["hook_event_name"] = json!(event);
        input["tool_response"] = json!("a");
        let words = [&["hook", "claude-code", "--event", event], flags].concat();
        command_harness::run_flyball(folder, &words, input.to_string().as_bytes(), env)
    };
    let before = hook("PreToolUse");
    let refused = before.out.contains("deny");
    let mut message = format!("{}{}", before.out, before.err);
    if !refused {
        let after = hook("PostToolUse");
        message.push_str(&format!("{}{}", after.out, after.err));
    }
    (refused, message)
}

/// Repeats the same call; returns which one was denied first, and the host's message.
fn refused_at(folder: &Path, flags: &[&str], session: &str, env: &[(&str, &str)]) -> (Option<u64>, String) {
    let mut all = String::new();
    for n in 1..=IDENTICAL_CALLS {
        let (refused, message) = call_hook(folder, flags, session, n, env);
        all.push_str(&message);
        if refused {
            return (Some(n), all);
        }
    }
    (None, all)
}

/// The same through the entries in the settings, from alternating directories.
fn stopped_at(agent: &mut ScriptedHost, folders: &[&Path]) -> Option<u64> {
    let (host, args) = (agent.payloads.host, json!({"command": "ls"}));
    (1..=IDENTICAL_CALLS).zip(folders.iter().cycle()).find_map(|(n, folder)| {
        agent.payloads.folder = folder.to_str().unwrap().to_owned();
        let (stamp, id) = (agent.next_stamp(), format!("call-{n}"));
        if agent.call_hook(&agent.payloads.before_tool(stamp, &id, host.shell_tool(), &args)).is_stopped() {
            return Some(n);
        }
        agent.call_hook(&agent.payloads.after_tool(
            stamp,
            &id,
            host.shell_tool(),
            &args,
            &ToolCallEnd::Succeeded(&json!("a")),
        ));
        None
    })
}

#[test]
fn cloned_policy_file_cannot_disable_guards() {
    let files = [
        ("preset", "preset: off\n"),
        ("observe", "preset: observe\n"),
        ("mode", "guards: {repetition: off, recurrence: off, cycle: off}\n"),
        (
            "limits",
            "guards: {repetition: {limit: 1000}, recurrence: {limit: 1000, stale: 1000, drift: 1000}, cycle: {calls: off}}\n",
        ),
        ("poll", "tools: {Bash: {effect: poll}}\n"),
        ("switch", "loop_prevention: {enabled: false}\nguards: {repetition: {mode: observe}}\n"),
    ];
    for (name, policy) in files {
        let folder = command_harness::test_dir(&format!("hooks-trust-{name}"));
        let file = folder.join("flyball.yaml");
        std::fs::write(&file, policy).unwrap();
        let (at, message) = refused_at(&folder, &[], "clone", &[]);
        assert_eq!(at, Some(6), "{name}: the guard still works: {message}");
        assert_eq!(message.matches("is ignored").count(), 1, "{name}: reported once a session: {message}");
        assert!(message.contains("flyball trust"), "{name}: {message}");
        if name == "poll" || name == "switch" {
            continue;
        }
        // Once trusted, it applies to new sessions; with one more byte it is ignored again.
        command_harness::trust_policy(&folder);
        assert_eq!(refused_at(&folder, &[], "trusted", &[]).0, None, "{name}: trusted");
        std::fs::write(&file, format!("{policy}#")).unwrap();
        assert_eq!(refused_at(&folder, &[], "edited", &[]).0, Some(6), "{name}: edited");
    }
}

#[test]
fn cloned_policy_file_cannot_run_programs_store_secrets_or_allow_on_error() {
    let folder = command_harness::test_dir("hooks-trust-deliver");
    let policy = json!({
        "notify": true, "on_error": "allow",
        "journal": {"redact": false, "deliver": [{"effects": ["*"], "command": ["touch", folder.join("pwned")]}]},
        "guards": {"repetition": {"mode": "halt", "limit": 2}},
    });
    std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
    let (at, message) = refused_at(&folder, &[], "s", &[]);
    assert_eq!(at, Some(3), "stricter values apply: {message}");
    assert!(!folder.join("pwned").exists(), "no program of the project ran");
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let input = json!({"session_id": "t", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": format!("echo {secret}")}, "tool_use_id": "c"});
    command_harness::run_flyball(
        &folder,
        &["hook", "claude-code", "--event", "PreToolUse"],
        input.to_string().as_bytes(),
        &[],
    );
    let records = stored_records(&folder, "claude-code:t");
    assert!(!records.is_empty() && !records.iter().any(|record| record.text.contains(secret)));
    // A store that cannot be opened: the project's `on_error: allow` is ignored.
    let broken = [("FLYBALL_STORE", "sqlite:/proc/none/x.db")];
    let write = json!({"session_id": "u", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "rm -r build"}, "tool_use_id": "c"});
    let words = ["hook", "claude-code", "--event", "PreToolUse"];
    let run = command_harness::run_flyball(&folder, &words, write.to_string().as_bytes(), &broken);
    assert!(run.out.contains("deny"), "{}{}", run.out, run.err);
    // Once trusted, all of it applies.
    command_harness::trust_policy(&folder);
    assert_eq!(refused_at(&folder, &[], "v", &[]).0, Some(3));
    assert!(folder.join("pwned").exists());
    let run = command_harness::run_flyball(&folder, &words, write.to_string().as_bytes(), &broken);
    assert!(!run.out.contains("deny"), "{}{}", run.out, run.err);
}

#[test]
fn flags_and_environment_of_a_hook_entry_may_only_tighten() {
    let folder = command_harness::test_dir("hooks-trust-entry");
    std::fs::write(folder.join("loose.yaml"), "preset: off\n").unwrap();
    type EntryAttack<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let attacks: [EntryAttack<'_>; 6] = [
        ("preset", &["--preset", "off"], &[]),
        ("set", &["--set", "guards.repetition.mode=off", "--set", "guards.recurrence.mode=off"], &[]),
        ("file", &["--policy", "loose.yaml"], &[]),
        ("environment", &[], &[("FLYBALL_PRESET", "off")]),
        (
            "key",
            &[],
            &[("FLYBALL_GUARDS__REPETITION__LIMIT", "1000"), ("FLYBALL_GUARDS__RECURRENCE__MODE", "off")],
        ),
        ("dex", &[], &[("DEX_MAX_REPETITIONS", "1000")]),
    ];
    for (name, flags, env) in attacks {
        let (at, message) = refused_at(&folder, flags, name, env);
        assert_eq!(at, Some(6), "{name}: {message}");
        assert!(message.contains("is ignored"), "{name}: {message}");
    }
    let strict = refused_at(
        &folder,
        &["--set", "guards.repetition.limit=2"],
        "strict",
        &[("FLYBALL_ON_ERROR", "block")],
    );
    assert_eq!(strict.0, Some(3), "{}", strict.1);
    // The environment of an entry cannot turn a project directory into the user's own.
    let config = folder.join("config/flyball");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("flyball.yaml"), "preset: off\n").unwrap();
    let config = folder.join("config");
    let env = [("XDG_CONFIG_HOME", config.to_str().unwrap()), ("FLYBALL_ORG_POLICY", "loose.yaml")];
    assert_eq!(refused_at(&folder, &[], "config", &env).0, Some(6));
    // Nor can it trust a project file: only the host's own environment can.
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    let shown = command_harness::run_flyball(&folder, &["trust", "--dry-run", "--json"], b"", &[]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let env = [("FLYBALL_TRUST", shown["digest"].as_str().unwrap())];
    assert_eq!(refused_at(&folder, &[], "trust", &env).0, Some(6));
}

#[test]
fn the_users_own_policy_file_may_loosen() {
    let folder = command_harness::test_dir("hooks-trust-user");
    let home = command_harness::test_dir("hooks-trust-user-home");
    std::fs::create_dir_all(home.join(".config/flyball")).unwrap();
    std::fs::write(home.join(".config/flyball/flyball.yaml"), "preset: off\n").unwrap();
    let env = [("HOME", home.to_str().unwrap())];
    assert_eq!(refused_at(&folder, &[], "s", &env).0, None);
    // A directory that others may write to does not count as the user's own.
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(home.join(".config/flyball/flyball.yaml"), open).unwrap();
    assert_eq!(refused_at(&folder, &[], "t", &env).0, Some(6));
}

#[test]
fn entry_with_flags_that_were_not_installed_is_untrusted() {
    let (one, other) = (install_hook(Host::ClaudeCode, "line"), install_hook(Host::ClaudeCode, "line-other"));
    let file = settings_file(Host::ClaudeCode, &one);
    let loosened = std::fs::read_to_string(&file).unwrap().replace(" --event ", " --preset off --event ");
    for folder in [&one, &other] {
        std::fs::write(settings_file(Host::ClaudeCode, folder), &loosened).unwrap();
        assert_eq!(stopped_at(&mut ScriptedHost::new(Host::ClaudeCode, folder), &[folder]), Some(6));
    }
}

#[test]
fn agent_cannot_trust_for_its_user() {
    let folder = command_harness::test_dir("hooks-trust-agent");
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    for mark in ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI"] {
        for words in [&["trust"] as &[&str], &["trust", "--revoke"]] {
            let run = command_harness::run_flyball(&folder, words, b"", &[(mark, "1")]);
            assert!(run.code == 1 && run.err.contains("agent_not_allowed"), "{mark}: {}{}", run.out, run.err);
        }
    }
    assert_eq!(refused_at(&folder, &[], "s", &[]).0, Some(6));
}

#[test]
fn hook_rejects_an_in_memory_store() {
    let folder = command_harness::test_dir("hooks-trust-memory");
    for (words, env) in
        [(&["--store", "memory:"] as &[&str], &[] as &[(&str, &str)]), (&[], &[("FLYBALL_STORE", "memory:")])]
    {
        let input = json!({"session_id": "s", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "rm -r build"}, "tool_use_id": "c"});
        let words = [&["hook", "claude-code", "--event", "PreToolUse"], words].concat();
        let run = command_harness::run_flyball(&folder, &words, input.to_string().as_bytes(), env);
        assert!(run.out.contains("deny") && run.out.contains("hook_store"), "{}{}", run.out, run.err);
    }
}

#[test]
fn session_keeps_the_policy_and_store_of_its_starting_root() {
    for host in Host::ALL {
        let folder = install_hook(host, "moves");
        let inner = folder.join("inner");
        std::fs::create_dir_all(inner.join(".git")).unwrap();
        std::fs::write(inner.join("flyball.yaml"), "preset: off\n").unwrap();
        let mut agent = ScriptedHost::new(host, &folder);
        agent.call_hook(&agent.payloads.session_started("startup"));
        // The agent moves to a repository that it created, and to where the location of its session is recorded.
        let state = command_harness::state_dir(&folder).join("flyball");
        let stopped = stopped_at(&mut agent, &[&folder, &inner, &state]);
        assert_eq!(stopped, Some(6), "{}", host.as_str());
        assert!(!inner.join(".flyball").exists(), "{}: no second store", host.as_str());
    }
}

#[test]
fn root_named_by_the_host_wins_over_the_agent_folder() {
    let folder = command_harness::test_dir("hooks-trust-root");
    let inner = folder.join("inner");
    std::fs::create_dir_all(inner.join(".git")).unwrap();
    let env = [("CLAUDE_PROJECT_DIR", folder.to_str().unwrap())];
    let input = json!({"session_id": "s", "cwd": inner, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": "c"});
    let words = ["hook", "claude-code", "--event", "PreToolUse"];
    let run = command_harness::run_flyball(&inner, &words, input.to_string().as_bytes(), &env);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(folder.join(".flyball/flyball.db").is_file() && !inner.join(".flyball").exists());
}

#[test]
fn session_stays_under_its_starting_policy() {
    let folder = command_harness::test_dir("hooks-trust-pinned");
    let file = folder.join("flyball.yaml");
    let refused = |session: &str, n: u64| call_hook(&folder, &[], session, n, &[]).0;
    assert!((1..=3).all(|n| !refused("s", n)));
    // Looser and trusted: it applies to new sessions; this one needs an operator.
    std::fs::write(&file, "guards: {repetition: {limit: 100}, recurrence: off, cycle: off, denial: off}\n")
        .unwrap();
    command_harness::trust_policy(&folder);
    assert_eq!(refused_at(&folder, &[], "new", &[]).0, None);
    assert_eq!((4..=7).filter(|n| refused("s", *n)).collect::<Vec<u64>>(), [6, 7]);
    let records = stored_records(&folder, "claude-code:s");
    let changes: Vec<&str> = records
        .iter()
        .map(|record| record.text.as_str())
        .filter(|text| text.contains("policy.changed"))
        .collect();
    assert_eq!(changes.len(), 1, "recorded once: {changes:?}");
    assert!(changes[0].contains("guards.repetition.limit"), "{changes:?}");
    // An agent cannot accept it; an operator can.
    let accept = ["policy", "accept", "claude-code:s", "--why", "long listing"];
    let run = command_harness::run_flyball(&folder, &accept, b"", &[("CLAUDECODE", "1")]);
    assert!(run.code == 1 && run.err.contains("agent_not_allowed"), "{}", run.err);
    let by = [&accept[..], &["--by", "berta", "--json"]].concat();
    let run = command_harness::run_flyball(&folder, &by, b"", &[("USER", "anna")]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(serde_json::from_str::<Value>(&run.out).is_ok(), "{}", run.out);
    let accepted = stored_records(&folder, "claude-code:s");
    assert!(accepted.last().unwrap().text.contains("berta"), "{}", accepted.last().unwrap().text);
    assert!((20..24).all(|n| !refused("s", n)));
    // Stricter values apply at once, in both.
    std::fs::write(&file, "guards: {repetition: {limit: 2}}\n").unwrap();
    assert!(refused("s", 30) && refused("new", 30));
}
