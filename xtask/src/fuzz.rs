//! `cargo xtask fuzz`: builds the targets in `fuzz/` with libFuzzer's coverage on the stable toolchain, and runs them.
//!
//! The flags are those of `cargo fuzz`, without the tracing of comparisons: it halves the speed, and the dictionaries
//! in `fuzz/seeds` contain the words it would find.

use crate::command::{command, print_line, repo_root, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use crate::test::TestTally;
use crate::tools;
use std::path::{Path, PathBuf};

const RUSTC_FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";

/// The targets: name, maximum input length, dictionary.
const TARGETS: [(&str, u32, &str); 3] =
    [("event", 256, "event"), ("policy", 512, "policy"), ("governor", 160, "event")];

/// Default number of runs per target.
const DEFAULT_RUNS: u64 = 1_000_000;
/// Timeout per input, in seconds.
const TIMEOUT_S: u32 = 10;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (only, runs) = parse_args(args)?;
    tools::ensure_program("g++", "g++")?;
    let programs = build()?;
    let mut findings = Vec::new();
    for (name, ..) in TARGETS.iter().filter(|(name, ..)| only.as_deref().is_none_or(|only| only == *name)) {
        let corpus = repo_root().join("fuzz/corpus").join(name);
        if let Err(finding) = run_target(&programs, name, runs, &corpus, &[]) {
            findings.push(finding);
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

/// A short, reproducible run of each target that leaves only findings in the repository.
pub(crate) fn smoke(runs: u64, tally: &mut TestTally) {
    let programs = match build() {
        Ok(programs) => programs,
        Err(why) => return tally.add_step("fuzz build", Err(why)),
    };
    for (name, ..) in TARGETS {
        let corpus = target_dir().join("fuzz/smoke").join(name);
        // Remove the corpus of an earlier run, which would make this one different.
        let _ = std::fs::remove_dir_all(&corpus);
        tally.add_step(&format!("fuzz {name}"), run_target(&programs, name, runs, &corpus, &["-seed=1"]));
    }
}

fn parse_args(args: &[String]) -> Result<(Option<String>, u64), String> {
    let (mut only, mut runs) = (None, DEFAULT_RUNS);
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--target" if TARGETS.iter().any(|(known, ..)| known == value) => only = Some(value.clone()),
            "--target" => return Err(format!("unknown target '{value}'; choose event, policy or governor")),
            "--runs" => {
                runs = value.replace('_', "").parse().map_err(|_| format!("'{value}' is not a number"))?;
            }
            other => return Err(format!("unknown argument '{other}'; see `cargo xtask help`")),
        }
    }
    Ok((only, runs))
}

/// Builds all targets; returns their folder.
fn build() -> Result<PathBuf, String> {
    let host = host_triple()?;
    let folder = target_dir().join("fuzz");
    // An explicit target, even if it is the host: otherwise build scripts would be instrumented too, and not link.
    let mut cargo = crate::command::cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    cargo.args(["--target", &host]).arg("--target-dir").arg(&folder).env("RUSTFLAGS", RUSTC_FLAGS);
    run_command(cargo).and_then(into_result).map_err(|_| "the fuzz targets do not build".to_owned())?;
    Ok(folder.join(host).join("release"))
}

fn host_triple() -> Result<String, String> {
    let out = command("rustc", &["-vV"]).output().map_err(|error| format!("cannot start rustc: {error}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not report its host".to_owned())
}

fn run_target(programs: &Path, name: &str, runs: u64, corpus: &Path, more: &[&str]) -> Result<(), String> {
    let (_, length, words) = TARGETS.iter().find(|(known, ..)| *known == name).ok_or("no such target")?;
    let findings = repo_root().join("fuzz/artifacts").join(name);
    for folder in [corpus, &findings] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut program = command(programs.join(name), more);
    program
        .args([format!("-runs={runs}"), format!("-max_len={length}"), format!("-timeout={TIMEOUT_S}")])
        // Entropic scheduling takes longer than the tested code.
        .args(["-entropic=0", "-print_final_stats=1"])
        .arg(format!("-dict=fuzz/seeds/{words}.dict"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(corpus)
        .arg(format!("fuzz/seeds/{name}"))
        .env("RUST_BACKTRACE", "0");
    let done = run_with(program, is_finding_or_summary)?;
    let executed = done.output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    print_line(&format!("  {name}: {} executions", executed.map_or("?", str::trim)));
    let finding = done.output.lines().find(|line| line.contains("Test unit written to"));
    if done.ok {
        return Ok(());
    }
    Err(finding.map_or_else(
        || format!("{name} failed without writing an input"),
        |line| format!("{name}: {}", line.split("; ").last().unwrap_or(line)),
    ))
}

/// Whether a line is a finding or the summary; libFuzzer also reports every new input.
fn is_finding_or_summary(line: &str) -> bool {
    ["panicked", "assertion", "  left", " right", "SUMMARY", "Test unit", "Base64", "Done "]
        .iter()
        .any(|word| line.contains(word))
        && !line.starts_with('#')
}
