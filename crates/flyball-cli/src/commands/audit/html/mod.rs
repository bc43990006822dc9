//! The report as one self-contained HTML page: no scripts, fonts or images from elsewhere.
//!
//! It is also well-formed XML, which lets the tests check its structure.

mod charts;
mod escape;
mod loop_section;
mod tables;

use super::report::{AuditReport, format_day, tool_name};
use crate::formatting::plural;
use crate::formatting::{
    format_amount, format_bytes, format_count, format_dollars, format_duration, format_percent, permille,
};
use charts::{ChartBar, DayColumn, bar_chart, column_chart, ring_chart};
use escape::escape_html;
use flyball_integrations::audit::{AuditSummary, LoopTotals, Spend};

const STYLE: &str = include_str!("style.css");
/// Maximum number of tools with a bar.
const MAX_TOOL_BARS: usize = 12;
/// Maximum number of days with a column.
const MAX_DAY_COLUMNS: usize = 120;
/// The logo: a flyball governor.
const LOGO_SVG: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M12 3v18M12 5 5 14M12 5l7 9M8 17h8\"/>\
    <circle cx=\"5\" cy=\"14\" r=\"2.4\"/><circle cx=\"19\" cy=\"14\" r=\"2.4\"/></svg>";

/// Renders the whole page.
pub(super) fn render_page(report: &AuditReport<'_>) -> String {
    let answer = report.headline();
    [
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
             <meta name=\"referrer\" content=\"no-referrer\"/>\n<title>Loop audit: {}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<header>\n<p class=\"brand\">{LOGO_SVG}<span>Flyball loop audit{}</span></p>\n",
            escape_html(&answer),
            escape_html(&date_range(report.audit_summary)),
        ),
        format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n<main>\n", headline(report), intro(report)),
        headline_figures(report),
        tool_section(report),
        day_section(report),
        loop_section::worst_loops(report),
        tables::breakdown_tables(report),
        loop_section::doubtful_stops(report),
        next_steps(report),
        method_notes(report),
        "</main>\n<footer>Made by <code>flyball audit</code> on the machine that holds the transcripts. \
         No data left it; this page loads nothing.</footer>\n</body>\n</html>\n"
            .to_owned(),
    ]
    .concat()
}

/// The days covered by the history.
fn date_range(survey: &AuditSummary) -> String {
    match (survey.days.keys().next(), survey.days.keys().next_back()) {
        (Some(first), Some(last)) if first == last => format!(" · {}", format_day(*first)),
        (Some(first), Some(last)) => format!(" · {} to {}", format_day(*first), format_day(*last)),
        _ => String::new(),
    }
}

/// The headline with its figure emphasized.
fn headline(report: &AuditReport<'_>) -> String {
    let AuditSummary { totals: all, .. } = report.audit_summary;
    if all.looped_runs == 0 {
        return escape_html(&report.headline());
    }
    let saved = if report.has_costs() && all.saved.cost_micro_usd > 0 {
        format_dollars(all.saved.cost_micro_usd)
    } else if all.saved.tokens > 0 {
        format!("{} tokens", format_amount(all.saved.tokens))
    } else {
        plural(all.saved.calls, "call")
    };
    format!(
        "{} of {} agent runs went in circles. Stopping them in time would have saved <b>{}</b>.",
        format_count(all.looped_runs),
        format_count(all.runs),
        escape_html(&saved),
    )
}

fn intro(report: &AuditReport<'_>) -> String {
    let survey = report.audit_summary;
    let spent = &survey.spent;
    let mut text = format!(
        "{} ({}) were read: {} tool calls",
        plural(survey.files.read, "transcript"),
        format_bytes(survey.files.bytes),
        format_count(spent.calls)
    );
    if spent.tokens > 0 {
        text.push_str(&format!(", {} tokens", format_amount(spent.tokens)));
    }
    if report.has_costs() {
        text.push_str(&format!(", {}", format_dollars(spent.cost_micro_usd)));
    }
    text.push_str(
        ". A loop is repeated work that yields nothing new; only the repeats after the point where \
                   Flyball would have stopped them are counted.",
    );
    escape_html(&text)
}

