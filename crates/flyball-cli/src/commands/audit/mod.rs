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
use crate::prices;
use flyball::Preset;
use flyball_adapt::audit::Bench;
use report::Report;
use std::io::{BufWriter, Write};

/// Runs the command. Loops are what it reports, not how it ends: the exit code is 0 also when there are some.
pub(crate) fn run(args: &Audit) -> Result<Exit, Failure> {
    policy::may_write(args)?;
    let source = load::source(&args.policy, Preset::Agent)?;
    let bench = Bench::new(source, prices::known(args.prices.as_deref())?)
        .map_err(|error| Failure::at("", &error))?;
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
    let mut out = BufWriter::new(crate::terminal::stdout());
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
