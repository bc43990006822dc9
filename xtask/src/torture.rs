//! `cargo xtask torture`: crashes, power losses, faults, frozen workers and damaged files, and one table at the end.
//!
//! Every suite has a control: a run that is broken on purpose and must go red. `cargo xtask test` runs the short form.

use crate::outside::succeeded;
use crate::postgres::Server;
use crate::run::{cargo, command, run as run_command, run_with, say, target};
use crate::test::{PROFILE, Tally};

/// The suites of `flyball-torture`.
const SUITES: [&str; 6] = ["kill", "points", "power", "faults", "fence", "flips"];

/// What to run.
#[derive(Debug)]
struct Ask<'a> {
    profile: &'a str,
    long: bool,
    only: Option<&'a str>,
    seed: Option<&'a str>,
}

impl<'a> Ask<'a> {
    const fn of(profile: &'a str) -> Self {
        Ask { profile, long: false, only: None, seed: None }
    }

    /// For the tests everything is built together, so that nothing is built a second time with other features.
    fn build(&self) -> Result<(), String> {
        let what: &[&str] = match self.profile {
            PROFILE => &["--workspace", "--all-targets"],
            _ => &["--package", "flyball-torture"],
        };
        let mut build = cargo(&["build", "--profile", self.profile]);
        build.args(what);
        run_command(build).and_then(succeeded)
    }

    fn read(args: &'a [String]) -> Result<Self, String> {
        let mut ask = Ask::of("release");
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--long" => ask.long = true,
                "--only" => ask.only = Some(rest.next().ok_or("--only wants the name of a suite")?),
                "--seed" => ask.seed = Some(rest.next().ok_or("--seed wants a number")?),
                _ => crate::no_more(std::slice::from_ref(arg))?,
            }
        }
        match ask.only {
            Some(name) if !SUITES.contains(&name) => {
                Err(format!("there is no suite '{name}'; there are: {}", SUITES.join(" ")))
            }
            _ => Ok(ask),
        }
    }

    /// Runs one suite; its lines of the table.
    fn suite(&self, name: &str, server: Option<&Server>) -> Result<(bool, Vec<String>), String> {
        let mut torture = command(target().join(self.profile).join("flyball-torture"), &[name]);
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
    let ask = Ask::read(args)?;
    ask.build()?;
    let server = Server::start();
    let mut table = Vec::new();
    let mut red = Vec::new();
    for name in SUITES.into_iter().filter(|name| ask.only.is_none_or(|only| only == *name)) {
        let (ok, lines) = ask.suite(name, server.as_ref().ok())?;
        table.extend(lines);
        if !ok {
            red.push(name);
        }
    }
    say("");
    table.iter().for_each(|line| say(line));
    if let Err(why) = &server {
        say(&format!("skipped: everything on PostgreSQL: {why}"));
    }
    if red.is_empty() { Ok(()) } else { Err(format!("red: {}", red.join(" "))) }
}

/// The short form, one step a suite.
pub(crate) fn short(tally: &mut Tally) {
    let ask = Ask::of(PROFILE);
    if let Err(why) = ask.build() {
        return tally.step("torture", Err(why));
    }
    let server = Server::start();
    if let Err(why) = &server {
        tally.skip(format!("torture on PostgreSQL: {why}"));
    }
    for name in SUITES {
        let outcome = ask.suite(name, server.as_ref().ok()).and_then(|(ok, table)| {
            table.iter().for_each(|line| say(line));
            if ok { Ok(()) } else { Err("it is red".to_owned()) }
        });
        tally.step(&format!("torture, {name}"), outcome);
    }
}
