//! `flyball tell`: whose session it speaks to, what it takes and what it leaves to people, and what the agent hears of it.
//! And the guards that need nothing told: what hosts send by themselves is enough.

use crate::agent::{Agent, Heard, installed};
use crate::beside::told;
use crate::kit;
use crate::shipped::stored;
use flyball_adapt::hook::{Host, Understood};
use serde_json::{Value, json};
use std::path::Path;

/// A host at work in a project of its own.
fn at_work(host: Host, name: &str) -> Agent {
    let agent = Agent::new(host, &installed(host, name));
    agent.hear(&agent.voice.start("startup"));
    agent
}

/// A host at work in a project whose policy the user trusts.
fn at_work_under(host: Host, name: &str, policy: &str) -> Agent {
    let folder = installed(host, name);
    std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
    kit::trusted(&folder);
    let agent = Agent::new(host, &folder);
    agent.hear(&agent.voice.start("startup"));
    agent
}

/// One more call of the agent.
fn call(agent: &mut Agent, tool: &str) -> Heard {
    let n = agent.tick();
    agent.hear(&agent.voice.before(n, &format!("call-{n}"), tool, &json!({"n": n})))
}

fn decisions(folder: &Path, session: &str) -> Vec<Value> {
    stored(folder, session).iter().map(|record| serde_json::from_str(&record.decision).unwrap()).collect()
}

fn guards_of(decision: &Value) -> Vec<&str> {
    decision["trips"].as_array().unwrap().iter().map(|trip| trip["guard"].as_str().unwrap()).collect()
}

#[test]
fn final_messages_that_repeat_are_a_stall_on_every_host_that_tells_them() {
    for host in Host::ALL.into_iter().filter(|host| *host != Host::Copilot) {
        let at = host.as_str();
        for (name, texts, stops) in [
            ("stall", ["I am stuck."; 3], true),
            ("no-stall", ["I read it.", "I wrote it.", "I tested it."], false),
        ] {
            let mut agent = at_work(host, name);
            for text in texts {
                let stamp = agent.tick();
                let heard = agent.hear(&agent.voice.spoke(stamp, text).unwrap());
                assert!(!matches!(heard.means, Understood::Refuses(_)), "{at}: {:?}", heard.means);
            }
            let all = decisions(&agent.folder, &agent.session());
            assert_eq!(guards_of(all.last().unwrap()).contains(&"stall"), stops, "{at}");
            assert_eq!(call(&mut agent, "look").stopped(), stops, "{at}");
        }
    }
}

/// Where the host cannot ask, the hook itself puts the plan: nothing needs to be told for `confirmation`.
#[test]
fn a_yes_that_comes_too_late_or_from_the_agent_itself_lets_nothing_run() {
    for (host, mark) in
        [(Host::Codex, Some("CODEX_THREAD_ID")), (Host::Opencode, Some("OPENCODE")), (Host::Goose, None)]
    {
        let at = host.as_str();
        let policy = "tools: {deploy: {effect: destructive}}\nguards: {confirmation: {ttl: 1ms}}\n";
        let mut agent = at_work_under(host, "late-yes", policy);
        let deploy = |agent: &mut Agent| {
            let n = agent.tick();
            agent.hear(&agent.voice.before(n, &format!("d{n}"), "deploy", &json!({"to": "prod"})))
        };
        assert!(deploy(&mut agent).stopped(), "{at}");
        let all = decisions(&agent.folder, &agent.session());
        assert_eq!(guards_of(all.last().unwrap()), ["confirmation"], "{at}");
        let (folder, session) = (agent.folder.clone(), agent.session());
        let approve = |env: &[(&str, &str)]| kit::flyball(&folder, &["approve", &session], b"", env);
        if let Some(mark) = mark {
            let own = approve(&[(mark, "s1")]);
            assert_eq!(own.code, 1, "{at}: {}", own.out);
            assert!(own.err.contains("agent_speaks"), "{at}: {}", own.err);
        }
        let late = approve(&[("USER", "anna")]);
        assert_eq!(late.code, 3, "{at}: {}", late.out);
        assert!(late.out.contains("confirmation_expired"), "{at}: {}", late.out);
        assert!(deploy(&mut agent).stopped(), "{at}");
        assert!(!call(&mut agent, "look").stopped(), "{at}: everything else goes on");
    }
}

