//! The report on a terminal: the answer first, then what it is made of, then what to do.

use super::figures::{amount, bytes, grouped, money, share};
use super::report::{Report, day, ending, tool_name};
use crate::paint::{Style, paint_out};
use crate::words::{fitted, line, plural, span, table, typed};
use flyball_adapt::audit::{Loop, Spend};
use std::io::{Result, Write};

/// How many tools and days are shown; all are in the other forms.
const SHOWN: usize = 10;
/// How wide a line of evidence is.
const WIDE: usize = 110;

/// Prints the report.
pub(super) fn print(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let survey = report.survey;
    let style = if survey.all.looped > 0 { Style::Warn } else { Style::Strong };
    writeln!(out, "{}", paint_out(style, &report.answer()))?;
    writeln!(out, "{}", paint_out(Style::Dim, &made_of(report)))?;
    if survey.all.loops > 0 {
        tools(out, report)?;
        guards(out, report)?;
        formats(out, report)?;
        days(out, report)?;
        worst(out, report)?;
    }
    doubts(out, report)?;
    remarks(out, report)?;
    next(out, report)
}

/// What the answer rests on.
fn made_of(report: &Report<'_>) -> String {
    let survey = report.survey;
    let files = &survey.files;
    let spent = &survey.spent;
    let mut text = format!(
        "{} ({}), {}, {}",
        plural(files.read, "transcript"),
        bytes(files.bytes),
        plural(survey.events, "event"),
        plural(spent.calls, "call"),
    );
    if spent.tokens > 0 {
        text.push_str(&format!(", {} tokens", amount(spent.tokens)));
    }
    if report.priced() {
        text.push_str(&format!(", {}", money(spent.cost_micro_usd)));
    }
    if survey.children > 0 {
        text.push_str(&format!("; {} of sub-agents", plural(survey.children, "run")));
    }
    format!("{text}; preset {}. Nothing left this machine.", report.preset)
}

fn heading(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "\n{}", paint_out(Style::Strong, text))
}

