//! Checks outside the repository, run only where they are available: canonical streams, and recorded runs whose text
//! must not be part of the project.

use crate::command::{CommandResult, command, print_line, repo_root, run, run_with, target_dir};
use crate::test::{PROFILE, TestTally};
use std::path::Path;

/// Minimum scores on recorded runs: reached once, and not to be lost again.
const MIN_SCORES: [(&str, &str, u64); 2] = [("sweagent", "saved", 135), ("sweagent", "judged_loop_hard", 6)];
/// Sources in which every exact loop must be stopped.
const ALL_LOOPS_STOPPED_SOURCES: [&str; 2] = ["sweagent", "tau2"];

/// Turns a failed command into an error.
pub(crate) fn into_result(done: CommandResult) -> Result<(), String> {
    if done.ok { Ok(()) } else { Err("the command failed".to_owned()) }
}

/// Number of recorded runs sent through every path; normally, and with `--long`.
const RECORDED_RUNS: (&str, &str) = ("5", "200");

/// Runs the available checks; returns those skipped, with the reason.
pub(crate) fn run_external_checks(tally: &mut TestTally, long: bool) -> Vec<String> {
    let mut skipped = Vec::new();
    let beside = repo_root().join("../shared");
    let flyball = target_dir().join(PROFILE).join("flyball").to_string_lossy().into_owned();
    let streams = beside.join("streams/streams.py");
    let score = beside.join("trajectories/score.py");
    let paths = repo_root().join("xtask/paths/same.py");
    let scripts = [("streams", &streams), ("recorded runs", &score), ("every path", &paths)];
    for (name, script) in scripts {
        if !script.is_file() || !streams.is_file() {
            skipped.push(format!("{name}: not available beside this repository"));
            continue;
        }
        if let Err(why) = crate::tools::ensure_program("python3", "python3") {
            tally.add_step(name, Err(why));
            continue;
        }
        let result = match name {
            "streams" => run_streams(script, &flyball),
            "every path" => run_paths(script, &flyball, &beside, long),
            _ => run_score(script, &flyball),
        };
        tally.add_step(name, result);
    }
    skipped
}

/// Tests the server against its OpenAPI document with valid and invalid requests. `Ok(false)` if schemathesis could not
/// be installed.
pub(crate) fn check_openapi() -> Result<bool, String> {
    crate::tools::ensure_program("python3", "python3")?;
    let flyball = target_dir().join(PROFILE).join("flyball").to_string_lossy().into_owned();
    let work = target_dir().to_string_lossy().into_owned();
    let script = repo_root().join("xtask/api/conform.py");
    let status = python_command(&script, &["--flyball", &flyball, "--work", &work])
        .status()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(77) => Ok(false),
        _ => Err("schemathesis found failures".to_owned()),
    }
}

fn run_streams(script: &Path, flyball: &str) -> Result<(), String> {
    run(python_command(script, &["--flyball", flyball])).and_then(into_result)
}

/// Compares the decisions through `observe`, a hook and the proxy with those of `replay`.
fn run_paths(script: &Path, flyball: &str, beside: &Path, long: bool) -> Result<(), String> {
    let runs = if long { RECORDED_RUNS.1 } else { RECORDED_RUNS.0 };
    let beside = beside.to_string_lossy();
    run(python_command(script, &["--flyball", flyball, "--shared", &beside, "--runs", runs]))
        .and_then(into_result)
}

fn run_score(script: &Path, flyball: &str) -> Result<(), String> {
    // The table is for people; the second run is checked.
    run(python_command(script, &["--flyball", flyball])).and_then(into_result)?;
    let done = run_with(python_command(script, &["--flyball", flyball, "--json"]), |_| false)?;
    let text = done.output.clone();
    into_result(done)?;
    let wrong = score_errors(&text);
    for line in &wrong {
        print_line(&format!("  {line}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn python_command(script: &Path, args: &[&str]) -> std::process::Command {
    let mut python = command("python3", &[]);
    // The scripts' folder may be read-only, so Python must not write bytecode there.
    python.arg("-B").arg(script).args(args);
    python
}

/// The failed requirements on recorded runs.
fn score_errors(text: &str) -> Vec<String> {
    let rows: Vec<&str> = text.split('{').skip(1).collect();
    let mut wrong = Vec::new();
    if rows.is_empty() {
        wrong.push("there are no recorded runs".to_owned());
    }
    for row in &rows {
        let stopped = number_field(row, "false_hard");
        if stopped > 0 {
            wrong.push(format!("{}: {stopped} good runs stopped", text_field(row, "source")));
        }
    }
    let find = |source: &str| rows.iter().find(|row| text_field(row, "source") == source).copied();
    for source in ALL_LOOPS_STOPPED_SOURCES {
        let Some(row) = find(source) else {
            wrong.push(format!("{source}: missing"));
            continue;
        };
        let (loops, stopped) = (number_field(row, "loops"), number_field(row, "stopped"));
        if loops != stopped {
            wrong.push(format!("{source}: {stopped} of {loops} exact loops stopped"));
        }
    }
    for (source, key, least) in MIN_SCORES {
        let found = find(source).map_or(0, |row| number_field(row, key));
        if found < least {
            wrong.push(format!("{source}: {key} is {found}, it was {least}"));
        }
    }
    wrong
}

/// The text after a key in a flat JSON object, up to the next comma or the end.
fn json_field<'a>(row: &'a str, key: &str) -> Option<&'a str> {
    let name = format!("\"{key}\":");
    let at = row.find(&name)? + name.len();
    row.get(at..)?.split([',', '}']).next().map(str::trim)
}

fn text_field<'a>(row: &'a str, key: &str) -> &'a str {
    json_field(row, key).unwrap_or_default().trim_matches('"')
}

/// A count; zero if absent, because the script writes only what it counted. `3.0` is three.
fn number_field(row: &str, key: &str) -> u64 {
    let whole = json_field(row, key).and_then(|text| text.split('.').next());
    whole.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "external_checks_tests.rs"]
mod tests;
