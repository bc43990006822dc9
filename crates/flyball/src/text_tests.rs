//! Tests of tool output processing.

use super::{elide_middle, last_lines, normalize_volatile, one_line, strip_ansi, truncate};

#[test]
fn ansi_codes_links_and_carriage_returns_are_stripped() {
    assert_eq!(strip_ansi("\u{1b}[31mred\u{1b}[0m\r\n"), "red\n");
    assert_eq!(strip_ansi("\u{1b}]8;;http://x\u{7}name\u{1b}]8;;\u{1b}\\"), "name");
    assert_eq!(strip_ansi("plain"), "plain");
    assert_eq!(strip_ansi("cut off \u{1b}[3"), "cut off ");
}

#[test]
fn lines_are_joined_without_blank_lines() {
    assert_eq!(
        one_line("  assertion failed:\n\n  left: 1\n right: 2\n"),
        "assertion failed: left: 1; right: 2"
    );
    assert_eq!(one_line("a\u{0}b\tc"), "a b c");
    let many: String = (0..50).map(|n| format!("{n}\n")).collect();
    assert_eq!(one_line(&many), "0; 1; 2; 3; 4; 5; 6; 7");
}

#[test]
fn long_text_is_truncated_at_char_boundaries() {
    assert_eq!(truncate("äöü", 3), "äöü");
    assert_eq!(truncate("äöüß", 3), "äö…");
    let long = "ä".repeat(100);
    let short = elide_middle(&long, 30);
    assert_eq!(short, format!("{}\n[... 70 characters left out ...]\n{}", "ä".repeat(10), "ä".repeat(20)));
    assert_eq!(elide_middle("short", 30), "short");
    assert_eq!(last_lines("a\n\nb\nc\n", 2), "b; c");
}

#[test]
fn volatile_text_is_removed_and_assertions_kept() {
    let same = [
        ("panicked at src/lib.rs:28:9: x", "panicked at src/lib.rs:31:13: x"),
        ("object at 0x7fb49dce2a50", "object at 0x7f687e6e2d10"),
        ("cannot open /project/a/data.json", "cannot open /elsewhere/b/data.json"),
        ("src/lib.rs - add (line 5)", "src/lib.rs - add (line 9)"),
        ("timed out after 2.01s", "timed out after 3.44s"),
        ("see (file:///a/b/x.js:3:4)", "see (file:///a/b/x.js:30:1)"),
    ];
    for (one, other) in same {
        assert_eq!(normalize_volatile(one), normalize_volatile(other));
    }
    for (one, other) in [("left: 4; right: 5", "left: 4; right: 6"), ("got 3, want 4", "got 2, want 4")] {
        assert_ne!(normalize_volatile(one), normalize_volatile(other));
    }
    assert_eq!(normalize_volatile("ratio 3:4 of a::b"), "ratio 3:4 of a::b");
}
