//! Checks that live beside the repository, run only where they are: canonical streams, and recorded runs whose text
//! must stay out of the project.

use crate::run::{Done, command, root, run, run_with, say, target};
use crate::test::{PROFILE, Tally};
use std::path::Path;

/// What recorded runs must show. The numbers were reached once and may not be lost again.
const LEAST: [(&str, &str, u64); 2] = [("sweagent", "saved", 135), ("sweagent", "judged_loop_hard", 6)];
/// Sources in which every exact loop must be stopped.
const ALL_STOPPED: [&str; 2] = ["sweagent", "tau2"];

/// A step that is over: its failure as an error.
pub(crate) fn succeeded(done: Done) -> Result<(), String> {
    if done.ok { Ok(()) } else { Err("it ended with an error".to_owned()) }
}

/// Recorded runs that are told by every path, and as many with `--long`.
const RUNS: (&str, &str) = ("5", "200");

/// Runs the checks that are there; returns what was skipped, and why.
pub(crate) fn check(tally: &mut Tally, long: bool) -> Vec<String> {
    let mut skipped = Vec::new();
    let beside = root().join("../shared");
    let flyball = target().join(PROFILE).join("flyball").to_string_lossy().into_owned();
    let streams = beside.join("streams/streams.py");
    let score = beside.join("trajectories/score.py");
    let paths = root().join("xtask/paths/same.py");
    let scripts = [("streams", &streams), ("recorded runs", &score), ("every path", &paths)];
    for (name, script) in scripts {
        if !script.is_file() || !streams.is_file() {
            skipped.push(format!("{name}: not beside this repository"));
            continue;
        }
        if let Err(why) = crate::tools::need("python3", "python3") {
            tally.step(name, Err(why));
            continue;
        }
        let result = match name {
            "streams" => run_streams(script, &flyball),
            "every path" => run_paths(script, &flyball, &beside, long),
            _ => run_score(script, &flyball),
        };
        tally.step(name, result);
    }
    skipped
}

/// Everything that the document of the server allows, and much that it does not. `Ok(false)` if what asks it could not
/// be installed.
pub(crate) fn interface() -> Result<bool, String> {
    crate::tools::need("python3", "python3")?;
    let flyball = target().join(PROFILE).join("flyball").to_string_lossy().into_owned();
    let work = target().to_string_lossy().into_owned();
    let script = root().join("xtask/api/conform.py");
    let status = python(&script, &["--flyball", &flyball, "--work", &work])
        .status()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(77) => Ok(false),
        _ => Err("schemathesis found failures".to_owned()),
    }
}

fn run_streams(script: &Path, flyball: &str) -> Result<(), String> {
    run(python(script, &["--flyball", flyball])).and_then(succeeded)
}

/// The same decisions through `observe`, a hook and the proxy as through `replay`.
fn run_paths(script: &Path, flyball: &str, beside: &Path, long: bool) -> Result<(), String> {
    let runs = if long { RUNS.1 } else { RUNS.0 };
    let beside = beside.to_string_lossy();
    run(python(script, &["--flyball", flyball, "--shared", &beside, "--runs", runs])).and_then(succeeded)
}

fn run_score(script: &Path, flyball: &str) -> Result<(), String> {
    // The table is for people; what must hold is read from the second run.
    run(python(script, &["--flyball", flyball])).and_then(succeeded)?;
    let done = run_with(python(script, &["--flyball", flyball, "--json"]), |_| false)?;
    let text = done.output.clone();
    succeeded(done)?;
    let wrong = judge(&text);
    for line in &wrong {
        say(&format!("  {line}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn python(script: &Path, args: &[&str]) -> std::process::Command {
    let mut python = command("python3", &[]);
    // The scripts' folder may be read-only, and is not ours to write to.
    python.arg("-B").arg(script).args(args);
    python
}

/// What the recorded runs show that they must not.
fn judge(text: &str) -> Vec<String> {
    let rows: Vec<&str> = text.split('{').skip(1).collect();
    let mut wrong = Vec::new();
    if rows.is_empty() {
        wrong.push("there are no recorded runs".to_owned());
    }
    for row in &rows {
        let stopped = number(row, "false_hard");
        if stopped > 0 {
            wrong.push(format!("{}: {stopped} good runs stopped", word(row, "source")));
        }
    }
    let find = |source: &str| rows.iter().find(|row| word(row, "source") == source).copied();
    for source in ALL_STOPPED {
        let Some(row) = find(source) else {
            wrong.push(format!("{source}: not there"));
            continue;
        };
        let (loops, stopped) = (number(row, "loops"), number(row, "stopped"));
        if loops != stopped {
            wrong.push(format!("{source}: {stopped} of {loops} exact loops stopped"));
        }
    }
    for (source, key, least) in LEAST {
        let found = find(source).map_or(0, |row| number(row, key));
        if found < least {
            wrong.push(format!("{source}: {key} is {found}, it was {least}"));
        }
    }
    wrong
}

/// The text after a key in one flat JSON object, up to the next comma or the end.
fn field<'a>(row: &'a str, key: &str) -> Option<&'a str> {
    let name = format!("\"{key}\":");
    let at = row.find(&name)? + name.len();
    row.get(at..)?.split([',', '}']).next().map(str::trim)
}

fn word<'a>(row: &'a str, key: &str) -> &'a str {
    field(row, key).unwrap_or_default().trim_matches('"')
}

/// A count; absent means zero, because the script writes only what it counted. `3.0` is three.
fn number(row: &str, key: &str) -> u64 {
    let whole = field(row, key).and_then(|text| text.split('.').next());
    whole.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "outside_tests.rs"]
mod tests;
