//! `cargo xtask test`: everything that must be green, and one honest line at the end.
//!
//! Tests are counted as their runner counts them. A step that is not a test runner counts as one; a runner that
//! fails without a failed test (it did not compile, say) counts as one failure. All steps run, whatever failed.

use crate::run::{Done, cargo, run as run_command, say, target};
use crate::{browser, docs, fuzz, outside, postgres, standalone, tools, torture, typescript, upgrade};

/// How often each fuzz target runs here: enough to see that it works and that nothing obvious breaks.
const SMOKE_RUNS: u64 = 20_000;
/// Histories of the determinism tests with `--long`.
const LONG_HISTORIES: &str = "100000";
/// The profile that everything here is built with, once.
pub(crate) const PROFILE: &str = "ci";
/// Plans that somebody tries to exchange under the hand that approves them, with `--long`.
const LONG_RACES: &str = "10000";
/// Kills of each example with `--long`.
const LONG_KILLS: &str = "50";

/// What came of all steps so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) notes: Vec<String>,
}

impl Tally {
    /// Counts a step that is not a test runner.
    pub(crate) fn step(&mut self, name: &str, done: Result<(), String>) {
        match done {
            Ok(()) => self.passed += 1,
            Err(what) => {
                self.failed += 1;
                self.notes.push(format!("failed: {name}: {what}"));
            }
        }
    }

    /// Counts what a test runner counted.
    fn tests(&mut self, name: &str, done: Result<Done, String>) {
        let Done { ok, output } = match done {
            Ok(done) => done,
            Err(what) => return self.step(name, Err(what)),
        };
        let (passed, failed) = counts(&output);
        self.passed += passed;
        self.failed += failed;
        if failed > 0 {
            self.notes.push(format!("failed: {name}: {failed} tests"));
        } else if !ok {
            self.step(name, Err("it ended with an error and named no failed test".to_owned()));
        } else if passed == 0 {
            self.step(name, Err("it ran no tests".to_owned()));
        }
    }

    pub(crate) fn skip(&mut self, what: String) {
        self.notes.push(format!("skipped: {what}"));
    }
}

fn all(long: bool) -> Tally {
    let mut tally = Tally::default();
    lints(&mut tally);
    tests(&mut tally);
    if long {
        let mut command = cargo(&["test", "--release", "--package", "flyball", "--test", "determinism"]);
        command.env("FLYBALL_HISTORIES", LONG_HISTORIES);
        tally.tests("long determinism", run_command(command));
        let mut command =
            cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "examples"]);
        command.env("FLYBALL_KILLS", LONG_KILLS);
        tally.tests("long kills", run_command(command));
        let mut command =
            cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "serve"]);
        command.args(["attacks::a_plan_that_is_exchanged"]).env("FLYBALL_RACES", LONG_RACES);
        tally.tests("long races", run_command(command));
        match upgrade::program() {
            Ok(before) => {
                let mut command =
                    cargo(&["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "cli"]);
                command.args(["upgrade::"]).env("FLYBALL_BEFORE", before);
                tally.tests("two versions on one store", run_command(command));
            }
            Err(why) => tally.skip(format!("two versions on one store: {why}")),
        }
    }
    match docs::check() {
        Ok(done) => tally.step("documentation site", done),
        Err(why) => tally.skip(format!("documentation site: {why}")),
    }
    match tools::need("g++", "g++") {
        Ok(()) => fuzz::smoke(SMOKE_RUNS, &mut tally),
        Err(why) => tally.skip(format!("fuzz smoke: {why}")),
    }
    match tools::need("cc", "gcc") {
        Ok(()) => torture::short(&mut tally),
        Err(why) => tally.skip(format!("torture: {why}")),
    }
    // With the tests, so that nothing is built a second time with other features.
    let built = run_command(cargo(&["build", "--profile", PROFILE, "--workspace", "--all-targets"]))
        .and_then(outside::succeeded);
    let usable = built.is_ok();
    tally.step("build", built);
    if usable {
        for why in outside::check(&mut tally, long) {
            tally.skip(why);
        }
        match outside::interface() {
            Ok(true) => tally.step("interface", Ok(())),
            Ok(false) => tally.skip("interface: schemathesis could not be installed".to_owned()),
            Err(why) => tally.step("interface", Err(why)),
        }
        match browser::check(&target().join(PROFILE).join("flyball")) {
            Ok(done) => tally.step("pages in a browser", done),
            Err(why) => tally.skip(format!("pages in a browser: {why}")),
        }
        // The last one: it leaves another program where cargo puts the usual one.
        tally.step("linked statically", standalone::check());
    }
    tally
}