/// The headline figures.
fn headline_figures(report: &AuditReport<'_>) -> String {
    let AuditSummary { totals: all, spent, .. } = report.audit_summary;
    if all.runs == 0 {
        return String::new();
    }
    let part = permille(all.looped_runs, all.runs);
    let shown = format_percent(all.looped_runs, all.runs).replace(' ', "");
    let mut text = format!(
        "<section class=\"figures\" aria-label=\"Headline numbers\">\n<div class=\"figure share\">{}<div>\
         <div class=\"big\">{}</div><div class=\"of\">of {} looped</div></div></div>\n",
        ring_chart(part, &shown, &format!("{shown} of the runs looped")),
        format_count(all.looped_runs),
        plural(all.runs, "run"),
    );
    let mut figure = |big: String, of: String| {
        text.push_str(&format!(
            "<div class=\"figure\"><div class=\"big\">{}</div><div class=\"of\">{}</div></div>\n",
            escape_html(&big),
            escape_html(&of)
        ));
    };
    let saved = &all.saved;
    if report.has_costs() {
        let of = format_percent(saved.cost_micro_usd, spent.cost_micro_usd);
        figure(
            format_dollars(saved.cost_micro_usd),
            format!("avoidable, {of} of {}", format_dollars(spent.cost_micro_usd)),
        );
    }
    if spent.tokens > 0 {
        let of = format_percent(saved.tokens, spent.tokens);
        figure(format_amount(saved.tokens), format!("avoidable tokens, {of}"));
    }
    figure(
        format_count(saved.calls),
        format!("avoidable calls, {}", format_percent(saved.calls, spent.calls)),
    );
    if saved.time_ms >= 1000 {
        figure(
            format_duration(saved.time_ms),
            format!("of waiting, {}", format_percent(saved.time_ms, spent.time_ms)),
        );
    }
    text.push_str("</section>\n");
    text
}

/// The value shown by the bars: cost, else tokens, else calls.
fn bar_value(report: &AuditReport<'_>, spend: &Spend) -> (u64, String) {
    let saved = &report.audit_summary.totals.saved;
    if saved.cost_micro_usd > 0 {
        (spend.cost_micro_usd, format_dollars(spend.cost_micro_usd))
    } else if saved.tokens > 0 {
        (spend.tokens, format_amount(spend.tokens))
    } else {
        (spend.calls, format_count(spend.calls))
    }
}

