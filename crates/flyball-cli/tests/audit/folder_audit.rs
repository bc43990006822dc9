//! Audits of folders with mixed contents, and the report about them.

use crate::audit_harness::{HistoryBuilder, audit_json, flyball, mixed_histories, repo_root, test_dir};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn report_lists_loops_and_savings() {
    let folder = mixed_histories("json");
    let found = audit_json(&folder, &[]);
    let picked =
        |keys: &[&str]| -> Value { keys.iter().map(|key| (key.to_string(), found[*key].clone())).collect() };
    assert_eq!(
        picked(&[
            "version",
            "preset",
            "runs",
            "looped",
            "loops",
            "warned",
            "over_budget",
            "doubtful",
            "left_out"
        ]),
        json!({"version": 1, "preset": "agent", "runs": 5, "looped": 2, "loops": 2, "warned": 0, "over_budget": 0,
            "doubtful": 1, "left_out": 0})
    );
    // 33 + 9 + 12 + 12 + 6 calls, a thousand tokens and a cent each.
    let spent = &found["spent"];
    assert_eq!(
        (&spent["calls"], &spent["tokens"], &spent["cost_micro_usd"]),
        (&json!(72), &json!(72_000), &json!(720_000))
    );
    // Calls 6 to 20 of one, 6 to 8 of the other; the replies that requested the sixth call were already paid for.
    let saved = &found["saved"];
    assert_eq!(
        (&saved["calls"], &saved["tokens"], &saved["cost_micro_usd"]),
        (&json!(18), &json!(16_000), &json!(160_000))
    );
    assert_eq!(
        found["guards"],
        json!([{"guard": "repetition", "runs": 2, "looped": 2, "loops": 2, "saved": saved}])
    );
    let tools: Vec<(&str, u64, u64)> = found["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            (
                tool["tool"].as_str().unwrap(),
                tool["loops"].as_u64().unwrap(),
                tool["saved"]["calls"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        tools,
        [("bash", 1, 15), ("grep", 1, 3), ("job_status", 0, 0), ("read_file", 0, 0), ("write_file", 0, 0)]
    );
    let days: Vec<(&str, u64, u64)> = found["days"]
        .as_array()
        .unwrap()
        .iter()
        .map(|day| {
            (day["day"].as_str().unwrap(), day["runs"].as_u64().unwrap(), day["loops"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(days, [("2023-11-14", 1, 1), ("2023-11-15", 1, 1), ("2023-11-16", 3, 0)]);
    let worst = &found["worst"][0];
    assert_eq!(
        (&worst["file"], &worst["session"], &worst["tool"], &worst["end"], &worst["preview"]),
        (
            &json!("runs/a/long.jsonl"),
            &json!("long"),
            &json!("bash"),
            &json!("moved_on"),
            &json!("bash {\"x\":\"again\"}")
        )
    );
    assert_eq!(
        worst["stop"],
        json!({"decision": "block", "line": 17, "seq": 17, "at": 1_700_000_016_000_u64, "count": 6, "limit": 5})
    );
    assert_eq!(worst["message"], "tool 'bash' called 6 times consecutively with identical parameters");
    assert!(found["doubts"][0]["doubt"].as_str().unwrap().contains("it was polling"), "{}", found["doubts"]);
}

#[test]
fn terminal_report_starts_with_the_headline() {
    let folder = mixed_histories("terminal");
    fs::write(folder.join("runs/notes.md"), "# Notes\n").unwrap();
    let ran = flyball(&folder, &["audit", "runs"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let first = ran.out.lines().next().unwrap();
    assert_eq!(
        first,
        "2 of 5 runs looped; stopping the loops would have saved 18 calls (25 %), 16 k tokens (22 %), $0.16 (22 %)."
    );
    for piece in [
        "Nothing left this machine",
        "runs/a/long.jsonl:17  block by repetition, session long",
        "it reached 20 in a row, then the agent moved on",
        "flyball explain runs/a/long.jsonl --session long",
        "Possible false alarms: 1 stop to review",
        "1 file of unknown format: runs/notes.md",
        "--write-policy",
    ] {
        assert!(ran.out.contains(piece), "{piece}\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no colors without a terminal");
}

#[test]
fn commands_in_the_report_run_as_printed() {
    let folder = mixed_histories("typed");
    let ran = flyball(&folder, &["explain", "runs/a/long.jsonl", "--session", "long"], &[]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out.contains("called 6 times consecutively"), "{}", ran.out);
}

#[test]
fn recorded_histories_are_attributed_to_their_guard() {
    let folder = test_dir("fixtures");
    for entry in fs::read_dir(repo_root().join("fixtures/guards")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".decisions.") {
            fs::copy(&path, folder.join("runs").join(name)).unwrap();
        }
    }
    for guard in
        ["repetition", "cycle", "recurrence", "error_streak", "monologue", "question", "validation", "denial"]
    {
        let trips = format!("runs/{guard}.jsonl");
        let ran = flyball(&folder, &["audit", &trips, "--json"], &[]);
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(found["looped"], 1, "{guard}: {}", ran.out);
        assert_eq!(found["worst"][0]["guard"], guard);
        let quiet = format!("runs/{guard}.quiet.jsonl");
        let ran = flyball(&folder, &["audit", &quiet, "--json"], &[]);
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&found["looped"], &found["doubtful"]), (&json!(0), &json!(0)), "{guard}: {}", ran.out);
    }
}

#[test]
fn other_files_broken_files_and_links_are_ignored() {
    let folder = mixed_histories("odd");
    let runs = folder.join("runs");
    let whole = audit_json(&folder, &[]);
    symlink("..", runs.join("a/up")).unwrap();
    symlink("a/long.jsonl", runs.join("zz-again.jsonl")).unwrap();
    symlink("nowhere", runs.join("dangling")).unwrap();
    fs::write(runs.join("empty.jsonl"), "").unwrap();
    fs::write(runs.join("picture.png"), [0x89, b'P', b'N', b'G', 0, 255, 254]).unwrap();
    fs::write(runs.join("readme.md"), "# Hello\n\nNo transcript.\n").unwrap();
    let half = HistoryBuilder::new("half", 3).useful_calls(2).repeated_call("bash", 7).text();
    fs::write(runs.join("half.jsonl"), half.trim_end().strip_suffix("\"}").unwrap_or(&half)).unwrap();
    let mut bad = HistoryBuilder::new("bad", 3).repeated_call("bash", 8).text();
    bad.push_str("{\"type\":\"no.such.event\",\"session\":\"bad\"}\n");
    fs::write(runs.join("bad.jsonl"), bad).unwrap();
    let found = audit_json(&folder, &[]);
    assert_eq!(
        found["runs"],
        whole["runs"].as_u64().unwrap() + 2,
        "the link is read once; half and bad are runs"
    );
    assert_eq!(
        found["looped"],
        whole["looped"].as_u64().unwrap() + 2,
        "what was read before the bad line counts"
    );
    assert_eq!(found["files"]["foreign"], 3, "{}", found["foreign"]);
    assert_eq!(found["files"]["broken"], 1);
    assert_eq!(found["broken"][0]["place"], "runs/bad.jsonl:17");
    assert_eq!(found["broken"][0]["code"], "unknown_event");
    let names: Vec<&str> =
        found["worst"].as_array().unwrap().iter().map(|worst| worst["file"].as_str().unwrap()).collect();
    assert!(names.contains(&"runs/a/long.jsonl") && !names.contains(&"runs/zz-again.jsonl"), "{names:?}");
}

#[test]
fn missing_path_is_an_error_and_empty_folder_is_not() {
    let folder = test_dir("missing");
    let ran = flyball(&folder, &["audit", "nowhere"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error[cannot_read]: nowhere: "), "{}", ran.err);
    let ran = flyball(&folder, &["audit", "runs"], &[]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("No transcripts found.\n"), "{}", ran.out);
    assert_eq!(audit_json(&folder, &[])["runs"], 0);
    assert_eq!(flyball(&folder, &["audit"], &[]).code, 2, "wrong usage");
}

#[test]
fn report_is_the_same_with_one_thread_and_with_many() {
    let folder = test_dir("thousand");
    for at in 0..1000_u64 {
        let mut history = HistoryBuilder::new(&format!("s{at}"), at % 40);
        history.useful_calls(2 + at % 3);
        match at % 10 {
            0 => history.repeated_call("bash", 7 + at % 13),
            1 => history.repeated_call("job_status", 8).call("job_status", "again", "done"),
            _ => history.useful_calls(1),
        };
        history.save(&folder, &format!("{}/{at}.jsonl", at % 17));
    }
    let one = flyball(&folder, &["audit", "runs", "--json", "--jobs", "1"], &[]);
    let found: Value = serde_json::from_str(&one.out).unwrap();
    assert_eq!(
        (&found["runs"], &found["looped"], &found["doubtful"], &found["files"]["read"]),
        (&json!(1000), &json!(100), &json!(100), &json!(1000))
    );
    assert_eq!(found["worst"].as_array().unwrap().len(), 10);
    for jobs in ["2", "7"] {
        let many = flyball(&folder, &["audit", "runs", "--json", "--jobs", jobs], &[]);
        assert_eq!(many.out, one.out, "{jobs} threads");
    }
}

#[test]
fn policy_decides_what_counts_as_a_loop() {
    let folder = mixed_histories("policy");
    fs::write(folder.join("flyball.yaml"), "version: 1\nguards: {repetition: off, recurrence: off}\n")
        .unwrap();
    let ran = flyball(&folder, &["audit", "runs", "--json"], &[]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["looped"], 2, "a project cannot loosen the policy");
    assert!(ran.err.contains("policy_untrusted"), "{}", ran.err);
    let named = ["--policy", "flyball.yaml"];
    assert_eq!(audit_json(&folder, &named)["looped"], 0, "the policy named by the caller applies");
    let staged = ["--set", "guards.repetition.mode=staged"];
    assert_eq!(audit_json(&folder, &[named, staged].concat())["looped"], 2);
    let strict = audit_json(&folder, &[named, staged, ["--preset", "strict"]].concat());
    assert_eq!(
        (&strict["preset"], &strict["saved"]["calls"]),
        (&json!("strict"), &json!(22)),
        "two calls earlier each"
    );
    let ran = flyball(&folder, &["audit", "runs", "--set", "guards.repetiton.limit=3"], &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("policy_unknown_guard"), "{}", ran.err);
}
