//! Five small programs in other languages that use only the public interfaces (`examples/stories`). Each runs against
//! the real binary and prints its transcript, and its glue has at most ten lines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests may panic, and print what they skip"
)]

#[path = "stories/glue.rs"]
mod glue;
#[path = "stories/kit.rs"]
mod kit;

use kit::{Story, TYPESCRIPT, compile, missing, root};
use std::process::Command;

#[test]
fn soni_opens_breakers_and_stops_a_circle() {
    Story::new("soni").run("python3", &["soni.py"]);
}

#[test]
fn kira_keeps_a_plan_while_bot_and_server_restart() {
    Story::new("kira").run("python3", &["play.py"]);
}

#[test]
fn shepherd_blocks_labels_and_releases_issues() {
    Story::new("shepherd").run("python3", &["shepherd.py"]);
}

#[test]
fn dex_is_bounded_and_continues_after_a_release() {
    Story::new("dex").run("node", &["dex.mjs"]);
}

#[test]
fn vuhlp_halts_loops_with_evidence() {
    let story = Story::new("vuhlp");
    if std::env::var_os(TYPESCRIPT).is_none() {
        return missing(
            "a TypeScript compiler: `cargo xtask test` installs it, or set FLYBALL_TEST_TYPESCRIPT",
        );
    }
    let program = compile(&story, "vuhlp.mts");
    story.run("node", &[&program]);
}

#[test]
fn every_story_is_tested_and_documented() {
    let folder = root().join("examples/stories");
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut found: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut tested: Vec<&str> = glue::PROGRAMS.iter().map(|(story, _)| *story).collect();
    tested.sort_unstable();
    assert_eq!(found, tested);
    for (story, program) in glue::PROGRAMS {
        assert!(page.contains(&format!("[{story}]({story}/{program})")), "README.md does not name {story}");
    }
}

/// Whether a program can be started.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}
