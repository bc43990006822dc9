//! The `read`, `write` and `edit` tools.

use crate::harness::ToolHarness;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

#[test]
fn whole_file_is_returned_unchanged() {
    let place = ToolHarness::new("read");
    for content in ["one\ntwo\n", "no end", "\n\n", "CR\r\nLF\r\n", "é→🦀\n"] {
        place.put("a.txt", content);
        assert_eq!(place.call_ok("read", &json!({"path": "a.txt"})), content);
    }
    place.put("a.txt", "");
    assert_eq!(place.call_ok("read", &json!({"path": "a.txt"})), "[the file is empty]");
    assert_eq!(place.call_ok("read", &json!({"path": place.work.join("a.txt")})), "[the file is empty]");
}

#[test]
fn pages_state_position_and_next_offset() {
    let place = ToolHarness::new("pages");
    let lines: String = (1..=10).map(|n| format!("line {n}\n")).collect();
    place.put("a.txt", &lines);
    let page = |offset: u64, limit: u64| {
        place.call_ok("read", &json!({"path": "a.txt", "offset": offset, "limit": limit}))
    };
    assert_eq!(page(1, 2), "line 1\nline 2\n[lines 1-2 of 10; continue with offset 3]");
    assert_eq!(page(3, 1), "line 3\n[lines 3-3 of 10; continue with offset 4]");
    assert_eq!(page(9, 50), "line 9\nline 10\n[lines 9-10 of 10; end of file]");
    assert_eq!(page(1, 10), lines);
    let words = place.call_err("read", &json!({"path": "a.txt", "offset": 11}), "past_end");
    assert!(words.contains("10 lines"), "{words}");
}

#[test]
fn paging_returns_the_whole_file_even_on_one_line() {
    let place = ToolHarness::new("long");
    let long: String = (0..250_000_u32).map(|n| char::from_u32(0x3b1 + n % 24).unwrap_or('x')).collect();
    let content = format!("short\n{long}\nend\n");
    place.put("a.txt", &content);
    let (mut offset, mut column, mut whole) = (1_u64, 1_u64, String::new());
    for _ in 0..10 {
        let page = place.call_ok("read", &json!({"path": "a.txt", "offset": offset, "column": column}));
        let (text, note) = page.rsplit_once('\n').expect("a note");
        whole.push_str(text);
        let numbers: Vec<u64> =
            note.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        if note.contains("end of file") {
            whole.push('\n');
            break;
        }
        assert!(text.chars().count() <= 100_001, "a page of {} characters", text.chars().count());
        (offset, column) = (numbers[numbers.len() - 2], numbers[numbers.len() - 1]);
    }
    assert!(whole == content, "{} of {} bytes", whole.len(), content.len());
}

#[test]
fn binary_and_non_files_are_not_read() {
    let place = ToolHarness::new("nofile");
    place.put("data", b"\x7fELF\0\0\0");
    place.put("folder/x", "");
    place.put("latin", b"caf\xe9");
    let made = std::process::Command::new("mkfifo").arg(place.work.join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    place.call_err("read", &json!({"path": "data"}), "not_text");
    place.call_err("read", &json!({"path": "folder"}), "not_a_file");
    place.call_err("read", &json!({"path": "pipe"}), "not_a_file");
    place.call_err("read", &json!({"path": "missing"}), "not_found");
    place.call_err("read", &json!({"path": "latin/x"}), "not_a_folder");
    place.call_err("write", &json!({"path": "pipe", "content": ""}), "not_a_file");
    place.call_err("write", &json!({"path": "folder", "content": ""}), "not_a_file");
    place.call_err("edit", &json!({"path": "latin", "old": "a", "new": "b"}), "not_text");
    assert_eq!(place.call_ok("read", &json!({"path": "latin"})), "caf\u{fffd}");
}

#[test]
fn write_creates_directories_and_keeps_permissions() {
    let place = ToolHarness::new("write");
    place.call_ok("write", &json!({"path": "a/b/c.txt", "content": "new"}));
    assert_eq!(place.get("a/b/c.txt"), "new");
    let script = place.put("run.sh", "old");
    for mode in [0o777, 0o755, 0o600, 0o640] {
        std::fs::set_permissions(&script, PermissionsExt::from_mode(mode)).expect("permissions");
        let before = script.metadata().expect("the file").ino();
        place.call_ok("write", &json!({"path": "run.sh", "content": "#!/bin/sh\n"}));
        let after = script.metadata().expect("the file");
        assert_eq!(after.mode() & 0o7777, mode);
        assert_ne!(after.ino(), before, "written in place, so a reader could see partial content");
    }
    assert_eq!(place.names(), ["a", "run.sh"], "leftover files");
}

#[test]
fn readers_never_see_a_partial_file() {
    let place = ToolHarness::new("atomic");
    let path = place.put("a.txt", "a".repeat(500_000));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..20_u8 {
                let content = char::from(b'a' + n).to_string().repeat(500_000);
                place.call_ok("write", &json!({"path": "a.txt", "content": content}));
            }
        });
        while !writer.is_finished() {
            let seen = std::fs::read(&path).expect("it is always there");
            assert_eq!(seen.len(), 500_000);
            assert!(seen.iter().all(|byte| *byte == seen[0]));
        }
    });
}

