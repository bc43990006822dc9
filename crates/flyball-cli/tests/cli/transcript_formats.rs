//! `replay` and `explain` on transcripts of other tools: a file in, decisions out.

use crate::command_harness::{repo_root, run_flyball, test_dir};
use std::path::PathBuf;

/// All transcripts, each with its expected events.
fn transcripts() -> Vec<(String, PathBuf, PathBuf)> {
    let mut all = Vec::new();
    let folder = repo_root().join("fixtures/transcripts");
    for format in std::fs::read_dir(&folder).expect("the fixtures") {
        let format = format.expect("a folder").path();
        let name = format.file_name().unwrap().to_string_lossy().into_owned();
        for file in std::fs::read_dir(&format).expect("a format") {
            let path = file.expect("a file").path();
            if !path.to_string_lossy().ends_with(".events.jsonl") {
                let golden = path.with_extension("events.jsonl");
                all.push((name.clone(), path, golden));
            }
        }
    }
    all.sort();
    assert!(all.len() > 10, "{}", folder.display());
    all
}

#[test]
fn transcript_gets_the_same_decisions_as_its_events() {
    let dir = test_dir("formats-replay");
    for (format, path, golden) in transcripts() {
        // The expected events of the fixtures use this name.
        let copy = dir.join(format!("run.{}", path.extension().unwrap().to_string_lossy()));
        std::fs::copy(&path, &copy).unwrap();
        let name = copy.to_string_lossy().into_owned();
        let events = golden.to_string_lossy().into_owned();
        let wanted = run_flyball(&dir, &["replay", "--json", &events], b"", &[]);
        assert!(wanted.err.is_empty() && !wanted.out.is_empty(), "{events}: {}", wanted.err);
        for args in [&["replay", "--json", &name][..], &["replay", "--json", "--format", &format, &name]] {
            let run = run_flyball(&dir, args, b"", &[]);
            assert_eq!(
                (run.code, run.out.as_str()),
                (wanted.code, wanted.out.as_str()),
                "{args:?}: {}",
                run.err
            );
        }
    }
}

#[test]
fn a_transcript_may_come_through_a_pipe() {
    let dir = test_dir("formats-pipe");
    let file = std::fs::read(repo_root().join("fixtures/transcripts/claude-code/loop.jsonl")).unwrap();
    let run = run_flyball(&dir, &["replay", "-"], &file, &[]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    assert!(run.out.contains("3f0c5a1e-7a52-4b8e-9b1d-52a3f6a0c002"), "{}", run.out);
}

/// Writes each entry of a list to a file, named after its position.
fn write_event_files(
    dir: &std::path::Path,
    entries: &[serde_json::Value],
    name: impl Fn(usize, &serde_json::Value) -> String,
) {
    for (at, entry) in entries.iter().enumerate() {
        let path = dir.join(name(at, entry));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_string_pretty(entry).unwrap()).unwrap();
    }
}

#[test]
fn a_folder_with_a_file_for_each_event_is_one_transcript() {
    let dir = test_dir("formats-folder");
    let fixtures = repo_root().join("fixtures/transcripts");
    let text = std::fs::read_to_string(fixtures.join("openhands/good.json")).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    write_event_files(&dir, &events, |at, _| format!("run/events/{at}.json"));
    let text = std::fs::read_to_string(fixtures.join("opencode/loop.jsonl")).unwrap();
    let entries: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    write_event_files(&dir, &entries, |at, entry| match (entry.get("messageID"), entry.get("role")) {
        (Some(message), _) => format!("storage/part/{}/prt_{at:04}.json", message.as_str().unwrap()),
        (None, Some(_)) => format!("storage/message/ses_loop01/{}.json", entry["id"].as_str().unwrap()),
        (None, None) => "storage/session/p1/ses_loop01.json".to_owned(),
    });
    for (path, golden) in [("run/events", "openhands/good"), ("storage", "opencode/loop")] {
        let golden = fixtures.join(format!("{golden}.events.jsonl")).to_string_lossy().into_owned();
        let wanted = run_flyball(&dir, &["replay", "--json", &golden], b"", &[]);
        let run = run_flyball(&dir, &["replay", "--json", path], b"", &[]);
        assert_eq!((run.code, run.out), (wanted.code, wanted.out), "{path}: {}", run.err);
    }
    // Any other folder is still an error.
    std::fs::create_dir_all(dir.join("other")).unwrap();
    std::fs::write(dir.join("other/package.json"), "{\"name\":\"x\"}").unwrap();
    let run = run_flyball(&dir, &["replay", "other"], b"", &[]);
    assert!(run.err.starts_with("error[cannot_read]: other: this is a folder"), "{}", run.err);
}

