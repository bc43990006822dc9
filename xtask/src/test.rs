//! `cargo xtask test`: runs all checks and prints one summary line at the end.
//!
//! Tests are counted as their runner counts them. A step that is not a test runner counts as one test; a runner that
//! fails without a failed test (a compile error, for example) counts as one failure. All steps run, even after a
//! failure.

use crate::command::{CommandResult, cargo, print_line, run as run_command, target_dir};
use crate::{
    browser, docs, external_checks, fuzz, older_version, postgres, static_build, tools, torture, typescript,
};

/// Runs of each fuzz target: enough to see that it works and that nothing obvious breaks.
const SMOKE_RUNS: u64 = 20_000;
/// Number of histories in the determinism tests with `--long`.
const LONG_HISTORIES: &str = "100000";
/// The profile for all builds here, so that everything is built once.
pub(crate) const PROFILE: &str = "ci";
/// Number of races between replacing and approving a plan, with `--long`.
const LONG_RACES: &str = "10000";
/// Kills of each example with `--long`.
const LONG_KILLS: &str = "50";

/// Results of all steps so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestTally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) notes: Vec<String>,
}

impl TestTally {
    /// Counts a step that is not a test runner.
    pub(crate) fn add_step(&mut self, name: &str, done: Result<(), String>) {
        match done {
            Ok(()) => self.passed += 1,
            Err(what) => {
                self.failed += 1;
                self.notes.push(format!("failed: {name}: {what}"));
            }
        }
    }

    /// Counts what a test runner counted.
    fn add_test_run(&mut self, name: &str, done: Result<CommandResult, String>) {
        let CommandResult { ok, output } = match done {
            Ok(done) => done,
            Err(what) => return self.add_step(name, Err(what)),
        };
        let (passed, failed) = count_results(&output);
        self.passed += passed;
        self.failed += failed;
        if failed > 0 {
            self.notes.push(format!("failed: {name}: {failed} tests"));
        } else if !ok {
            self.add_step(name, Err("it failed without naming a failed test".to_owned()));
        } else if passed == 0 {
            self.add_step(name, Err("no tests ran".to_owned()));
        }
    }

    pub(crate) fn add_skipped(&mut self, what: String) {
        self.notes.push(format!("skipped: {what}"));
    }
}

fn run_all(long: bool) -> TestTally {
    let mut tally = TestTally::default();
    run_lints(&mut tally);
    run_tests(&mut tally);
    if long {
        let mut command = cargo(&["test", "--release", "--package", "flyball", "--test", "determinism"]);
        command.env("FLYBALL_HISTORIES", LONG_HISTORIES);
        tally.add_test_run("long determinism", run_command(command));
        let mut command =
            cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "examples"]);
        command.env("FLYBALL_KILLS", LONG_KILLS);
        tally.add_test_run("long kills", run_command(command));
        let mut command =
            cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "serve"]);
        command.args(["attacks::a_plan_that_is_exchanged"]).env("FLYBALL_RACES", LONG_RACES);
        tally.add_test_run("long races", run_command(command));
        match older_version::build_older_version() {
            Ok(before) => {
                let mut command =
                    cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "cli"]);
                command.args(["upgrade::"]).env("FLYBALL_OLDER_PROGRAM", before);
                tally.add_test_run("two versions on one store", run_command(command));
            }
            Err(why) => tally.add_skipped(format!("two versions on one store: {why}")),
        }
    }
    match docs::check() {
        Ok(done) => tally.add_step("documentation site", done),
        Err(why) => tally.add_skipped(format!("documentation site: {why}")),
    }
    match tools::ensure_program("g++", "g++") {
        Ok(()) => fuzz::smoke(SMOKE_RUNS, &mut tally),
        Err(why) => tally.add_skipped(format!("fuzz smoke: {why}")),
    }
    match tools::ensure_program("cc", "gcc") {
        Ok(()) => torture::run_short(&mut tally),
        Err(why) => tally.add_skipped(format!("torture: {why}")),
    }
    // Built together with the tests, so that nothing is rebuilt with other features.
    let built = run_command(cargo(&["build", "--profile", PROFILE, "--workspace", "--all-targets"]))
        .and_then(external_checks::into_result);
    let usable = built.is_ok();
    tally.add_step("build", built);
    if usable {
        for why in external_checks::run_external_checks(&mut tally, long) {
            tally.add_skipped(why);
        }
        match external_checks::check_openapi() {
            Ok(true) => tally.add_step("interface", Ok(())),
            Ok(false) => tally.add_skipped("interface: schemathesis could not be installed".to_owned()),
            Err(why) => tally.add_step("interface", Err(why)),
        }
        match browser::check_pages(&target_dir().join(PROFILE).join("flyball")) {
            Ok(done) => tally.add_step("pages in a browser", done),
            Err(why) => tally.add_skipped(format!("pages in a browser: {why}")),
        }
        // Last, because it overwrites the program in cargo's usual place.
        tally.add_step("linked statically", static_build::check());
    }
    tally
}

