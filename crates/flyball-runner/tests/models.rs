//! Models in a run: agents, decisions, and handling of stalled loops.

mod common;

use common::RunHarness;
use flyball::{EventKind, ReleaseMode};
use flyball_model_server::{ModelServer, RepeatMode, ReplyBehavior, ServerScript};
use flyball_runner::engine::{RunEnd, RunStop};

const DECIDE: &str = "
providers:
  main: {kind: script, repeat: last, replies: [REPLIES]}
nodes:
  - {name: choose, kind: decide, provider: main, allowed_destinations: [left, right], on_unclear: failed}
  - {name: left, kind: say, text: left, next: done}
  - {name: right, kind: say, text: right, next: done}
";

fn decide(replies: &[&str]) -> String {
    let quoted: Vec<String> = replies.iter().map(|reply| format!("'{reply}'")).collect();
    DECIDE.replace("REPLIES", &quoted.join(", "))
}

#[test]
fn confidence_decides_between_following_asking_and_refusing() {
    let place = RunHarness::new();
    let sure =
        decide(&[r#"{"decision": "advance_to_right", "confidence": 0.93, "reasoning": "it is right"}"#]);
    assert_eq!(place.run(&sure), RunEnd::Done);
    assert_eq!(place.transitions("s"), ["right", "done"]);

    let place = RunHarness::new();
    let unsure = decide(&[r#"{"decision": "left", "confidence": 0.7, "reasoning": "perhaps"}"#]);
    let RunEnd::Stopped(RunStop::AwaitingInput(question)) = place.run(&unsure) else {
        panic!("no question was asked")
    };
    assert!(question.contains("'left'") && question.contains("perhaps"), "{question}");
    place.send_message(&unsure, "yes");
    assert_eq!(place.run(&unsure), RunEnd::Done);
    assert_eq!(place.transitions("s"), ["left", "done"]);

    let place = RunHarness::new();
    let guess = decide(&[r#"{"decision": "left", "confidence": 0.2, "reasoning": "a guess"}"#]);
    assert_eq!(place.run(&guess), RunEnd::Failed);
    assert_eq!(place.transitions("s"), ["failed"]);
}

#[test]
fn unreadable_decision_is_retried_twice_then_asked_of_a_person() {
    let place = RunHarness::new();
    let text = decide(&["left, I think", r#"{"decision": "nowhere", "confidence": 1}"#, "no idea"]);
    let RunEnd::Stopped(RunStop::AwaitingInput(question)) = place.run(&text) else {
        panic!("no question was asked")
    };
    assert!(question.contains("left, right"), "{question}");
    let types = place.event_types("s");
    assert_eq!(types.iter().filter(|name| *name == "assistant.message").count(), 3);
    assert_eq!(types.iter().filter(|name| *name == "validation.failed").count(), 2);
    place.send_message(&text, "right");
    assert_eq!(place.run(&text), RunEnd::Done);
    assert_eq!(place.transitions("s"), ["right", "done"]);
}

const AGENT: &str = "
providers:
  main:
    kind: script
    replies:
      - {text: first, calls: [{tool: fly, args: {}}]}
      - {text: second, calls: [{tool: write, args: {path: a.txt}}]}
      - {text: third, calls: [{tool: write, args: {path: a.txt, content: hello}}]}
      - all done
nodes:
  - {name: work, kind: agent, provider: main, prompt: write a file, tools: [write], next: done}
";

#[test]
fn invalid_tool_calls_are_reported_to_the_model_and_counted() {
    let place = RunHarness::new();
    assert_eq!(place.run(AGENT), RunEnd::Done);
    assert_eq!(place.file("a.txt"), "hello");
    let live = place.listener.live_events.lock().unwrap();
    let kinds: Vec<String> = live
        .iter()
        .filter_map(|past| match &past.event.kind {
            EventKind::ValidationFailed { kind, .. } => kind.clone(),
            EventKind::ValidationPassed {} => Some("passed".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["unknown_tool", "missing_field", "passed"]);
}

#[test]
fn resumed_run_does_not_repeat_model_requests() {
    let place = RunHarness::new();
    assert_eq!(place.run(AGENT), RunEnd::Done);
    let first = place.listener.live_events.lock().unwrap().len();
    std::fs::remove_file(place.folder.path().join("a.txt")).unwrap();
    assert_eq!(place.run(AGENT), RunEnd::Done);
    assert_eq!(place.listener.live_events.lock().unwrap().len(), first, "nothing new happened");
    assert!(!place.folder.path().join("a.txt").exists(), "the finished call was not made again");
}

#[test]
fn destructive_tool_call_awaits_approval() {
    for (answer, left) in [("yes", false), ("no", true)] {
        let place = RunHarness::new();
        std::fs::write(place.folder.path().join("old.txt"), "x").unwrap();
        let text = "
providers:
  main:
    kind: script
    replies: [{text: I clean up, calls: [{tool: shell, args: {command: rm -rf old.txt}}]}, all done]
nodes:
  - {name: work, kind: agent, provider: main, prompt: clean up, tools: [shell], next: done}
";
        let RunEnd::Stopped(RunStop::AwaitingInput(question)) = place.run(text) else {
            panic!("no question was asked")
        };
        assert!(question.contains("rm -rf old.txt"), "{question}");
        assert!(place.folder.path().join("old.txt").exists());
        place.send(
            text,
            EventKind::ConfirmationAnswered {
                text: Some(answer.to_owned()),
                value: None,
                by: None,
                digest: None,
            },
        );
        assert_eq!(place.run(text), RunEnd::Done);
        assert_eq!(place.folder.path().join("old.txt").exists(), left, "{answer}");
    }
}

const STALL: &str = "
policy: {on_stall: ON_STALL}
workspace: work
reviewer: look
fallback_provider: other
providers:
  main: {kind: script, replies: [I did nothing]}
  other: {kind: script, replies: [{text: now it works, calls: [{tool: write, args: {path: ok, content: ok}}]}, finished]}
signals: [{name: diff, after: work}]
nodes:
  - {name: work, kind: agent, provider: main, prompt: 'make it work {{look.output}}', tools: [write], next: test}
  - {name: test, kind: command, run: test -e ok, rerun: true, on_success: done, on_failure: work}
  - {name: look, kind: command, run: 'echo try harder; touch ok', rerun: true, next: done}
";

#[test]
fn stall_stops_or_switches_provider_or_calls_reviewer() {
    let place = RunHarness::new();
    let end = place.run(&STALL.replace("ON_STALL", "switch_to_interactive"));
    let RunEnd::Stopped(RunStop::Halted(decision)) = end else { panic!("{end:?}") };
    assert!(decision.effects.iter().any(|effect| effect.effect == "loop.halted"));

    let place = RunHarness::new();
    let end = place.run(&STALL.replace("ON_STALL", "retry_with_new_provider"));
    assert_eq!(end, RunEnd::Done);
    assert!(place.event_types("s").contains(&"human.released".to_owned()));
    assert_eq!(place.file("work/ok"), "ok");

    let place = RunHarness::new();
    assert_eq!(place.run(&STALL.replace("ON_STALL", "spawn_reviewer")), RunEnd::Done);
    assert!(place.event_types("s/reviewer").contains(&"turn.finished".to_owned()));
}

#[test]
fn prompt_states_remaining_visits() {
    let place = RunHarness::new();
    let text = "
policy: {guards: {visits: {limit: 4}}}
providers:
  main:
    kind: script
    rules: [{when: {contains: visit 1 of at most 4}, reply: I know my limits}]
    otherwise: I got no limits
nodes:
  - {name: work, kind: agent, provider: main, prompt: work, next: sort}
  - {name: sort, kind: route, rules: [{when: \"event.output == 'I know my limits'\", to: done}], otherwise: failed}
";
    assert_eq!(place.run(text), RunEnd::Done);
}

/// A loop that ends when its model receives advice about rounding.
const ADVICE_LOOP: &str = "
workspace: work
providers:
  main:
    kind: script
    rules: [{when: {contains: fix the rounding, round: 1}, reply: {text: I see, calls: [{tool: write, args: {path: ok, content: ok}}]}}]
    otherwise: I did nothing
signals: [{name: diff, after: work}]
nodes:
  - {name: work, kind: agent, provider: main, prompt: make it work, tools: [write], next: test}
  - {name: test, kind: command, run: test -e ok, rerun: true, on_success: done, on_failure: work}
";

fn message(text: &str, origin: flyball::MessageOrigin) -> EventKind {
    EventKind::UserMessage { text: text.to_owned(), origin }
}

#[test]
fn advice_for_a_stalled_loop_is_in_the_next_prompt() {
    let place = RunHarness::new().with_answers(&["fix the rounding"]);
    assert_eq!(place.run(ADVICE_LOOP), RunEnd::Done);
    assert_eq!(place.file("work/ok"), "ok");
}

#[test]
fn only_human_messages_release_a_stalled_loop() {
    let place = RunHarness::new();
    assert!(matches!(place.run(ADVICE_LOOP), RunEnd::Stopped(RunStop::Halted(_))));
    for (text, origin) in [
        ("", flyball::MessageOrigin::Human),
        (" \u{200b}\n", flyball::MessageOrigin::Human),
        ("fix the rounding", flyball::MessageOrigin::Agent),
        ("fix the rounding", flyball::MessageOrigin::Schedule),
    ] {
        place.send(ADVICE_LOOP, message(text, origin));
        assert!(matches!(place.run(ADVICE_LOOP), RunEnd::Stopped(RunStop::Halted(_))), "{text:?} {origin:?}");
        assert!(!place.event_types("s").contains(&"human.released".to_owned()), "{text:?} {origin:?}");
    }
    place.send(ADVICE_LOOP, message("fix the rounding", flyball::MessageOrigin::Human));
    assert_eq!(place.run(ADVICE_LOOP), RunEnd::Done);
}

#[test]
fn human_message_reaches_http_models_once() {
    for (kind, path) in [("openai", "/v1"), ("anthropic", "")] {
        let script = ServerScript {
            repeat: RepeatMode::Last,
            ..ServerScript::new([ReplyBehavior::text("I did nothing")])
        };
        let server = ModelServer::start(script).unwrap();
        let provider = format!("{{kind: {kind}, model: m, base_url: '{}{path}'}}", server.url());
        let text = format!(
            "workspace: work\nproviders: {{main: {provider}}}\nsignals: [{{name: diff, after: work}}]\nnodes:\n  \
             - {{name: work, kind: agent, provider: main, prompt: make it work, next: test}}\n  \
             - {{name: test, kind: command, run: test -e ok, rerun: true, on_success: done, on_failure: work}}\n"
        );
        let place = RunHarness::new();
        assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))), "{kind}");
        let before = server.requests().len();
        place.send_message(&text, "fix the rounding");
        assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))), "{kind}: it stalls again");
        // A second resume does not repeat delivered messages.
        assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))), "{kind}");
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
        let with_words: Vec<usize> =
            bodies.iter().map(|body| body.matches("fix the rounding").count()).collect();
        assert!(bodies.len() > before, "{kind}: {before}");
        assert_eq!(with_words.iter().sum::<usize>(), 1, "{kind}: {with_words:?}");
        assert_eq!(with_words[before], 1, "{kind}: in the first prompt after it: {with_words:?}");
    }
}

/// A stalling loop over HTTP, with a server that records requests.
fn stalling_workflow(server: &ModelServer, more: &str) -> String {
    format!(
        "policy: {{budgets: {{session: {{turns: 40, tokens: 100000}}}}}}\nworkspace: work\n\
         providers: {{main: {{kind: openai, model: m, base_url: '{}/v1'}}}}\n\
         signals: [{{name: diff, after: work}}]\nnodes:\n  \
         - {{name: work, kind: agent, provider: main, prompt: 'make it work{more}', next: test}}\n  \
         - {{name: test, kind: command, run: 'printf %s \"$FLYBALL_STALL\" >> ../briefing; test -e ok', rerun: true,
             on_success: done, on_failure: work}}\n",
        server.url()
    )
}

