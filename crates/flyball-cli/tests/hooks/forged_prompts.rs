//! Forged prompts: an agent runs its host's hook, `flyball observe` or `flyball tell` from a tool's shell, and claims
//! that a user spoke.

use crate::command_harness;
use crate::host_payloads::ToolCallEnd;
use crate::recorded_histories::stored_records;
use crate::scripted_host::{ScriptedHost, install_hook};
use flyball_integrations::hook::Host;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that each host sets for tool shells but not for hooks.
const TOOL_SHELL_MARKERS: [(Host, &str, &str); 6] = [
    (Host::ClaudeCode, "CLAUDECODE", "1"),
    (Host::Codex, "CODEX_THREAD_ID", "s1"),
    (Host::Gemini, "GEMINI_CLI", "1"),
    (Host::Copilot, "COPILOT_AGENT_SESSION_ID", "s1"),
    (Host::Cursor, "CURSOR_AGENT", "1"),
    (Host::Opencode, "FLYBALL_SESSION", "opencode:s1"),
];

/// Runs a script as a host runs a tool's shell, with input on stdin. `$F` is the binary.
fn run_tool_shell(folder: &Path, script: &str, input: &str, mark: Option<(&str, &str)>) -> (i32, String) {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("F", env!("CARGO_BIN_EXE_flyball"))
        .envs(mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text)
}

fn last_event(folder: &Path, session: &str) -> Value {
    let records = stored_records(folder, session);
    serde_json::from_str(&records.last().unwrap().text).unwrap()
}

#[test]
fn prompt_piped_by_an_agent_into_its_own_hook_is_an_agent_claim() {
    for (host, name, value) in TOOL_SHELL_MARKERS {
        let at = host.as_str();
        let mut agent = ScriptedHost::new(host, &install_hook(host, "piped"));
        let stamp = agent.next_stamp();
        agent.call_hook(&agent.payloads.prompt(stamp, "do it", "user"));
        let session = agent.session();
        assert_eq!(last_event(&agent.folder, &session)["origin"], "human", "{at}: the host itself");
        for script in [
            r#"cat | "$F" hook HOST --event EVENT"#,
            r#"env -u MARK "$F" hook HOST --event EVENT"#,
            r#"env -i "$F" hook HOST --event EVENT"#,
            r#"sh -c 'env -i sh -c "$0 hook HOST --event EVENT; exit \$?"' "$F""#,
        ] {
            let stamp = agent.next_stamp();
            let (event, input) = agent.payloads.prompt(stamp, "go on", "user");
            let script = script.replace("HOST", at).replace("EVENT", event).replace("MARK", name);
            let (_, reported) =
                run_tool_shell(&agent.folder, &script, &input.to_string(), Some((name, value)));
            let stored = last_event(&agent.folder, &session);
            assert_eq!(stored["text"], "go on", "{at}: {script}: {reported}");
            assert_eq!(
                (&stored["origin"], &stored["claimed_origin"]),
                (&json!("agent"), &json!("human")),
                "{at}: {script}: {reported}"
            );
        }
    }
}

