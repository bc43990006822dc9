//! Models in a run: what an agent's answers lead to, who decides, and what is done when a loop stalls.

mod kit;

use flyball::{Kind, ReleaseMode};
use flyball_model_server::{Behaviour, Repeat, Script, Server};
use flyball_run::engine::{End, Stop};
use kit::Place;

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
fn a_sure_model_is_followed_an_unsure_one_asks_a_person_and_a_guess_is_refused() {
    let place = Place::new();
    let sure =
        decide(&[r#"{"decision": "advance_to_right", "confidence": 0.93, "reasoning": "it is right"}"#]);
    assert_eq!(place.run(&sure), End::Done);
    assert_eq!(place.trail("s"), ["right", "done"]);

    let place = Place::new();
    let unsure = decide(&[r#"{"decision": "left", "confidence": 0.7, "reasoning": "perhaps"}"#]);
    let End::Stopped(Stop::Asks(question)) = place.run(&unsure) else { panic!("nobody was asked") };
    assert!(question.contains("'left'") && question.contains("perhaps"), "{question}");
    place.says(&unsure, "yes");
    assert_eq!(place.run(&unsure), End::Done);
    assert_eq!(place.trail("s"), ["left", "done"]);

    let place = Place::new();
    let guess = decide(&[r#"{"decision": "left", "confidence": 0.2, "reasoning": "a guess"}"#]);
    assert_eq!(place.run(&guess), End::Failed);
    assert_eq!(place.trail("s"), ["failed"]);
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_twice_more_and_then_a_person_decides() {
    let place = Place::new();
    let text = decide(&["left, I think", r#"{"decision": "nowhere", "confidence": 1}"#, "no idea"]);
    let End::Stopped(Stop::Asks(question)) = place.run(&text) else { panic!("nobody was asked") };
    assert!(question.contains("left, right"), "{question}");
    let types = place.types("s");
    assert_eq!(types.iter().filter(|name| *name == "assistant.message").count(), 3);
    assert_eq!(types.iter().filter(|name| *name == "validation.failed").count(), 2);
    place.says(&text, "right");
    assert_eq!(place.run(&text), End::Done);
    assert_eq!(place.trail("s"), ["right", "done"]);
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
fn mistakes_of_a_model_are_told_to_it_and_counted() {
    let place = Place::new();
    assert_eq!(place.run(AGENT), End::Done);
    assert_eq!(place.file("a.txt"), "hello");
    let live = place.seen.live.lock().unwrap();
    let kinds: Vec<String> = live
        .iter()
        .filter_map(|past| match &past.event.kind {
            Kind::ValidationFailed { kind, .. } => kind.clone(),
            Kind::ValidationPassed {} => Some("passed".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["unknown_tool", "missing_field", "passed"]);
}

#[test]
fn a_run_with_a_model_that_is_taken_up_again_asks_it_nothing_twice() {
    let place = Place::new();
    assert_eq!(place.run(AGENT), End::Done);
    let first = place.seen.live.lock().unwrap().len();
    std::fs::remove_file(place.folder.path().join("a.txt")).unwrap();
    assert_eq!(place.run(AGENT), End::Done);
    assert_eq!(place.seen.live.lock().unwrap().len(), first, "nothing happened anew");
    assert!(!place.folder.path().join("a.txt").exists(), "the finished call was not made again");
}

#[test]
fn a_destructive_call_of_a_model_waits_for_a_person() {
    for (answer, left) in [("yes", false), ("no", true)] {
        let place = Place::new();
        std::fs::write(place.folder.path().join("old.txt"), "x").unwrap();
        let text = "
providers:
  main:
    kind: script
    replies: [{text: I clean up, calls: [{tool: shell, args: {command: rm -rf old.txt}}]}, all done]
nodes:
  - {name: work, kind: agent, provider: main, prompt: clean up, tools: [shell], next: done}
";
        let End::Stopped(Stop::Asks(question)) = place.run(text) else { panic!("nobody was asked") };
        assert!(question.contains("rm -rf old.txt"), "{question}");
        assert!(place.folder.path().join("old.txt").exists());
        place.send(
            text,
            Kind::ConfirmationAnswered { text: Some(answer.to_owned()), value: None, by: None, digest: None },
        );
        assert_eq!(place.run(text), End::Done);
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
fn a_stall_stops_the_run_or_brings_in_another_provider_or_a_reviewer() {
    let place = Place::new();
    let end = place.run(&STALL.replace("ON_STALL", "switch_to_interactive"));
    let End::Stopped(Stop::Halted(decision)) = end else { panic!("{end:?}") };
    assert!(decision.effects.iter().any(|effect| effect.effect == "loop.halted"));

    let place = Place::new();
    let end = place.run(&STALL.replace("ON_STALL", "retry_with_new_provider"));
    assert_eq!(end, End::Done);
    assert!(place.types("s").contains(&"human.released".to_owned()));
    assert_eq!(place.file("work/ok"), "ok");

    let place = Place::new();
    assert_eq!(place.run(&STALL.replace("ON_STALL", "spawn_reviewer")), End::Done);
    assert!(place.types("s/reviewer").contains(&"turn.finished".to_owned()));
}

#[test]
fn a_model_is_told_how_often_it_may_come_back() {
    let place = Place::new();
    let text = "
policy: {guards: {visits: {limit: 4}}}
providers:
  main:
    kind: script
    rules: [{when: {contains: visit 1 of at most 4}, reply: I know my limits}]
    otherwise: I was told nothing
nodes:
  - {name: work, kind: agent, provider: main, prompt: work, next: sort}
  - {name: sort, kind: route, rules: [{when: \"event.output == 'I know my limits'\", to: done}], otherwise: failed}
";
    assert_eq!(place.run(text), End::Done);
}

/// A loop that ends as soon as its model is told about rounding.
const TOLD: &str = "
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

fn message(text: &str, origin: flyball::Origin) -> Kind {
    Kind::UserMessage { text: text.to_owned(), origin }
}

#[test]
fn an_answer_to_a_stalled_loop_is_in_the_next_prompt() {
    let place = Place::new().answering(&["fix the rounding"]);
    assert_eq!(place.run(TOLD), End::Done);
    assert_eq!(place.file("work/ok"), "ok");
}

#[test]
fn only_words_of_a_person_release_a_stalled_loop() {
    let place = Place::new();
    assert!(matches!(place.run(TOLD), End::Stopped(Stop::Halted(_))));
    for (text, origin) in [
        ("", flyball::Origin::Human),
        (" \u{200b}\n", flyball::Origin::Human),
        ("fix the rounding", flyball::Origin::Agent),
        ("fix the rounding", flyball::Origin::Schedule),
    ] {
        place.send(TOLD, message(text, origin));
        assert!(matches!(place.run(TOLD), End::Stopped(Stop::Halted(_))), "{text:?} {origin:?}");
        assert!(!place.types("s").contains(&"human.released".to_owned()), "{text:?} {origin:?}");
    }
    place.send(TOLD, message("fix the rounding", flyball::Origin::Human));
    assert_eq!(place.run(TOLD), End::Done);
}

#[test]
fn models_over_http_get_the_words_of_a_person_once() {
    for (kind, path) in [("openai", "/v1"), ("anthropic", "")] {
        let script = Script { repeat: Repeat::Last, ..Script::new([Behaviour::text("I did nothing")]) };
        let server = Server::start(script).unwrap();
        let provider = format!("{{kind: {kind}, model: m, base_url: '{}{path}'}}", server.url());
        let text = format!(
            "workspace: work\nproviders: {{main: {provider}}}\nsignals: [{{name: diff, after: work}}]\nnodes:\n  \
             - {{name: work, kind: agent, provider: main, prompt: make it work, next: test}}\n  \
             - {{name: test, kind: command, run: test -e ok, rerun: true, on_success: done, on_failure: work}}\n"
        );
        let place = Place::new();
        assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))), "{kind}");
        let before = server.requests().len();
        place.says(&text, "fix the rounding");
        assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))), "{kind}: it stalls again");
        // A run that is resumed once more does not repeat what was delivered.
        assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))), "{kind}");
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
        let with_words: Vec<usize> =
            bodies.iter().map(|body| body.matches("fix the rounding").count()).collect();
        assert!(bodies.len() > before, "{kind}: {before}");
        assert_eq!(with_words.iter().sum::<usize>(), 1, "{kind}: {with_words:?}");
        assert_eq!(with_words[before], 1, "{kind}: in the first prompt after it: {with_words:?}");
    }
}

/// A loop over HTTP that stalls, with a server that keeps what it is asked.
fn stalling(server: &Server, more: &str) -> String {
    format!(
        "policy: {{budgets: {{session: {{turns: 40, tokens: 100000}}}}}}\nworkspace: work\n\
         providers: {{main: {{kind: openai, model: m, base_url: '{}/v1'}}}}\n\
         signals: [{{name: diff, after: work}}]\nnodes:\n  \
         - {{name: work, kind: agent, provider: main, prompt: 'make it work{more}', next: test}}\n  \
         - {{name: test, kind: command, run: 'printf %s \"$FLYBALL_STALL\" >> ../told; test -e ok', rerun: true,
             on_success: done, on_failure: work}}\n",
        server.url()
    )
}

#[test]
fn after_a_stall_the_next_prompt_has_the_words_the_evidence_and_what_is_left() {
    let told = Kind::HumanReleased {
        guard: Some("stall".to_owned()),
        trip: None,
        mode: ReleaseMode::Grant,
        n: None,
        by: Some("anna".to_owned()),
        why: Some("fix the rounding".to_owned()),
    };
    for (how, kind) in [("words", message("fix the rounding", flyball::Origin::Human)), ("a release", told)] {
        let script = Script { repeat: Repeat::Last, ..Script::new([Behaviour::text("I did nothing")]) };
        let server = Server::start(script).unwrap();
        let text = stalling(&server, "");
        let place = Place::new();
        assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))), "{how}");
        let before = server.requests().len();
        place.send(&text, kind);
        assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))), "{how}: it stalls again");
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
        let next = &bodies[before];
        for part in [
            "The loop had stalled: 'diff' did not change in 2 observations.",
            "1 different among the last 2 states of the diff",
            "1 different among the last 2 outputs",
            "the way so far: work → test → work",
            "Left of the budgets: ",
            "of 40 turns",
            "of 8 iterations in loop-",
            "fix the rounding",
        ] {
            assert!(next.contains(part), "{how}: {part}: {next}");
        }
        let briefed = bodies.iter().map(|body| body.matches("The loop had stalled").count()).sum::<usize>();
        assert_eq!(briefed, 1, "{how}: told once");
        assert!(place.file("told").starts_with("The loop had stalled"), "{how}: commands get it as well");
    }
}

#[test]
fn a_template_with_a_place_for_the_stall_has_it_there_and_once() {
    let script = Script { repeat: Repeat::Last, ..Script::new([Behaviour::text("I did nothing")]) };
    let server = Server::start(script).unwrap();
    let text = stalling(&server, " <{{stall}}>");
    let place = Place::new().answering(&["fix the rounding"]);
    assert!(matches!(place.run(&text), End::Stopped(Stop::Halted(_))));
    let bodies: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(bodies[0].contains("make it work <>"), "{}", bodies[0]);
    let told: Vec<&String> = bodies.iter().filter(|body| body.contains("The loop had stalled")).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].matches("The loop had stalled").count(), 1);
    assert!(told[0].contains("make it work <The loop had stalled"), "{}", told[0]);
}
