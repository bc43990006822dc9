//! `eslint -f json`: files with their messages; severity 2 is an error, 1 a warning.

use super::{ParseFailure, ParserOutput, RawResults};
use crate::finding::{CheckFinding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    line: Option<u32>,
    #[serde(default)]
    fatal: bool,
}

pub(super) fn parse_eslint(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    // A package manager may print lines before the document.
    let start = source.find('[').unwrap_or(0);
    let files: Vec<EslintFile> = serde_json::from_str(source.get(start..).unwrap_or_default())
        .map_err(|error| ParseFailure::new(error.to_string()))?;
    let mut parsed = ParserOutput::default();
    for file in &files {
        for said in &file.messages {
            let kind = if said.fatal { FindingKind::Build } else { FindingKind::Lint };
            let name = said.rule_id.clone().unwrap_or_default();
            let found =
                CheckFinding::new(kind, name, &said.message).at(raw.relative(&file.file_path), said.line);
            parsed.findings.push(if said.severity >= 2 { found } else { found.warning() });
        }
    }
    parsed.text = Some(super::list_findings(&parsed.findings) + raw.stderr);
    Ok(parsed)
}
