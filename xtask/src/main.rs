//! The project's task runner. `cargo xtask help` lists what it does; each task is one file.

mod bench;
mod bench_audit;
mod bench_costs;
mod bench_hook;
mod bench_journal;
mod bench_run;
mod bench_serve;
mod bless;
mod browser;
mod docs;
mod fuzz;
mod outside;
mod postgres;
mod run;
mod standalone;
mod test;
mod tools;
mod torture;
mod typescript;
mod upgrade;

use run::say;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask TASK

  test [--long]     everything that must be green: formatting, lints, tests, a short fuzz, checks beside the repository
                    --long: 100,000 random histories for the tests of determinism, and an older version on one
                    store with this one
  static            the command linked statically, in target/static/release: it needs no library and starts faster
  bench             instructions per pair of events, counted by callgrind
  bench costs [--beside PROGRAM]
                    instructions of a hook call, an `observe --store` event and an HTTP event, beside another build
  bench run         what the runner costs, beside LangGraph (installed by pip) on the same circle
  bench hook        what a cold hook call costs, beside a bare program that commits one row to the same file
  bench journal     what the journal costs, beside bare SQLite and pgbench on the same disk (about five minutes)
  bench serve       what the server costs beside a bare one and the journal alone, under ten times too much, and with
                    10,000 sessions (about six minutes)
  bench audit [--mb N]
                    what an audit of 1000 MB of sessions costs, beside a Python script that only parses each line
  fuzz [--target event|policy|governor] [--runs N]
                    fuzzes one target or all three; corpora go to fuzz/corpus, findings to fuzz/artifacts
  torture [--long] [--only kill|points|power|faults|fence|flips] [--seed N]
                    crashes, power losses, faults, frozen workers and damaged files; every suite has a control that
                    must go red; --long: 200 kill -9 cycles on each engine, a minute of 64 workers, and so on
  docs              builds the documentation site into target/site with MkDocs (installed by pip), checks its links, and
                    runs its command blocks
  screenshots       pictures of the dashboard's pages in docs/images, taken with Chromium
  bless             writes the recorded decisions and the schemas in docs anew; read the diff before you commit
  help              this text";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = args.split_first().map_or(("help", &[][..]), |(task, rest)| (task.as_str(), rest));
    let done = match task {
        "test" => test::run(rest),
        "bench" => match rest.split_first() {
            Some((what, rest)) if what == "audit" => bench_audit::run(rest),
            Some((what, rest)) if what == "costs" => bench_costs::run(rest),
            Some((what, rest)) if what == "hook" => bench_hook::run(rest),
            Some((what, rest)) if what == "journal" => bench_journal::run(rest),
            Some((what, rest)) if what == "run" => bench_run::run(rest),
            Some((what, rest)) if what == "serve" => bench_serve::run(rest),
            _ => bench::run(rest),
        },
        "fuzz" => fuzz::run(rest),
        "torture" => torture::run(rest),
        "static" => standalone::run(rest),
        "bless" => bless::run(rest),
        "docs" => docs::run(rest),
        "screenshots" => browser::pictures(rest),
        "help" | "--help" | "-h" => {
            say(HELP);
            Ok(())
        }
        other => Err(format!("there is no task '{other}'\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            if !what.is_empty() {
                say(&format!("error: {what}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Complains about arguments that a task does not take.
fn no_more(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!("'{arg}' is not known here; see `cargo xtask help`")),
    }
}