#[test]
fn explain_shows_why_a_looping_transcript_would_be_stopped() {
    let dir = test_dir("formats-explain");
    for (format, path, _) in transcripts() {
        if !path.to_string_lossy().contains("loop") {
            continue;
        }
        let name = path.to_string_lossy().into_owned();
        let run = run_flyball(&dir, &["explain", &name], b"", &[]);
        assert_eq!(run.code, 3, "{name}: {}{}", run.out, run.err);
        assert!(run.out.contains("Evidence") && run.out.contains("event "), "{format}: {}", run.out);
    }
}

#[test]
fn unreadable_lines_are_reported() {
    let dir = test_dir("formats-gaps");
    let mut file = std::fs::read(repo_root().join("fixtures/transcripts/codex/nasty.jsonl")).unwrap();
    file.extend_from_slice(b"{\"timestamp\":\"2026-10-06T13:00:00Z\",\"type\":\"respo");
    std::fs::write(dir.join("rollout.jsonl"), &file).unwrap();
    let run = run_flyball(&dir, &["replay", "rollout.jsonl"], b"", &[]);
    assert!(run.out.contains("1 line could not be read as codex"), "{}{}", run.out, run.err);
    assert!(run.out.contains("the last line is incomplete"), "{}", run.out);
}

#[test]
fn unknown_format_is_reported_with_help() {
    let dir = test_dir("formats-unknown");
    std::fs::write(dir.join("notes.txt"), "dear diary\n").unwrap();
    for command in ["replay", "explain"] {
        let run = run_flyball(&dir, &[command, "notes.txt"], b"", &[]);
        assert_eq!(run.code, 1, "{command}");
        assert!(run.err.starts_with("error[invalid_json]: notes.txt:1: "), "{}", run.err);
        assert!(run.err.contains("--format"), "{}", run.err);
    }
    let run = run_flyball(&dir, &["replay", "--format", "nonsense", "notes.txt"], b"", &[]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("claude-code"), "{}", run.err);
}

#[test]
fn secrets_in_a_transcript_are_redacted() {
    let dir = test_dir("formats-secret");
    let secret = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    let text =
        std::fs::read_to_string(repo_root().join("fixtures/transcripts/claude-code/loop.jsonl")).unwrap();
    std::fs::write(dir.join("run.jsonl"), text.replace("npm test", &format!("npm test --token {secret}")))
        .unwrap();
    let run = run_flyball(&dir, &["explain", "run.jsonl"], b"", &[]);
    assert!(run.out.contains("npm test") && !run.out.contains(&secret), "{}", run.out);
    assert!(run.out.contains("[redacted:"), "{}", run.out);
}

#[test]
fn examples_contain_loops_and_healthy_runs() {
    let dir = test_dir("formats-examples");
    let files = std::fs::read_dir(repo_root().join("examples/transcripts")).expect("the examples");
    let mut codes = Vec::new();
    for file in
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e != "md"))
    {
        let run = run_flyball(&dir, &["replay", &file.to_string_lossy()], b"", &[]);
        assert!(run.err.is_empty(), "{}: {}", file.display(), run.err);
        codes.push(run.code);
    }
    assert!(codes.iter().filter(|code| **code == 3).count() >= 4, "{codes:?}");
    assert!(codes.iter().filter(|code| **code == 0).count() >= 3, "{codes:?}");
}
