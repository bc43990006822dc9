//! A cloned repository attacks its guard: its policy file and its hook entries may only tighten, until the user trusts
//! exactly them; the project root, the store and the policy of a session are fixed when it starts.

use crate::agent::{Agent, installed, settings};
use crate::kit;
use crate::shipped::stored;
use crate::voice::Ended;
use flyball_adapt::hook::Host;
use serde_json::{Value, json};
use std::path::Path;

/// Calls that all look the same.
const CALLS: u64 = 8;

/// One call of Claude Code, with flags and variables as a hook entry may have them: whether it was refused, and what
/// the host was told. A call that was not refused runs.
fn call(folder: &Path, flags: &[&str], session: &str, n: u64, env: &[(&str, &str)]) -> (bool, String) {
    let mut input = json!({"session_id": session, "cwd": folder, "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": format!("c{n}")});
    let mut hook = |event: &str| {
        input["hook_event_name"] = json!(event);
        input["tool_response"] = json!("a");
        let words = [&["hook", "claude-code", "--event", event], flags].concat();
        kit::flyball(folder, &words, input.to_string().as_bytes(), env)
    };
    let before = hook("PreToolUse");
    let refused = before.out.contains("deny");
    let mut told = format!("{}{}", before.out, before.err);
    if !refused {
        let after = hook("PostToolUse");
        told.push_str(&format!("{}{}", after.out, after.err));
    }
    (refused, told)
}

/// Makes the same call again and again; says which one was refused first, and what the host was told.
fn refused_at(folder: &Path, flags: &[&str], session: &str, env: &[(&str, &str)]) -> (Option<u64>, String) {
    let mut all = String::new();
    for n in 1..=CALLS {
        let (refused, told) = call(folder, flags, session, n, env);
        all.push_str(&told);
        if refused {
            return (Some(n), all);
        }
    }
    (None, all)
}

/// The same through the entries that the settings have, from folders that alternate.
fn stopped_at(agent: &mut Agent, folders: &[&Path]) -> Option<u64> {
    let (host, args) = (agent.voice.host, json!({"command": "ls"}));
    (1..=CALLS).zip(folders.iter().cycle()).find_map(|(n, folder)| {
        agent.voice.folder = folder.to_str().unwrap().to_owned();
        let (stamp, id) = (agent.tick(), format!("call-{n}"));
        if agent.hear(&agent.voice.before(stamp, &id, host.shell(), &args)).stopped() {
            return Some(n);
        }
        agent.hear(&agent.voice.after(stamp, &id, host.shell(), &args, &Ended::Well(&json!("a"))));
        None
    })
}

#[test]
fn a_cloned_policy_file_cannot_switch_the_guard_off() {
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
        let folder = kit::folder(&format!("hooks-trust-{name}"));
        let file = folder.join("flyball.yaml");
        std::fs::write(&file, policy).unwrap();
        let (at, told) = refused_at(&folder, &[], "clone", &[]);
        assert_eq!(at, Some(6), "{name}: the guard holds: {told}");
        assert_eq!(told.matches("is ignored").count(), 1, "{name}: reported once a session: {told}");
        assert!(told.contains("flyball trust"), "{name}: {told}");
        if name == "poll" || name == "switch" {
            continue;
        }
        // Trusted, it applies to sessions that start from now on; one byte more, and it is ignored again.
        kit::trusted(&folder);
        assert_eq!(refused_at(&folder, &[], "trusted", &[]).0, None, "{name}: trusted");
        std::fs::write(&file, format!("{policy}#")).unwrap();
        assert_eq!(refused_at(&folder, &[], "edited", &[]).0, Some(6), "{name}: edited");
    }
}

