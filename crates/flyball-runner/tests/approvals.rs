//! Tools that the policy declares destructive: each call in a run needs its own approval.

mod common;

use common::RunHarness;
use flyball::EventKind;
use flyball_runner::engine::{RunEnd, RunStop};

/// The same destructive call twice, and a call that needs no approval.
const TWO_CALLS_WORKFLOW: &str = "
policy: {tools: {drop: {effect: destructive}}}
nodes:
  - {name: look, kind: tool, tool: list, args: {}, next: first}
  - {name: first, kind: tool, tool: drop, args: {name: a}, next: second, on_failure: failed}
  - {name: second, kind: tool, tool: drop, args: {name: a}, next: done, on_failure: failed}
tools:
  list: {description: lists, risk: safe, argv: [sh, -c, 'echo listed >> log'], schema: {type: object}}
  drop: {description: removes, argv: [sh, -c, 'echo dropped $0 >> log', '{name}'],
         schema: {type: object, properties: {name: {type: string}}, required: [name]}}
";

fn send_answer(place: &RunHarness, text: &str, words: &str) {
    let answered =
        EventKind::ConfirmationAnswered { text: Some(words.to_owned()), value: None, by: None, digest: None };
    place.send(text, answered);
}

#[test]
fn each_destructive_call_needs_its_own_approval() {
    let place = RunHarness::new();
    for (run, log) in [(1, "listed\n"), (2, "listed\ndropped a\n")] {
        let end = place.run(TWO_CALLS_WORKFLOW);
        let RunEnd::Stopped(RunStop::AwaitingInput(question)) = &end else { panic!("{end:?}") };
        assert!(question.starts_with("Confirm the deletion: drop") && question.contains('a'), "{question}");
        // Nothing runs before the answer, however often the run is resumed.
        assert!(matches!(place.run(TWO_CALLS_WORKFLOW), RunEnd::Stopped(RunStop::AwaitingInput(_))), "{run}");
        assert_eq!(place.file("log"), log);
        send_answer(&place, TWO_CALLS_WORKFLOW, "yes");
    }
    assert_eq!(place.run(TWO_CALLS_WORKFLOW), RunEnd::Done);
    assert_eq!(place.run(TWO_CALLS_WORKFLOW), RunEnd::Done);
    assert_eq!(place.file("log"), "listed\ndropped a\ndropped a\n");
}

#[test]
fn denial_fails_the_node_and_unclear_answer_is_asked_again() {
    let place = RunHarness::new().with_answers(&["hm", "no"]);
    assert_eq!(place.run(TWO_CALLS_WORKFLOW), RunEnd::Failed);
    assert_eq!(place.file("log"), "listed\n");
}

#[test]
fn person_at_the_terminal_is_asked_immediately() {
    let place = RunHarness::new().with_answers(&["yes", "yes"]);
    assert_eq!(place.run(TWO_CALLS_WORKFLOW), RunEnd::Done);
    assert_eq!(place.file("log"), "listed\ndropped a\ndropped a\n");
}

#[test]
fn a_confirmed_plan_is_not_asked_about_again() {
    let text = "
policy: {tools: {drop: {effect: destructive}}}
nodes:
  - {name: remove, kind: confirm, plan: [{tool: drop, args: {name: a}}, {tool: drop, args: {name: b}}],
     question: Remove a and b?, on_success: done, on_failure: failed}
tools:
  drop: {description: removes, argv: [sh, -c, 'echo dropped $0 >> log', '{name}'],
         schema: {type: object, properties: {name: {type: string}}, required: [name]}}
";
    let place = RunHarness::new().with_answers(&["yes"]);
    assert_eq!(place.run(text), RunEnd::Done);
    assert_eq!(place.file("log"), "dropped a\ndropped b\n");
}

#[test]
fn approval_in_a_conversation_approves_its_action() {
    let text = "
policy: {tools: {drop: {effect: destructive}}}
nodes:
  - {name: ask, kind: collect, slots: [{name: what, ask: 'What is to go?'}], confirm: true,
     action: {tool: drop, args: {name: '{{slots.what}}'}}, next: done, on_failure: failed}
tools:
  drop: {description: removes, argv: [sh, -c, 'echo dropped $0 >> log', '{name}'],
         schema: {type: object, properties: {name: {type: string}}, required: [name]}}
";
    let place = RunHarness::new().with_answers(&["apples", "yes"]);
    assert_eq!(place.run(text), RunEnd::Done);
    assert_eq!(place.file("log"), "dropped apples\n");
    let unconfirmed = text.replace("confirm: true", "confirm: false");
    let place = RunHarness::new().with_answers(&["apples", "yes"]);
    assert_eq!(place.run(&unconfirmed), RunEnd::Done, "the approval was for the call");
    let place = RunHarness::new().with_answers(&["apples"]);
    assert!(matches!(place.run(&unconfirmed), RunEnd::Stopped(RunStop::AwaitingInput(_))));
    assert_eq!(place.file("log"), "");
}