#[test]
fn a_session_that_waits_for_a_release_makes_no_call_until_it_has_one() {
    for host in Host::ALL {
        let at = host.as_str();
        let mut agent = at_work(host, "held");
        std::fs::write(agent.folder.join("flyball.yaml"), "nodes: {test: {max_visits: 2}}\n").unwrap();
        // The hook brings the policy into the session; what is told never does.
        assert!(!call(&mut agent, "look").stopped(), "{at}");
        for code in [0, 0, 4] {
            let run = told(&agent.folder, &["turn.started", "node=test"], &[]);
            assert_eq!(run.code, code, "{at}: {}{}", run.out, run.err);
        }
        let release = format!("flyball release {} --why", agent.session());
        for _ in 0..2 {
            let heard = call(&mut agent, "look");
            assert!(heard.stopped(), "{at}: {:?}", heard.means);
            let said = format!("{}{}", heard.out, heard.err);
            assert!(said.contains(&release), "{at}: {said}");
        }
        // The call is on record as one that did not run.
        let last = stored(&agent.folder, &agent.session()).pop().unwrap();
        assert!(
            last.text.contains("tool.denied") && last.text.contains(r#""by":"guard""#),
            "{at}: {}",
            last.text
        );
        // A person is let through and told; a question to a person is what is needed now.
        let stamp = agent.tick();
        let human = agent.hear(&agent.voice.prompt(stamp, "what now?", "user"));
        assert!(!human.stopped() && format!("{}{}", human.out, human.err).contains(&release), "{at}");
        if let Some((tool, args)) = agent.voice.question("Shall I go on?") {
            assert!(!agent.hear(&agent.voice.before(stamp, "q1", tool, &args)).stopped(), "{at}");
        }
        let run = kit::flyball(&agent.folder, &["release", &agent.session(), "--why", "seen"], b"", &[]);
        assert_eq!(run.code, 0, "{at}: {}{}", run.out, run.err);
        assert!(!call(&mut agent, "look").stopped(), "{at}");
    }
}

#[test]
fn a_warning_that_was_told_beside_reaches_the_agent_once_where_the_host_has_a_place_for_it() {
    for host in Host::ALL {
        let mut agent = at_work(host, "warned-beside");
        let run = told(&agent.folder, &["operation.failed", "operation=deploy"], &[]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.contains("Told: operation.failed") && run.out.contains("attempt 1/3"), "{}", run.out);
        let heard = [call(&mut agent, "look"), call(&mut agent, "look")];
        let words = |heard: &Heard| match &heard.means {
            Understood::Context(text) => text.clone(),
            other => {
                assert_eq!(*other, Understood::GoesOn, "{}", host.as_str());
                String::new()
            }
        };
        let hears = !matches!(host, Host::Gemini | Host::Copilot | Host::Goose);
        assert_eq!(!words(&heard[0]).is_empty(), hears, "{}: {}", host.as_str(), heard[0].out);
        assert_eq!(words(&heard[1]), "", "{}", host.as_str());
    }
}

#[test]
fn the_session_is_the_one_that_is_named_else_the_agents_own_else_the_only_one_at_work() {
    let mut agent = at_work(Host::ClaudeCode, "whose");
    let folder = agent.folder.clone();
    let spoken_to = |words: &[&str], env: &[(&str, &str)]| -> String {
        let words = [&["api.retry", "--json"], words].concat();
        let run = told(&folder, &words, env);
        match serde_json::from_str::<Value>(&run.out) {
            Ok(decision) => decision["session"].as_str().unwrap().to_owned(),
            Err(_) => run.err,
        }
    };
    assert_eq!(spoken_to(&[], &[]), "claude-code:s1");
    // Another session at the same time: nobody guesses.
    agent.voice.session = "s2".to_owned();
    agent.hear(&agent.voice.start("startup"));
    let unclear = spoken_to(&[], &[]);
    assert!(unclear.contains("session_unclear") && unclear.contains("--session"), "{unclear}");
    assert!(unclear.contains("claude-code:s1") && unclear.contains("claude-code:s2"), "{unclear}");
    assert_eq!(spoken_to(&["--session", "claude-code:s2"], &[]), "claude-code:s2");
    assert_eq!(spoken_to(&["session=claude-code:s2"], &[]), "claude-code:s2");
    assert_eq!(spoken_to(&[], &[("FLYBALL_SESSION", "claude-code:s2")]), "claude-code:s2");
    assert_eq!(spoken_to(&[], &[("CLAUDE_CODE_SESSION_ID", "s1")]), "claude-code:s1");
    let named = ["--session", "claude-code:s2"];
    assert_eq!(spoken_to(&named, &[("CLAUDE_CODE_SESSION_ID", "s1")]), "claude-code:s2");
    // An agent whose hook has told nothing does not speak for another one.
    let none = spoken_to(&[], &[("CODEX_THREAD_ID", "t1")]);
    assert!(none.contains("session_unknown") && none.contains("flyball hook"), "{none}");
    assert!(spoken_to(&["--session", "claude-code:s3"], &[]).contains("session_unknown"));
    // What has ended is not at work.
    let (_, mut end) = agent.voice.start("x");
    end["hook_event_name"] = json!("SessionEnd");
    agent.hear(&("SessionEnd", end));
    assert_eq!(spoken_to(&[], &[]), "claude-code:s1");
}

#[test]
fn each_host_that_names_its_session_is_understood() {
    for host in Host::ALL {
        let Some(variable) = host.session_variable() else { continue };
        let mut agent = at_work(host, "named");
        agent.voice.session = "s2".to_owned();
        agent.hear(&agent.voice.start("startup"));
        let run = told(&agent.folder, &["api.retry"], &[(variable, "s2")]);
        assert!(run.out.contains(&format!("{}:s2", host.as_str())), "{}{}", run.out, run.err);
    }
}

#[test]
fn what_a_person_says_is_not_told() {
    let agent = at_work(Host::ClaudeCode, "persons");
    let before = stored(&agent.folder, &agent.session()).len();
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
            let run = told(&agent.folder, words, env);
            assert_eq!(run.code, 1, "{words:?}: {}", run.out);
            assert!(run.err.contains("tell_refused") && run.err.contains(instead), "{words:?}: {}", run.err);
        }
    }
    let inside = told(&agent.folder, &["human.released", "session=claude-code:s1"], &[]);
    assert_eq!(inside.code, 1);
    let json = json!({"type": "human.released", "guard": "stall"}).to_string();
    let run = kit::flyball(&agent.folder, &["tell", "-"], json.as_bytes(), &[]);
    assert!(run.err.contains("tell_refused"), "{}", run.err);
    assert_eq!(stored(&agent.folder, &agent.session()).len(), before, "nothing was recorded");
}

