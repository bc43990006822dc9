//! `cargo xtask torture`: crashes, power losses, faults, frozen workers and damaged files, with one table at the end.
//!
//! Every suite has a control: a run that is broken on purpose and must fail. `cargo xtask test` runs the short form.

use crate::command::{cargo, command, print_line, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use crate::postgres::PostgresServer;
use crate::test::{PROFILE, TestTally};

/// The suites of `flyball-torture`.
const SUITES: [&str; 6] = ["kill", "points", "power", "faults", "fence", "flips"];

/// Options of the task.
#[derive(Debug)]
struct TortureTaskOptions<'a> {
    profile: &'a str,
    long: bool,
    only: Option<&'a str>,
    seed: Option<&'a str>,
}

impl<'a> TortureTaskOptions<'a> {
    const fn with_profile(profile: &'a str) -> Self {
        TortureTaskOptions { profile, long: false, only: None, seed: None }
    }

    /// Builds the suites. For the tests everything is built together, so that nothing is rebuilt with other features.
    fn build(&self) -> Result<(), String> {
        let what: &[&str] = match self.profile {
            PROFILE => &["--workspace", "--all-targets"],
            _ => &["--package", "flyball-torture"],
        };
        let mut build = cargo(&["build", "--profile", self.profile]);
        build.args(what);
        run_command(build).and_then(into_result)
    }

    fn parse(args: &'a [String]) -> Result<Self, String> {
        let mut ask = TortureTaskOptions::with_profile("release");
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--long" => ask.long = true,
                "--only" => ask.only = Some(rest.next().ok_or("--only needs the name of a suite")?),
                "--seed" => ask.seed = Some(rest.next().ok_or("--seed needs a number")?),
                _ => crate::reject_args(std::slice::from_ref(arg))?,
            }
        }
        match ask.only {
            Some(name) if !SUITES.contains(&name) => {
                Err(format!("unknown suite '{name}'; choose one of: {}", SUITES.join(" ")))
            }
            _ => Ok(ask),
        }
    }

    /// Runs one suite; returns whether it passed and its table rows.
    fn run_suite(&self, name: &str, server: Option<&PostgresServer>) -> Result<(bool, Vec<String>), String> {
        let mut torture = command(target_dir().join(self.profile).join("flyball-torture"), &[name]);
        if self.long {
            torture.arg("--long");
        }
        if let Some(seed) = self.seed {
            torture.args(["--seed", seed]);
        }
        if let Some(server) = server {
            torture.arg("--postgres").arg(server.url());
        }
        let done = run_with(torture, |line| !line.starts_with("| "))?;
        let table = done.output.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect();
        Ok((done.ok, table))
    }
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let ask = TortureTaskOptions::parse(args)?;
    ask.build()?;
    let server = PostgresServer::start();
    let mut table = Vec::new();
    let mut red = Vec::new();
    for name in SUITES.into_iter().filter(|name| ask.only.is_none_or(|only| only == *name)) {
        let (ok, lines) = ask.run_suite(name, server.as_ref().ok())?;
        table.extend(lines);
        if !ok {
            red.push(name);
        }
    }
    print_line("");
    table.iter().for_each(|line| print_line(line));
    if let Err(why) = &server {
        print_line(&format!("skipped: everything on PostgreSQL: {why}"));
    }
    if red.is_empty() { Ok(()) } else { Err(format!("failed: {}", red.join(" "))) }
}

/// Runs the short form, one step per suite.
pub(crate) fn run_short(tally: &mut TestTally) {
    let ask = TortureTaskOptions::with_profile(PROFILE);
    if let Err(why) = ask.build() {
        return tally.add_step("torture", Err(why));
    }
    let server = PostgresServer::start();
    if let Err(why) = &server {
        tally.add_skipped(format!("torture on PostgreSQL: {why}"));
    }
    for name in SUITES {
        let outcome = ask.run_suite(name, server.as_ref().ok()).and_then(|(ok, table)| {
            table.iter().for_each(|line| print_line(line));
            if ok { Ok(()) } else { Err("the suite failed".to_owned()) }
        });
        tally.add_step(&format!("torture, {name}"), outcome);
    }
}
