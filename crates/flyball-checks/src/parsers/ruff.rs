//! `ruff check --output-format json`: one list of findings.

use super::{ParseFailure, ParserOutput, RawResults};
use crate::finding::{CheckFinding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct RuffDiagnostic {
    code: Option<String>,
    filename: Option<String>,
    location: Option<RuffLocation>,
    message: String,
    #[serde(default)]
    severity: Option<String>,
}

#[derive(Deserialize)]
struct RuffLocation {
    row: u32,
}

pub(super) fn parse_ruff(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let list: Vec<RuffDiagnostic> =
        serde_json::from_str(source.trim()).map_err(|error| ParseFailure::new(error.to_string()))?;
    let mut parsed = ParserOutput::default();
    for said in &list {
        let code = said.code.clone().unwrap_or_default();
        // A file that cannot be parsed has no rule.
        let kind = match code.as_str() {
            "" | "invalid-syntax" | "E999" => FindingKind::Build,
            _ => FindingKind::Lint,
        };
        let file = said.filename.as_deref().map(|file| raw.relative(file)).unwrap_or_default();
        let found =
            CheckFinding::new(kind, code, &said.message).at(file, said.location.as_ref().map(|at| at.row));
        let is_warning = matches!(said.severity.as_deref(), Some("warning" | "info" | "help"));
        parsed.findings.push(if is_warning { found.warning() } else { found });
    }
    parsed.text = Some(super::list_findings(&parsed.findings) + raw.stderr);
    Ok(parsed)
}
