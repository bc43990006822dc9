//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.
//!
//! It is written so that an XML reader takes it as well, which is how the tests hold every piece of it to its place.

mod charts;
mod escape;
mod loops;
mod tables;

use super::figures::{amount, bytes, grouped, money, permille, share, short_time};
use super::report::{Report, day, tool_name};
use crate::words::plural;
use charts::{Bar, Column, bars, columns, ring};
use escape::escaped;
use flyball_adapt::audit::{Line, Spend, Survey};

const STYLE: &str = include_str!("style.css");
/// How many tools have a bar.
const BARS: usize = 12;
/// How many days have a column.
const COLUMNS: usize = 120;
/// The mark: two balls on their arms, swung out.
const MARK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M12 3v18M12 5 5 14M12 5l7 9M8 17h8\"/>\
    <circle cx=\"5\" cy=\"14\" r=\"2.4\"/><circle cx=\"19\" cy=\"14\" r=\"2.4\"/></svg>";

/// The whole page.
pub(super) fn page(report: &Report<'_>) -> String {
    let answer = report.answer();
    [
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
             <meta name=\"referrer\" content=\"no-referrer\"/>\n<title>Loop audit: {}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<header>\n<p class=\"brand\">{MARK}<span>Flyball loop audit{}</span></p>\n",
            escaped(&answer),
            escaped(&span_of_days(report.survey)),
        ),
        format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n<main>\n", headline(report), lead(report)),
        figures(report),
        by_tool(report),
        by_day(report),
        loops::worst(report),
        tables::breakdown(report),
        loops::doubts(report),
        switch_on(report),
        how_counted(report),
        "</main>\n<footer>Made by <code>flyball audit</code> on the machine where the transcripts are. \
         Nothing left it; this page loads nothing.</footer>\n</body>\n</html>\n"
            .to_owned(),
    ]
    .concat()
}

/// The days that the history spans.
fn span_of_days(survey: &Survey) -> String {
    match (survey.days.keys().next(), survey.days.keys().next_back()) {
        (Some(first), Some(last)) if first == last => format!(" · {}", day(*first)),
        (Some(first), Some(last)) => format!(" · {} to {}", day(*first), day(*last)),
        _ => String::new(),
    }
}

/// The answer with its number set off.
fn headline(report: &Report<'_>) -> String {
    let Survey { all, .. } = report.survey;
    if all.looped == 0 {
        return escaped(&report.answer());
    }
    let saved = if report.priced() && all.saved.cost_micro_usd > 0 {
        money(all.saved.cost_micro_usd)
    } else if all.saved.tokens > 0 {
        format!("{} tokens", amount(all.saved.tokens))
    } else {
        plural(all.saved.calls, "call")
    };
    format!(
        "{} of {} agent runs went in circles. Stopping them in time would have saved <b>{}</b>.",
        grouped(all.looped),
        grouped(all.runs),
        escaped(&saved),
    )
}

fn lead(report: &Report<'_>) -> String {
    let survey = report.survey;
    let spent = &survey.spent;
    let mut text = format!(
        "{} ({}) were read: {} tool calls",
        plural(survey.files.read, "transcript"),
        bytes(survey.files.bytes),
        grouped(spent.calls)
    );
    if spent.tokens > 0 {
        text.push_str(&format!(", {} tokens", amount(spent.tokens)));
    }
    if report.priced() {
        text.push_str(&format!(", {}", money(spent.cost_micro_usd)));
    }
    text.push_str(
        ". A loop is work that repeats and tells nothing new; only the repeats after the point where \
                   Flyball would have stopped them are counted.",
    );
    escaped(&text)
}

/// The headline numbers.
fn figures(report: &Report<'_>) -> String {
    let Survey { all, spent, .. } = report.survey;
    if all.runs == 0 {
        return String::new();
    }
    let part = permille(all.looped, all.runs);
    let shown = share(all.looped, all.runs).replace(' ', "");
    let mut text = format!(
        "<section class=\"figures\" aria-label=\"Headline numbers\">\n<div class=\"figure share\">{}<div>\
         <div class=\"big\">{}</div><div class=\"of\">of {} looped</div></div></div>\n",
        ring(part, &shown, &format!("{shown} of the runs looped")),
        grouped(all.looped),
        plural(all.runs, "run"),
    );
    let mut figure = |big: String, of: String| {
        text.push_str(&format!(
            "<div class=\"figure\"><div class=\"big\">{}</div><div class=\"of\">{}</div></div>\n",
            escaped(&big),
            escaped(&of)
        ));
    };
    let saved = &all.saved;
    if report.priced() {
        let of = share(saved.cost_micro_usd, spent.cost_micro_usd);
        figure(money(saved.cost_micro_usd), format!("avoidable, {of} of {}", money(spent.cost_micro_usd)));
    }
    if spent.tokens > 0 {
        let of = share(saved.tokens, spent.tokens);
        figure(amount(saved.tokens), format!("avoidable tokens, {of}"));
    }
    figure(grouped(saved.calls), format!("avoidable calls, {}", share(saved.calls, spent.calls)));
    if saved.time_ms >= 1000 {
        figure(short_time(saved.time_ms), format!("of waiting, {}", share(saved.time_ms, spent.time_ms)));
    }
    text.push_str("</section>\n");
    text
}

