//! `flyball tell`: which session it addresses, which events it accepts and which it reserves for users, and the
//! agent's feedback. Also the guards that work with the events that hosts send by themselves.

use crate::command_harness;
use crate::recorded_histories::stored_records;
use crate::scripted_host::{HookResult, ScriptedHost, install_hook};
use crate::tell_command::tell_text;
use flyball_integrations::hook::{Host, HostReaction};
use serde_json::{Value, json};
use std::path::Path;

/// A host that works in a new project.
fn start_agent(host: Host, name: &str) -> ScriptedHost {
    let agent = ScriptedHost::new(host, &install_hook(host, name));
    agent.call_hook(&agent.payloads.session_started("startup"));
    agent
}

/// A host that works in a project with a trusted policy.
fn start_agent_with_policy(host: Host, name: &str, policy: &str) -> ScriptedHost {
    let folder = install_hook(host, name);
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    command_harness::trust_policy(&folder);
    let agent = ScriptedHost::new(host, &folder);
    agent.call_hook(&agent.payloads.session_started("startup"));
    agent
}

/// One more call of the agent.
fn call_tool(agent: &mut ScriptedHost, tool: &str) -> HookResult {
    let n = agent.next_stamp();
    agent.call_hook(&agent.payloads.before_tool(n, &format!("call-{n}"), tool, &json!({"n": n})))
}

fn decisions(folder: &Path, session: &str) -> Vec<Value> {
    stored_records(folder, session)
        .iter()
        .map(|record| serde_json::from_str(&record.decision_json).unwrap())
        .collect()
}

fn tripped_guards(decision: &Value) -> Vec<&str> {
    decision["trips"].as_array().unwrap().iter().map(|trip| trip["guard"].as_str().unwrap()).collect()
}

#[test]
fn repeated_final_messages_are_a_stall_on_hosts_that_report_them() {
    for host in Host::ALL.into_iter().filter(|host| *host != Host::Copilot) {
        let at = host.as_str();
        for (name, texts, stops) in [
            ("stall", ["I am stuck."; 3], true),
            ("no-stall", ["I read it.", "I wrote it.", "I tested it."], false),
        ] {
            let mut agent = start_agent(host, name);
            for text in texts {
                let stamp = agent.next_stamp();
                let result = agent.call_hook(&agent.payloads.turn_ended(stamp, text).unwrap());
                assert!(!matches!(result.reaction, HostReaction::Blocks(_)), "{at}: {:?}", result.reaction);
            }
            let all = decisions(&agent.folder, &agent.session());
            assert_eq!(tripped_guards(all.last().unwrap()).contains(&"stall"), stops, "{at}");
            assert_eq!(call_tool(&mut agent, "look").is_stopped(), stops, "{at}");
        }
    }
}

/// If the host cannot ask, the hook itself requests approval: `confirmation` needs no `flyball tell`.
#[test]
fn late_or_self_given_approval_runs_nothing() {
    for (host, mark) in
        [(Host::Codex, Some("CODEX_THREAD_ID")), (Host::Opencode, Some("OPENCODE")), (Host::Goose, None)]
    {
        let at = host.as_str();
        let policy = "tools: {deploy: {effect: destructive}}\nguards: {confirmation: {ttl: 1ms}}\n";
        let mut agent = start_agent_with_policy(host, "late-yes", policy);
        let deploy = |agent: &mut ScriptedHost| {
            let n = agent.next_stamp();
            agent.call_hook(&agent.payloads.before_tool(
                n,
                &format!("d{n}"),
                "deploy",
                &json!({"to": "prod"}),
            ))
        };
        assert!(deploy(&mut agent).is_stopped(), "{at}");
        let all = decisions(&agent.folder, &agent.session());
        assert_eq!(tripped_guards(all.last().unwrap()), ["confirmation"], "{at}");
        let (folder, session) = (agent.folder.clone(), agent.session());
        let approve =
            |env: &[(&str, &str)]| command_harness::run_flyball(&folder, &["approve", &session], b"", env);
        if let Some(mark) = mark {
            let own = approve(&[(mark, "s1")]);
            assert_eq!(own.code, 1, "{at}: {}", own.out);
            assert!(own.err.contains("agent_not_allowed"), "{at}: {}", own.err);
        }
        let late = approve(&[("USER", "anna")]);
        assert_eq!(late.code, 3, "{at}: {}", late.out);
        assert!(late.out.contains("confirmation_expired"), "{at}: {}", late.out);
        assert!(deploy(&mut agent).is_stopped(), "{at}");
        assert!(!call_tool(&mut agent, "look").is_stopped(), "{at}: everything else continues");
    }
}