/// Runs the task and prints the summary.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let long = args.first().is_some_and(|arg| arg == "--long");
    crate::reject_args(args.get(usize::from(long)..).unwrap_or_default())?;
    let tally = run_all(long);
    print_line("");
    for note in &tally.notes {
        print_line(note);
    }
    print_line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    // The notes and the summary contain all details.
    if tally.failed == 0 { Ok(()) } else { Err(String::new()) }
}

fn run_lints(tally: &mut TestTally) {
    let format = tools::ensure_component("fmt", "rustfmt")
        .and_then(|()| run_command(cargo(&["fmt", "--all", "--check"])))
        .and_then(external_checks::into_result);
    tally.add_step("formatting", format);
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let clippy = tools::ensure_component("clippy", "clippy")
        .and_then(|()| run_command(cargo(&clippy)))
        .and_then(external_checks::into_result);
    tally.add_step("clippy", clippy);
}

fn run_tests(tally: &mut TestTally) {
    // Kept alive until the tests are over.
    let server = postgres::PostgresServer::start();
    let mut workspace = match tools::find_program("cargo-nextest") {
        Some(_) => cargo(&["nextest", "run", "--cargo-profile", PROFILE, "--workspace", "--no-fail-fast"]),
        // `--all-targets` excludes doc tests, which have their own step.
        None => cargo(&["test", "--profile", PROFILE, "--workspace", "--all-targets", "--no-fail-fast"]),
    };
    match &server {
        Ok(server) => {
            workspace.env("FLYBALL_TEST_POSTGRES", server.url());
        }
        Err(why) => tally.add_skipped(format!("tests against PostgreSQL: {why}")),
    }
    // With the compiler no story is skipped.
    match typescript::ready() {
        Ok(modules) => {
            workspace.env("FLYBALL_TEST_TYPESCRIPT", modules);
        }
        Err(why) => tally.add_skipped(format!("stories in other languages: {why}")),
    }
    tally.add_test_run("tests", run_command(workspace));
    tally.add_test_run(
        "documentation",
        run_command(cargo(&["test", "--doc", "--profile", PROFILE, "--package", "flyball"])),
    );
}

/// Passed and failed tests, from the closing lines of `cargo nextest` or `cargo test`.
///
/// nextest prints the output of failed tests, which may contain summary lines too: if nextest printed a summary, only
/// that counts.
pub(crate) fn count_results(output: &str) -> (u64, u64) {
    let of = |start: &str| {
        output.lines().filter(|line| line.starts_with(start)).map(count_line).collect::<Vec<_>>()
    };
    let summary = of("     Summary [");
    let lines = if summary.is_empty() { of("test result:") } else { summary };
    lines.iter().fold((0, 0), |all, line| (all.0 + line.0, all.1 + line.1))
}

fn count_line(line: &str) -> (u64, u64) {
    let mut all = (0, 0);
    for (number, word) in split_words(line).zip(split_words(line).skip(1)) {
        let number = number.parse::<u64>().unwrap_or(0);
        match word {
            "passed" => all.0 += number,
            "failed" | "timed" | "exec" => all.1 += number,
            _ => {}
        }
    }
    all
}

fn split_words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', ',', ';', ':', '.']).filter(|word| !word.is_empty())
}

#[cfg(test)]
#[path = "counting_tests.rs"]
mod counting_tests;