/// Runs the task and prints its closing line.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let long = args.first().is_some_and(|arg| arg == "--long");
    crate::no_more(args.get(usize::from(long)..).unwrap_or_default())?;
    let tally = all(long);
    say("");
    for note in &tally.notes {
        say(note);
    }
    say(&format!("{} passed, {} failed", tally.passed, tally.failed));
    // The notes and the closing line have said it all.
    if tally.failed == 0 { Ok(()) } else { Err(String::new()) }
}

fn lints(tally: &mut Tally) {
    let format = tools::need_component("fmt", "rustfmt")
        .and_then(|()| run_command(cargo(&["fmt", "--all", "--check"])))
        .and_then(outside::succeeded);
    tally.step("formatting", format);
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let clippy = tools::need_component("clippy", "clippy")
        .and_then(|()| run_command(cargo(&clippy)))
        .and_then(outside::succeeded);
    tally.step("clippy", clippy);
}

fn tests(tally: &mut Tally) {
    // It lives until the tests are over.
    let server = postgres::Server::start();
    let mut workspace = match tools::find("cargo-nextest") {
        Some(_) => cargo(&["nextest", "run", "--cargo-profile", PROFILE, "--workspace", "--no-fail-fast"]),
        // Without --doc's own step it would run the documentation's examples twice.
        None => cargo(&["test", "--profile", PROFILE, "--workspace", "--all-targets", "--no-fail-fast"]),
    };
    match &server {
        Ok(server) => {
            workspace.env("FLYBALL_TEST_POSTGRES", server.url());
        }
        Err(why) => tally.skip(format!("tests against PostgreSQL: {why}")),
    }
    // With it no story is skipped: every language is there.
    match typescript::ready() {
        Ok(modules) => {
            workspace.env("FLYBALL_TEST_TYPESCRIPT", modules);
        }
        Err(why) => tally.skip(format!("stories in other languages: {why}")),
    }
    tally.tests("tests", run_command(workspace));
    tally.tests(
        "documentation",
        run_command(cargo(&["test", "--doc", "--profile", PROFILE, "--package", "flyball"])),
    );
}

/// Passed and failed tests, from the closing lines of `cargo nextest` or `cargo test`.
///
/// nextest shows the output of a failed test, which holds a closing line of its own: where nextest has summed up,
/// only its sum counts.
pub(crate) fn counts(output: &str) -> (u64, u64) {
    let of =
        |start: &str| output.lines().filter(|line| line.starts_with(start)).map(count).collect::<Vec<_>>();
    let summary = of("     Summary [");
    let lines = if summary.is_empty() { of("test result:") } else { summary };
    lines.iter().fold((0, 0), |all, line| (all.0 + line.0, all.1 + line.1))
}

fn count(line: &str) -> (u64, u64) {
    let mut all = (0, 0);
    for (number, word) in words(line).zip(words(line).skip(1)) {
        let number = number.parse::<u64>().unwrap_or(0);
        match word {
            "passed" => all.0 += number,
            "failed" | "timed" | "exec" => all.1 += number,
            _ => {}
        }
    }
    all
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', ',', ';', ':', '.']).filter(|word| !word.is_empty())
}

#[cfg(test)]
#[path = "test_tests.rs"]
mod tests_of_counting;