#[test]
fn prompt_after_a_stall_has_message_evidence_and_remaining_budget() {
    let release = EventKind::HumanReleased {
        guard: Some("stall".to_owned()),
        trip: None,
        mode: ReleaseMode::Grant,
        n: None,
        by: Some("anna".to_owned()),
        why: Some("fix the rounding".to_owned()),
    };
    for (how, kind) in
        [("words", message("fix the rounding", flyball::MessageOrigin::Human)), ("a release", release)]
    {
        let script = ServerScript {
            repeat: RepeatMode::Last,
            ..ServerScript::new([ReplyBehavior::text("I did nothing")])
        };
        let server = ModelServer::start(script).unwrap();
        let text = stalling_workflow(&server, "");
        let place = RunHarness::new();
        assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))), "{how}");
        let before = server.requests().len();
        place.send(&text, kind);
        assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))), "{how}: it stalls again");
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
        let next = &bodies[before];
        for part in [
            "The loop stalled: 'diff' did not change in 2 observations.",
            "1 distinct among the last 2 diff states",
            "1 distinct among the last 2 outputs",
            "path so far: work → test → work",
            "Remaining budgets: ",
            "of 40 turns",
            "of 8 iterations in loop-",
            "fix the rounding",
        ] {
            assert!(next.contains(part), "{how}: {part}: {next}");
        }
        let briefed = bodies.iter().map(|body| body.matches("The loop stalled").count()).sum::<usize>();
        assert_eq!(briefed, 1, "{how}: briefed once");
        assert!(place.file("briefing").starts_with("The loop stalled"), "{how}: commands get it as well");
    }
}

#[test]
fn template_with_a_stall_placeholder_includes_it_once() {
    let script = ServerScript {
        repeat: RepeatMode::Last,
        ..ServerScript::new([ReplyBehavior::text("I did nothing")])
    };
    let server = ModelServer::start(script).unwrap();
    let text = stalling_workflow(&server, " <{{stall}}>");
    let place = RunHarness::new().with_answers(&["fix the rounding"]);
    assert!(matches!(place.run(&text), RunEnd::Stopped(RunStop::Halted(_))));
    let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(bodies[0].contains("make it work <>"), "{}", bodies[0]);
    let briefed: Vec<&String> = bodies.iter().filter(|body| body.contains("The loop stalled")).collect();
    assert_eq!(briefed.len(), 1);
    assert_eq!(briefed[0].matches("The loop stalled").count(), 1);
    assert!(briefed[0].contains("make it work <The loop stalled"), "{}", briefed[0]);
}
