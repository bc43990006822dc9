//! The worst loops, each folded up with its evidence inside, and the stops that may have been false alarms.

use super::super::figures::{amount, money};
use super::super::report::{Report, ending};
use super::super::terminal::explain;
use super::escape::escaped;
use crate::words::{plural, span};
use flyball_adapt::audit::Loop;

/// How many lines of evidence are listed.
const LINES: usize = 12;

/// The worst loops.
pub(super) fn worst(report: &Report<'_>) -> String {
    let worst = report.survey.worst();
    if worst.is_empty() {
        return String::new();
    }
    let all: String = worst.iter().enumerate().map(|(at, found)| folded(at + 1, found)).collect();
    let heading =
        if worst.len() == 1 { "The loop".to_owned() } else { format!("The {} worst loops", worst.len()) };
    format!(
        "<section class=\"long\">\n<h2>{heading}</h2>\n<p class=\"hint\">What a stop would have saved in each. \
         Open one to see the evidence.</p>\n<div class=\"loops\">\n{all}</div>\n</section>\n"
    )
}

/// Stops to look at.
pub(super) fn doubts(report: &Report<'_>) -> String {
    let survey = report.survey;
    if survey.doubtful == 0 {
        return String::new();
    }
    let all: String =
        survey.doubts.list().iter().enumerate().map(|(at, found)| folded(at + 1, found)).collect();
    let more = survey.doubtful.saturating_sub(survey.doubts.list().len() as u64);
    let more = if more > 0 { format!("<p class=\"hint\">and {more} more</p>\n") } else { String::new() };
    format!(
        "<section class=\"long\">\n<h2>Perhaps false alarms</h2>\n<p class=\"hint\">{} that may have been \
         unnecessary, with the reason. They are counted in none of the numbers above.</p>\n\
         <div class=\"loops\">\n{all}</div>\n{more}</section>\n",
        plural(survey.doubtful, "stop"),
    )
}

fn folded(rank: usize, found: &Loop) -> String {
    let Some(stop) = &found.stop else { return String::new() };
    let mut text = format!(
        "<details>\n<summary><span class=\"rank\">{rank}</span><code>{}</code><span class=\"cost\">{}</span>\
         </summary>\n<dl>\n",
        escaped(&found.preview),
        cost(found)
    );
    let mut item = |name: &str, value: String| {
        text.push_str(&format!("<dt>{name}</dt><dd>{value}</dd>\n"));
    };
    if let Some(doubt) = &found.doubt {
        item("Why doubtful", escaped(doubt));
    }
    item("Where", format!("<code>{}</code>", escaped(&format!("{}:{}", found.file, stop.line))));
    item("Session", format!("<code>{}</code>", escaped(&found.session)));
    item(
        "Found",
        format!(
            "{} <span class=\"tag\">{} · {}</span>",
            escaped(&found.message),
            stop.decision,
            escaped(&found.guard)
        ),
    );
    item("Then", escaped(&ending(found)));
    if !found.lines.is_empty() {
        let surplus = found.lines.len().saturating_sub(LINES);
        let lines: Vec<String> = found.lines.iter().skip(surplus).map(u64::to_string).collect();
        item("Lines", format!("{}{}", if surplus > 0 { "… " } else { "" }, lines.join(", ")));
    }
    item("Look", format!("<code>{}</code>", escaped(&explain(found))));
    text.push_str("</dl>\n</details>\n");
    text
}

/// The gravest figure in bold, the others below it.
fn cost(found: &Loop) -> String {
    let after = &found.after;
    let mut words = Vec::new();
    if after.cost_micro_usd > 0 {
        words.push(money(after.cost_micro_usd));
    }
    words.push(plural(after.calls, "call"));
    if after.tokens > 0 {
        words.push(format!("{} tokens", amount(after.tokens)));
    }
    if after.time_ms >= 1000 {
        words.push(span(after.time_ms));
    }
    let rest = words.split_off(1).join(" · ");
    format!("<b>{}</b><span>{rest}</span>", words.concat())
}