#[test]
fn a_question_that_waits_is_not_replaced_by_the_agent() {
    let agent = at_work(Host::ClaudeCode, "replaced");
    let plan = r#"plan=[{"tool":"deploy","args":{"to":"prod"}}]"#;
    assert_eq!(told(&agent.folder, &["confirmation.requested", plan], &[("CLAUDECODE", "1")]).code, 4);
    let deploy = |n: u64| agent.voice.before(n, &format!("c{n}"), "deploy", &json!({"to": "prod"}));
    assert!(agent.hear(&deploy(1)).stopped());
    let other = told(&agent.folder, &["confirmation.requested", "plan=[]"], &[("CLAUDECODE", "1")]);
    assert!(other.code == 1 && other.err.contains("agent_speaks"), "{}{}", other.out, other.err);
    assert!(agent.hear(&deploy(2)).stopped());
}

#[test]
fn answers_are_in_plain_words_with_the_exit_code_of_the_contract() {
    let agent = at_work(Host::Codex, "words");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["progress", "signal=tests", "failing=a,b"], 0, "Told: progress"),
        (&["gate.checked", "checks=build:passed,tests:failed"], 5, "Refused: gate.checked"),
        (&["confirmation.requested", "plan=[]", "question=Shall I?"], 4, "flyball approve codex:s1"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 4, "validation failure 1/3"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 4, "validation failure 2/3"),
        (&["validation.failed", "kind=malformed_json", "error=1"], 3, "flyball release codex:s1"),
    ];
    for (words, code, says) in cases {
        let run = told(&agent.folder, words, &[]);
        assert_eq!(run.code, code, "{words:?}: {}{}", run.out, run.err);
        assert!(run.out.contains(says), "{words:?}: {}", run.out);
    }
    let late = told(&agent.folder, &["transition.requested", "from=plan", "to=code"], &[]);
    assert_eq!(late.code, 3, "{}", late.out);
    assert!(late.out.contains("Halted at transition.requested"), "{}", late.out);
}

