//! What lasts from one call of the hook to the next: counts, halts, sub-agents; and what is never counted twice.

use crate::agent::{Agent, Heard, installed};
use crate::kit;
use crate::voice::Ended;
use flyball_adapt::hook::{Host, Understood};
use serde_json::{Value, json};
use std::path::Path;

fn ls() -> Value {
    json!({"command": "ls"})
}

/// One call with its result.
fn call(agent: &mut Agent, args: &Value) -> Heard {
    let n = agent.tick();
    let (id, tool) = (format!("call-{n}"), agent.voice.host.shell());
    let heard = agent.hear(&agent.voice.before(n, &id, tool, args));
    if !heard.stopped() {
        agent.hear(&agent.voice.after(n, &id, tool, args, &Ended::Well(&json!("a b c"))));
    }
    heard
}

fn status(folder: &Path, session: &str) -> Value {
    let run = kit::flyball(folder, &["status", session, "--json"], b"", &[]);
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err))
}

/// Identical calls until the session is halted.
fn halted(agent: &mut Agent) {
    for _ in 0..8 {
        call(agent, &ls());
    }
    assert_eq!(status(&agent.folder, &agent.session())["state"], "halted");
}

#[test]
fn a_hook_that_is_called_twice_for_one_call_counts_once() {
    for host in Host::ALL {
        let folder = installed(host, "twice");
        let mut agent = Agent::new(host, &folder);
        let said = agent.voice.before(1, "call-1", host.shell(), &ls());
        for _ in 0..9 {
            assert_eq!(agent.hear(&said).means, Understood::GoesOn, "{}", host.as_str());
        }
        let ended = agent.voice.after(2, "call-1", host.shell(), &ls(), &Ended::Well(&json!("a b c")));
        for _ in 0..3 {
            assert_eq!(agent.hear(&ended).means, Understood::GoesOn, "{}", host.as_str());
        }
        agent.stamp = 10;
        // Four more run, and the one after that is refused.
        for n in 2..=6 {
            assert_eq!(call(&mut agent, &ls()).stopped(), n == 6, "{} {n}", host.as_str());
        }
    }
}