/// The name of that value.
fn bar_unit(report: &AuditReport<'_>) -> &'static str {
    let saved = &report.audit_summary.totals.saved;
    match (saved.cost_micro_usd, saved.tokens) {
        (0, 0) => "avoidable calls",
        (0, _) => "avoidable tokens",
        _ => "avoidable cost",
    }
}

fn tool_section(report: &AuditReport<'_>) -> String {
    let looping: Vec<_> = report.tools_by_waste().into_iter().filter(|(_, tool)| tool.loops > 0).collect();
    if looping.is_empty() {
        return String::new();
    }
    let drawn: Vec<ChartBar> = looping
        .iter()
        .take(MAX_TOOL_BARS)
        .map(|(name, tool)| {
            let (value, shown) = bar_value(report, &tool.saved);
            let note = format!("{}, {}", plural(tool.saved.calls, "call"), plural(tool.loops, "loop"));
            ChartBar { name: tool_name(name).to_owned(), value, value_text: shown, note }
        })
        .collect();
    format!(
        "<section>\n<h2>Waste by tool</h2>\n<p class=\"hint\">Per tool: {}, with the number of calls and \
         loops.</p>\n{}{}</section>\n",
        bar_unit(report),
        bar_chart(&drawn),
        tables::tool_table(report, &looping),
    )
}

fn day_section(report: &AuditReport<'_>) -> String {
    let days = &report.audit_summary.days;
    let (Some(first), Some(last)) = (days.keys().next(), days.keys().next_back()) else {
        return String::new();
    };
    let begin = (*first).max(last.saturating_sub(MAX_DAY_COLUMNS as u64 - 1));
    let drawn: Vec<DayColumn> = (begin..=*last)
        .map(|at| {
            let line = days.get(&at).copied().unwrap_or_default();
            let LoopTotals { runs, looped_runs: looped, saved, .. } = line;
            let summary_text = format!(
                "{}: {}, {looped} looped, {} {}",
                format_day(at),
                plural(runs, "run"),
                bar_value(report, &saved).1,
                bar_unit(report)
            );
            DayColumn { total: runs, part: looped, tooltip: summary_text }
        })
        .collect();
    let label = format!(
        "Runs per day from {} to {}, and those that looped; the table below has the numbers",
        format_day(begin),
        format_day(*last)
    );
    let middle = if last - begin >= 4 {
        format!("<span>{}</span>", format_day(begin + (last - begin) / 2))
    } else {
        String::new()
    };
    let end = if begin < *last { format!("<span>{}</span>", format_day(*last)) } else { String::new() };
    format!(
        "<section>\n<h2>Day by day</h2>\n<p class=\"key\"><span><i></i>runs</span><span><i class=\"part\"></i>runs that \
         looped</span><span>most on one day: {}</span></p>\n{}<p class=\"axis\"><span>{}</span>{middle}{end}</p>\n{}</section>\n",
        plural(drawn.iter().map(|column| column.total).max().unwrap_or(0), "run"),
        column_chart(&drawn, &label),
        format_day(begin),
        tables::day_table(report),
    )
}

fn next_steps(report: &AuditReport<'_>) -> String {
    let paths: Vec<String> = report.paths.iter().map(|path| crate::formatting::typed(path)).collect();
    format!(
        "<section>\n<h2>Turn it on</h2>\n<p class=\"hint\">The same guards, active while the agent runs. They warn \
         first, then block, and finally halt the session until a person releases it.</p>\n\
         <pre>flyball audit {} --write-policy flyball.yaml\nflyball check flyball.yaml\n\
         flyball hook claude-code install</pre>\n</section>\n",
        escape_html(&paths.join(" "))
    )
}

/// Notes on how the numbers were counted.
fn method_notes(report: &AuditReport<'_>) -> String {
    let survey = report.audit_summary;
    let mut all: Vec<String> = vec![
        format!("Policy: preset {}. A run is one session of an agent; {} of these were sub-agents.", report.preset, survey.sub_agent_runs),
        "Only the loop itself is counted, from the first call that would have been blocked; what the agent might have \
         done instead is not estimated."
            .to_owned(),
    ];
    if report.has_costs() {
        all.push(format!(
            "Costs come from the transcripts if they contain them, otherwise from public list prices of {}.",
            report.prices_date
        ));
    }
    for (model, tokens) in survey.unpriced.iter().take(10) {
        let whose = if model.is_empty() { "events without a model" } else { model };
        all.push(format!("No price for {whose}: {} tokens have no cost.", format_amount(*tokens)));
    }
    if survey.warned_runs > 0 {
        all.push(format!("{} would have been warned but not stopped.", plural(survey.warned_runs, "run")));
    }
    if survey.over_budget_runs > 0 {
        all.push(format!(
            "{} would have been stopped by a budget, which is not a loop.",
            plural(survey.over_budget_runs, "run")
        ));
    }
    if survey.files.unknown_format > 0 {
        all.push(format!("Skipped {} of unknown format.", plural(survey.files.unknown_format, "file")));
    }
    for file in &survey.broken_files {
        all.push(format!("{}: {} [{}]", file.location, file.message, file.code));
    }
    let all: String = all.iter().map(|remark| format!("<li>{}</li>\n", escape_html(remark))).collect();
    format!("<section>\n<h2>How this was counted</h2>\n<ul class=\"plain\">\n{all}</ul>\n</section>\n")
}
