//! `cargo xtask fuzz`: builds the targets in `fuzz/` with the coverage that libFuzzer wants, on the stable toolchain,
//! and runs them.
//!
//! The flags are those that `cargo fuzz` would pass, less the tracing of single comparisons: it halves the speed, and
//! the dictionaries in `fuzz/seeds` give the words that it would find.

use crate::outside::succeeded;
use crate::run::{command, root, run as run_command, run_with, say, target};
use crate::test::Tally;
use crate::tools;
use std::path::{Path, PathBuf};

const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";

/// A target: its name, the longest input, the words that it is given.
const TARGETS: [(&str, u32, &str); 3] =
    [("event", 256, "event"), ("policy", 512, "policy"), ("governor", 160, "event")];

/// Runs of each target if nobody says otherwise.
const RUNS: u64 = 1_000_000;
/// One input may take so many seconds.
const TIMEOUT_S: u32 = 10;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (only, runs) = arguments(args)?;
    tools::need("g++", "g++")?;
    let programs = build()?;
    let mut findings = Vec::new();
    for (name, ..) in TARGETS.iter().filter(|(name, ..)| only.as_deref().is_none_or(|only| only == *name)) {
        let corpus = root().join("fuzz/corpus").join(name);
        if let Err(finding) = fuzz(&programs, name, runs, &corpus, &[]) {
            findings.push(finding);
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

/// A short run of each target, the same on every machine, that leaves nothing in the repository but findings.
pub(crate) fn smoke(runs: u64, tally: &mut Tally) {
    let programs = match build() {
        Ok(programs) => programs,
        Err(why) => return tally.step("fuzz build", Err(why)),
    };
    for (name, ..) in TARGETS {
        let corpus = target().join("fuzz/smoke").join(name);
        // What an earlier run has left would make this one different; it may also not be there.
        let _ = std::fs::remove_dir_all(&corpus);
        tally.step(&format!("fuzz {name}"), fuzz(&programs, name, runs, &corpus, &["-seed=1"]));
    }
}

fn arguments(args: &[String]) -> Result<(Option<String>, u64), String> {
    let (mut only, mut runs) = (None, RUNS);
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--target" if TARGETS.iter().any(|(known, ..)| known == value) => only = Some(value.clone()),
            "--target" => return Err(format!("there is no target '{value}': event, policy or governor")),
            "--runs" => {
                runs = value.replace('_', "").parse().map_err(|_| format!("'{value}' is not a number"))?;
            }
            other => return Err(format!("'{other}' is not known here; see `cargo xtask help`")),
        }
    }
    Ok((only, runs))
}

/// Builds all targets; returns the folder that they are in.
fn build() -> Result<PathBuf, String> {
    let host = host()?;
    let folder = target().join("fuzz");
    // A target of its own, even if it is the host: else build scripts would be instrumented too, and not link.
    let mut cargo = crate::run::cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    cargo.args(["--target", &host]).arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS);
    run_command(cargo).and_then(succeeded).map_err(|_| "the fuzz targets do not build".to_owned())?;
    Ok(folder.join(host).join("release"))
}

fn host() -> Result<String, String> {
    let out = command("rustc", &["-vV"]).output().map_err(|error| format!("cannot start rustc: {error}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it runs on".to_owned())
}

fn fuzz(programs: &Path, name: &str, runs: u64, corpus: &Path, more: &[&str]) -> Result<(), String> {
    let (_, length, words) = TARGETS.iter().find(|(known, ..)| *known == name).ok_or("no such target")?;
    let findings = root().join("fuzz/artifacts").join(name);
    for folder in [corpus, &findings] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut program = command(programs.join(name), more);
    program
        .args([format!("-runs={runs}"), format!("-max_len={length}"), format!("-timeout={TIMEOUT_S}")])
        // Without the bookkeeping of rare features, which takes longer than the work itself.
        .args(["-entropic=0", "-print_final_stats=1"])
        .arg(format!("-dict=fuzz/seeds/{words}.dict"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(corpus)
        .arg(format!("fuzz/seeds/{name}"))
        .env("RUST_BACKTRACE", "0");
    let done = run_with(program, wanted)?;
    let executed = done.output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    say(&format!("  {name}: {} executions", executed.map_or("?", str::trim)));
    let finding = done.output.lines().find(|line| line.contains("Test unit written to"));
    if done.ok {
        return Ok(());
    }
    Err(finding.map_or_else(
        || format!("{name} ended with an error and left no input"),
        |line| format!("{name}: {}", line.split("; ").last().unwrap_or(line)),
    ))
}

/// libFuzzer reports every new input; people want to see findings and the end.
fn wanted(line: &str) -> bool {
    ["panicked", "assertion", "  left", " right", "SUMMARY", "Test unit", "Base64", "Done "]
        .iter()
        .any(|word| line.contains(word))
        && !line.starts_with('#')
}
