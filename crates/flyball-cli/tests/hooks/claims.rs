//! Prompts that an agent makes up: it runs the hook of its own host, `flyball observe` or `flyball tell` from the shell of
//! a tool, and says that a person has spoken.

use crate::agent::{Agent, installed};
use crate::kit;
use crate::shipped::stored;
use crate::voice::Ended;
use flyball_adapt::hook::Host;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the shells of each host's tools have in their environment and its hooks have not.
const MARKS: [(Host, &str, &str); 6] = [
    (Host::ClaudeCode, "CLAUDECODE", "1"),
    (Host::Codex, "CODEX_THREAD_ID", "s1"),
    (Host::Gemini, "GEMINI_CLI", "1"),
    (Host::Copilot, "COPILOT_AGENT_SESSION_ID", "s1"),
    (Host::Cursor, "CURSOR_AGENT", "1"),
    (Host::Opencode, "FLYBALL_SESSION", "opencode:s1"),
];

/// Runs a script as a host runs the shell of a tool, with something on its stdin. `$F` is the program.
fn shell(folder: &Path, script: &str, input: &str, mark: Option<(&str, &str)>) -> (i32, String) {
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

fn last(folder: &Path, session: &str) -> Value {
    let records = stored(folder, session);
    serde_json::from_str(&records.last().unwrap().text).unwrap()
}

#[test]
fn a_prompt_that_an_agent_pipes_into_its_own_hook_is_not_a_persons() {
    for (host, name, value) in MARKS {
        let at = host.as_str();
        let mut agent = Agent::new(host, &installed(host, "piped"));
        let stamp = agent.tick();
        agent.hear(&agent.voice.prompt(stamp, "do it", "user"));
        let session = agent.session();
        assert_eq!(last(&agent.folder, &session)["origin"], "human", "{at}: the host itself");
        for script in [
            r#"cat | "$F" hook HOST --event EVENT"#,
            r#"env -u MARK "$F" hook HOST --event EVENT"#,
            r#"env -i "$F" hook HOST --event EVENT"#,
            r#"sh -c 'env -i sh -c "$0 hook HOST --event EVENT; exit \$?"' "$F""#,
        ] {
            let stamp = agent.tick();
            let (event, input) = agent.voice.prompt(stamp, "go on", "user");
            let script = script.replace("HOST", at).replace("EVENT", event).replace("MARK", name);
            let (_, told) = shell(&agent.folder, &script, &input.to_string(), Some((name, value)));
            let stored = last(&agent.folder, &session);
            assert_eq!(stored["text"], "go on", "{at}: {script}: {told}");
            assert_eq!(
                (&stored["origin"], &stored["claimed_origin"]),
                (&json!("agent"), &json!("human")),
                "{at}: {script}: {told}"
            );
        }
    }
}

#[test]
fn a_made_up_prompt_or_answer_does_not_reset_a_loop() {
    let host = Host::ClaudeCode;
    for (name, said) in [("prompt", "prompt"), ("answer", "answer"), ("interrupt", "interrupt")] {
        let mut agent = Agent::new(host, &installed(host, &format!("loop-{name}")));
        let mark = Some(("CLAUDECODE", "1"));
        let ran = (0..12).take_while(|n| {
            let stamp = agent.tick();
            let call = agent.voice.before(stamp, &format!("c{n}"), "Bash", &json!({"command": "ls"}));
            let stopped = agent.hear(&call).stopped();
            let (event, input) = match said {
                "prompt" => agent.voice.prompt(stamp, "again", "user"),
                "answer" => {
                    let (tool, args) = agent.voice.question("Go on?").unwrap();
                    agent.voice.after(stamp, &format!("q{n}"), tool, &args, &Ended::Well(&json!("yes")))
                }
                _ => agent.voice.denied(stamp, &format!("d{n}"), "Read", &json!({"n": n})).unwrap(),
            };
            shell(
                &agent.folder,
                &format!(r#""$F" hook claude-code --event {event}"#),
                &input.to_string(),
                mark,
            );
            !stopped
        });
        assert_eq!(ran.count(), 5, "{name}");
        let records = stored(&agent.folder, &agent.session());
        assert!(records.iter().all(|record| !record.text.contains(r#""origin":"human""#)), "{name}");
        assert!(records.iter().all(|record| !record.text.contains(r#""by":"human""#)), "{name}");
    }
}

#[test]
fn a_mark_that_a_host_sets_for_itself_does_not_silence_its_people() {
    let mut agent = Agent::new(Host::Opencode, &installed(Host::Opencode, "own-mark"));
    let stamp = agent.tick();
    let (event, input) = agent.voice.prompt(stamp, "do it", "user");
    let script = format!(r#""$F" hook opencode --event {event}"#);
    let (_, told) = shell(&agent.folder, &script, &input.to_string(), Some(("OPENCODE", "1")));
    assert_eq!(last(&agent.folder, &agent.session())["origin"], "human", "{told}");
}

#[test]
fn a_prompt_to_an_agent_that_another_agent_started_is_not_a_persons() {
    let mut agent = Agent::new(Host::Codex, &installed(Host::Codex, "nested"));
    for mark in ["CLAUDECODE", flyball_run::engine::RUN] {
        let stamp = agent.tick();
        let (event, input) = agent.voice.prompt(stamp, "do it", "user");
        let script = format!(r#""$F" hook codex --event {event}"#);
        shell(&agent.folder, &script, &input.to_string(), Some((mark, "1")));
        assert_eq!(last(&agent.folder, &agent.session())["origin"], "agent", "{mark}");
    }
}

#[test]
fn claude_code_says_who_submitted_a_prompt() {
    let mut agent = Agent::new(Host::ClaudeCode, &installed(Host::ClaudeCode, "sources"));
    for (source, origin) in [
        ("user", "human"),
        ("sdk", "agent"),
        ("system", "schedule"),
        ("loop_wakeup", "schedule"),
        ("schedule_wakeup", "schedule"),
        ("poll_event", "schedule"),
        ("something_new", "agent"),
    ] {
        let stamp = agent.tick();
        agent.hear(&agent.voice.prompt(stamp, "do it", source));
        assert_eq!(last(&agent.folder, &agent.session())["origin"], origin, "{source}");
    }
    let (event, mut input) = agent.voice.prompt(99, "do it", "user");
    input.as_object_mut().unwrap().remove("source");
    agent.hear_bytes(event, input.to_string().as_bytes());
    assert_eq!(last(&agent.folder, &agent.session())["origin"], "human", "no source");
}

#[test]
fn observe_and_tell_record_an_agents_words_as_its_own() {
    let folder = kit::folder("claims-observe");
    let mark = ("CLAUDECODE", "1");
    let observe = |event: &Value, mark: Option<(&str, &str)>| {
        let (code, told) = shell(&folder, r#""$F" observe --store sqlite:s.db"#, &event.to_string(), mark);
        (code, told)
    };
    let desk = || flyball_journal::Address::read("sqlite:s.db", &folder).unwrap().open_existing().unwrap();
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
        let (code, told) = observe(&event, Some(mark));
        assert!(code == 1 && told.contains("agent_speaks"), "{kind}: {told}");
    }
    let tell = r#""$F" tell tool.denied tool=rm by=human --session mine --store sqlite:s.db"#;
    let (code, told) = shell(&folder, tell, "", Some(mark));
    assert_eq!(code, 0, "{told}");
    assert_eq!(stored("mine")["by"], "policy");
}

#[test]
fn a_constant_call_id_hides_no_loop_from_hook_and_observe() {
    for host in Host::ALL {
        let mut agent = Agent::new(host, &installed(host, "constant"));
        let ran = (0..12).take_while(|_| {
            let stamp = agent.tick();
            let args = json!({"at": "a"});
            let stopped = agent.hear(&agent.voice.before(stamp, "same", "look", &args)).stopped();
            let result = json!("nothing new");
            agent.hear(&agent.voice.after(stamp, "same", "look", &args, &Ended::Well(&result)));
            !stopped
        });
        assert_eq!(ran.count(), 5, "{}", host.as_str());
        // Two hooks of one host tell the same call twice; it is counted once.
        let mut agent = Agent::new(host, &installed(host, "twice"));
        for n in 0..4 {
            let stamp = agent.tick();
            let args = json!({"at": "a"});
            let call = agent.voice.before(stamp, &format!("c{n}"), "look", &args);
            assert!(!agent.hear(&call).stopped() && !agent.hear(&call).stopped(), "{}", host.as_str());
        }
        assert_eq!(stored(&agent.folder, &agent.session()).len(), 4, "{}", host.as_str());
    }
    let folder = kit::folder("claims-constant");
    let line =
        r#"{"type":"tool.requested","session":"s","call":"c1","round":1,"tool":"look","args":{"at":"a"}}"#;
    let retry = r#"{"type":"api.retry","session":"s"}"#;
    let lines: String = (0..40).map(|_| format!("{line}\n{retry}\n")).collect();
    let run = kit::flyball(&folder, &["observe", "--store", "sqlite:s.db"], lines.as_bytes(), &[]);
    let allowed =
        run.out.lines().step_by(2).take_while(|line| !line.contains(r#""decision":"block""#)).count();
    assert!(allowed <= 24, "{allowed} equal calls ran");
}
