//! The report on a terminal: the result, its breakdown, then the next steps.

use super::report::{AuditReport, format_day, loop_outcome_text, tool_name};
use crate::color::{TextStyle, style_stdout};
use crate::formatting::{
    format_amount, format_bytes, format_count, format_dollars, format_duration, format_percent, format_table,
    plural, single_line, truncate_to_width, typed,
};
use flyball_integrations::audit::{LoopFinding, Spend};
use std::io::{Result, Write};

/// Maximum number of tools and days shown; the other formats have all of them.
const MAX_ROWS: usize = 10;
/// Maximum width of an evidence line.
const MAX_EVIDENCE_WIDTH: usize = 110;

/// Prints the report.
pub(super) fn print_report(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let audit_summary = report.audit_summary;
    let style = if audit_summary.totals.looped_runs > 0 { TextStyle::Warning } else { TextStyle::Heading };
    writeln!(out, "{}", style_stdout(style, &report.headline()))?;
    writeln!(out, "{}", style_stdout(TextStyle::Dim, &basis_text(report)))?;
    if audit_summary.totals.loops > 0 {
        print_tools(out, report)?;
        print_guards(out, report)?;
        print_formats(out, report)?;
        print_days(out, report)?;
        print_worst_loops(out, report)?;
    }
    print_doubtful_stops(out, report)?;
    print_remarks(out, report)?;
    print_next_steps(out, report)
}

/// The data behind the result.
fn basis_text(report: &AuditReport<'_>) -> String {
    let audit_summary = report.audit_summary;
    let files = &audit_summary.files;
    let spent = &audit_summary.spent;
    let mut text = format!(
        "{} ({}), {}, {}",
        plural(files.read, "transcript"),
        format_bytes(files.bytes),
        plural(audit_summary.events, "event"),
        plural(spent.calls, "call"),
    );
    if spent.tokens > 0 {
        text.push_str(&format!(", {} tokens", format_amount(spent.tokens)));
    }
    if report.has_costs() {
        text.push_str(&format!(", {}", format_dollars(spent.cost_micro_usd)));
    }
    if audit_summary.sub_agent_runs > 0 {
        text.push_str(&format!("; {} by sub-agents", plural(audit_summary.sub_agent_runs, "run")));
    }
    format!("{text}; preset {}. Nothing left this machine.", report.preset)
}

fn print_heading(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, text))
}

