//! `flyball audit`: finds loops in a folder of transcripts and what stopping them would have saved.
//!
//! `file_walk.rs` finds the files, `worker_pool.rs` reads them on all cores, `report.rs` sorts the findings, which are
//! printed to the terminal, as JSON or as an HTML page. Nothing leaves the machine.

mod file_walk;
mod html;
mod json_report;
mod policy_suggestion;
mod report;
mod terminal_report;
mod worker_pool;

use crate::args::AuditArgs;
use crate::error::{CliError, Exit};
use crate::policy_loader;
use crate::prices;
use flyball::Preset;
use flyball_integrations::audit::AuditConfig;
use report::AuditReport;
use std::io::{BufWriter, Write};

/// Runs the command. The exit code is 0 even if there are loops: they are the result, not an error.
pub(crate) fn run(args: &AuditArgs) -> Result<Exit, CliError> {
    policy_suggestion::check_output_path(args)?;
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let config = AuditConfig::new(source, prices::load_prices(args.prices.as_deref())?)
        .map_err(|error| CliError::from_core("", &error))?;
    let jobs = args.jobs.map_or_else(core_count, usize::from);
    let walked = file_walk::find_transcripts(&args.paths)?;
    let audit_summary = worker_pool::audit_files(&walked, &config, jobs);
    let report = AuditReport {
        audit_summary: &audit_summary,
        preset: config.policy().preset.as_str(),
        prices_date: config.prices().dated(),
        paths: args.paths.iter().map(|path| path.display().to_string()).collect(),
    };
    if let Some(path) = &args.html {
        crate::output_file::write_page(path, &html::render_page(&report), args.force)?;
    }
    let written = match &args.write_policy {
        Some(path) => Some(policy_suggestion::write_suggested_policy(
            path,
            (&audit_summary, &config),
            (&walked, jobs),
            args.force,
        )?),
        None => None,
    };
    let mut out = BufWriter::new(crate::terminal::stdout());
    if args.json {
        writeln!(out, "{}", json_report::report_json(&report))?;
    } else {
        terminal_report::print_report(&mut out, &report)?;
        if let Some(written) = written {
            written.print(&mut out)?;
        }
    }
    out.flush()?;
    Ok(Exit::Success)
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
