//! Bad input: a clear error with file, line and code, exit code 1, no panic, and no loss of earlier decisions.

use crate::command_harness::{run_flyball, test_dir};

const VALID_LINE: &str = r#"{"type":"tool.requested","call":"c1","tool":"bash","args":{"command":"ls"}}"#;

fn nested_json(levels: usize) -> String {
    format!(r#"{{"type":"tool.requested","tool":"x","args":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn every_bad_line_is_reported_with_its_code_and_line_number() {
    let dir = test_dir("bad-lines");
    let deep_line = nested_json(80);
    let deeper_line = nested_json(100_000);
    let cases: Vec<(&str, &[u8], &str)> = vec![
        ("half a line", br#"{"type":"tool.req"#, "invalid_json"),
        ("not JSON", b"hello", "invalid_json"),
        ("not an object", b"[1,2]", "invalid_json"),
        ("two objects on a line", br#"{"type":"compaction"}{"type":"compaction"}"#, "invalid_json"),
        ("deep nesting", deep_line.as_bytes(), "event_too_deep"),
        ("very deep nesting", deeper_line.as_bytes(), "event_too_deep"),
        ("duplicate key", br#"{"type":"compaction","type":"api.retry"}"#, "duplicate_key"),
        (
            "duplicate key inside the arguments",
            br#"{"type":"tool.requested","tool":"x","args":{"a":1,"a":2}}"#,
            "duplicate_key",
        ),
        ("no type", br#"{"session":"s"}"#, "missing_field"),
        ("type is a number", br#"{"type":7}"#, "wrong_type"),
        ("unknown event", br#"{"type":"tool.request","tool":"x"}"#, "unknown_event"),
        ("missing field", br#"{"type":"tool.requested","call":"c"}"#, "missing_field"),
        ("wrong type of a field", br#"{"type":"tool.requested","tool":["x"]}"#, "wrong_type"),
        ("wrong type of the session", br#"{"type":"compaction","session":{}}"#, "wrong_type"),
        ("bad time", br#"{"type":"compaction","at":"yesterday"}"#, "wrong_type"),
        ("negative time", br#"{"type":"compaction","at":-5}"#, "wrong_type"),
        ("bad usage", br#"{"type":"compaction","usage":{"cost_usd":"a lot"}}"#, "wrong_type"),
        ("not UTF-8", b"{\"type\":\"user.message\",\"text\":\"\xff\xfe\"}", "not_utf8"),
        ("unknown guard of a release", br#"{"type":"human.released","guard":"repitition"}"#, "wrong_type"),
        (
            "bad policy inside",
            br#"{"type":"session.started","policy":{"guards":{"repitition":{}}}}"#,
            "bad_policy",
        ),
        (
            "bad workflow inside",
            br#"{"type":"session.started","workflow":{"nodes":["a"],"edges":[{"from":"a","to":"b"}]}}"#,
            "bad_workflow",
        ),
    ];
    for (name, line, code) in cases {
        let mut file = VALID_LINE.as_bytes().to_vec();
        file.push(b'\n');
        file.extend_from_slice(line);
        file.push(b'\n');
        file.extend_from_slice(VALID_LINE.as_bytes());
        std::fs::write(dir.join("events.jsonl"), &file).unwrap();
        for json in [true, false] {
            let args: &[&str] =
                if json { &["replay", "--json", "events.jsonl"] } else { &["replay", "events.jsonl"] };
            let run = run_flyball(&dir, args, b"", &[]);
            assert_eq!(run.code, 1, "{name}: {}", run.err);
            assert!(run.err.starts_with(&format!("error[{code}]: events.jsonl:2: ")), "{name}: {}", run.err);
            assert!(
                run.err.lines().nth(1).is_some_and(|line| line.starts_with("  help: ")),
                "{name}: {}",
                run.err
            );
            assert!(!run.err.contains("panicked"), "{name}");
            if json {
                assert_eq!(run.out.lines().count(), 1, "{name}: the decision before the bad line is kept");
            }
        }
    }
}

#[test]
fn huge_line_is_rejected_without_being_buffered() {
    let dir = test_dir("huge-line");
    let mut file = format!("{VALID_LINE}\n").into_bytes();
    file.extend_from_slice(br#"{"type":"user.message","text":""#);
    file.resize(file.len() + 20 * 1024 * 1024, b'x');
    file.extend_from_slice(b"\"}\n");
    file.extend_from_slice(VALID_LINE.as_bytes());
    std::fs::write(dir.join("events.jsonl"), &file).unwrap();
    let run = run_flyball(&dir, &["replay", "--json", "events.jsonl"], b"", &[]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error[event_too_large]: events.jsonl:2: "), "{}", run.err);
    // The pipe answers the bad line and continues with the next.
    let run = run_flyball(&dir, &["observe"], &file, &[]);
    assert_eq!(run.code, 1);
    assert_eq!(run.out.lines().count(), 3, "{}", run.out);
    assert!(run.out.lines().nth(1).unwrap().contains(r#""code":"event_too_large""#));
}

#[test]
fn empty_and_missing_files_are_reported() {
    let dir = test_dir("empty");
    for (name, content) in [("empty.jsonl", ""), ("blank.jsonl", "\n\n  \n")] {
        std::fs::write(dir.join(name), content).unwrap();
        let run = run_flyball(&dir, &["replay", name], b"", &[]);
        assert_eq!(run.code, 1);
        assert!(run.err.starts_with(&format!("error[empty_input]: {name}: ")), "{}", run.err);
    }
    for command in ["replay", "explain", "check", "graph"] {
        let run = run_flyball(&dir, &[command, "nowhere.jsonl"], b"", &[]);
        assert_eq!(run.code, 1, "{command}");
        assert!(run.err.starts_with("error[cannot_read]: nowhere.jsonl"), "{command}: {}", run.err);
    }
    let run = run_flyball(&dir, &["replay", "."], b"", &[]);
    assert!(run.err.contains("this is a folder"), "{}", run.err);
}

#[test]
fn bom_crlf_and_blank_lines_are_accepted() {
    let dir = test_dir("line-ends");
    let file = format!(
        "\u{feff}{VALID_LINE}\r\n\r\n{}\r\n",
        r#"{"type":"tool.finished","call":"c1","ok":true,"output":""}"#
    );
    std::fs::write(dir.join("events.jsonl"), file).unwrap();
    let run = run_flyball(&dir, &["replay", "--json", "events.jsonl"], b"", &[]);
    assert_eq!((run.code, run.out.lines().count()), (0, 2), "{}", run.err);
}

#[test]
fn conflicting_id_is_an_error_and_is_not_counted() {
    let dir = test_dir("conflict");
    let lines = [
        r#"{"type":"user.message","id":"m1","text":"one"}"#,
        r#"{"type":"user.message","id":"m1","text":"one"}"#,
        r#"{"type":"user.message","id":"m1","text":"two"}"#,
        r#"{"type":"user.message","id":"m2","text":"three"}"#,
    ];
    let run = run_flyball(&dir, &["observe"], lines.join("\n").as_bytes(), &[]);
    let answers: Vec<&str> = run.out.lines().collect();
    assert_eq!(run.code, 1);
    assert_eq!(answers[0], answers[1], "the same answer again");
    assert!(answers[2].contains(r#""code":"event_conflict""#));
    assert!(answers[3].contains(r#""seq":2"#), "{}", answers[3]);
}

#[test]
fn every_policy_error_is_reported_with_its_location() {
    let dir = test_dir("bad-policy");
    std::fs::write(dir.join("events.jsonl"), VALID_LINE).unwrap();
    let policy = "version: 1\nguards:\n  repitition: {limit: 5}\n  visits: {limit: many}\nbudgets:\n  session: {runtime: 4 parsecs}\n";
    std::fs::write(dir.join("policy.yaml"), policy).unwrap();
    for args in [
        &["replay", "--policy", "policy.yaml", "events.jsonl"][..],
        &["check", "policy.yaml"],
        &["config", "--policy", "policy.yaml"],
    ] {
        let run = run_flyball(&dir, args, b"", &[]);
        assert_eq!(run.code, 1, "{args:?}");
        assert!(run.err.contains("error[policy_unknown_guard]: policy.yaml:3:3: "), "{}", run.err);
        assert!(run.err.contains("repetition"), "a suggestion: {}", run.err);
        assert!(run.err.contains("policy.yaml:4:"), "{}", run.err);
        assert!(run.err.contains("policy.yaml:6:"), "{}", run.err);
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let dir = test_dir("usage");
    for args in [&["replay"][..], &["nonsense"], &["replay", "--nonsense", "x"]] {
        assert_eq!(run_flyball(&dir, args, b"", &[]).code, 2, "{args:?}");
    }
}