#[test]
fn a_cloned_policy_file_runs_no_program_keeps_no_secret_and_lets_nothing_pass_on_errors() {
    let folder = kit::folder("hooks-trust-deliver");
    let policy = json!({
        "notify": true, "on_error": "allow",
        "journal": {"redact": false, "deliver": [{"effects": ["*"], "command": ["touch", folder.join("pwned")]}]},
        "guards": {"repetition": {"mode": "halt", "limit": 2}},
    });
    std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
    let (at, told) = refused_at(&folder, &[], "s", &[]);
    assert_eq!(at, Some(3), "what is stricter holds: {told}");
    assert!(!folder.join("pwned").exists(), "no program of the project ran");
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let input = json!({"session_id": "t", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": format!("echo {secret}")}, "tool_use_id": "c"});
    kit::flyball(
        &folder,
        &["hook", "claude-code", "--event", "PreToolUse"],
        input.to_string().as_bytes(),
        &[],
    );
    let records = stored(&folder, "claude-code:t");
    assert!(!records.is_empty() && !records.iter().any(|record| record.text.contains(secret)));
    // A store that cannot be opened: `on_error: allow` of the project does not count.
    let broken = [("FLYBALL_STORE", "sqlite:/proc/none/x.db")];
    let write = json!({"session_id": "u", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "rm -r build"}, "tool_use_id": "c"});
    let words = ["hook", "claude-code", "--event", "PreToolUse"];
    let run = kit::flyball(&folder, &words, write.to_string().as_bytes(), &broken);
    assert!(run.out.contains("deny"), "{}{}", run.out, run.err);
    // Trusted, all of it applies.
    kit::trusted(&folder);
    assert_eq!(refused_at(&folder, &[], "v", &[]).0, Some(3));
    assert!(folder.join("pwned").exists());
    let run = kit::flyball(&folder, &words, write.to_string().as_bytes(), &broken);
    assert!(!run.out.contains("deny"), "{}{}", run.out, run.err);
}

#[test]
fn flags_and_environment_of_a_hook_entry_may_only_tighten() {
    let folder = kit::folder("hooks-trust-entry");
    std::fs::write(folder.join("loose.yaml"), "preset: off\n").unwrap();
    type Attack<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let attacks: [Attack<'_>; 6] = [
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
        let (at, told) = refused_at(&folder, flags, name, env);
        assert_eq!(at, Some(6), "{name}: {told}");
        assert!(told.contains("is ignored"), "{name}: {told}");
    }
    let strict = refused_at(
        &folder,
        &["--set", "guards.repetition.limit=2"],
        "strict",
        &[("FLYBALL_ON_ERROR", "block")],
    );
    assert_eq!(strict.0, Some(3), "{}", strict.1);
    // The environment of an entry cannot make a folder of the project the user's own.
    let config = folder.join("config/flyball");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("flyball.yaml"), "preset: off\n").unwrap();
    let config = folder.join("config");
    let env = [("XDG_CONFIG_HOME", config.to_str().unwrap()), ("FLYBALL_ORG_POLICY", "loose.yaml")];
    assert_eq!(refused_at(&folder, &[], "config", &env).0, Some(6));
    // Nor does it trust a file of the project: only the host's own environment does.
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    let shown = kit::flyball(&folder, &["trust", "--dry-run", "--json"], b"", &[]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let env = [("FLYBALL_TRUST", shown["digest"].as_str().unwrap())];
    assert_eq!(refused_at(&folder, &[], "trust", &env).0, Some(6));
}

#[test]
fn the_users_own_policy_file_may_loosen() {
    let folder = kit::folder("hooks-trust-user");
    let home = kit::folder("hooks-trust-user-home");
    std::fs::create_dir_all(home.join(".config/flyball")).unwrap();
    std::fs::write(home.join(".config/flyball/flyball.yaml"), "preset: off\n").unwrap();
    let env = [("HOME", home.to_str().unwrap())];
    assert_eq!(refused_at(&folder, &[], "s", &env).0, None);
    // One that others may write to is not the user's own word.
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(home.join(".config/flyball/flyball.yaml"), open).unwrap();
    assert_eq!(refused_at(&folder, &[], "t", &env).0, Some(6));
}

#[test]
fn an_entry_with_flags_that_nobody_installed_is_not_trusted() {
    let (one, other) = (installed(Host::ClaudeCode, "line"), installed(Host::ClaudeCode, "line-other"));
    let file = settings(Host::ClaudeCode, &one);
    let loosened = std::fs::read_to_string(&file).unwrap().replace(" --event ", " --preset off --event ");
    for folder in [&one, &other] {
        std::fs::write(settings(Host::ClaudeCode, folder), &loosened).unwrap();
        assert_eq!(stopped_at(&mut Agent::new(Host::ClaudeCode, folder), &[folder]), Some(6));
    }
}

#[test]
fn an_agent_does_not_trust_for_its_user() {
    let folder = kit::folder("hooks-trust-agent");
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    for mark in ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI"] {
        for words in [&["trust"] as &[&str], &["trust", "--revoke"]] {
            let run = kit::flyball(&folder, words, b"", &[(mark, "1")]);
            assert!(run.code == 1 && run.err.contains("agent_speaks"), "{mark}: {}{}", run.out, run.err);
        }
    }
    assert_eq!(refused_at(&folder, &[], "s", &[]).0, Some(6));
}

