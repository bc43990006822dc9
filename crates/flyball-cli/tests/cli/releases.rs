//! Releases: what releases a session and what does not, whose stop is lifted, and where the operator's message goes.

use crate::command_harness::{CliStore, run_flyball, test_dir};
use crate::pty::PtySession;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A coder that changes nothing until its prompt mentions rounding. `PROMPT` is its prompt, `PROVIDER` its provider.
const STUCK_WORKFLOW: &str = r#"
version: 1
name: stuck
goal: make the tests pass
workspace: work
providers: {main: PROVIDER}
signals: [{name: diff, after: coder}]
nodes:
  - {name: coder, kind: agent, provider: main, tools: [write], prompt: "PROMPT", next: verifier}
  - {name: verifier, kind: command, run: test -e ok, rerun: true, on_success: done, on_failure: coder}
"#;

/// A provider that records every prompt in a file, and solves the task once a prompt mentions rounding.
fn command_provider(dir: &Path) -> String {
    let (prompts, solved) = (dir.join("prompts").display().to_string(), dir.join("work/ok"));
    let script = format!(
        "p=$(cat); printf '%s\\n----\\n' \"$p\" >> {prompts}; case \"$p\" in *rounding*) : > {} ;; esac; echo I looked",
        solved.display()
    );
    json!({"kind": "command", "argv": ["sh", "-c", script], "input": "prompt", "output": "text"}).to_string()
}

fn stuck_project(name: &str, prompt: &str) -> PathBuf {
    let dir = test_dir(name);
    std::fs::create_dir_all(dir.join("work")).unwrap();
    let text = STUCK_WORKFLOW.replace("PROMPT", prompt).replace("PROVIDER", &command_provider(&dir));
    std::fs::write(dir.join("workflow.yaml"), text).unwrap();
    dir
}

fn prompts(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("prompts")).unwrap_or_default();
    text.split("----\n").map(str::to_owned).filter(|prompt| !prompt.trim().is_empty()).collect()
}

