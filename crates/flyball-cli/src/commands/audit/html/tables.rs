//! The numbers behind the charts as tables for screen readers and spreadsheets.

use super::super::report::{AuditReport, format_day, tool_name};
use super::escape::escape_html;
use crate::formatting::{format_amount, format_count, format_dollars, format_duration, format_percent};
use flyball_integrations::audit::{LoopTotals, Spend, ToolTotals};

/// Maximum number of days listed.
const MAX_DAY_ROWS: usize = 400;

/// A table with a caption, columns and rows; the first cell of a row is its header.
fn table(caption: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String =
        columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape_html(name))).collect();
    let body: String = rows
        .map(|row| {
            let cells = row.iter().enumerate().map(|(at, cell)| match at {
                0 => format!("<th scope=\"row\">{}</th>", escape_html(cell)),
                _ => format!("<td>{}</td>", escape_html(cell)),
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        })
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n",
        escape_html(caption)
    )
}

fn details(name: &str, table: &str) -> String {
    format!("<details class=\"more\"><summary>{}</summary>\n{table}</details>\n", escape_html(name))
}

fn column_names<'a>(report: &AuditReport<'_>, first: &[&'a str]) -> Vec<&'a str> {
    let mut all = first.to_vec();
    all.push("Avoidable calls");
    if report.audit_summary.spent.tokens > 0 {
        all.push("Tokens");
    }
    if report.has_costs() {
        all.push("Cost");
    }
    all.push("Time");
    all
}

fn row_cells(report: &AuditReport<'_>, first: Vec<String>, spend: &Spend) -> Vec<String> {
    let mut all = first;
    all.push(format_count(spend.calls));
    if report.audit_summary.spent.tokens > 0 {
        all.push(format_amount(spend.tokens));
    }
    if report.has_costs() {
        all.push(format_dollars(spend.cost_micro_usd));
    }
    all.push(if spend.time_ms >= 1000 { format_duration(spend.time_ms) } else { "–".to_owned() });
    all
}

/// Tools found in loops.
pub(super) fn tool_table(report: &AuditReport<'_>, looping: &[(&str, &ToolTotals)]) -> String {
    let rows = looping.iter().map(|(name, tool)| {
        let first =
            vec![tool_name(name).to_owned(), format_count(tool.counts.calls), format_count(tool.loops)];
        row_cells(report, first, &tool.saved)
    });
    let made = table("Tools found in loops", &column_names(report, &["Tool", "All calls", "Loops"]), rows);
    details("Show as a table", &made)
}

/// The days with runs or loops.
pub(super) fn day_table(report: &AuditReport<'_>) -> String {
    let all = &report.audit_summary.days;
    let surplus = all.len().saturating_sub(MAX_DAY_ROWS);
    let rows = all.iter().skip(surplus).map(|(at, line)| {
        let first = vec![
            format_day(*at),
            format_count(line.runs),
            format_count(line.looped_runs),
            format_count(line.loops),
        ];
        row_cells(report, first, &line.saved)
    });
    let names = column_names(report, &["Day (UTC)", "Runs", "Looped", "Loops"]);
    let caption = "Runs by the day they began, loops by the day they would have been stopped";
    details("Show as a table", &table(caption, &names, rows))
}

/// Tables by guard and, if there are several, by format.
pub(super) fn breakdown_tables(report: &AuditReport<'_>) -> String {
    let guards = report.guards_by_savings();
    if guards.is_empty() {
        return String::new();
    }
    let row = |name: &str, line: &LoopTotals| {
        let first = vec![name.to_owned(), format_count(line.looped_runs), format_count(line.loops)];
        row_cells(report, first, &line.saved)
    };
    let names = column_names(report, &["Guard", "Runs", "Loops"]);
    let mut text = table("By guard", &names, guards.iter().map(|(name, line)| row(name, line)));
    if report.audit_summary.formats.len() > 1 {
        let names = column_names(report, &["Format", "Runs", "Looped"]);
        let rows = report.audit_summary.formats.iter().map(|(name, line)| {
            let looped = format!(
                "{} ({})",
                format_count(line.looped_runs),
                format_percent(line.looped_runs, line.runs)
            );
            row_cells(report, vec![(*name).to_owned(), format_count(line.runs), looped], &line.saved)
        });
        text.push_str(&table("By transcript format", &names, rows));
    }
    format!("<section>\n<h2>Kinds of loops</h2>\n{text}</section>\n")
}
