//! Tools that the policy declares destructive, in a run: each call needs an approval of its own.

mod kit;

use flyball::Kind;
use flyball_run::engine::{End, Stop};
use kit::Place;

/// The same call twice, and another one that nobody needs to approve.
const TWICE: &str = "
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

fn answer(place: &Place, text: &str, words: &str) {
    let answered =
        Kind::ConfirmationAnswered { text: Some(words.to_owned()), value: None, by: None, digest: None };
    place.send(text, answered);
}

#[test]
fn each_call_of_a_destructive_tool_waits_for_its_own_approval() {
    let place = Place::new();
    for (run, log) in [(1, "listed\n"), (2, "listed\ndropped a\n")] {
        let end = place.run(TWICE);
        let End::Stopped(Stop::Asks(question)) = &end else { panic!("{end:?}") };
        assert!(question.starts_with("Confirm the deletion: drop") && question.contains('a'), "{question}");
        // Nothing runs while nobody has answered, however often it is taken up.
        assert!(matches!(place.run(TWICE), End::Stopped(Stop::Asks(_))), "{run}");
        assert_eq!(place.file("log"), log);
        answer(&place, TWICE, "yes");
    }
    assert_eq!(place.run(TWICE), End::Done);
    assert_eq!(place.run(TWICE), End::Done);
    assert_eq!(place.file("log"), "listed\ndropped a\ndropped a\n");
}

#[test]
fn a_no_is_a_failure_of_the_node_and_an_unclear_answer_is_asked_again() {
    let place = Place::new().answering(&["hm", "no"]);
    assert_eq!(place.run(TWICE), End::Failed);
    assert_eq!(place.file("log"), "listed\n");
}

#[test]
fn a_person_who_is_there_is_asked_at_once() {
    let place = Place::new().answering(&["yes", "yes"]);
    assert_eq!(place.run(TWICE), End::Done);
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
    let place = Place::new().answering(&["yes"]);
    assert_eq!(place.run(text), End::Done);
    assert_eq!(place.file("log"), "dropped a\ndropped b\n");
}

#[test]
fn the_yes_of_a_conversation_approves_its_action() {
    let text = "
policy: {tools: {drop: {effect: destructive}}}
nodes:
  - {name: ask, kind: collect, slots: [{name: what, ask: 'What is to go?'}], confirm: true,
     action: {tool: drop, args: {name: '{{slots.what}}'}}, next: done, on_failure: failed}
tools:
  drop: {description: removes, argv: [sh, -c, 'echo dropped $0 >> log', '{name}'],
         schema: {type: object, properties: {name: {type: string}}, required: [name]}}
";
    let place = Place::new().answering(&["apples", "yes"]);
    assert_eq!(place.run(text), End::Done);
    assert_eq!(place.file("log"), "dropped apples\n");
    let unconfirmed = text.replace("confirm: true", "confirm: false");
    let place = Place::new().answering(&["apples", "yes"]);
    assert_eq!(place.run(&unconfirmed), End::Done, "the yes was to the call");
    let place = Place::new().answering(&["apples"]);
    assert!(matches!(place.run(&unconfirmed), End::Stopped(Stop::Asks(_))));
    assert_eq!(place.file("log"), "");
}
