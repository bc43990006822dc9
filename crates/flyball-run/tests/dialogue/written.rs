//! What is written in a file: words of its own, and mistakes that are told with their place.

use crate::kit::{Chat, question};
use crate::scenes::small;
use flyball_run::workflow::read;
use std::path::Path;

fn wrong(text: &str) -> Vec<(String, String)> {
    let failures = read(text, "workflow.yaml", Path::new(".")).expect_err("it is wrong");
    failures.into_iter().map(|failure| (failure.code.clone(), failure.to_string())).collect()
}

#[test]
fn a_text_that_nobody_says_is_an_error_that_lists_those_that_are_said() {
    let found = wrong(&format!("texts:\n  dialogue.updatet: Fine.\n{}", small("next: done")));
    let [(code, told)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(code, "workflow_unknown_text");
    assert!(told.starts_with("workflow.yaml:2:"), "{told}");
    assert!(told.contains("dialogue.updated") && told.contains("confirm.aborted"), "{told}");
}

#[test]
fn mistakes_in_slots_are_told_with_their_place() {
    let none = "nodes:\n  - {name: ask, kind: collect, slots: [], next: done}\n";
    assert_eq!(wrong(none)[0].0, "workflow_no_slots");
    let twice = "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: '?'}, {name: a, ask: '?'}], next: done}\n";
    assert_eq!(wrong(twice)[0].0, "workflow_duplicate_slot");
    let pattern = "nodes:\n  - name: ask\n    kind: collect\n    next: done\n    slots:\n      - {name: a, ask: '?', pattern: '('}\n";
    let found = wrong(pattern);
    assert_eq!(found[0].0, "workflow_bad_pattern");
    assert!(found[0].1.starts_with("workflow.yaml:6:"), "{found:?}");
    let silent = "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: {}}], next: done}\n";
    assert_eq!(wrong(silent)[0].0, "workflow_no_words");
    let turns = "nodes:\n  - {name: ask, kind: collect, max_turns_without_progress: 1, slots: [{name: a, ask: '?'}], next: done}\n";
    assert_eq!(wrong(turns)[0].0, "workflow_wrong_type");
    let unknown =
        "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: '?', kinds: date}], next: done}\n";
    assert_eq!(wrong(unknown)[0].0, "workflow_unknown_key");
}

#[test]
fn the_files_own_words_are_said_by_the_conversation_and_by_the_governor() {
    let texts =
        "texts:\n  dialogue.invalid_value: 'Only {values}.'\n  confirm.cancelled.en: 'As you wish.'\n";
    let chat = Chat::new(&format!("{texts}{}", small("on_success: done, on_failure: failed")));
    let end = chat.in_pieces(&["blue"]);
    assert_eq!(question(&end), "Only red, green. Which colour?");
    chat.in_pieces(&["cancel"]);
    assert_eq!(chat.said().last().map(String::as_str), Some("As you wish."));
    let plan = "texts: {confirm.ask_again: 'Yes or no?'}
tools: {wipe: {description: x, argv: ['true'], risk: destructive}}
nodes: [{name: sure, kind: confirm, plan: [{tool: wipe, args: {}}], question: 'Sure?', next: done}]
";
    let chat = Chat::new(plan);
    let end = chat.in_pieces(&["hm"]);
    assert_eq!(question(&end), "Yes or no? Sure?");
}

#[test]
fn what_is_known_can_be_used_in_questions_and_by_later_nodes() {
    let text = "vars: {request: 'red, please, 3 of them'}
nodes:
  - name: ask
    kind: collect
    from: '{{request}}'
    slots:
      - {name: colour, ask: 'Which colour?', values: [red, green]}
      - {name: count, ask: 'How many?', kind: number}
      - {name: why, ask: 'Why {{slots.count}} {{slots.colour}} ones?'}
    next: tell
  - {name: tell, kind: human, ask: '{{slots.count}} {{slots.colour}}: {{slots.why}}', next: done}
";
    let chat = Chat::new(text);
    assert_eq!(question(&chat.go(&[])), "Why 3 red ones?");
    let end = chat.in_pieces(&["for the wall"]);
    assert_eq!(question(&end), "3 red: for the wall");
}
