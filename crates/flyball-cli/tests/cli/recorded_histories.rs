//! Recorded histories through the real binary: a file in, decisions out, for every guard and every history.

use crate::command_harness::{
    fixture_files, fixture_histories, recorded_decisions, repo_root, run_flyball, test_dir,
};
use std::path::Path;

fn replay(file: &Path) -> Vec<String> {
    let dir = test_dir(&format!("replay-{}", file.file_name().unwrap().to_string_lossy()));
    let run = run_flyball(&dir, &["replay", "--json", file.to_str().unwrap()], b"", &[]);
    assert_eq!(run.err, "", "{}", file.display());
    run.out.lines().map(str::to_owned).collect()
}

#[test]
fn every_guard_trips_through_the_command_line() {
    let files = fixture_histories("guards");
    assert!(files.len() >= 16, "a history for each guard");
    for file in files {
        let guard = file.file_stem().unwrap().to_string_lossy().into_owned();
        let decisions = replay(&file);
        assert_eq!(decisions, recorded_decisions(&file), "{guard}");
        let tripped = format!(r#""guard":"{guard}""#);
        let hit =
            decisions.iter().any(|line| line.contains(&tripped) && !line.contains(r#""decision":"allow""#));
        assert!(hit, "{guard} did not trip");
    }
}

#[test]
fn no_guard_trips_on_healthy_histories() {
    for file in fixture_files("guards", ".quiet.jsonl") {
        let name = file.to_string_lossy().into_owned();
        // A first failed attempt or an invalid response only gets feedback, which is not a denial.
        let gets_feedback = name.contains("retry") || name.contains("validation");
        for line in replay(&file) {
            let allowed = line.contains(r#""decision":"allow""#)
                || (gets_feedback && line.contains(r#""decision":"warn""#));
            assert!(allowed, "{name}: {line}");
        }
    }
}

#[test]
fn recorded_histories_get_their_recorded_decisions() {
    let files = fixture_histories("original-systems");
    assert!(files.len() >= 20);
    for file in files {
        assert_eq!(replay(&file), recorded_decisions(&file), "{}", file.display());
    }
}

#[test]
fn observe_and_replay_give_the_same_decisions() {
    for file in fixture_histories("guards").into_iter().chain(fixture_histories("original-systems")) {
        let text = std::fs::read(&file).unwrap();
        let timed = String::from_utf8_lossy(&text).lines().all(|line| line.contains(r#""at":"#));
        if !timed {
            // Without a time the pipe stamps the arrival time, which replay does not know.
            continue;
        }
        let dir = test_dir("pipe");
        let run = run_flyball(&dir, &["observe"], &text, &[]);
        let answers: Vec<String> = run.out.lines().map(str::to_owned).collect();
        assert_eq!(answers, recorded_decisions(&file), "{}", file.display());
    }
}

#[test]
fn examples_end_as_documented() {
    let dir = repo_root();
    for (name, code) in [
        ("agent-loop", 3),
        ("booking", 3),
        ("tasks", 3),
        ("ralph", 3),
        ("issues", 3),
        ("coder-verifier", 3),
        ("polling", 0),
    ] {
        let events = format!("examples/{name}/events.jsonl");
        let policy = format!("examples/{name}/policy.yaml");
        let mut args = vec!["replay", &events];
        if dir.join(&policy).exists() {
            args.extend(["--policy", &policy]);
        }
        let run = run_flyball(&dir, &args, b"", &[]);
        assert_eq!(run.err, "", "{name}");
        if name == "polling" {
            assert_eq!(run.code, code, "{name}: {}", run.out);
        } else {
            assert!((3..=5).contains(&run.code), "{name}: {} {}", run.code, run.out);
        }
        let page = std::fs::read_to_string(dir.join(format!("examples/{name}/README.md"))).unwrap();
        assert!(page.contains(&events), "{name}: its page names the command");
    }
}

#[test]
fn committed_schemas_match_the_generated_ones() {
    for (args, file) in [
        (&["schema"][..], "docs/policy.schema.json"),
        (&["schema", "policy"], "docs/policy.schema.json"),
        (&["schema", "workflow"], "docs/workflow.schema.json"),
    ] {
        let run = run_flyball(&test_dir("schema"), args, b"", &[]);
        let committed = std::fs::read_to_string(repo_root().join(file)).unwrap();
        assert!(run.out.trim_end() == committed.trim_end(), "{file} is old; run: cargo xtask bless");
    }
}