fn print_table(out: &mut dyn Write, heading: &[&str], rows: &[Vec<String>]) -> Result<()> {
    for (at, text) in format_table(heading, rows).into_iter().enumerate() {
        let text = if at == 0 { style_stdout(TextStyle::Dim, &text) } else { text };
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

/// Columns of the savings.
fn savings_cells(spend: &Spend, report: &AuditReport<'_>) -> Vec<String> {
    let mut cells = vec![format_count(spend.calls)];
    if report.audit_summary.spent.tokens > 0 {
        cells.push(format_amount(spend.tokens));
    }
    if report.has_costs() {
        cells.push(format_dollars(spend.cost_micro_usd));
    }
    cells.push(if spend.time_ms > 0 { format_duration(spend.time_ms) } else { String::new() });
    cells
}

fn column_names<'a>(first: &[&'a str], report: &AuditReport<'_>) -> Vec<&'a str> {
    let mut columns = first.to_vec();
    columns.push("SAVED CALLS");
    if report.audit_summary.spent.tokens > 0 {
        columns.push("TOKENS");
    }
    if report.has_costs() {
        columns.push("MONEY");
    }
    columns.push("TIME");
    columns
}

fn print_tools(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    print_heading(out, "By tool")?;
    let looping: Vec<_> = report.tools_by_waste().into_iter().filter(|(_, tool)| tool.loops > 0).collect();
    let shown = looping.iter().take(MAX_ROWS).map(|(name, tool)| {
        let mut row =
            vec![single_line(tool_name(name), 40), format_count(tool.loops), format_count(tool.counts.calls)];
        row.extend(savings_cells(&tool.saved, report));
        row
    });
    let shown: Vec<Vec<String>> = shown.collect();
    print_table(out, &column_names(&["TOOL", "LOOPS", "CALLS"], report), &shown)?;
    if looping.len() > MAX_ROWS {
        writeln!(out, "  and {} more; use --json for all", looping.len() - MAX_ROWS)?;
    }
    Ok(())
}

fn print_guards(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    print_heading(out, "By guard")?;
    let shown = report.guards_by_savings().into_iter().map(|(name, guard)| {
        let mut row = vec![name.to_owned(), format_count(guard.looped_runs), format_count(guard.loops)];
        row.extend(savings_cells(&guard.saved, report));
        row
    });
    print_table(out, &column_names(&["GUARD", "RUNS", "LOOPS"], report), &shown.collect::<Vec<_>>())
}

fn print_formats(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    if report.audit_summary.formats.len() < 2 {
        return Ok(());
    }
    print_heading(out, "By format")?;
    let shown = report.audit_summary.formats.iter().map(|(name, format)| {
        let part = format_percent(format.looped_runs, format.runs);
        let mut row = vec![
            (*name).to_owned(),
            format_count(format.runs),
            format!("{} ({part})", format_count(format.looped_runs)),
        ];
        row.extend(savings_cells(&format.saved, report));
        row
    });
    print_table(out, &column_names(&["FORMAT", "RUNS", "LOOPED"], report), &shown.collect::<Vec<_>>())
}

fn print_days(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let all: Vec<_> =
        report.audit_summary.days.iter().filter(|(_, line)| line.loops > 0 || line.looped_runs > 0).collect();
    if report.audit_summary.days.len() < 2 {
        return Ok(());
    }
    print_heading(out, "By day (UTC)")?;
    let last = all.len().saturating_sub(MAX_ROWS);
    let shown = all.iter().skip(last).map(|(at, line)| {
        let mut row = vec![format_day(**at), format_count(line.runs), format_count(line.loops)];
        row.extend(savings_cells(&line.saved, report));
        row
    });
    print_table(out, &column_names(&["DAY", "RUNS", "LOOPS"], report), &shown.collect::<Vec<_>>())?;
    if last > 0 {
        writeln!(out, "  and {} before; use --json for all", plural(last as u64, "day"))?;
    }
    Ok(())
}

fn print_worst_loops(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let worst = report.audit_summary.worst_loops();
    print_heading(out, if worst.len() == 1 { "The loop" } else { "Worst loops" })?;
    for (at, found) in worst.iter().enumerate() {
        let figures: Vec<String> = savings_parts(&found.wasted);
        let count = style_stdout(TextStyle::Error, &format!("{:>3}", at + 1));
        writeln!(
            out,
            "{count}  {}",
            style_stdout(
                TextStyle::Heading,
                &truncate_to_width(&single_line(&found.preview, 200), MAX_EVIDENCE_WIDTH - 5)
            )
        )?;
        writeln!(out, "     stopping it would have saved {}", figures.join(", "))?;
        print_evidence(out, found)?;
    }
    Ok(())
}

fn savings_parts(spend: &Spend) -> Vec<String> {
    let mut words = vec![plural(spend.calls, "call")];
    if spend.tokens > 0 {
        words.push(format!("{} tokens", format_amount(spend.tokens)));
    }
    if spend.cost_micro_usd > 0 {
        words.push(format_dollars(spend.cost_micro_usd));
    }
    if spend.time_ms >= 1000 {
        words.push(format_duration(spend.time_ms));
    }
    words
}

fn print_evidence(out: &mut dyn Write, found: &LoopFinding) -> Result<()> {
    let Some(stop) = &found.stop else { return Ok(()) };
    let session = single_line(&found.session, 60);
    writeln!(
        out,
        "     {}:{}  {} by {}, session {session}",
        found.file, stop.line, stop.decision, found.guard
    )?;
    writeln!(out, "     {}", style_stdout(TextStyle::Dim, &single_line(&found.message, 200)))?;
    writeln!(out, "     {}", style_stdout(TextStyle::Dim, &loop_outcome_text(found)))?;
    writeln!(out, "     {}", style_stdout(TextStyle::Dim, &explain_command(found)))
}

/// The command that explains a loop.
pub(super) fn explain_command(found: &LoopFinding) -> String {
    format!("flyball explain {} --session {}", typed(&found.file), typed(&found.session))
}

fn print_doubtful_stops(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let audit_summary = report.audit_summary;
    if audit_summary.doubtful_count == 0 {
        return Ok(());
    }
    let count = plural(audit_summary.doubtful_count, "stop");
    print_heading(out, &format!("Possible false alarms: {count} to review, not counted above"))?;
    for found in audit_summary.top_doubtful.as_slice() {
        let Some(stop) = &found.stop else { continue };
        let shown = truncate_to_width(&single_line(&found.preview, 200), MAX_EVIDENCE_WIDTH - 5);
        writeln!(out, "  {}  {shown}", style_stdout(TextStyle::Warning, "?"))?;
        writeln!(out, "     {}:{}  {} by {}", found.file, stop.line, stop.decision, found.guard)?;
        let why = found.doubt.as_deref().unwrap_or_default();
        writeln!(out, "     {}", style_stdout(TextStyle::Dim, why))?;
    }
    if audit_summary.doubtful_count > audit_summary.top_doubtful.as_slice().len() as u64 {
        writeln!(
            out,
            "  and {} more",
            audit_summary.doubtful_count - audit_summary.top_doubtful.as_slice().len() as u64
        )?;
    }
    Ok(())
}

/// Notes on how the numbers were counted.
fn print_remarks(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let audit_summary = report.audit_summary;
    let mut all: Vec<String> = Vec::new();
    if audit_summary.warned_runs > 0 {
        all.push(format!(
            "{} would have been warned but not stopped",
            plural(audit_summary.warned_runs, "run")
        ));
    }
    if audit_summary.over_budget_runs > 0 {
        all.push(format!(
            "{} would have been stopped by a budget, which is not a loop",
            plural(audit_summary.over_budget_runs, "run")
        ));
    }
    for (model, tokens) in audit_summary.unpriced.iter().take(MAX_ROWS) {
        let whose =
            if model.is_empty() { "events without a model".to_owned() } else { single_line(model, 60) };
        all.push(format!("no price for {whose}: {} tokens without a cost", format_amount(*tokens)));
    }
    if audit_summary.files.unfinished > 0 {
        all.push(format!(
            "{} with a half-written last line, left out",
            plural(audit_summary.files.unfinished, "transcript")
        ));
    }
    if audit_summary.skipped_events > 0 {
        all.push(format!("{} could not be counted", plural(audit_summary.skipped_events, "event")));
    }
    if audit_summary.files.unknown_format > 0 {
        all.push(format!(
            "{} of unknown format: {}",
            plural(audit_summary.files.unknown_format, "file"),
            list_names(
                audit_summary.unknown_files.iter().map(String::as_str),
                audit_summary.files.unknown_format
            )
        ));
    }
    for file in audit_summary.broken_files.iter().take(MAX_ROWS) {
        all.push(format!("{}: {} [{}]", file.location, single_line(&file.message, 120), file.code));
    }
    if audit_summary.files.broken > audit_summary.broken_files.len().min(MAX_ROWS) as u64 {
        all.push(format!(
            "{} in total could not be read completely",
            plural(audit_summary.files.broken, "file")
        ));
    }
    if all.is_empty() {
        return Ok(());
    }
    print_heading(out, "Notes")?;
    all.iter().try_for_each(|remark| writeln!(out, "  {remark}"))
}

/// The first few names and the number of the others.
fn list_names<'a>(names: impl Iterator<Item = &'a str>, all: u64) -> String {
    let first: Vec<&str> = names.take(5).collect();
    let more = all.saturating_sub(first.len() as u64);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}

fn print_next_steps(out: &mut dyn Write, report: &AuditReport<'_>) -> Result<()> {
    let paths = report.paths.iter().map(|path| typed(path)).collect::<Vec<_>>().join(" ");
    writeln!(out)?;
    if report.audit_summary.totals.runs == 0 {
        return writeln!(out, "Name a folder of session files, or one transcript. Formats: docs/audit.md");
    }
    writeln!(out, "HTML report:             flyball audit {paths} --html report.html")?;
    writeln!(out, "Fitted policy:           flyball audit {paths} --write-policy flyball.yaml")?;
    if report.audit_summary.totals.looped_runs > 0 {
        writeln!(out, "Stop loops live:         flyball hook claude-code install")?;
    }
    Ok(())
}