#[test]
fn a_hook_refuses_a_store_in_memory() {
    let folder = kit::folder("hooks-trust-memory");
    for (words, env) in
        [(&["--store", "memory:"] as &[&str], &[] as &[(&str, &str)]), (&[], &[("FLYBALL_STORE", "memory:")])]
    {
        let input = json!({"session_id": "s", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "rm -r build"}, "tool_use_id": "c"});
        let words = [&["hook", "claude-code", "--event", "PreToolUse"], words].concat();
        let run = kit::flyball(&folder, &words, input.to_string().as_bytes(), env);
        assert!(run.out.contains("deny") && run.out.contains("hook_store"), "{}{}", run.out, run.err);
    }
}

#[test]
fn policy_and_store_stay_those_of_the_root_where_the_session_started() {
    for host in Host::ALL {
        let folder = installed(host, "moves");
        let inner = folder.join("inner");
        std::fs::create_dir_all(inner.join(".git")).unwrap();
        std::fs::write(inner.join("flyball.yaml"), "preset: off\n").unwrap();
        let mut agent = Agent::new(host, &folder);
        agent.hear(&agent.voice.start("startup"));
        // The agent moves to a repository of its own making, and to where the place of its session is remembered.
        let state = kit::state(&folder).join("flyball");
        let stopped = stopped_at(&mut agent, &[&folder, &inner, &state]);
        assert_eq!(stopped, Some(6), "{}", host.as_str());
        assert!(!inner.join(".flyball").exists(), "{}: no second store", host.as_str());
    }
}

#[test]
fn the_root_that_the_host_names_counts_and_not_the_folder_of_the_agent() {
    let folder = kit::folder("hooks-trust-root");
    let inner = folder.join("inner");
    std::fs::create_dir_all(inner.join(".git")).unwrap();
    let env = [("CLAUDE_PROJECT_DIR", folder.to_str().unwrap())];
    let input = json!({"session_id": "s", "cwd": inner, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": "c"});
    let words = ["hook", "claude-code", "--event", "PreToolUse"];
    let run = kit::flyball(&inner, &words, input.to_string().as_bytes(), &env);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(folder.join(".flyball/flyball.db").is_file() && !inner.join(".flyball").exists());
}

#[test]
fn a_session_stays_under_the_policy_that_it_started_under() {
    let folder = kit::folder("hooks-trust-pinned");
    let file = folder.join("flyball.yaml");
    let refused = |session: &str, n: u64| call(&folder, &[], session, n, &[]).0;
    assert!((1..=3).all(|n| !refused("s", n)));
    // Looser, and trusted: new sessions are under it, this one waits for a person.
    std::fs::write(&file, "guards: {repetition: {limit: 100}, recurrence: off, cycle: off, denial: off}\n")
        .unwrap();
    kit::trusted(&folder);
    assert_eq!(refused_at(&folder, &[], "new", &[]).0, None);
    assert_eq!((4..=7).filter(|n| refused("s", *n)).collect::<Vec<u64>>(), [6, 7]);
    let records = stored(&folder, "claude-code:s");
    let changes: Vec<&str> = records
        .iter()
        .map(|record| record.text.as_str())
        .filter(|text| text.contains("policy.changed"))
        .collect();
    assert_eq!(changes.len(), 1, "told once: {changes:?}");
    assert!(changes[0].contains("guards.repetition.limit"), "{changes:?}");
    // An agent does not accept it; a person does.
    let accept = ["policy", "accept", "claude-code:s", "--why", "long listing"];
    let run = kit::flyball(&folder, &accept, b"", &[("CLAUDECODE", "1")]);
    assert!(run.code == 1 && run.err.contains("agent_speaks"), "{}", run.err);
    let by = [&accept[..], &["--by", "berta", "--json"]].concat();
    let run = kit::flyball(&folder, &by, b"", &[("USER", "anna")]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(serde_json::from_str::<Value>(&run.out).is_ok(), "{}", run.out);
    let accepted = stored(&folder, "claude-code:s");
    assert!(accepted.last().unwrap().text.contains("berta"), "{}", accepted.last().unwrap().text);
    assert!((20..24).all(|n| !refused("s", n)));
    // Stricter holds at once, in both.
    std::fs::write(&file, "guards: {repetition: {limit: 2}}\n").unwrap();
    assert!(refused("s", 30) && refused("new", 30));
}
