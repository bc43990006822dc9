//! `flyball audit`: the loops in a folder of transcripts, and what a stop would have saved.
//!
//! `walk.rs` finds the files, `crew.rs` looks at them with all cores, `report.rs` puts the findings in order, and they
//! are told on the terminal, as JSON, or as a page. Nothing leaves the machine.

mod crew;
mod figures;
mod html;
mod json;
mod outfile;
mod policy;
mod report;
mod terminal;
mod walk;

use crate::args::Audit;
use crate::fail::{Exit, Failure};
use crate::load;
use flyball::Preset;
use flyball_adapt::audit::Bench;
use flyball_adapt::prices::{PriceError, Prices};
use report::Report;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Runs the command. Loops are what it reports, not how it ends: the exit code is 0 also when there are some.
pub(crate) fn run(args: &Audit) -> Result<Exit, Failure> {
    policy::may_write(args)?;
    let source = load::source(&args.policy, Preset::Agent)?;
    let bench = Bench::new(source, prices(args)?).map_err(|error| Failure::at("", &error))?;
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let walked = walk::walk(&args.paths)?;
    let survey = crew::survey(&walked, &bench, jobs);
    let report = Report {
        survey: &survey,
        preset: bench.policy().preset.as_str(),
        dated: bench.prices().dated(),
        paths: args.paths.iter().map(|path| path.display().to_string()).collect(),
    };
    if let Some(path) = &args.html {
        outfile::write_page(path, &html::page(&report), args.force)?;
    }
    let written = match &args.write_policy {
        Some(path) => Some(policy::write(path, (&survey, &bench), (&walked, jobs), args.force)?),
        None => None,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.json {
        writeln!(out, "{}", json::json(&report))?;
    } else {
        terminal::print(&mut out, &report)?;
        if let Some(written) = written {
            written.print(&mut out)?;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The prices that come with the program, and the user's own over them.
fn prices(args: &Audit) -> Result<Prices, Failure> {
    let wrong = |error: PriceError| Failure::new("bad_prices", error.place, error.what, error.advice);
    let shipped = Prices::shipped().map_err(wrong)?;
    let Some(path) = args.prices.clone().or_else(own_prices) else { return Ok(shipped) };
    let text = load::read(&path)?;
    shipped.with(&text, &path.display().to_string()).map_err(wrong)
}

/// The file that `FLYBALL_PRICES` names, or the one among the user's settings, if there is one.
fn own_prices() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FLYBALL_PRICES").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let settings = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(settings.join("flyball/prices.yaml")).filter(|path| path.is_file())
}