fn rows(out: &mut dyn Write, heading: &[&str], rows: &[Vec<String>]) -> Result<()> {
    for (at, text) in table(heading, rows).into_iter().enumerate() {
        let text = if at == 0 { paint_out(Style::Dim, &text) } else { text };
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

/// The columns of what was saved.
fn saved(spend: &Spend, report: &Report<'_>) -> Vec<String> {
    let mut cells = vec![grouped(spend.calls)];
    if report.survey.spent.tokens > 0 {
        cells.push(amount(spend.tokens));
    }
    if report.priced() {
        cells.push(money(spend.cost_micro_usd));
    }
    cells.push(if spend.time_ms > 0 { span(spend.time_ms) } else { String::new() });
    cells
}

fn columns<'a>(first: &[&'a str], report: &Report<'_>) -> Vec<&'a str> {
    let mut columns = first.to_vec();
    columns.push("SAVED CALLS");
    if report.survey.spent.tokens > 0 {
        columns.push("TOKENS");
    }
    if report.priced() {
        columns.push("MONEY");
    }
    columns.push("TIME");
    columns
}

fn tools(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    heading(out, "By tool")?;
    let looping: Vec<_> = report.tools().into_iter().filter(|(_, tool)| tool.loops > 0).collect();
    let shown = looping.iter().take(SHOWN).map(|(name, tool)| {
        let mut row = vec![line(tool_name(name), 40), grouped(tool.loops), grouped(tool.habit.calls)];
        row.extend(saved(&tool.saved, report));
        row
    });
    let shown: Vec<Vec<String>> = shown.collect();
    rows(out, &columns(&["TOOL", "LOOPS", "CALLS"], report), &shown)?;
    if looping.len() > SHOWN {
        writeln!(out, "  and {} more; all with --json", looping.len() - SHOWN)?;
    }
    Ok(())
}

fn guards(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    heading(out, "By guard")?;
    let shown = report.guards().into_iter().map(|(name, guard)| {
        let mut row = vec![name.to_owned(), grouped(guard.looped), grouped(guard.loops)];
        row.extend(saved(&guard.saved, report));
        row
    });
    rows(out, &columns(&["GUARD", "RUNS", "LOOPS"], report), &shown.collect::<Vec<_>>())
}

fn formats(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    if report.survey.formats.len() < 2 {
        return Ok(());
    }
    heading(out, "By format")?;
    let shown = report.survey.formats.iter().map(|(name, format)| {
        let part = share(format.looped, format.runs);
        let mut row =
            vec![(*name).to_owned(), grouped(format.runs), format!("{} ({part})", grouped(format.looped))];
        row.extend(saved(&format.saved, report));
        row
    });
    rows(out, &columns(&["FORMAT", "RUNS", "LOOPED"], report), &shown.collect::<Vec<_>>())
}

fn days(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let all: Vec<_> =
        report.survey.days.iter().filter(|(_, line)| line.loops > 0 || line.looped > 0).collect();
    if report.survey.days.len() < 2 {
        return Ok(());
    }
    heading(out, "By day (UTC)")?;
    let last = all.len().saturating_sub(SHOWN);
    let shown = all.iter().skip(last).map(|(at, line)| {
        let mut row = vec![day(**at), grouped(line.runs), grouped(line.loops)];
        row.extend(saved(&line.saved, report));
        row
    });
    rows(out, &columns(&["DAY", "RUNS", "LOOPS"], report), &shown.collect::<Vec<_>>())?;
    if last > 0 {
        writeln!(out, "  and {} before; all with --json", plural(last as u64, "day"))?;
    }
    Ok(())
}

fn worst(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let worst = report.survey.worst();
    heading(out, if worst.len() == 1 { "The loop" } else { "The worst" })?;
    for (at, found) in worst.iter().enumerate() {
        let figures: Vec<String> = saved_words(&found.after);
        let count = paint_out(Style::Bad, &format!("{:>3}", at + 1));
        writeln!(
            out,
            "{count}  {}",
            paint_out(Style::Strong, &fitted(&line(&found.preview, 200), WIDE - 5))
        )?;
        writeln!(out, "     a stop would have saved {}", figures.join(", "))?;
        evidence(out, found)?;
    }
    Ok(())
}

fn saved_words(spend: &Spend) -> Vec<String> {
    let mut words = vec![plural(spend.calls, "call")];
    if spend.tokens > 0 {
        words.push(format!("{} tokens", amount(spend.tokens)));
    }
    if spend.cost_micro_usd > 0 {
        words.push(money(spend.cost_micro_usd));
    }
    if spend.time_ms >= 1000 {
        words.push(span(spend.time_ms));
    }
    words
}

fn evidence(out: &mut dyn Write, found: &Loop) -> Result<()> {
    let Some(stop) = &found.stop else { return Ok(()) };
    let session = line(&found.session, 60);
    writeln!(
        out,
        "     {}:{}  {} by {}, session {session}",
        found.file, stop.line, stop.decision, found.guard
    )?;
    writeln!(out, "     {}", paint_out(Style::Dim, &line(&found.message, 200)))?;
    writeln!(out, "     {}", paint_out(Style::Dim, &ending(found)))?;
    writeln!(out, "     {}", paint_out(Style::Dim, &explain(found)))
}

/// The command that shows a loop.
pub(super) fn explain(found: &Loop) -> String {
    format!("flyball explain {} --session {}", typed(&found.file), typed(&found.session))
}

fn doubts(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let survey = report.survey;
    if survey.doubtful == 0 {
        return Ok(());
    }
    let count = plural(survey.doubtful, "stop");
    heading(out, &format!("Perhaps false alarms: {count} to look at, not counted above"))?;
    for found in survey.doubts.list() {
        let Some(stop) = &found.stop else { continue };
        let shown = fitted(&line(&found.preview, 200), WIDE - 5);
        writeln!(out, "  {}  {shown}", paint_out(Style::Warn, "?"))?;
        writeln!(out, "     {}:{}  {} by {}", found.file, stop.line, stop.decision, found.guard)?;
        let why = found.doubt.as_deref().unwrap_or_default();
        writeln!(out, "     {}", paint_out(Style::Dim, why))?;
    }
    if survey.doubtful > survey.doubts.list().len() as u64 {
        writeln!(out, "  and {} more", survey.doubtful - survey.doubts.list().len() as u64)?;
    }
    Ok(())
}

/// What a reader should know of how this was counted.
fn remarks(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let survey = report.survey;
    let mut all: Vec<String> = Vec::new();
    if survey.warned > 0 {
        all.push(format!("{} would have been warned and not stopped", plural(survey.warned, "run")));
    }
    if survey.over_budget > 0 {
        all.push(format!(
            "{} would have been ended by a budget; that is no loop",
            plural(survey.over_budget, "run")
        ));
    }
    for (model, tokens) in survey.unpriced.iter().take(SHOWN) {
        let whose = if model.is_empty() { "events that name no model".to_owned() } else { line(model, 60) };
        all.push(format!("no price for {whose}: {} tokens without a cost", amount(*tokens)));
    }
    if survey.files.unfinished > 0 {
        all.push(format!(
            "{} with a half-written last line, left out",
            plural(survey.files.unfinished, "transcript")
        ));
    }
    if survey.left_out > 0 {
        all.push(format!("{} could not be counted", plural(survey.left_out, "event")));
    }
    if survey.files.foreign > 0 {
        all.push(format!(
            "{} of no known format: {}",
            plural(survey.files.foreign, "file"),
            named(survey.foreign.iter().map(String::as_str), survey.files.foreign)
        ));
    }
    for file in survey.broken.iter().take(SHOWN) {
        all.push(format!("{}: {} [{}]", file.place, line(&file.what, 120), file.code));
    }
    if survey.files.broken > survey.broken.len().min(SHOWN) as u64 {
        all.push(format!("{} in all could not be read to their end", plural(survey.files.broken, "file")));
    }
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "Besides")?;
    all.iter().try_for_each(|remark| writeln!(out, "  {remark}"))
}

/// The first few names, and how many more there are.
fn named<'a>(names: impl Iterator<Item = &'a str>, all: u64) -> String {
    let first: Vec<&str> = names.take(5).collect();
    let more = all.saturating_sub(first.len() as u64);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}

fn next(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let paths = report.paths.iter().map(|path| typed(path)).collect::<Vec<_>>().join(" ");
    writeln!(out)?;
    if report.survey.all.runs == 0 {
        return writeln!(out, "Name a folder of session files, or one transcript. Formats: docs/audit.md");
    }
    writeln!(out, "A page to show:          flyball audit {paths} --html report.html")?;
    writeln!(out, "A policy that fits:      flyball audit {paths} --write-policy flyball.yaml")?;
    if report.survey.all.looped > 0 {
        writeln!(out, "Stop it where it begins: flyball hook claude-code install")?;
    }
    Ok(())
}
