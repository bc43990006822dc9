//! Task runner of the project. `cargo xtask help` lists the tasks; each is one file.

mod bench;
mod bench_audit;
mod bench_costs;
mod bench_hook;
mod bench_runner;
mod bench_server;
mod bench_store;
mod bless;
mod browser;
mod command;
mod docs;
mod external_checks;
mod fuzz;
mod older_version;
mod postgres;
mod static_build;
mod test;
mod tools;
mod torture;
mod typescript;

use command::print_line;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask TASK

  test [--long]     run all checks: formatting, lints, tests, a short fuzz, external checks where available
                    --long: 100,000 random histories for the determinism tests, and an older version on the
                    same store
  static            link the command statically into target/static/release: no libraries, faster startup
  bench             count instructions per pair of events with callgrind
  bench costs [--beside PROGRAM]
                    count instructions of a hook call, an `observe --store` event and an HTTP event, and
                    compare them with another build
  bench runner      compare the runner with LangGraph (installed by pip) on the same cycle
  bench hook        compare a cold hook call with a minimal program that commits one row to the same file
  bench store       compare the store with bare SQLite and pgbench on the same disk (about five minutes)
  bench server      compare the server with a bare one and the store alone, under tenfold overload and with
                    10,000 sessions (about six minutes)
  bench audit [--mb N]
                    compare an audit of 1000 MB of sessions with a Python script that only parses each line
  fuzz [--target event|policy|governor] [--runs N]
                    fuzz one target or all three; corpora go to fuzz/corpus, findings to fuzz/artifacts
  torture [--long] [--only kill|points|power|faults|fence|flips] [--seed N]
                    test crashes, power losses, faults, frozen workers and damaged files; every suite has a
                    control that must fail; --long: 200 kill -9 cycles on each engine, a minute of 64 workers,
                    and so on
  docs              build the documentation site into target/site with MkDocs (installed by pip), check its
                    links and run its command blocks
  screenshots       take screenshots of the dashboard for docs/images with Chromium
  bless             rewrite the recorded decisions and the schemas in docs; review the diff before you commit
  help              show this text";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = args.split_first().map_or(("help", &[][..]), |(task, rest)| (task.as_str(), rest));
    let done = match task {
        "test" => test::run(rest),
        "bench" => match rest.split_first() {
            Some((what, rest)) if what == "audit" => bench_audit::run(rest),
            Some((what, rest)) if what == "costs" => bench_costs::run(rest),
            Some((what, rest)) if what == "hook" => bench_hook::run(rest),
            Some((what, rest)) if what == "store" => bench_store::run(rest),
            Some((what, rest)) if what == "runner" => bench_runner::run(rest),
            Some((what, rest)) if what == "server" => bench_server::run(rest),
            _ => bench::run(rest),
        },
        "fuzz" => fuzz::run(rest),
        "torture" => torture::run(rest),
        "static" => static_build::run(rest),
        "bless" => bless::run(rest),
        "docs" => docs::run(rest),
        "screenshots" => browser::take_screenshots(rest),
        "help" | "--help" | "-h" => {
            print_line(HELP);
            Ok(())
        }
        other => Err(format!("unknown task '{other}'\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            if !what.is_empty() {
                print_line(&format!("error: {what}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Rejects arguments that a task does not take.
fn reject_args(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!("unknown argument '{arg}'; see `cargo xtask help`")),
    }
}