#[test]
fn hooks_that_are_called_at_once_are_all_counted() {
    for host in [Host::ClaudeCode, Host::Copilot] {
        let folder = installed(host, "at-once");
        let agent = Agent::new(host, &folder);
        let heard: Vec<Heard> = std::thread::scope(|scope| {
            let one = |n: u64| {
                let agent = &agent;
                let args = json!({"command": format!("cat {}", ["a", "b", "c", "d", "e", "f", "g", "h"][n as usize])});
                scope.spawn(move || agent.hear(&agent.voice.before(n, &format!("c{n}"), "bash", &args)))
            };
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(heard.iter().all(|heard| heard.means == Understood::GoesOn), "{}", host.as_str());
        assert_eq!(status(&folder, &agent.session())["report"]["events"], 8, "{}", host.as_str());
    }
}

#[test]
fn a_call_that_is_deferred_and_asked_again_keeps_its_answer() {
    let folder = installed(Host::ClaudeCode, "deferred");
    let mut agent = Agent::new(Host::ClaudeCode, &folder);
    for _ in 0..5 {
        call(&mut agent, &ls());
    }
    let said = agent.voice.before(6, "call-6", "Bash", &ls());
    let first = agent.hear(&said);
    assert!(first.stopped());
    for _ in 0..5 {
        assert_eq!(agent.hear(&said).out, first.out, "the stored answer, not a new offence");
    }
    // The same id with other arguments is another call.
    let other = agent.voice.before(7, "call-6", "Bash", &json!({"command": "pwd"}));
    assert_eq!(agent.hear(&other).means, Understood::GoesOn);
}

#[test]
fn a_session_that_is_taken_up_again_keeps_its_counts() {
    for host in Host::ALL {
        let folder = installed(host, "resumed");
        let mut agent = Agent::new(host, &folder);
        agent.hear(&agent.voice.start("startup"));
        for _ in 0..5 {
            assert!(!call(&mut agent, &ls()).stopped());
        }
        if matches!(host, Host::ClaudeCode | Host::Codex | Host::Gemini | Host::Goose) {
            let (_, mut end) = agent.voice.start("x");
            let key = if host == Host::Goose { "event" } else { "hook_event_name" };
            end[key] = json!("SessionEnd");
            agent.hear(&("SessionEnd", end));
        }
        agent.hear(&agent.voice.start("resume"));
        assert!(call(&mut agent, &ls()).stopped(), "{}", host.as_str());
    }
}

#[test]
fn a_halt_lasts_until_a_person_releases_it() {
    for host in Host::ALL {
        let folder = installed(host, "halted");
        let mut agent = Agent::new(host, &folder);
        agent.hear(&agent.voice.start("startup"));
        halted(&mut agent);
        let at = host.as_str();
        // Any call is refused now, and the words name the command that lifts it.
        let other = call(&mut agent, &json!({"command": "pwd"}));
        assert!(other.stopped(), "{at}");
        let release = format!("flyball release {} --why", agent.session());
        assert!(format!("{}{}", other.out, other.err).contains(&release), "{at}: {}", other.out);
        let stamp = agent.tick();
        let human = agent.hear(&agent.voice.prompt(stamp, "what now?", "user"));
        assert!(!human.stopped(), "{at}");
        assert!(
            format!("{}{}", human.out, human.err).contains(&release),
            "{at}: {} {}",
            human.out,
            human.err
        );
        let told = kit::flyball(&folder, &["release", &agent.session(), "--why", "looked at it"], b"", &[]);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        assert!(!call(&mut agent, &json!({"command": "pwd"})).stopped(), "{at}");
    }
}

#[test]
fn a_scheduler_does_not_wake_a_halted_session() {
    let folder = installed(Host::ClaudeCode, "woken");
    let mut agent = Agent::new(Host::ClaudeCode, &folder);
    let stamp = agent.tick();
    assert_eq!(agent.hear(&agent.voice.prompt(stamp, "go on", "loop_wakeup")).means, Understood::GoesOn);
    halted(&mut agent);
    for source in ["loop_wakeup", "schedule_wakeup", "system", "poll_event"] {
        let stamp = agent.tick();
        assert!(agent.hear(&agent.voice.prompt(stamp, "go on", source)).stopped(), "{source}");
    }
}

#[test]
fn nothing_keeps_an_agent_from_ending_its_turn() {
    for host in Host::ALL {
        let folder = installed(host, "ending");
        let mut agent = Agent::new(host, &folder);
        for _ in 0..12 {
            let stamp = agent.tick();
            let Some(said) = agent.voice.spoke(stamp, "I will now begin.") else { continue };
            let heard = agent.hear(&said);
            assert!(!matches!(heard.means, Understood::Refuses(_)), "{}: {:?}", host.as_str(), heard.means);
            assert!(!heard.out.contains("followup_message"), "{}", heard.out);
        }
    }
}

#[test]
fn a_batch_counts_nothing_and_stops_a_halted_session() {
    let folder = installed(Host::ClaudeCode, "batch");
    let mut agent = Agent::new(Host::ClaudeCode, &folder);
    call(&mut agent, &ls());
    let before = status(&folder, &agent.session());
    let batch = json!({"session_id": "s1", "cwd": folder, "hook_event_name": "PostToolBatch", "tool_calls": [
        {"tool_name": "Bash", "tool_input": ls(), "tool_use_id": "call-1", "tool_response": "a b c"}]});
    assert_eq!(agent.hear(&("PostToolBatch", batch.clone())).means, Understood::GoesOn);
    assert_eq!(status(&folder, &agent.session())["report"]["events"], before["report"]["events"]);
    halted(&mut agent);
    assert!(matches!(agent.hear(&("PostToolBatch", batch)).means, Understood::Stops(_)));
}

#[test]
fn a_warning_comes_once_where_the_host_has_a_place_for_it() {
    for host in Host::ALL {
        let folder = installed(host, "warned");
        let mut agent = Agent::new(host, &folder);
        let mut warned = Vec::new();
        for n in 1..=4 {
            let stamp = agent.tick();
            let id = format!("call-{n}");
            let before = agent.hear(&agent.voice.before(stamp, &id, host.shell(), &ls()));
            let ended = agent.voice.after(stamp, &id, host.shell(), &ls(), &Ended::Well(&json!("a")));
            let after = agent.hear(&ended);
            for (place, heard) in [("before", before), ("after", after)] {
                if let Understood::Context(text) = heard.means {
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
    let folder = installed(Host::ClaudeCode, "children");
    let agent = Agent::new(Host::ClaudeCode, &folder);
    let inside = |n: u64, command: &str| {
        let (event, mut input) =
            agent.voice.before(n, &format!("call-{n}"), "Bash", &json!({"command": command}));
        input["agent_id"] = json!("a1");
        (event, input)
    };
    agent.hear(&agent.voice.before(1, "call-1", "Bash", &ls()));
    assert_eq!(agent.hear(&inside(2, "pwd")).means, Understood::GoesOn);
    let child = status(&folder, "claude-code:s1/a1");
    assert!(child.to_string().contains(r#""parent":"claude-code:s1""#), "{child}");
    // Whoever stops the session stops its sub-agents, and is told which of them to release.
    let told = kit::flyball(&folder, &["stop", "claude-code:s1", "--why", "enough"], b"", &[]);
    assert_eq!(told.code, 0, "{}", told.err);
    let heard = agent.hear(&inside(3, "id"));
    assert!(heard.stopped());
    assert!(heard.out.contains("flyball release claude-code:s1 --why"), "{}", heard.out);
}

#[test]
fn sub_agents_draw_on_the_budget_of_their_session() {
    let folder = installed(Host::Opencode, "budget");
    std::fs::write(folder.join("flyball.yaml"), "budgets: {session: {runtime: 1ms}}\n").unwrap();
    let mut agent = Agent::new(Host::Opencode, &folder);
    for _ in 0..2 {
        let stamp = agent.tick();
        agent.hear(&agent.voice.before(
            stamp,
            &format!("p-{stamp}"),
            "bash",
            &json!({"command": format!("ls {stamp}")}),
        ));
    }
    let (event, mut input) = agent.voice.before(9, "call-9", "bash", &json!({"command": "pwd"}));
    (input["session_id"], input["parent_id"]) = (json!("s2"), json!("s1"));
    assert!(agent.hear(&(event, input)).stopped());
}

#[test]
fn outside_of_a_project_the_store_is_in_the_users_state_folder() {
    let folder = kit::folder("hooks-stateless");
    let (home, work) = (folder.join("home"), tempdir());
    std::fs::create_dir_all(&home).unwrap();
    let input = json!({"session_id": "s1", "cwd": work, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": ls(), "tool_use_id": "c1"});
    let env = [("HOME", home.to_str().unwrap())];
    let run = kit::flyball(&work, &["hook", "claude-code"], input.to_string().as_bytes(), &env);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(home.join(".local/state/flyball/flyball.db").is_file());
    assert!(!work.join(".flyball").exists());
    std::fs::remove_dir_all(work).unwrap();
}

/// A folder that no repository is around.
fn tempdir() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("flyball-hooks-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_halt_outlives_the_end_of_the_session() {
    for host in [Host::ClaudeCode, Host::Codex, Host::Gemini, Host::Goose] {
        let folder = installed(host, "halted-ended");
        let mut agent = Agent::new(host, &folder);
        agent.hear(&agent.voice.start("startup"));
        halted(&mut agent);
        let (at, session) = (host.as_str(), agent.session());
        let (_, mut end) = agent.voice.start("x");
        end[if host == Host::Goose { "event" } else { "hook_event_name" }] = json!("SessionEnd");
        agent.hear(&("SessionEnd", end));
        let list = kit::flyball(&folder, &["list", "--blocked", "--json"], b"", &[]);
        assert!(list.out.contains(&format!("\"{session}\"")), "{at}: {}", list.out);
        // The host may resume with or without an event of its own.
        assert!(call(&mut agent, &json!({"command": "pwd"})).stopped(), "{at}");
        agent.hear(&agent.voice.start("resume"));
        assert!(call(&mut agent, &json!({"command": "pwd"})).stopped(), "{at}");
        let told = kit::flyball(&folder, &["release", &session, "--why", "looked at it"], b"", &[]);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        assert!(!call(&mut agent, &json!({"command": "pwd"})).stopped(), "{at}");
    }
}

#[test]
fn a_person_who_stopped_a_session_is_named_with_the_command_that_lifts_the_stop() {
    let folder = installed(Host::ClaudeCode, "stopped");
    let mut agent = Agent::new(Host::ClaudeCode, &folder);
    call(&mut agent, &ls());
    let session = agent.session();
    let stop = ["stop", session.as_str(), "--by", "bob", "--why", "wrong branch"];
    assert_eq!(kit::flyball(&folder, &stop, b"", &[]).code, 0);
    let heard = call(&mut agent, &json!({"command": "pwd"}));
    assert!(heard.stopped());
    let said = format!("{}{}", heard.out, heard.err);
    let command = format!("flyball release {session} --guard human --why");
    assert!(said.contains(&command) && said.contains("stopped by bob: wrong branch"), "{said}");
}
