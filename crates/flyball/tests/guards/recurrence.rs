//! `recurrence`: the same (call, result) pairs repeatedly, without a fixed period or a new write in between.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, check_modes, never,
    ok, only_guard, quiet, trips,
};
use serde_json::{Value, json};

/// Eleven reads of three files in irregular order: three are new, eight are not.
const READ_SEQUENCE: &str = "abcacbabcba";

fn recurrence_only() -> Value {
    only_guard("recurrence", json!({}))
}

fn read_file(history: EventHistory, file: char) -> EventHistory {
    history.call("read_file", json!({"path": file.to_string()}), ok(format!("text of {file}")))
}

fn read_files(history: EventHistory, files: &str) -> EventHistory {
    files.chars().fold(history, read_file)
}

fn letter_name(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(3)
}

/// Jumping back and forth in one file, introduced by the same sentence each time.
fn jump_in_file(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, i| view_range(history, i * 37 % 13 * 100, i))
}

fn view_range(history: EventHistory, from: usize, at: usize) -> EventHistory {
    let args = json!({"path": "log", "view_range": [from + 1, from + 80]});
    history.assistant_message("Let me look at another part of the file.").call(
        "view_file",
        args,
        ok(letter_name(at)),
    )
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "the same three files read in irregular order: seven of the last ten returned nothing new",
            read_files(EventHistory::new(), READ_SEQUENCE),
            [trips("recurrence", "recurrence", Block)
                .at(22)
                .count(7, 7)
                .events(&[8, 10, 12, 14, 16, 18, 20])
                .message("7 of the last 10 calls returned nothing new, and nothing new was written")],
        ),
        case(
            "the third block halts",
            read_files(
                read_file(
                    read_file(read_files(EventHistory::with_policy(recurrence_only()), READ_SEQUENCE), 'a'),
                    'b',
                ),
                "c",
            ),
            [trips("recurrence", "recurrence", Halt).at(24).halt_reason("stalled")],
        ),
        case(
            "one call occurs for the seventh time among others that return something new",
            EventHistory::with_policy(recurrence_only()).times(7, |history, i| {
                let history = history.call("git_status", json!({}), ok("clean"));
                history.call("read_file", json!({"path": letter_name(i)}), ok(letter_name(i)))
            }),
            [trips("recurrence", "recurrence", Warn).at(27).count(7, 6).message(
                "the same call to 'git_status' returned the same result 7 times, with nothing new written \
                     in between",
            )],
        ),
        case(
            "jumping back and forth with the same sentence: warned at the eighth, blocked at the thirteenth",
            jump_in_file(EventHistory::with_policy(recurrence_only()), 13),
            [
                trips("recurrence", "recurrence", Warn).at(24).count(8, 12),
                trips("recurrence", "recurrence", Block).at(39).count(13, 12),
            ],
        ),
        case(
            "paging that wraps around to the first page",
            EventHistory::with_policy(recurrence_only())
                .times(9, |history, i| {
                    history.call(
                        "list_issues",
                        json!({"page": letter_name(i % 4)}),
                        ok(format!("page {}", letter_name(i % 4))),
                    )
                })
                .times(4, |history, i| {
                    history.call(
                        "list_issues",
                        json!({"page": letter_name(i % 4)}),
                        ok(format!("page {}", letter_name(i % 4))),
                    )
                }),
            [trips("recurrence", "recurrence", Block)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a new write between the reads is progress",
            read_files(
                read_files(EventHistory::new(), "abcacb").call(
                    "write_file",
                    json!({"path": "a", "text": "new"}),
                    ok("done"),
                ),
                "abcacb",
            ),
            [quiet("recurrence")],
        ),
        case(
            "ten reads are allowed",
            read_files(EventHistory::new(), &READ_SEQUENCE[..10]),
            [never("recurrence", Block)],
        ),
        case(
            "paging that ends",
            EventHistory::new().times(30, |history, i| {
                history.call(
                    "list_issues",
                    json!({"page": i}),
                    ok(format!("{} {}", letter_name(i), letter_name(i / 26))),
                )
            }),
            [quiet("recurrence")],
        ),
        case(
            "a person asks to read again",
            read_files(read_files(EventHistory::new(), "abcacb").user_message("look again"), "abcacb"),
            [quiet("recurrence")],
        ),
        case(
            "polling jobs",
            EventHistory::with_policy(recurrence_only()).times(30, |history, i| {
                history.call("wait_for_job", json!({"id": letter_name(i % 3)}), ok("running"))
            }),
            [quiet("recurrence")],
        ),
        case(
            "jumping back and forth, each time for a different reason",
            EventHistory::with_policy(recurrence_only()).times(14, |history, i| {
                let from = i * 37 % 13 * 100;
                let args = json!({"path": "log", "view_range": [from + 1, from + 80]});
                history.assistant_message(&format!("I look for {}.", letter_name(i))).call(
                    "view_file",
                    args,
                    ok(letter_name(i)),
                )
            }),
            [quiet("recurrence")],
        ),
        case(
            "a file read from start to end, introduced by the same sentence",
            EventHistory::with_policy(recurrence_only())
                .times(30, |history, i| view_range(history, i * 80, i)),
            [quiet("recurrence")],
        ),
        case(
            "something new may be read no matter how often the rest was read",
            read_files(read_files(EventHistory::with_policy(recurrence_only()), &READ_SEQUENCE[..10]), "d"),
            [never("recurrence", Block)],
        ),
        case(
            "jumping back and forth seven times",
            jump_in_file(EventHistory::with_policy(recurrence_only()), 7),
            [quiet("recurrence")],
        ),
    ]
}

#[test]
fn recurrence_trips() {
    check_all(&must_trip());
}

#[test]
fn recurrence_does_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn recurrence_obeys_its_mode() {
    check_modes(
        "recurrence",
        |keys| read_files(EventHistory::with_policy(only_guard("recurrence", keys)), READ_SEQUENCE),
        22,
    );
}

#[test]
fn tool_can_be_exempt_from_the_recurrence_guard() {
    let policy = json!({"preset": "off", "guards": {"recurrence": "staged"}, "tools": {"read_file": {"recurrence": "off"}}});
    check(
        "exempt",
        &read_files(EventHistory::with_policy(policy), &READ_SEQUENCE.repeat(3)),
        &[never("recurrence", Warn)],
    );
}

#[test]
fn recurrence_fixtures_are_current() {
    check_fixtures("recurrence", &must_trip()[0], &must_not_trip()[0]);
}