#[test]
fn forged_prompt_or_answer_does_not_reset_a_loop() {
    let host = Host::ClaudeCode;
    for (name, payload) in [("prompt", "prompt"), ("answer", "answer"), ("interrupt", "interrupt")] {
        let mut agent = ScriptedHost::new(host, &install_hook(host, &format!("loop-{name}")));
        let mark = Some(("CLAUDECODE", "1"));
        let ran = (0..12).take_while(|n| {
            let stamp = agent.next_stamp();
            let call = agent.payloads.before_tool(stamp, &format!("c{n}"), "Bash", &json!({"command": "ls"}));
            let stopped = agent.call_hook(&call).is_stopped();
            let (event, input) = match payload {
                "prompt" => agent.payloads.prompt(stamp, "again", "user"),
                "answer" => {
                    let (tool, args) = agent.payloads.question("Go on?").unwrap();
                    agent.payloads.after_tool(
                        stamp,
                        &format!("q{n}"),
                        tool,
                        &args,
                        &ToolCallEnd::Succeeded(&json!("yes")),
                    )
                }
                _ => agent.payloads.tool_denied(stamp, &format!("d{n}"), "Read", &json!({"n": n})).unwrap(),
            };
            run_tool_shell(
                &agent.folder,
                &format!(r#""$F" hook claude-code --event {event}"#),
                &input.to_string(),
                mark,
            );
            !stopped
        });
        assert_eq!(ran.count(), 5, "{name}");
        let records = stored_records(&agent.folder, &agent.session());
        assert!(records.iter().all(|record| !record.text.contains(r#""origin":"human""#)), "{name}");
        assert!(records.iter().all(|record| !record.text.contains(r#""by":"human""#)), "{name}");
    }
}

#[test]
fn marker_set_by_the_host_itself_does_not_hide_real_prompts() {
    let mut agent = ScriptedHost::new(Host::Opencode, &install_hook(Host::Opencode, "own-mark"));
    let stamp = agent.next_stamp();
    let (event, input) = agent.payloads.prompt(stamp, "do it", "user");
    let script = format!(r#""$F" hook opencode --event {event}"#);
    let (_, reported) = run_tool_shell(&agent.folder, &script, &input.to_string(), Some(("OPENCODE", "1")));
    assert_eq!(last_event(&agent.folder, &agent.session())["origin"], "human", "{reported}");
}

#[test]
fn prompt_to_a_nested_agent_is_an_agent_claim() {
    let mut agent = ScriptedHost::new(Host::Codex, &install_hook(Host::Codex, "nested"));
    for mark in ["CLAUDECODE", flyball_runner::engine::RUN_DIR_VAR] {
        let stamp = agent.next_stamp();
        let (event, input) = agent.payloads.prompt(stamp, "do it", "user");
        let script = format!(r#""$F" hook codex --event {event}"#);
        run_tool_shell(&agent.folder, &script, &input.to_string(), Some((mark, "1")));
        assert_eq!(last_event(&agent.folder, &agent.session())["origin"], "agent", "{mark}");
    }
}

#[test]
fn claude_code_names_the_prompt_source() {
    let mut agent = ScriptedHost::new(Host::ClaudeCode, &install_hook(Host::ClaudeCode, "sources"));
    for (source, origin) in [
        ("user", "human"),
        ("sdk", "agent"),
        ("system", "schedule"),
        ("loop_wakeup", "schedule"),
        ("schedule_wakeup", "schedule"),
        ("poll_event", "schedule"),
        ("something_new", "agent"),
    ] {
        let stamp = agent.next_stamp();
        agent.call_hook(&agent.payloads.prompt(stamp, "do it", source));
        assert_eq!(last_event(&agent.folder, &agent.session())["origin"], origin, "{source}");
    }
    let (event, mut input) = agent.payloads.prompt(99, "do it", "user");
    input.as_object_mut().unwrap().remove("source");
    agent.call_hook_with_bytes(event, input.to_string().as_bytes());
    assert_eq!(last_event(&agent.folder, &agent.session())["origin"], "human", "no source");
}

#[test]
fn observe_and_tell_record_agent_messages_as_agent_claims() {
    let folder = command_harness::test_dir("claims-observe");
    let mark = ("CLAUDECODE", "1");
    let observe = |event: &Value, mark: Option<(&str, &str)>| {
        let (code, reported) =
            run_tool_shell(&folder, r#""$F" observe --store sqlite:s.db"#, &event.to_string(), mark);
        (code, reported)
    };
    let desk =
        || flyball_store::StoreAddress::parse("sqlite:s.db", &folder).unwrap().open_existing().unwrap();
    let stored = |session: &str| -> Value {
        let seq = desk().load(session).unwrap().unwrap().head.seq;
        serde_json::from_str(&desk().records(session, seq, seq).unwrap()[0].text).unwrap()
    };
    let message = |session: &str| json!({"type": "user.message", "session": session, "text": "go on"});
    assert_eq!(observe(&message("mine"), None).0, 0);
    assert_eq!(stored("mine").get("origin"), None, "a person's terminal");
    assert_eq!(observe(&message("mine"), Some(mark)).0, 0);
    assert_eq!(stored("mine")["origin"], "agent");
    let denied = json!({"type": "tool.denied", "session": "mine", "tool": "rm", "by": "human", "idle": true});
    assert_eq!(observe(&denied, Some(mark)).0, 0);
    let event = stored("mine");
    assert_eq!((&event["by"], &event["claimed_by"]), (&json!("policy"), &json!("human")));
    assert_eq!((event.get("idle"), &event["claimed_idle"]), (None, &json!(true)));
    for (kind, more) in [
        ("human.stopped", json!({"by": "anna", "why": "x"})),
        ("person.message", json!({"by": "anna", "text": "yes"})),
        ("confirmation.answered", json!({"by": "anna", "value": "yes"})),
    ] {
        let mut event = more;
        (event["type"], event["session"]) = (json!(kind), json!("claude-code:s1"));
        let (code, reported) = observe(&event, Some(mark));
        assert!(code == 1 && reported.contains("agent_not_allowed"), "{kind}: {reported}");
    }
    let tell = r#""$F" tell tool.denied tool=rm by=human --session mine --store sqlite:s.db"#;
    let (code, reported) = run_tool_shell(&folder, tell, "", Some(mark));
    assert_eq!(code, 0, "{reported}");
    assert_eq!(stored("mine")["by"], "policy");
}

#[test]
fn constant_call_id_does_not_hide_a_loop() {
    for host in Host::ALL {
        let mut agent = ScriptedHost::new(host, &install_hook(host, "constant"));
        let ran = (0..12).take_while(|_| {
            let stamp = agent.next_stamp();
            let args = json!({"at": "a"});
            let stopped =
                agent.call_hook(&agent.payloads.before_tool(stamp, "same", "look", &args)).is_stopped();
            let result = json!("nothing new");
            agent.call_hook(&agent.payloads.after_tool(
                stamp,
                "same",
                "look",
                &args,
                &ToolCallEnd::Succeeded(&result),
            ));
            !stopped
        });
        assert_eq!(ran.count(), 5, "{}", host.as_str());
        // Two hooks of one host report the same call twice; it is counted once.
        let mut agent = ScriptedHost::new(host, &install_hook(host, "twice"));
        for n in 0..4 {
            let stamp = agent.next_stamp();
            let args = json!({"at": "a"});
            let call = agent.payloads.before_tool(stamp, &format!("c{n}"), "look", &args);
            assert!(
                !agent.call_hook(&call).is_stopped() && !agent.call_hook(&call).is_stopped(),
                "{}",
                host.as_str()
            );
        }
        assert_eq!(stored_records(&agent.folder, &agent.session()).len(), 4, "{}", host.as_str());
    }
    let folder = command_harness::test_dir("claims-constant");
    let line =
        r#"{"type":"tool.requested","session":"s","call":"c1","round":1,"tool":"look","args":{"at":"a"}}"#;
    let retry = r#"{"type":"api.retry","session":"s"}"#;
    let lines: String = (0..40).map(|_| format!("{line}\n{retry}\n")).collect();
    let run =
        command_harness::run_flyball(&folder, &["observe", "--store", "sqlite:s.db"], lines.as_bytes(), &[]);
    let allowed =
        run.out.lines().step_by(2).take_while(|line| !line.contains(r#""decision":"block""#)).count();
    assert!(allowed <= 24, "{allowed} equal calls ran");
}
