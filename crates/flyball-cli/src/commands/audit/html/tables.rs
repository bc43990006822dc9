//! The numbers behind the charts, as tables that a screen reader and a spreadsheet can take.

use super::super::figures::{amount, grouped, money, share};
use super::super::report::{Report, day, tool_name};
use super::escape::escaped;
use crate::words::span;
use flyball_adapt::audit::{Line, Spend, ToolLine};

/// How many days have a row.
const DAYS: usize = 400;

/// A table: its caption, its columns, its rows; the first cell of a row is its name.
fn table(caption: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String =
        columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escaped(name))).collect();
    let body: String = rows
        .map(|row| {
            let cells = row.iter().enumerate().map(|(at, cell)| match at {
                0 => format!("<th scope=\"row\">{}</th>", escaped(cell)),
                _ => format!("<td>{}</td>", escaped(cell)),
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        })
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n",
        escaped(caption)
    )
}

fn folded(name: &str, table: &str) -> String {
    format!("<details class=\"more\"><summary>{}</summary>\n{table}</details>\n", escaped(name))
}

fn columns<'a>(report: &Report<'_>, first: &[&'a str]) -> Vec<&'a str> {
    let mut all = first.to_vec();
    all.push("Avoidable calls");
    if report.survey.spent.tokens > 0 {
        all.push("Tokens");
    }
    if report.priced() {
        all.push("Cost");
    }
    all.push("Time");
    all
}

fn cells(report: &Report<'_>, first: Vec<String>, spend: &Spend) -> Vec<String> {
    let mut all = first;
    all.push(grouped(spend.calls));
    if report.survey.spent.tokens > 0 {
        all.push(amount(spend.tokens));
    }
    if report.priced() {
        all.push(money(spend.cost_micro_usd));
    }
    all.push(if spend.time_ms >= 1000 { span(spend.time_ms) } else { "–".to_owned() });
    all
}

/// The tools that loops are made of.
pub(super) fn tools(report: &Report<'_>, looping: &[(&str, &ToolLine)]) -> String {
    let rows = looping.iter().map(|(name, tool)| {
        let first = vec![tool_name(name).to_owned(), grouped(tool.habit.calls), grouped(tool.loops)];
        cells(report, first, &tool.saved)
    });
    let made =
        table("Tools that loops were made of", &columns(report, &["Tool", "All calls", "Loops"]), rows);
    folded("The numbers as a table", &made)
}

/// The days.
pub(super) fn days(report: &Report<'_>) -> String {
    let all = &report.survey.days;
    let surplus = all.len().saturating_sub(DAYS);
    let rows = all.iter().skip(surplus).map(|(at, line)| {
        let first = vec![day(*at), grouped(line.runs), grouped(line.looped), grouped(line.loops)];
        cells(report, first, &line.saved)
    });
    let names = columns(report, &["Day (UTC)", "Runs", "Looped", "Loops"]);
    let caption = "Runs by the day they began, loops by the day they would have been stopped";
    folded("The numbers as a table", &table(caption, &names, rows))
}

/// By guard, and by format if there are several.
pub(super) fn breakdown(report: &Report<'_>) -> String {
    let guards = report.guards();
    if guards.is_empty() {
        return String::new();
    }
    let row = |name: &str, line: &Line| {
        let first = vec![name.to_owned(), grouped(line.looped), grouped(line.loops)];
        cells(report, first, &line.saved)
    };
    let names = columns(report, &["Guard", "Runs", "Loops"]);
    let mut text =
        table("By the guard that stops it", &names, guards.iter().map(|(name, line)| row(name, line)));
    if report.survey.formats.len() > 1 {
        let names = columns(report, &["Format", "Runs", "Looped"]);
        let rows = report.survey.formats.iter().map(|(name, line)| {
            let looped = format!("{} ({})", grouped(line.looped), share(line.looped, line.runs));
            cells(report, vec![(*name).to_owned(), grouped(line.runs), looped], &line.saved)
        });
        text.push_str(&table("By the tool that wrote the transcript", &names, rows));
    }
    format!("<section>\n<h2>What kind of loop</h2>\n{text}</section>\n")
}
