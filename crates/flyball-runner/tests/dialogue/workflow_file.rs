//! Workflow files of conversations: custom texts, and errors with positions.

use crate::chat_harness::{ChatHarness, question};
use crate::scenarios::two_slot_workflow;
use flyball_runner::workflow::parse_workflow;
use std::path::Path;

fn parse_errors(text: &str) -> Vec<(String, String)> {
    let failures = parse_workflow(text, "workflow.yaml", Path::new(".")).expect_err("an invalid workflow");
    failures.into_iter().map(|failure| (failure.code.clone(), failure.to_string())).collect()
}

#[test]
fn unknown_text_key_is_rejected_with_known_keys() {
    let found =
        parse_errors(&format!("texts:\n  dialogue.updatet: Fine.\n{}", two_slot_workflow("next: done")));
    let [(code, shown)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(code, "workflow_unknown_text");
    assert!(shown.starts_with("workflow.yaml:2:"), "{shown}");
    assert!(shown.contains("dialogue.updated") && shown.contains("confirm.aborted"), "{shown}");
}

#[test]
fn slot_errors_have_codes_and_locations() {
    let none = "nodes:\n  - {name: ask, kind: collect, slots: [], next: done}\n";
    assert_eq!(parse_errors(none)[0].0, "workflow_no_slots");
    let twice = "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: '?'}, {name: a, ask: '?'}], next: done}\n";
    assert_eq!(parse_errors(twice)[0].0, "workflow_duplicate_slot");
    let pattern = "nodes:\n  - name: ask\n    kind: collect\n    next: done\n    slots:\n      - {name: a, ask: '?', pattern: '('}\n";
    let found = parse_errors(pattern);
    assert_eq!(found[0].0, "workflow_bad_pattern");
    assert!(found[0].1.starts_with("workflow.yaml:6:"), "{found:?}");
    let silent = "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: {}}], next: done}\n";
    assert_eq!(parse_errors(silent)[0].0, "workflow_missing_text");
    let turns = "nodes:\n  - {name: ask, kind: collect, max_turns_without_progress: 1, slots: [{name: a, ask: '?'}], next: done}\n";
    assert_eq!(parse_errors(turns)[0].0, "workflow_wrong_type");
    let unknown =
        "nodes:\n  - {name: ask, kind: collect, slots: [{name: a, ask: '?', kinds: date}], next: done}\n";
    assert_eq!(parse_errors(unknown)[0].0, "workflow_unknown_key");
}

#[test]
fn custom_texts_are_used_by_dialogue_and_governor() {
    let texts =
        "texts:\n  dialogue.invalid_value: 'Only {values}.'\n  confirm.cancelled.en: 'As you wish.'\n";
    let chat =
        ChatHarness::new(&format!("{texts}{}", two_slot_workflow("on_success: done, on_failure: failed")));
    let end = chat.run_per_message(&["blue"]);
    assert_eq!(question(&end), "Only red, green. Which color?");
    chat.run_per_message(&["cancel"]);
    assert_eq!(chat.said().last().map(String::as_str), Some("As you wish."));
    let plan = "texts: {confirm.ask_again: 'Yes or no?'}
tools: {wipe: {description: x, argv: ['true'], risk: destructive}}
nodes: [{name: sure, kind: confirm, plan: [{tool: wipe, args: {}}], question: 'Sure?', next: done}]
";
    let chat = ChatHarness::new(plan);
    let end = chat.run_per_message(&["hm"]);
    assert_eq!(question(&end), "Yes or no? Sure?");
}

#[test]
fn slot_values_are_available_to_templates_and_later_nodes() {
    let text = "vars: {request: 'red, please, 3 of them'}
nodes:
  - name: ask
    kind: collect
    from: '{{request}}'
    slots:
      - {name: color, ask: 'Which color?', values: [red, green]}
      - {name: count, ask: 'How many?', kind: number}
      - {name: why, ask: 'Why {{slots.count}} {{slots.color}} ones?'}
    next: tell
  - {name: tell, kind: human, ask: '{{slots.count}} {{slots.color}}: {{slots.why}}', next: done}
";
    let chat = ChatHarness::new(text);
    assert_eq!(question(&chat.run(&[])), "Why 3 red ones?");
    let end = chat.run_per_message(&["for the wall"]);
    assert_eq!(question(&end), "3 red: for the wall");
}