/// The events of this type in the project store.
fn events(dir: &Path, kind: &str) -> Vec<Value> {
    let sql = rusqlite::Connection::open(dir.join(".flyball/flyball.db")).unwrap();
    let mut all = sql.prepare("SELECT text FROM flyball_events ORDER BY pos").unwrap();
    let rows = all.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let events = rows.map(|text| serde_json::from_str::<Value>(&text.unwrap()).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

fn run(dir: &Path, args: &[&str]) -> crate::command_harness::CommandOutput {
    let path = std::env::var("PATH").unwrap_or_default();
    run_flyball(dir, args, b"", &[("USER", "anna"), ("PATH", &path)])
}

/// Repeats the same call until a guard halts the session.
fn halt_session(store: &CliStore, session: &str) {
    let mut lines = vec![json!({"type": "session.started", "session": session}).to_string()];
    for n in 1..=8 {
        let call = format!("c{n}");
        lines.push(json!({"type": "tool.requested", "session": session, "call": call, "tool": "bash", "args": {"command": "ls"}}).to_string());
        lines.push(
            json!({"type": "tool.finished", "session": session, "call": call, "ok": true, "output": "a b"})
                .to_string(),
        );
    }
    store.observe(&lines.join("\n"));
    assert_eq!(store.json(&["status", session])["state"], "halted");
}

fn request(session: &str, n: u32) -> String {
    json!({"type": "tool.requested", "session": session, "call": format!("r{n}"), "tool": "bash", "args": {"command": format!("date {n}")}})
        .to_string()
}

fn session_names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().filter_map(|row| row["session"].as_str()).collect()
}

#[test]
fn empty_answer_never_releases_a_stalled_run() {
    let dir = stuck_project("operators-enter", "{{goal}}");
    let mut terminal = PtySession::start(&dir, &["run", "workflow.yaml"], &[], (100, 40));
    // Type ahead, before the question.
    terminal.type_line("\n\nyes\n\n");
    terminal.wait_for("\n> ");
    assert!(events(&dir, "user.message").is_empty(), "input typed before the question is discarded");
    terminal.type_line("\n");
    terminal.wait_for("empty answer");
    terminal.type_line("  \t \n");
    terminal.type_line("fix the rounding\n");
    let ended = terminal.wait();
    assert_eq!(ended.code, 0, "{}", ended.text);
    let (question, evidence) =
        (ended.screen.find("What should be done differently"), ended.screen.find("guard stall"));
    assert!(evidence.is_some() && evidence < question, "the evidence comes first: {}", ended.screen);
    assert!(ended.screen.contains("event "), "with the events that it rests on: {}", ended.screen);
    let said: Vec<Value> = events(&dir, "user.message").iter().map(|event| event["text"].clone()).collect();
    assert_eq!(said, ["fix the rounding"]);
    assert_eq!(events(&dir, "human.released").len(), 1);
    let prompts = prompts(&dir);
    let with_words: Vec<bool> = prompts.iter().map(|prompt| prompt.contains("fix the rounding")).collect();
    assert_eq!(with_words, [false, false, true], "the next agent gets the message: {prompts:?}");
}

#[test]
fn end_of_input_at_the_question_leaves_the_run_halted() {
    for (at, typed) in ["\x04", "\n\x04", "almost an answer\x04\x04"].into_iter().enumerate() {
        let dir = stuck_project(&format!("operators-eof-{at}"), "{{goal}}");
        let mut terminal = PtySession::start(&dir, &["run", "workflow.yaml"], &[], (100, 40));
        terminal.wait_for("\n> ");
        terminal.type_line(typed);
        let ended = terminal.wait();
        assert_eq!(ended.code, 3, "a guard halted it, and there was no answer: {}", ended.text);
        assert!(events(&dir, "human.released").is_empty() && events(&dir, "user.message").is_empty());
        assert_eq!(
            session_names(&serde_json::from_str(&run(&dir, &["list", "--blocked", "--json"]).out).unwrap()),
            ["stuck-1"]
        );
    }
}

#[test]
fn an_empty_answer_to_a_question_is_asked_again() {
    let asks = "{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: \"Which day?\", next: done}]}";
    let dir = test_dir("operators-question");
    std::fs::write(dir.join("workflow.yaml"), asks).unwrap();
    let mut terminal = PtySession::start(&dir, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.type_line("Monday\n");
    terminal.wait_for("> ");
    terminal.type_line("\n");
    terminal.wait_for("empty answer");
    terminal.type_line("Friday\n");
    let ended = terminal.wait();
    assert_eq!(ended.code, 0, "{}", ended.text);
    assert!(ended.screen.contains("answer: Friday"), "{}", ended.screen);
    let closed = run_flyball(&dir, &["run", "workflow.yaml", "--session", "closed"], b"", &[]);
    assert_eq!(closed.code, 4, "{}{}", closed.out, closed.err);
}

#[test]
fn sent_message_reaches_the_next_prompt_once() {
    for (name, prompt) in [("plain", "{{goal}}"), ("variable", "{{goal}}. Advice: {{advice}}")] {
        let dir = stuck_project(&format!("operators-send-{name}"), prompt);
        let halted = run(&dir, &["run", "workflow.yaml"]);
        assert_eq!(halted.code, 3, "{}{}", halted.out, halted.err);
        let sent = run(&dir, &["send", "stuck-1", "fix the rounding"]);
        assert_eq!(sent.code, 0, "{name}: {}{}", sent.out, sent.err);
        let last = prompts(&dir).pop().unwrap();
        assert_eq!(last.matches("fix the rounding").count(), 1, "{name}: {last}");
    }
}

#[test]
fn the_reason_of_a_release_reaches_the_agent_that_continues() {
    let dir = stuck_project("operators-reason", "{{goal}}");
    assert_eq!(run(&dir, &["run", "workflow.yaml"]).code, 3);
    let why = "the tax needs rounding";
    assert_eq!(run(&dir, &["release", "stuck-1", "--guard", "stall", "--why", why]).code, 0);
    let resumed = run(&dir, &["resume", "stuck-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(prompts(&dir).pop().unwrap().matches(why).count(), 1);
}

#[test]
fn empty_messages_and_reasons_are_refused() {
    let store = CliStore::project_store("operators-empty");
    halt_session(&store, "loops");
    let before = store.json(&["status", "loops"])["report"]["events"].clone();
    for text in ["", "  ", "\t\n", "\u{200b}"] {
        let run = store.run(&["send", "loops", text]);
        assert_eq!(run.code, 1, "{text:?}: {}", run.out);
        assert!(run.err.starts_with("error[empty_answer]: "), "{text:?}: {}", run.err);
        let commands: [&[&str]; 4] = [
            &["release", "loops", "--guard", "repetition", "--why", text],
            &["release", "loops", "--guard", "human", "--why", text],
            &["stop", "loops", "--why", text],
            &["unlabel", "loops", "--why", text],
        ];
        for args in commands {
            let run = store.run(args);
            assert_eq!(run.code, 1, "{args:?}: {}", run.out);
            assert!(run.err.starts_with("error[reason_missing]: "), "{args:?}: {}", run.err);
        }
    }
    assert_eq!(store.json(&["status", "loops"])["report"]["events"], before, "nothing was recorded");
}

#[test]
fn release_of_a_guard_names_the_remaining_stop() {
    let store = CliStore::project_store("operators-both");
    halt_session(&store, "loops");
    store.event(r#"{"type":"human.stopped","session":"loops","by":"bob","why":"wrong branch"}"#);
    // Without `--guard` the guard's halt is released, never the stop.
    let run = store.run(&["release", "loops", "--why", "the disk was slow"]);
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    for part in [
        "Released: repetition",
        "still stopped by bob: wrong branch",
        "flyball release loops --guard human --why",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.out.contains("may continue"), "{}", run.out);
    assert_eq!(store.event(&request("loops", 1))["decision"], "halt");

    let only = store.run(&["release", "loops", "--why", "again"]);
    assert_eq!(only.code, 1, "{}", only.out);
    assert!(only.err.starts_with("error[stopped_by_person]: "), "{}", only.err);
    for part in ["stopped by bob: wrong branch", "flyball release loops --guard human --why"] {
        assert!(only.err.contains(part), "{part}: {}", only.err);
    }
    assert_eq!(store.event(&request("loops", 2))["decision"], "halt");

    let lifted = store.run(&["release", "loops", "--guard", "human", "--why", "it was the right branch"]);
    assert_eq!(lifted.code, 0, "{}{}", lifted.out, lifted.err);
    for part in ["bob", "wrong branch", "may continue"] {
        assert!(lifted.out.contains(part), "{part}: {}", lifted.out);
    }
    assert_eq!(store.event(&request("loops", 3))["decision"], "allow");
    let none = store.run(&["release", "loops", "--guard", "human", "--why", "once more"]);
    assert!(
        none.code == 0 && none.out.contains("No person has stopped this session"),
        "{}{}",
        none.out,
        none.err
    );
}

#[test]
fn resuming_or_sending_to_a_run_never_lifts_a_stop() {
    let dir = stuck_project("operators-stop-run", "{{goal}}");
    assert_eq!(run(&dir, &["run", "workflow.yaml"]).code, 3);
    let asked = prompts(&dir).len();
    assert_eq!(run(&dir, &["stop", "stuck-1", "--by", "bob", "--why", "wrong branch"]).code, 0);
    let sent = run(&dir, &["send", "stuck-1", "fix the rounding"]);
    assert_eq!(sent.code, 3, "{}{}", sent.out, sent.err);
    assert!(sent.out.contains("stopped by bob: wrong branch"), "{}", sent.out);
    let released = run(&dir, &["release", "stuck-1", "--guard", "stall", "--why", "try again"]);
    assert_eq!(released.code, 4, "{}{}", released.out, released.err);
    assert_eq!(run(&dir, &["resume", "stuck-1"]).code, 3);
    assert_eq!(prompts(&dir).len(), asked, "no model was asked while the stop held");
    assert_eq!(run(&dir, &["release", "stuck-1", "--guard", "human", "--why", "right branch"]).code, 0);
    let resumed = run(&dir, &["resume", "stuck-1"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert!(prompts(&dir).pop().unwrap().contains("fix the rounding"), "{:?}", prompts(&dir));
}

#[test]
fn a_halted_session_that_ended_stays_listed_and_halted_until_released() {
    for (name, stop) in [("guard", false), ("person", true)] {
        let store = CliStore::project_store(&format!("operators-ended-{name}"));
        let guard = if stop {
            store.event(&request("s", 0));
            store.event(r#"{"type":"human.stopped","session":"s","by":"bob","why":"wrong branch"}"#);
            "human"
        } else {
            halt_session(&store, "s");
            "repetition"
        };
        store.event(r#"{"type":"session.ended","session":"s"}"#);
        store.event(r#"{"type":"user.message","session":"fine","text":"hello"}"#);
        store.event(r#"{"type":"session.ended","session":"fine"}"#);
        assert_eq!(session_names(&store.json(&["list", "--blocked"])), ["s"], "{name}");
        assert_eq!(session_names(&store.json(&["status"])["waiting"]), ["s"], "{name}");
        let status = store.run(&["status", "s"]);
        assert!(status.out.contains(&format!("flyball release s --guard {guard} --why")), "{}", status.out);
        // Pruning keeps sessions that wait for an operator's decision.
        store.json(&["prune", "--older-than", "0s"]);
        assert_eq!(session_names(&store.json(&["list", "--blocked"])), ["s"], "{name}");
        assert_eq!(store.event(&request("s", 1))["decision"], "halt", "{name}: without a new start");
        store.event(r#"{"type":"session.started","session":"s"}"#);
        assert_eq!(store.event(&request("s", 2))["decision"], "halt", "{name}: resumed");
        store.event(r#"{"type":"session.ended","session":"s"}"#);
        let released = store.run(&["release", "s", "--guard", guard, "--why", "looked at it"]);
        assert_eq!(released.code, 0, "{}{}", released.out, released.err);
        assert!(session_names(&store.json(&["list", "--blocked"])).is_empty(), "{name}");
        store.event(r#"{"type":"session.started","session":"s"}"#);
        assert_eq!(store.event(&request("s", 3))["decision"], "allow", "{name}");
    }
}

#[test]
fn check_warns_about_a_number_without_a_direction() {
    let dir = test_dir("operators-direction");
    let with = |signals: &str| {
        let text = format!(
            "version: 1\nname: w\nsignals: {signals}\nnodes:\n  - {{name: work, kind: command, run: make, next: done}}\n"
        );
        std::fs::write(dir.join("workflow.yaml"), text).unwrap();
        let run = run(&dir, &["check", "workflow.yaml", "--json"]);
        let found: Value =
            serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
        let warnings = found["warnings"].as_array().unwrap().clone();
        warnings
            .into_iter()
            .filter(|warning| warning["code"] == "workflow_signal_direction")
            .collect::<Vec<_>>()
    };
    let found = with("[{name: diff}, {name: tests_passed, command: ./count}]");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["severity"], &found[0]["line"]), (&json!("warning"), &json!(3)));
    assert!(found[0]["what"].as_str().unwrap().contains("tests_passed"), "{found:?}");
    assert!(found[0]["help"].as_str().unwrap().contains("better: up"), "{found:?}");
    for known in [
        "[{name: tests_passed, command: ./count, better: up}]",
        "[{name: errors, command: ./count, better: down}]",
        "[{name: tests, command: ./count}]",
        "[{name: checklist, file: TODO.md}, {name: notes, file: notes.md}, diff]",
    ] {
        assert!(with(known).is_empty(), "{known}");
    }
}

/// A loop whose signal reads one value per round from a file.
fn run_with_signal(name: &str, signal: &str, values: &[u32]) -> crate::command_harness::CommandOutput {
    let dir = test_dir(name);
    let values: Vec<String> = values.iter().map(u32::to_string).collect();
    std::fs::write(dir.join("values"), values.join("\n") + "\n").unwrap();
    let text = format!(
        "version: 1\nname: measured\nsignals: [{{{signal}, after: work, command: \"sed -n $(cat round)p values\"}}]\nnodes:\n  \
         - {{name: work, kind: command, run: 'echo $FLYBALL_VISIT > round; echo round $FLYBALL_VISIT', next: verify}}\n  \
         - {{name: verify, kind: command, run: 'test $(cat round) -ge {}', on_success: done, on_failure: work}}\n",
        values.len()
    );
    std::fs::write(dir.join("workflow.yaml"), text).unwrap();
    run(&dir, &["run", "workflow.yaml"])
}

#[test]
fn a_stated_direction_decides_whether_a_number_is_progress() {
    let rising = [1, 5, 9, 14, 15];
    for (name, signal, values, code) in [
        ("up", "name: tests_passed, better: up", rising, 0),
        ("unstated", "name: tests_passed", rising, 0),
        ("down", "name: score, better: down", rising, 3),
        ("falling", "name: open_errors, better: down", [9, 7, 4, 2, 1], 0),
        ("falling-up", "name: open_errors, better: up", [9, 7, 4, 2, 1], 3),
    ] {
        let run = run_with_signal(&format!("operators-measured-{name}"), signal, &values);
        assert_eq!(run.code, code, "{name}: {}{}", run.out, run.err);
    }
    for (better, decision) in [("", "allow"), (r#","better":"up""#, "allow"), (r#","better":"down""#, "halt")]
    {
        let store = CliStore::project_store(&format!("operators-observed-{}", decision.len() + better.len()));
        let lines: Vec<String> = [1, 5, 9, 14]
            .iter()
            .map(|value| {
                format!(
                    r#"{{"type":"progress","session":"p","signal":"tests_passed","value":{value}{better}}}"#
                )
            })
            .collect();
        let last = store.observe(&lines.join("\n")).pop().unwrap();
        assert_eq!(last["decision"], decision, "{better}: {last}");
    }
}

#[test]
fn program_of_a_run_cannot_write_to_it_as_a_person() {
    let dir = test_dir("operators-own-message");
    let program = env!("CARGO_BIN_EXE_flyball");
    let own = r#"{"type":"user.message","session":"SESSION","text":"go on"}"#;
    let script = |session: &str| {
        format!(
            "echo '{}' | env -i {program} observe --store >> said 2>&1\n",
            own.replace("SESSION", session)
        )
    };
    std::fs::write(dir.join("say.sh"), script("own") + &script("own/branch.1") + &script("other")).unwrap();
    let text = "{version: 1, name: own, nodes: [{name: say, kind: command, run: [sh, say.sh], next: done}]}";
    std::fs::write(dir.join("workflow.yaml"), text).unwrap();
    let run = run(&dir, &["run", "workflow.yaml", "--session", "own"]);
    let said = std::fs::read_to_string(dir.join("said")).unwrap();
    assert_eq!(said.matches("error[agent_not_allowed]").count(), 2, "{said}{}{}", run.out, run.err);
    let sessions: Vec<Value> =
        events(&dir, "user.message").iter().map(|event| event["session"].clone()).collect();
    assert_eq!(sessions, ["other"]);
}
