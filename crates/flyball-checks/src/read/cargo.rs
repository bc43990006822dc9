//! `cargo … --message-format=json`: one message a line, and between them the text of the test programs.

use super::{Broken, Parsed, Raw, libtest};
use crate::finding::{Finding, FindingKind};
use flyball::CheckKind;
use flyball::text::without_codes;
use serde::Deserialize;

#[derive(Deserialize)]
struct Message {
    reason: String,
    message: Option<Diagnostic>,
    success: Option<bool>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    is_primary: bool,
    label: Option<String>,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let mut parsed = Parsed::default();
    let (mut rendered, mut printed) = (String::new(), String::new());
    let (mut messages, mut built) = (0_u32, None);
    for line in source.lines() {
        if !line.starts_with("{\"reason\":") {
            printed.push_str(line);
            printed.push('\n');
            continue;
        }
        let Ok(message) = serde_json::from_str::<Message>(line) else {
            parsed.missing = Some("a message of cargo is cut off".to_owned());
            continue;
        };
        messages += 1;
        match (message.reason.as_str(), message.message) {
            ("compiler-message", Some(said)) => {
                rendered.push_str(&without_codes(said.rendered.as_deref().unwrap_or_default()));
                parsed.findings.extend(finding(said, raw));
            }
            ("build-finished", _) => built = message.success,
            _ => {}
        }
    }
    if messages == 0 {
        return Err(Broken::new("cargo wrote no message"));
    }
    if built.is_none() && parsed.missing.is_none() {
        parsed.missing = Some("cargo's last message, `build-finished`, is missing".to_owned());
    }
    parsed.partial = built != Some(true);
    if raw.kind == CheckKind::Tests && built == Some(true) && raw.results.is_none() {
        // Warnings of the build are no business of the tests.
        parsed.findings.retain(Finding::is_failure);
        libtest::read_into(&printed, raw, &mut parsed);
        // No test program said a word: nothing was tested as far as anybody can see.
        parsed.tests.get_or_insert_default();
    }
    let words = Raw { stdout: &printed, ..*raw }.words();
    parsed.text = Some(rendered + &words);
    Ok(parsed)
}

fn finding(said: Diagnostic, raw: &Raw<'_>) -> Option<Finding> {
    let is_summary =
        said.message.starts_with("aborting due to") || said.message.ends_with(" warning emitted");
    let is_warning = said.level == "warning";
    if is_summary
        || !is_warning && !said.level.starts_with("error")
        || said.message.ends_with("warnings emitted")
    {
        return None;
    }
    let code = said.code.map(|code| code.code).unwrap_or_default();
    let of_compiler =
        code.starts_with('E') && code.get(1..).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let is_lint = !code.is_empty() && !of_compiler;
    let kind = if is_lint && raw.kind == CheckKind::Lint { FindingKind::Lint } else { FindingKind::Build };
    let at = said.spans.iter().find(|span| span.is_primary).or(said.spans.first());
    // `mismatched types` alone helps nobody; what was expected stands below the place.
    let label = at.and_then(|span| span.label.as_deref());
    let label = label.filter(|label| !label.is_empty() && !label.starts_with("not found in"));
    let message = label.map_or_else(|| said.message.clone(), |label| format!("{}: {label}", said.message));
    let at = at.map(|span| (raw.relative(&span.file_name), Some(span.line_start)));
    let finding = Finding::new(kind, code, &message).maybe_at(at);
    Some(if is_warning { finding.warning() } else { finding })
}
