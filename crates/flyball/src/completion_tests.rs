//! Tests of well-formed, mentioned and malformed completion signals.

use super::{CompletionSignal, check_request, find_signal};
use serde_json::{Value, json};

fn find(text: &str) -> CompletionSignal {
    find_signal(text, "TASK_COMPLETE")
}

#[test]
fn signal_at_the_end_of_a_line_is_found() {
    for text in [
        "TASK_COMPLETE",
        "The total is fixed. TASK_COMPLETE",
        "  **TASK_COMPLETE**  ",
        "`TASK_COMPLETE`.",
        "__TASK_COMPLETE__",
        "All tests pass.\n\nTASK_COMPLETE\n\nSummary: two files changed.",
        "I will say TASK_COMPLETE when the tests pass.\nThey do.\nTASK_COMPLETE!",
    ] {
        assert_eq!(find(text), CompletionSignal::Present(serde_json::Map::new()), "{text}");
    }
}

#[test]
fn options_are_one_json_object_after_the_signal() {
    for text in [
        "TASK_COMPLETE {\"skip\": [\"lint\"]}",
        "Done. TASK_COMPLETE: {\"skip\": [\"lint\"]}\nThat was it.",
        "TASK_COMPLETE\n{\"skip\":\n [\"lint\"]}",
    ] {
        let CompletionSignal::Present(options) = find(text) else { panic!("{text}") };
        // Text on a separate line is not part of the signal.
        let wanted = if text.contains("\n{") { json!({}) } else { json!({"skip": ["lint"]}) };
        assert_eq!(Value::Object(options), wanted, "{text}");
    }
}

#[test]
fn signal_in_the_middle_of_a_sentence_is_ignored() {
    for text in
        ["", "Go on.", "I will say TASK_COMPLETE when it is done.", "MY_TASK_COMPLETE", "XTASK_COMPLETE"]
    {
        assert_eq!(find(text), CompletionSignal::Absent, "{text}");
    }
}

#[test]
fn signal_followed_by_garbage_is_garbled() {
    for text in [
        "TASK_COMPLETE garbage",
        "TASK_COMPLETE{\"skip_tests\": tru",
        "TASK_COMPLETE {\"a\": 1} and more",
        "TASK_COMPLETED",
        "Everything works. TASK_COMPLETEX",
        "TASK_COMPLETE: %%% \u{0}",
        "- TASK_COMPLETE <<<<",
        "TASK_COMPLETE [1, 2]",
    ] {
        assert!(matches!(find(text), CompletionSignal::Garbled(_)), "{text}: {:?}", find(text));
    }
}

#[test]
fn request_is_a_name_with_optional_options() {
    for request in [
        "TASK_COMPLETE",
        "EVENT:task.complete",
        "EVENT:task.complete:{\"note\":\"x\"}",
        "TASK_COMPLETE {\"skip\": [\"lint\"]}",
        "ALL DONE",
        "release/v2",
    ] {
        assert_eq!(check_request(request), Ok(()), "{request}");
    }
    for request in [
        "",
        "   ",
        "TASK_COMPLETE garbage",
        "TASK_COMPLETE{\"skip",
        "TASK_COMPLETED",
        "TASK_COMPLETE [1]",
        "TASK_COMPLETE {} {}",
        "I think that I am done now",
        "DONE\n\nand more",
        "DONE %%%",
    ] {
        assert!(check_request(request).is_err(), "{request}");
    }
}