#[test]
fn held_session_makes_no_call_until_released() {
    for host in Host::ALL {
        let at = host.as_str();
        let mut agent = start_agent(host, "held");
        std::fs::write(agent.folder.join("flyball.yaml"), "nodes: {test: {max_visits: 2}}\n").unwrap();
        // The hook sets the policy of the session; `tell` never does.
        assert!(!call_tool(&mut agent, "look").is_stopped(), "{at}");
        for code in [0, 0, 4] {
            let run = tell_text(&agent.folder, &["turn.started", "node=test"], &[]);
            assert_eq!(run.code, code, "{at}: {}{}", run.out, run.err);
        }
        let release = format!("flyball release {} --why", agent.session());
        for _ in 0..2 {
            let result = call_tool(&mut agent, "look");
            assert!(result.is_stopped(), "{at}: {:?}", result.reaction);
            let payload = format!("{}{}", result.out, result.err);
            assert!(payload.contains(&release), "{at}: {payload}");
        }
        // The call is recorded as one that did not run.
        let last = stored_records(&agent.folder, &agent.session()).pop().unwrap();
        assert!(
            last.text.contains("tool.denied") && last.text.contains(r#""by":"guard""#),
            "{at}: {}",
            last.text
        );
        // A user's prompt is allowed and gets the message; a question to the user is allowed too.
        let stamp = agent.next_stamp();
        let human = agent.call_hook(&agent.payloads.prompt(stamp, "what now?", "user"));
        assert!(!human.is_stopped() && format!("{}{}", human.out, human.err).contains(&release), "{at}");
        if let Some((tool, args)) = agent.payloads.question("Shall I go on?") {
            assert!(
                !agent.call_hook(&agent.payloads.before_tool(stamp, "q1", tool, &args)).is_stopped(),
                "{at}"
            );
        }
        let run = command_harness::run_flyball(
            &agent.folder,
            &["release", &agent.session(), "--why", "seen"],
            b"",
            &[],
        );
        assert_eq!(run.code, 0, "{at}: {}{}", run.out, run.err);
        assert!(!call_tool(&mut agent, "look").is_stopped(), "{at}");
    }
}

#[test]
fn warning_from_tell_reaches_the_agent_once() {
    for host in Host::ALL {
        let mut agent = start_agent(host, "warned-beside");
        let run = tell_text(&agent.folder, &["operation.failed", "operation=deploy"], &[]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(
            run.out.contains("Recorded: operation.failed") && run.out.contains("attempt 1 of 3"),
            "{}",
            run.out
        );
        let result = [call_tool(&mut agent, "look"), call_tool(&mut agent, "look")];
        let words = |result: &HookResult| match &result.reaction {
            HostReaction::AddsContext(text) => text.clone(),
            other => {
                assert_eq!(*other, HostReaction::Continues, "{}", host.as_str());
                String::new()
            }
        };
        let hears = !matches!(host, Host::Gemini | Host::Copilot | Host::Goose);
        assert_eq!(!words(&result[0]).is_empty(), hears, "{}: {}", host.as_str(), result[0].out);
        assert_eq!(words(&result[1]), "", "{}", host.as_str());
    }
}

#[test]
fn session_is_the_named_one_else_the_agents_own_else_the_only_active_one() {
    let mut agent = start_agent(Host::ClaudeCode, "whose");
    let folder = agent.folder.clone();
    let spoken_to = |words: &[&str], env: &[(&str, &str)]| -> String {
        let words = [&["api.retry", "--json"], words].concat();
        let run = tell_text(&folder, &words, env);
        match serde_json::from_str::<Value>(&run.out) {
            Ok(decision) => decision["session"].as_str().unwrap().to_owned(),
            Err(_) => run.err,
        }
    };
    assert_eq!(spoken_to(&[], &[]), "claude-code:s1");
    // With another active session, `tell` does not guess.
    agent.payloads.session = "s2".to_owned();
    agent.call_hook(&agent.payloads.session_started("startup"));
    let unclear = spoken_to(&[], &[]);
    assert!(unclear.contains("session_ambiguous") && unclear.contains("--session"), "{unclear}");
    assert!(unclear.contains("claude-code:s1") && unclear.contains("claude-code:s2"), "{unclear}");
    assert_eq!(spoken_to(&["--session", "claude-code:s2"], &[]), "claude-code:s2");
    assert_eq!(spoken_to(&["session=claude-code:s2"], &[]), "claude-code:s2");
    assert_eq!(spoken_to(&[], &[("FLYBALL_SESSION", "claude-code:s2")]), "claude-code:s2");
    assert_eq!(spoken_to(&[], &[("CLAUDE_CODE_SESSION_ID", "s1")]), "claude-code:s1");
    let named = ["--session", "claude-code:s2"];
    assert_eq!(spoken_to(&named, &[("CLAUDE_CODE_SESSION_ID", "s1")]), "claude-code:s2");
    // An agent whose hook never ran cannot speak for another one.
    let none = spoken_to(&[], &[("CODEX_THREAD_ID", "t1")]);
    assert!(none.contains("session_unknown") && none.contains("flyball hook"), "{none}");
    assert!(spoken_to(&["--session", "claude-code:s3"], &[]).contains("session_unknown"));
    // An ended session is not active.
    let (_, mut end) = agent.payloads.session_started("x");
    end["hook_event_name"] = json!("SessionEnd");
    agent.call_hook(&("SessionEnd", end));
    assert_eq!(spoken_to(&[], &[]), "claude-code:s1");
}

#[test]
fn session_variable_of_each_host_is_recognized() {
    for host in Host::ALL {
        let Some(variable) = host.session_variable() else { continue };
        let mut agent = start_agent(host, "named");
        agent.payloads.session = "s2".to_owned();
        agent.call_hook(&agent.payloads.session_started("startup"));
        let run = tell_text(&agent.folder, &["api.retry"], &[(variable, "s2")]);
        assert!(run.out.contains(&format!("{}:s2", host.as_str())), "{}{}", run.out, run.err);
    }
}

#[test]
fn tell_rejects_person_events() {
    let agent = start_agent(Host::ClaudeCode, "persons");
    let before = stored_records(&agent.folder, &agent.session()).len();
    for (words, instead) in [
        (&["human.released", "guard=stall", "by=anna"][..], "flyball release"),
        (&["human.stopped", "by=anna"], "flyball stop"),
        (&["confirmation.answered", "value=yes", "by=anna"], "flyball approve"),
        (&["user.message", "text=go on"], "flyball send"),
        (&["session.started", r#"policy={"preset":"off"}"#], "hook"),
        (&["session.ended"], "hook"),
        (&["progress", "signal=x", "value=1", "idle=true"], "idle"),
    ] {
        for env in [&[][..], &[("CLAUDECODE", "1")]] {
            let run = tell_text(&agent.folder, words, env);
            assert_eq!(run.code, 1, "{words:?}: {}", run.out);
            assert!(
                run.err.contains("event_not_allowed") && run.err.contains(instead),
                "{words:?}: {}",
                run.err
            );
        }
    }
    let inside = tell_text(&agent.folder, &["human.released", "session=claude-code:s1"], &[]);
    assert_eq!(inside.code, 1);
    let json = json!({"type": "human.released", "guard": "stall"}).to_string();
    let run = command_harness::run_flyball(&agent.folder, &["tell", "-"], json.as_bytes(), &[]);
    assert!(run.err.contains("event_not_allowed"), "{}", run.err);
    assert_eq!(stored_records(&agent.folder, &agent.session()).len(), before, "nothing was recorded");
}

#[test]
fn pending_question_is_not_replaced_by_the_agent() {
    let agent = start_agent(Host::ClaudeCode, "replaced");
    let plan = r#"plan=[{"tool":"deploy","args":{"to":"prod"}}]"#;
    assert_eq!(tell_text(&agent.folder, &["confirmation.requested", plan], &[("CLAUDECODE", "1")]).code, 4);
    let deploy = |n: u64| agent.payloads.before_tool(n, &format!("c{n}"), "deploy", &json!({"to": "prod"}));
    assert!(agent.call_hook(&deploy(1)).is_stopped());
    let other = tell_text(&agent.folder, &["confirmation.requested", "plan=[]"], &[("CLAUDECODE", "1")]);
    assert!(other.code == 1 && other.err.contains("agent_not_allowed"), "{}{}", other.out, other.err);
    assert!(agent.call_hook(&deploy(2)).is_stopped());
}

#[test]
fn answers_are_plain_text_with_the_documented_exit_code() {
    let agent = start_agent(Host::Codex, "words");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["progress", "signal=tests", "failing=a,b"], 0, "Recorded: progress"),
        (&["gate.checked", "checks=build:passed,tests:failed"], 5, "Blocked: gate.checked"),
        (&["confirmation.requested", "plan=[]", "question=Shall I?"], 4, "flyball approve codex:s1"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 4, "validation failure 1/3"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 4, "validation failure 2/3"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 3, "flyball release codex:s1"),
    ];
    for (words, code, says) in cases {
        let run = tell_text(&agent.folder, words, &[]);
        assert_eq!(run.code, code, "{words:?}: {}{}", run.out, run.err);
        assert!(run.out.contains(says), "{words:?}: {}", run.out);
    }
    let late = tell_text(&agent.folder, &["transition.requested", "from=plan", "to=code"], &[]);
    assert_eq!(late.code, 3, "{}", late.out);
    assert!(late.out.contains("Halted at transition.requested"), "{}", late.out);
}

#[test]
fn invalid_arguments_are_rejected_with_help() {
    let agent = start_agent(Host::ClaudeCode, "wrong-words");
    for (words, code, says) in [
        (&["progres", "signal=x"][..], 1, "did you mean `progress`?"),
        (&["progress"], 1, "missing_field"),
        (&["progress", "signal"], 2, "KEY=VALUE"),
        (&["progress", "signal=a", "signal=b"], 1, "duplicate_key"),
        (&["progress", "signal=a", "value=many"], 1, "wrong_type"),
        (&["gate.checked", "checks=tests"], 1, "NAME:passed"),
    ] {
        let run = tell_text(&agent.folder, words, &[]);
        assert_eq!(run.code, code, "{words:?}: {}", run.out);
        assert!(run.err.contains(says), "{words:?}: {}", run.err);
    }
    let empty = command_harness::test_dir("tell-without-a-store");
    let run = tell_text(&empty, &["api.retry"], &[]);
    assert!(run.code == 1 && run.err.contains("store_missing"), "{}", run.err);
    assert!(!empty.join(".flyball").exists(), "the hook creates a store, `tell` does not");
}

#[test]
fn event_sent_with_tell_is_redacted_counted_once_and_decided_under_the_session_policy() {
    let agent = start_agent(Host::Cursor, "as-any-other");
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let words = ["progress", "signal=docs", &format!("content=token {secret}"), "id=once", "--json"];
    let first = tell_text(&agent.folder, &words, &[]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert_eq!(tell_text(&agent.folder, &words, &[]).out, first.out, "the stored answer");
    let records = stored_records(&agent.folder, &agent.session());
    let kept: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
    assert_eq!(kept.iter().filter(|text| text.contains("once")).count(), 1);
    assert!(!kept.iter().any(|text| text.contains(secret)), "{kept:?}");
    let conflict = tell_text(&agent.folder, &["progress", "signal=other", "value=1", "id=once"], &[]);
    assert!(conflict.err.contains("event_conflict"), "{}", conflict.err);
    // A policy in the current directory does not change the session's rules.
    let inner = agent.folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("flyball.yaml"), "preset: off\n").unwrap();
    let failed = ["operation.failed", "operation=deploy"];
    let codes: Vec<i32> = (0..4).map(|_| tell_text(&inner, &failed, &[]).code).collect();
    assert_eq!(codes, [0, 0, 0, 3]);
}

#[test]
fn an_event_may_come_as_json_on_stdin() {
    let agent = start_agent(Host::Goose, "stdin");
    let checks =
        json!([{"name": "tests", "passed": false, "output": "test_login failed", "details": ["login"]}]);
    let event = json!({"type": "gate.checked", "checks": checks}).to_string();
    let run =
        command_harness::run_flyball(&agent.folder, &["tell", "-", "request=RELEASE"], event.as_bytes(), &[]);
    assert_eq!(run.code, 5, "{}{}", run.out, run.err);
    let last = stored_records(&agent.folder, &agent.session()).pop().unwrap();
    assert!(last.text.contains("RELEASE") && last.text.contains("test_login failed"), "{}", last.text);
    for broken in ["", "[]", "{\"type\":", "{\"type\":\"progress\",\"type\":\"progress\"}"] {
        let run = command_harness::run_flyball(&agent.folder, &["tell", "-"], broken.as_bytes(), &[]);
        assert_eq!(run.code, 1, "{broken}: {}", run.out);
    }
}
