//! Crashes, power losses, faults and frozen workers: what the journal must survive. `cargo xtask torture` runs it.
//!
//! usage: flyball-torture SUITE [--long] [--seed N] [--postgres URL] [--folder DIR]
//!
//! Each suite has a negative control: a run that is broken on purpose and must go red. The other modes (`writer`,
//! `courier`, `hasty`, `worker`) are the child processes that the suites start and end.

mod audit;
mod child;
mod disk;
mod errands;
mod faults;
mod faults_server;
mod faulty;
mod fence;
mod fence_worker;
mod flips;
mod kill;
mod kit;
mod line;
mod points;
mod points_server;
mod power;
mod receiver;
mod script;
mod server;
mod trace;
mod writer;

use kit::{Ask, Fallible, Row, Words};
use std::io::Write;
use std::process::ExitCode;

type Suite = fn(&Ask) -> Fallible<Vec<Row>>;

const SUITES: [(&str, Suite); 6] = [
    ("kill", kill::run),
    ("points", points::run),
    ("power", power::run),
    ("faults", faults::run),
    ("fence", fence::run),
    ("flips", flips::run),
];

/// The seed, unless another one is given.
const SEED: u64 = 20_251_115;

fn say(line: &str) {
    // A closed pipe is no reason to stop: the exit code still tells.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mode, rest) = args.split_first().map_or(("", &[][..]), |(mode, rest)| (mode.as_str(), rest));
    let words = Words::read(rest);
    let done = match mode {
        "writer" => writer::writer(&words).map(|()| true),
        "courier" => writer::courier(&words).map(|()| true),
        "hasty" => writer::hasty(&words).map(|()| true),
        "worker" => fence_worker::worker(&words).map(|()| true),
        _ => match SUITES.iter().find(|(name, _)| *name == mode) {
            Some((name, suite)) => torture(name, *suite, rest),
            None => Err(format!(
                "usage: flyball-torture {} [--long] [--seed N] [--postgres URL] [--folder DIR]",
                SUITES.map(|(name, _)| name).join("|")
            )),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            let _ = writeln!(std::io::stderr(), "{what}");
            ExitCode::FAILURE
        }
    }
}

fn read(args: &[String]) -> Fallible<Ask> {
    let folder = std::env::temp_dir().join(format!("flyball-torture-{}", std::process::id()));
    let mut ask = Ask { seed: SEED, long: false, folder, postgres: None };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--long" => ask.long = true,
            "--seed" => ask.seed = value()?.parse().map_err(|_| "--seed wants a number".to_owned())?,
            "--postgres" => ask.postgres = Some(value()?),
            "--folder" => ask.folder = value()?.into(),
            other => return Err(format!("'{other}' is not known here")),
        }
    }
    Ok(ask)
}

/// Runs a suite and prints its part of the table. Lines that belong to the table begin with `| `.
fn torture(name: &str, suite: Suite, args: &[String]) -> Fallible<bool> {
    let ask = read(args)?;
    let long = if ask.long { " --long" } else { "" };
    say(&format!(
        "seed {}; to repeat: cargo xtask torture{long} --only {name} --seed {}",
        ask.seed, ask.seed
    ));
    kit::fresh(&ask.folder)?;
    let start = std::time::Instant::now();
    let rows = suite(&ask)?;
    let mut good = true;
    for row in &rows {
        good &= row.good();
        let verdict = match (row.control, row.wrong.is_empty()) {
            (false, true) => "green",
            (false, false) => "RED",
            (true, false) => "control: red, as it must be",
            (true, true) => "CONTROL GREEN: the suite notices nothing",
        };
        say(&format!("| {name:7}| {:58}| {:27}| {}", row.what, verdict, row.seen));
        let shown = if row.control { 1 } else { 8 };
        for what in row.wrong.iter().take(shown) {
            say(&format!("      {}", what.chars().take(240).collect::<String>()));
        }
    }
    say(&format!("{name}: {} s", start.elapsed().as_secs()));
    if good {
        let _ = std::fs::remove_dir_all(&ask.folder);
    } else {
        say(&format!("what is left is in {}", ask.folder.display()));
    }
    Ok(good)
}
