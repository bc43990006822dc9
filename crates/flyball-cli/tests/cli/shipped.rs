//! The shipped path: a file in, decisions out, through the real binary, for every guard and every recorded history.

use crate::kit::{fixtures, flyball, folder, histories, recorded, root};
use std::path::Path;

fn replayed(file: &Path) -> Vec<String> {
    let dir = folder(&format!("replay-{}", file.file_name().unwrap().to_string_lossy()));
    let run = flyball(&dir, &["replay", "--json", file.to_str().unwrap()], b"", &[]);
    assert_eq!(run.err, "", "{}", file.display());
    run.out.lines().map(str::to_owned).collect()
}

#[test]
fn every_guard_trips_through_the_command_line() {
    let files = histories("guards");
    assert!(files.len() >= 16, "a history for each guard");
    for file in files {
        let guard = file.file_stem().unwrap().to_string_lossy().into_owned();
        let decisions = replayed(&file);
        assert_eq!(decisions, recorded(&file), "{guard}");
        let tripped = format!(r#""guard":"{guard}""#);
        let hit =
            decisions.iter().any(|line| line.contains(&tripped) && !line.contains(r#""decision":"allow""#));
        assert!(hit, "{guard} did not trip");
    }
}

#[test]
fn no_guard_trips_on_what_must_be_left_alone() {
    for file in fixtures("guards", ".quiet.jsonl") {
        let name = file.to_string_lossy().into_owned();
        // A first failed attempt, or an answer that cannot be read, is told to the model: that is no refusal.
        let told = name.contains("retry") || name.contains("validation");
        for line in replayed(&file) {
            let allowed =
                line.contains(r#""decision":"allow""#) || (told && line.contains(r#""decision":"warn""#));
            assert!(allowed, "{name}: {line}");
        }
    }
}

#[test]
fn every_recorded_history_of_the_seeds_is_decided_as_recorded() {
    let files = histories("seeds");
    assert!(files.len() >= 20);
    for file in files {
        assert_eq!(replayed(&file), recorded(&file), "{}", file.display());
    }
}

#[test]
fn the_pipe_decides_as_replay_does() {
    for file in histories("guards").into_iter().chain(histories("seeds")) {
        let text = std::fs::read(&file).unwrap();
        let timed = String::from_utf8_lossy(&text).lines().all(|line| line.contains(r#""at":"#));
        if !timed {
            // Without a time the pipe stamps the time of arrival, which replay does not have.
            continue;
        }
        let dir = folder("pipe");
        let run = flyball(&dir, &["observe"], &text, &[]);
        let answers: Vec<String> = run.out.lines().map(str::to_owned).collect();
        assert_eq!(answers, recorded(&file), "{}", file.display());
    }
}

#[test]
fn examples_end_as_their_pages_say() {
    let dir = root();
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
        let run = flyball(&dir, &args, b"", &[]);
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
fn the_committed_schemas_are_the_generated_ones() {
    for (args, file) in [
        (&["schema"][..], "docs/policy.schema.json"),
        (&["schema", "policy"], "docs/policy.schema.json"),
        (&["schema", "workflow"], "docs/workflow.schema.json"),
    ] {
        let run = flyball(&folder("schema"), args, b"", &[]);
        let committed = std::fs::read_to_string(root().join(file)).unwrap();
        assert!(run.out.trim_end() == committed.trim_end(), "{file} is old; run: cargo xtask bless");
    }
}
