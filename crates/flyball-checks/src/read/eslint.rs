//! `eslint -f json`: files with their messages; 2 is an error, 1 a warning.

use super::{Broken, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    file_path: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    line: Option<u32>,
    #[serde(default)]
    fatal: bool,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    // A package manager may print lines of its own before the document.
    let start = source.find('[').unwrap_or(0);
    let files: Vec<File> = serde_json::from_str(source.get(start..).unwrap_or_default())
        .map_err(|error| Broken::new(error.to_string()))?;
    let mut parsed = Parsed::default();
    for file in &files {
        for said in &file.messages {
            let kind = if said.fatal { FindingKind::Build } else { FindingKind::Lint };
            let name = said.rule_id.clone().unwrap_or_default();
            let found = Finding::new(kind, name, &said.message).at(raw.relative(&file.file_path), said.line);
            parsed.findings.push(if said.severity >= 2 { found } else { found.warning() });
        }
    }
    parsed.text = Some(super::listed(&parsed.findings) + raw.stderr);
    Ok(parsed)
}
