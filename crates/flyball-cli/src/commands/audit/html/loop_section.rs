//! The worst loops, each collapsed with its evidence inside, and possible false alarms.

use super::super::report::{AuditReport, loop_outcome_text};
use super::super::terminal_report::explain_command;
use super::escape::escape_html;
use crate::formatting::{format_amount, format_dollars, format_duration, plural};
use flyball_integrations::audit::LoopFinding;

/// Maximum number of evidence lines listed.
const MAX_EVIDENCE_LINES: usize = 12;

/// The worst loops.
pub(super) fn worst_loops(report: &AuditReport<'_>) -> String {
    let worst = report.audit_summary.worst_loops();
    if worst.is_empty() {
        return String::new();
    }
    let all: String = worst.iter().enumerate().map(|(at, found)| loop_details(at + 1, found)).collect();
    let heading =
        if worst.len() == 1 { "The loop".to_owned() } else { format!("The {} worst loops", worst.len()) };
    format!(
        "<section class=\"long\">\n<h2>{heading}</h2>\n<p class=\"hint\">The savings of stopping each one. \
         Open one to see the evidence.</p>\n<div class=\"loops\">\n{all}</div>\n</section>\n"
    )
}

/// Stops to review.
pub(super) fn doubtful_stops(report: &AuditReport<'_>) -> String {
    let audit_summary = report.audit_summary;
    if audit_summary.doubtful_count == 0 {
        return String::new();
    }
    let all: String = audit_summary
        .top_doubtful
        .as_slice()
        .iter()
        .enumerate()
        .map(|(at, found)| loop_details(at + 1, found))
        .collect();
    let more =
        audit_summary.doubtful_count.saturating_sub(audit_summary.top_doubtful.as_slice().len() as u64);
    let more = if more > 0 { format!("<p class=\"hint\">and {more} more</p>\n") } else { String::new() };
    format!(
        "<section class=\"long\">\n<h2>Possible false alarms</h2>\n<p class=\"hint\">{} that may have been \
         unnecessary, with the reason. They are not included in the numbers above.</p>\n\
         <div class=\"loops\">\n{all}</div>\n{more}</section>\n",
        plural(audit_summary.doubtful_count, "stop"),
    )
}

fn loop_details(rank: usize, found: &LoopFinding) -> String {
    let Some(stop) = &found.stop else { return String::new() };
    let mut text = format!(
        "<details>\n<summary><span class=\"rank\">{rank}</span><code>{}</code><span class=\"cost\">{}</span>\
         </summary>\n<dl>\n",
        escape_html(&found.preview),
        cost_cell(found)
    );
    let mut item = |name: &str, value: String| {
        text.push_str(&format!("<dt>{name}</dt><dd>{value}</dd>\n"));
    };
    if let Some(doubt) = &found.doubt {
        item("Why doubtful", escape_html(doubt));
    }
    item("Where", format!("<code>{}</code>", escape_html(&format!("{}:{}", found.file, stop.line))));
    item("Session", format!("<code>{}</code>", escape_html(&found.session)));
    item(
        "Found",
        format!(
            "{} <span class=\"tag\">{} · {}</span>",
            escape_html(&found.message),
            stop.decision,
            escape_html(&found.guard)
        ),
    );
    item("Then", escape_html(&loop_outcome_text(found)));
    if !found.lines.is_empty() {
        let surplus = found.lines.len().saturating_sub(MAX_EVIDENCE_LINES);
        let lines: Vec<String> = found.lines.iter().skip(surplus).map(u64::to_string).collect();
        item("Lines", format!("{}{}", if surplus > 0 { "… " } else { "" }, lines.join(", ")));
    }
    item("Explain", format!("<code>{}</code>", escape_html(&explain_command(found))));
    text.push_str("</dl>\n</details>\n");
    text
}

/// The most important figure in bold, the others below it.
fn cost_cell(found: &LoopFinding) -> String {
    let after = &found.wasted;
    let mut words = Vec::new();
    if after.cost_micro_usd > 0 {
        words.push(format_dollars(after.cost_micro_usd));
    }
    words.push(plural(after.calls, "call"));
    if after.tokens > 0 {
        words.push(format!("{} tokens", format_amount(after.tokens)));
    }
    if after.time_ms >= 1000 {
        words.push(format_duration(after.time_ms));
    }
    let rest = words.split_off(1).join(" · ");
    format!("<b>{}</b><span>{rest}</span>", words.concat())
}