#[test]
fn wrong_words_are_told_with_what_to_do() {
    let agent = at_work(Host::ClaudeCode, "wrong-words");
    for (words, code, says) in [
        (&["progres", "signal=x"][..], 1, "did you mean `progress`?"),
        (&["progress"], 1, "missing_field"),
        (&["progress", "signal"], 2, "KEY=VALUE"),
        (&["progress", "signal=a", "signal=b"], 1, "duplicate_key"),
        (&["progress", "signal=a", "value=many"], 1, "wrong_type"),
        (&["gate.checked", "checks=tests"], 1, "NAME:passed"),
    ] {
        let run = told(&agent.folder, words, &[]);
        assert_eq!(run.code, code, "{words:?}: {}", run.out);
        assert!(run.err.contains(says), "{words:?}: {}", run.err);
    }
    let empty = kit::folder("tell-without-a-store");
    let run = told(&empty, &["api.retry"], &[]);
    assert!(run.code == 1 && run.err.contains("store_missing"), "{}", run.err);
    assert!(!empty.join(".flyball").exists(), "a store is made by the hook, not by a word to it");
}

#[test]
fn what_is_told_is_redacted_counted_once_and_decided_under_the_sessions_own_policy() {
    let agent = at_work(Host::Cursor, "as-any-other");
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let words = ["progress", "signal=docs", &format!("content=token {secret}"), "id=once", "--json"];
    let first = told(&agent.folder, &words, &[]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert_eq!(told(&agent.folder, &words, &[]).out, first.out, "the stored answer");
    let records = stored(&agent.folder, &agent.session());
    let kept: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
    assert_eq!(kept.iter().filter(|text| text.contains("once")).count(), 1);
    assert!(!kept.iter().any(|text| text.contains(secret)), "{kept:?}");
    let conflict = told(&agent.folder, &["progress", "signal=other", "value=1", "id=once"], &[]);
    assert!(conflict.err.contains("event_conflict"), "{}", conflict.err);
    // A policy that lies in the folder from where something is told does not change the session's rules.
    let inner = agent.folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("flyball.yaml"), "preset: off\n").unwrap();
    let failed = ["operation.failed", "operation=deploy"];
    let codes: Vec<i32> = (0..4).map(|_| told(&inner, &failed, &[]).code).collect();
    assert_eq!(codes, [0, 0, 0, 3]);
}

#[test]
fn an_event_may_come_as_json_on_stdin() {
    let agent = at_work(Host::Goose, "stdin");
    let checks =
        json!([{"name": "tests", "passed": false, "output": "test_login failed", "details": ["login"]}]);
    let event = json!({"type": "gate.checked", "checks": checks}).to_string();
    let run = kit::flyball(&agent.folder, &["tell", "-", "request=RELEASE"], event.as_bytes(), &[]);
    assert_eq!(run.code, 5, "{}{}", run.out, run.err);
    let last = stored(&agent.folder, &agent.session()).pop().unwrap();
    assert!(last.text.contains("RELEASE") && last.text.contains("test_login failed"), "{}", last.text);
    for broken in ["", "[]", "{\"type\":", "{\"type\":\"progress\",\"type\":\"progress\"}"] {
        let run = kit::flyball(&agent.folder, &["tell", "-"], broken.as_bytes(), &[]);
        assert_eq!(run.code, 1, "{broken}: {}", run.out);
    }
}
