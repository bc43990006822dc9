//! `cargo … --message-format=json`: one message per line, interleaved with the output of test programs.

use super::{ParseFailure, ParserOutput, RawResults, libtest};
use crate::finding::{CheckFinding, FindingKind};
use flyball::CheckKind;
use flyball::text::strip_ansi;
use serde::Deserialize;

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    message: Option<RustcDiagnostic>,
    success: Option<bool>,
}

#[derive(Deserialize)]
struct RustcDiagnostic {
    level: String,
    message: String,
    code: Option<RustcErrorCode>,
    #[serde(default)]
    spans: Vec<RustcSpan>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct RustcErrorCode {
    code: String,
}

#[derive(Deserialize)]
struct RustcSpan {
    file_name: String,
    line_start: u32,
    is_primary: bool,
    label: Option<String>,
}

pub(super) fn parse_cargo(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let mut parsed = ParserOutput::default();
    let (mut rendered, mut printed) = (String::new(), String::new());
    let (mut messages, mut built) = (0_u32, None);
    for line in source.lines() {
        if !line.starts_with("{\"reason\":") {
            printed.push_str(line);
            printed.push('\n');
            continue;
        }
        let Ok(message) = serde_json::from_str::<CargoMessage>(line) else {
            parsed.missing = Some("a cargo message is truncated".to_owned());
            continue;
        };
        messages += 1;
        match (message.reason.as_str(), message.message) {
            ("compiler-message", Some(said)) => {
                rendered.push_str(&strip_ansi(said.rendered.as_deref().unwrap_or_default()));
                parsed.findings.extend(finding(said, raw));
            }
            ("build-finished", _) => built = message.success,
            _ => {}
        }
    }
    if messages == 0 {
        return Err(ParseFailure::new("cargo wrote no JSON message"));
    }
    if built.is_none() && parsed.missing.is_none() {
        parsed.missing = Some("cargo's last message, `build-finished`, is missing".to_owned());
    }
    parsed.partial = built != Some(true);
    if raw.kind == CheckKind::Tests && built == Some(true) && raw.results.is_none() {
        // Build warnings are irrelevant to the tests.
        parsed.findings.retain(CheckFinding::is_failure);
        libtest::parse_libtest_into(&printed, raw, &mut parsed);
        // No test program produced output, so no test is known to have run.
        parsed.tests.get_or_insert_default();
    }
    let words = RawResults { stdout: &printed, ..*raw }.human_output();
    parsed.text = Some(rendered + &words);
    Ok(parsed)
}

fn finding(said: RustcDiagnostic, raw: &RawResults<'_>) -> Option<CheckFinding> {
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
    // `mismatched types` alone is not helpful; the label below the location says what was expected.
    let label = at.and_then(|span| span.label.as_deref());
    let label = label.filter(|label| !label.is_empty() && !label.starts_with("not found in"));
    let message = label.map_or_else(|| said.message.clone(), |label| format!("{}: {label}", said.message));
    let at = at.map(|span| (raw.relative(&span.file_name), Some(span.line_start)));
    let finding = CheckFinding::new(kind, code, &message).at_optional(at);
    Some(if is_warning { finding.warning() } else { finding })
}