#[test]
fn read_only_file_is_not_changed() {
    let place = ToolHarness::new("readonly");
    let path = place.put("a.txt", "old");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).expect("permissions");
    place.call_err("write", &json!({"path": "a.txt", "content": "new"}), "read_only");
    place.call_err("edit", &json!({"path": "a.txt", "old": "old", "new": "new"}), "read_only");
    assert_eq!((place.get("a.txt").as_str(), place.names()), ("old", vec!["a.txt".to_owned()]));
}

#[test]
fn write_through_internal_link_keeps_the_link() {
    let place = ToolHarness::new("through");
    place.put("real/a.txt", "old");
    symlink("real/a.txt", place.work.join("link")).expect("a link");
    symlink(place.work.join("real"), place.work.join("folder")).expect("a link");
    place.call_ok("write", &json!({"path": "link", "content": "new"}));
    assert_eq!(place.get("real/a.txt"), "new");
    place.call_ok("edit", &json!({"path": "folder/a.txt", "old": "new", "new": "newer"}));
    assert_eq!(place.get("real/a.txt"), "newer");
    assert!(place.work.join("link").is_symlink());
}

#[test]
fn edit_replaces_one_or_all_matches() {
    let place = ToolHarness::new("edit");
    place.put("a.txt", "one\ntwo\nthree two\n");
    let text = place.call_ok("edit", &json!({"path": "a.txt", "old": "one\ntwo", "new": "1\n2"}));
    assert!(text.contains("1 place") && text.contains("line 1"), "{text}");
    assert_eq!(place.get("a.txt"), "1\n2\nthree two\n");
    let text = place.call_ok("edit", &json!({"path": "a.txt", "old": "t", "new": "T", "all": true}));
    assert!(text.contains("2 places") && text.contains("line 3"), "{text}");
    assert_eq!(place.get("a.txt"), "1\n2\nThree Two\n");
    place.call_ok("edit", &json!({"path": "a.txt", "old": "Three Two\n", "new": ""}));
    assert_eq!(place.get("a.txt"), "1\n2\n");
}

#[test]
fn failed_edit_reports_similar_text() {
    let place = ToolHarness::new("misfit");
    let content = "fn a() {\n    x();\n}\nfn b() {\n    x();\n}\n";
    place.put("a.rs", content);
    place.put("dos.txt", "one\r\ntwo\r\n");
    place.put("aaa.txt", "aaa");
    let cases = [
        ("a.rs", "    x();", "text_not_unique", "2 times in 'a.rs' (lines 2, 5)"),
        (
            "a.rs",
            "fn a() {\n  x();",
            "text_not_found",
            "the text at line 1 differs only in whitespace: `fn a() {`",
        ),
        ("a.rs", "fn b() {\n    y();", "text_not_found", "its first line occurs in line 4: `fn b() {`"),
        ("a.rs", "fn c()", "text_not_found", "its first line does not occur either"),
        ("a.rs", "", "wrong_type", "'old'"),
        ("a.rs", "\n\n", "text_not_found", "was not found in 'a.rs'"),
        ("dos.txt", "one\ntwo", "text_not_found", "CR LF"),
        ("aaa.txt", "aa", "text_not_unique", "2 times"),
        ("missing.rs", "a", "not_found", "'missing.rs'"),
    ];
    for (path, old, code, named) in cases {
        let words = place.call_err("edit", &json!({"path": path, "old": old, "new": "z"}), code);
        assert!(words.contains(named), "{words}");
    }
    place.call_err("edit", &json!({"path": "a.rs", "old": "fn a", "new": "fn a"}), "nothing_to_change");
    assert_eq!(place.get("a.rs"), content);
}
