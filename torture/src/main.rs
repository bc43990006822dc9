//! Torture tests of the event store: crashes, power losses, faults and frozen workers. Run by `cargo xtask torture`.
//!
//! usage: flyball-torture SUITE [--long] [--seed N] [--postgres URL] [--folder DIR]
//!
//! Each suite has a negative control: a run that is broken on purpose and must fail. The other modes (`writer`,
//! `dispatcher`, `premature`, `worker`) are child processes that the suites start and kill.

mod audit;
mod child;
mod crash_points;
mod crash_points_postgres;
mod cuttable_proxy;
mod disk_shim;
mod faults;
mod faults_postgres;
mod faulty_store;
mod fence;
mod fence_worker;
mod file_trace;
mod flips;
mod harness;
mod kill;
mod outbox;
mod postgres_server;
mod power_loss;
mod scenario;
mod webhook_receiver;
mod writer;

use harness::{ChildArgs, TortureOptions, TortureResult, TortureRow};
use std::io::Write;
use std::process::ExitCode;

type Suite = fn(&TortureOptions) -> TortureResult<Vec<TortureRow>>;

const SUITES: [(&str, Suite); 6] = [
    ("kill", kill::run),
    ("points", crash_points::run),
    ("power", power_loss::run),
    ("faults", faults::run),
    ("fence", fence::run),
    ("flips", flips::run),
];

/// Default seed.
const DEFAULT_SEED: u64 = 20_251_115;

fn print_line(line: &str) {
    // Ignore a closed pipe: the exit code still reports the result.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mode, rest) = args.split_first().map_or(("", &[][..]), |(mode, rest)| (mode.as_str(), rest));
    let child_args = ChildArgs::parse(rest);
    let done = match mode {
        "writer" => writer::run_writer(&child_args).map(|()| true),
        "dispatcher" => writer::run_dispatcher(&child_args).map(|()| true),
        "premature" => writer::run_premature_dispatcher(&child_args).map(|()| true),
        "worker" => fence_worker::run_workers(&child_args).map(|()| true),
        _ => match SUITES.iter().find(|(name, _)| *name == mode) {
            Some((name, suite)) => run_suite(name, *suite, rest),
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

fn parse_args(args: &[String]) -> TortureResult<TortureOptions> {
    let folder = std::env::temp_dir().join(format!("flyball-torture-{}", std::process::id()));
    let mut options = TortureOptions { seed: DEFAULT_SEED, long: false, folder, postgres: None };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("{arg} requires a value"));
        match arg.as_str() {
            "--long" => options.long = true,
            "--seed" => options.seed = value()?.parse().map_err(|_| "--seed requires a number".to_owned())?,
            "--postgres" => options.postgres = Some(value()?),
            "--folder" => options.folder = value()?.into(),
            other => return Err(format!("unknown argument '{other}'")),
        }
    }
    Ok(options)
}

/// Runs a suite and prints its rows of the table, which start with `| `.
fn run_suite(name: &str, suite: Suite, args: &[String]) -> TortureResult<bool> {
    let options = parse_args(args)?;
    let long = if options.long { " --long" } else { "" };
    print_line(&format!(
        "seed {}; to repeat: cargo xtask torture{long} --only {name} --seed {}",
        options.seed, options.seed
    ));
    harness::empty_dir(&options.folder)?;
    let start = std::time::Instant::now();
    let rows = suite(&options)?;
    let mut good = true;
    for row in &rows {
        good &= row.is_as_expected();
        let verdict = match (row.control, row.failures.is_empty()) {
            (false, true) => "green",
            (false, false) => "RED",
            (true, false) => "control: red, as expected",
            (true, true) => "CONTROL GREEN: no detection",
        };
        print_line(&format!("| {name:7}| {:58}| {:27}| {}", row.name, verdict, row.counts));
        let shown = if row.control { 1 } else { 8 };
        for what in row.failures.iter().take(shown) {
            print_line(&format!("      {}", what.chars().take(240).collect::<String>()));
        }
    }
    print_line(&format!("{name}: {} s", start.elapsed().as_secs()));
    if good {
        let _ = std::fs::remove_dir_all(&options.folder);
    } else {
        print_line(&format!("the files are in {}", options.folder.display()));
    }
    Ok(good)
}
