//! `recurrence`: the same (call, result) again and again, with no fixed period and no new write between.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, modes, never, ok, only, quiet,
    trips,
};
use serde_json::{Value, json};

/// Eleven looks at three files in no order: three are new, eight are not.
const LOOKS: &str = "abcacbabcba";

fn alone() -> Value {
    only("recurrence", json!({}))
}

fn look(history: History, file: char) -> History {
    history.call("read_file", json!({"path": file.to_string()}), ok(format!("text of {file}")))
}

fn looks(history: History, files: &str) -> History {
    files.chars().fold(history, look)
}

fn word(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(3)
}

/// Leafing to and fro in one file, announced by the same sentence each time.
fn leaf(history: History, n: usize) -> History {
    history.times(n, |history, i| part(history, i * 37 % 13 * 100, i))
}

fn part(history: History, from: usize, at: usize) -> History {
    let args = json!({"path": "log", "view_range": [from + 1, from + 80]});
    history.says("Let me look at another part of the file.").call("view_file", args, ok(word(at)))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "the same three files looked at in no order: seven of the last ten told nothing new",
            looks(History::new(), LOOKS),
            [trips("recurrence", "recurrence", Block)
                .at(22)
                .count(7, 7)
                .events(&[8, 10, 12, 14, 16, 18, 20])
                .message("7 of the last 10 calls told nothing that was not known, and nothing new was written")],
        ),
        case(
            "the third block halts",
            looks(look(look(looks(History::under(alone()), LOOKS), 'a'), 'b'), "c"),
            [trips("recurrence", "recurrence", Halt).at(24).because("stalled")],
        ),
        case(
            "one call comes back for the seventh time between others that do tell something",
            History::under(alone()).times(7, |history, i| {
                let history = history.call("git_status", json!({}), ok("clean"));
                history.call("read_file", json!({"path": word(i)}), ok(word(i)))
            }),
            [trips("recurrence", "recurrence", Warn)
                .at(27)
                .count(7, 6)
                .message("the same call of 'git_status' gave the same result 7 times, with nothing new written between")],
        ),
        case(
            "leafing to and fro, announced by the same sentence: warned at the eighth, refused at the thirteenth",
            leaf(History::under(alone()), 13),
            [
                trips("recurrence", "recurrence", Warn).at(24).count(8, 12),
                trips("recurrence", "recurrence", Block).at(39).count(13, 12),
            ],
        ),
        case(
            "paging that wraps round and begins at the first page again",
            History::under(alone()).times(9, |history, i| {
                history.call("list_issues", json!({"page": word(i % 4)}), ok(format!("page {}", word(i % 4))))
            }).times(4, |history, i| {
                history.call("list_issues", json!({"page": word(i % 4)}), ok(format!("page {}", word(i % 4))))
            }),
            [trips("recurrence", "recurrence", Block)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "a new write between the looks is progress",
            looks(
                looks(History::new(), "abcacb").call(
                    "write_file",
                    json!({"path": "a", "text": "new"}),
                    ok("done"),
                ),
                "abcacb",
            ),
            [quiet("recurrence")],
        ),
        case("ten looks run", looks(History::new(), &LOOKS[..10]), [never("recurrence", Block)]),
        case(
            "paging that ends",
            History::new().times(30, |history, i| {
                history.call("list_issues", json!({"page": i}), ok(format!("{} {}", word(i), word(i / 26))))
            }),
            [quiet("recurrence")],
        ),
        case(
            "a person asks to look again",
            looks(looks(History::new(), "abcacb").human("look again"), "abcacb"),
            [quiet("recurrence")],
        ),
        case(
            "waiting for jobs",
            History::under(alone()).times(30, |history, i| {
                history.call("wait_for_job", json!({"id": word(i % 3)}), ok("running"))
            }),
            [quiet("recurrence")],
        ),
        case(
            "leafing to and fro, each time for a reason of its own",
            History::under(alone()).times(14, |history, i| {
                let from = i * 37 % 13 * 100;
                let args = json!({"path": "log", "view_range": [from + 1, from + 80]});
                history.says(&format!("I look for {}.", word(i))).call("view_file", args, ok(word(i)))
            }),
            [quiet("recurrence")],
        ),
        case(
            "a file read on from its beginning to its end, announced by the same sentence",
            History::under(alone()).times(30, |history, i| part(history, i * 80, i)),
            [quiet("recurrence")],
        ),
        case(
            "something not seen yet may be looked at however often the rest was seen",
            looks(looks(History::under(alone()), &LOOKS[..10]), "d"),
            [never("recurrence", Block)],
        ),
        case("leafing to and fro seven times", leaf(History::under(alone()), 7), [quiet("recurrence")]),
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
    modes("recurrence", |keys| looks(History::under(only("recurrence", keys)), LOOKS), 22);
}

#[test]
fn a_tool_may_be_exempt() {
    let policy = json!({"preset": "off", "guards": {"recurrence": "staged"}, "tools": {"read_file": {"recurrence": "off"}}});
    check("exempt", &looks(History::under(policy), &LOOKS.repeat(3)), &[never("recurrence", Warn)]);
}

#[test]
fn fixtures_of_recurrence() {
    keep_fixtures("recurrence", &must_trip()[0], &must_not_trip()[0]);
}
