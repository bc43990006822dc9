//! The example pages show real output: every example has a page, and each command on it prints the lines shown below
//! it, in order.

use crate::example_cases::ALL;
use crate::example_harness::{ExampleDir, repo_root};
use std::path::PathBuf;

/// A run on a page: its arguments, and the lines shown for it.
struct DocumentedRun {
    page: PathBuf,
    args: Vec<String>,
    lines: Vec<String>,
}

/// The pages of all examples.
fn pages() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(repo_root().join("examples")).expect("the examples");
    let mut pages: Vec<PathBuf> =
        folders.map(|folder| folder.expect("a folder").path().join("README.md")).collect();
    pages.sort();
    pages
}

/// The runs on a page, each with the text block that follows it.
fn documented_runs(page: &PathBuf) -> Vec<DocumentedRun> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
    let mut found: Vec<DocumentedRun> = Vec::new();
    let (mut inside, mut fresh) = (None, false);
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            inside = (inside.is_none()).then(|| kind.to_owned());
            continue;
        }
        match inside.as_deref() {
            Some("sh") => {
                let args =
                    line.strip_prefix("cargo run --release -- ").filter(|args| args.starts_with("run "));
                fresh = args.is_some();
                if let Some(args) = args {
                    let args = args.split(' ').map(str::to_owned).collect();
                    found.push(DocumentedRun { page: page.clone(), args, lines: Vec::new() });
                }
            }
            Some("text") if fresh => {
                let last = found.last_mut().expect("a run");
                last.lines.push(line.to_owned());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_example_has_a_page_with_every_run() {
    let all: Vec<String> =
        pages().iter().flat_map(documented_runs).map(|shown| shown.args[1].clone()).collect();
    for case in ALL.iter().filter(|case| !["booking", "tasks"].contains(&case.name)) {
        assert!(
            all.contains(&format!("examples/{}", case.file)),
            "no page shows `run examples/{}`",
            case.file
        );
    }
    for page in pages() {
        let lines = std::fs::read_to_string(&page).unwrap().lines().count();
        assert!(lines <= 100, "{} has {lines} lines, too long for a page", page.display());
    }
}

#[test]
fn pages_show_the_actual_output() {
    for (number, shown) in pages().iter().flat_map(documented_runs).enumerate() {
        let dir = ExampleDir::new(&format!("pages-{number}"));
        let mut args = shown.args.clone();
        args[1] = repo_root().join(&args[1]).display().to_string();
        let ran = dir.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut lines = ran.out.lines();
        for wanted in &shown.lines {
            let there = lines.any(|line| line.starts_with(wanted.as_str()));
            assert!(
                there,
                "{}: '{wanted}' is not in the output of {args:?}:\n{}",
                shown.page.display(),
                ran.out
            );
        }
        assert!(!shown.lines.is_empty(), "{}: {args:?} shows nothing", shown.page.display());
        let _ = std::fs::remove_dir_all(&dir.folder);
    }
}