/// The figure that bars are as long as: money, else tokens, else calls.
fn measure(report: &Report<'_>, spend: &Spend) -> (u64, String) {
    let saved = &report.survey.all.saved;
    if saved.cost_micro_usd > 0 {
        (spend.cost_micro_usd, money(spend.cost_micro_usd))
    } else if saved.tokens > 0 {
        (spend.tokens, amount(spend.tokens))
    } else {
        (spend.calls, grouped(spend.calls))
    }
}

/// What that figure is.
fn measured(report: &Report<'_>) -> &'static str {
    let saved = &report.survey.all.saved;
    match (saved.cost_micro_usd, saved.tokens) {
        (0, 0) => "avoidable calls",
        (0, _) => "avoidable tokens",
        _ => "avoidable cost",
    }
}

fn by_tool(report: &Report<'_>) -> String {
    let looping: Vec<_> = report.tools().into_iter().filter(|(_, tool)| tool.loops > 0).collect();
    if looping.is_empty() {
        return String::new();
    }
    let drawn: Vec<Bar> = looping
        .iter()
        .take(BARS)
        .map(|(name, tool)| {
            let (value, shown) = measure(report, &tool.saved);
            let note = format!("{}, {}", plural(tool.saved.calls, "call"), plural(tool.loops, "loop"));
            Bar { name: tool_name(name).to_owned(), value, shown, note }
        })
        .collect();
    format!(
        "<section>\n<h2>Where it goes</h2>\n<p class=\"hint\">By tool: {}, and the calls and loops behind it.</p>\n\
         {}{}</section>\n",
        measured(report),
        bars(&drawn),
        tables::tools(report, &looping),
    )
}

fn by_day(report: &Report<'_>) -> String {
    let days = &report.survey.days;
    let (Some(first), Some(last)) = (days.keys().next(), days.keys().next_back()) else {
        return String::new();
    };
    let begin = (*first).max(last.saturating_sub(COLUMNS as u64 - 1));
    let drawn: Vec<Column> = (begin..=*last)
        .map(|at| {
            let line = days.get(&at).copied().unwrap_or_default();
            let Line { runs, looped, saved, .. } = line;
            let told = format!(
                "{}: {}, {looped} looped, {} {}",
                day(at),
                plural(runs, "run"),
                measure(report, &saved).1,
                measured(report)
            );
            Column { all: runs, part: looped, told }
        })
        .collect();
    let label = format!(
        "Runs a day from {} to {}, and those that looped; the table below has the numbers",
        day(begin),
        day(*last)
    );
    let middle = if last - begin >= 4 {
        format!("<span>{}</span>", day(begin + (last - begin) / 2))
    } else {
        String::new()
    };
    let end = if begin < *last { format!("<span>{}</span>", day(*last)) } else { String::new() };
    format!(
        "<section>\n<h2>Day by day</h2>\n<p class=\"key\"><span><i></i>runs</span><span><i class=\"part\"></i>runs that \
         looped</span><span>most on one day: {}</span></p>\n{}<p class=\"axis\"><span>{}</span>{middle}{end}</p>\n{}</section>\n",
        plural(drawn.iter().map(|column| column.all).max().unwrap_or(0), "run"),
        columns(&drawn, &label),
        day(begin),
        tables::days(report),
    )
}

fn switch_on(report: &Report<'_>) -> String {
    let paths: Vec<String> = report.paths.iter().map(|path| crate::words::typed(path)).collect();
    format!(
        "<section>\n<h2>Switch it on</h2>\n<p class=\"hint\">The same guards, at work while the agent runs. They start \
         by warning; what goes on is blocked, and at last halted until a person lets it go on.</p>\n\
         <pre>flyball audit {} --write-policy flyball.yaml\nflyball check flyball.yaml\n\
         flyball hook claude-code install</pre>\n</section>\n",
        escaped(&paths.join(" "))
    )
}

/// What a reader should know of how this was counted.
fn how_counted(report: &Report<'_>) -> String {
    let survey = report.survey;
    let mut all: Vec<String> = vec![
        format!("Policy: preset {}. A run is one session of an agent; {} of these were sub-agents.", report.preset, survey.children),
        "Counted is the loop itself, from the first call that would have been refused: what the agent might have done \
         instead is not guessed at."
            .to_owned(),
    ];
    if report.priced() {
        all.push(format!(
            "Costs come from the transcripts where they name them, else from public list prices of {}.",
            report.dated
        ));
    }
    for (model, tokens) in survey.unpriced.iter().take(10) {
        let whose = if model.is_empty() { "events that name no model" } else { model };
        all.push(format!("No price for {whose}: {} tokens are without a cost.", amount(*tokens)));
    }
    if survey.warned > 0 {
        all.push(format!("{} would have been warned and not stopped.", plural(survey.warned, "run")));
    }
    if survey.over_budget > 0 {
        all.push(format!(
            "{} would have been ended by a budget, which is no loop.",
            plural(survey.over_budget, "run")
        ));
    }
    if survey.files.foreign > 0 {
        all.push(format!("{} of no known format were passed by.", plural(survey.files.foreign, "file")));
    }
    for file in &survey.broken {
        all.push(format!("{}: {} [{}]", file.place, file.what, file.code));
    }
    let all: String = all.iter().map(|remark| format!("<li>{}</li>\n", escaped(remark))).collect();
    format!("<section>\n<h2>How this was counted</h2>\n<ul class=\"plain\">\n{all}</ul>\n</section>\n")
}
