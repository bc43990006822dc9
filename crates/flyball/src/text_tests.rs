//! Tests of what is taken out of a tool's output.

use super::{cut, one_line, shortened, stable, tail, without_codes};

#[test]
fn colours_links_and_carriage_returns_go() {
    assert_eq!(without_codes("\u{1b}[31mred\u{1b}[0m\r\n"), "red\n");
    assert_eq!(without_codes("\u{1b}]8;;http://x\u{7}name\u{1b}]8;;\u{1b}\\"), "name");
    assert_eq!(without_codes("plain"), "plain");
    assert_eq!(without_codes("cut off \u{1b}[3"), "cut off ");
}

#[test]
fn lines_are_joined_without_gaps() {
    assert_eq!(
        one_line("  assertion failed:\n\n  left: 1\n right: 2\n"),
        "assertion failed: left: 1; right: 2"
    );
    assert_eq!(one_line("a\u{0}b\tc"), "a b c");
    let many: String = (0..50).map(|n| format!("{n}\n")).collect();
    assert_eq!(one_line(&many), "0; 1; 2; 3; 4; 5; 6; 7");
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(cut("äöü", 3), "äöü");
    assert_eq!(cut("äöüß", 3), "äö…");
    let long = "ä".repeat(100);
    let short = shortened(&long, 30);
    assert_eq!(short, format!("{}\n[... 70 characters left out ...]\n{}", "ä".repeat(10), "ä".repeat(20)));
    assert_eq!(shortened("short", 30), "short");
    assert_eq!(tail("a\n\nb\nc\n", 2), "b; c");
}

#[test]
fn what_changes_from_run_to_run_is_taken_out_and_what_is_asserted_stays() {
    let same = [
        ("panicked at src/lib.rs:28:9: x", "panicked at src/lib.rs:31:13: x"),
        ("object at 0x7fb49dce2a50", "object at 0x7f687e6e2d10"),
        ("cannot open /project/a/data.json", "cannot open /elsewhere/b/data.json"),
        ("src/lib.rs - add (line 5)", "src/lib.rs - add (line 9)"),
        ("timed out after 2.01s", "timed out after 3.44s"),
        ("see (file:///a/b/x.js:3:4)", "see (file:///a/b/x.js:30:1)"),
    ];
    for (one, other) in same {
        assert_eq!(stable(one), stable(other));
    }
    for (one, other) in [("left: 4; right: 5", "left: 4; right: 6"), ("got 3, want 4", "got 2, want 4")] {
        assert_ne!(stable(one), stable(other));
    }
    assert_eq!(stable("ratio 3:4 of a::b"), "ratio 3:4 of a::b");
}
