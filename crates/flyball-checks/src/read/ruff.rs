//! `ruff check --output-format json`: one list of what was found.

use super::{Broken, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct Diagnostic {
    code: Option<String>,
    filename: Option<String>,
    location: Option<Location>,
    message: String,
    #[serde(default)]
    severity: Option<String>,
}

#[derive(Deserialize)]
struct Location {
    row: u32,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let list: Vec<Diagnostic> =
        serde_json::from_str(source.trim()).map_err(|error| Broken::new(error.to_string()))?;
    let mut parsed = Parsed::default();
    for said in &list {
        let code = said.code.clone().unwrap_or_default();
        // A file that cannot be parsed has no rule.
        let kind = match code.as_str() {
            "" | "invalid-syntax" | "E999" => FindingKind::Build,
            _ => FindingKind::Lint,
        };
        let file = said.filename.as_deref().map(|file| raw.relative(file)).unwrap_or_default();
        let found = Finding::new(kind, code, &said.message).at(file, said.location.as_ref().map(|at| at.row));
        let is_warning = matches!(said.severity.as_deref(), Some("warning" | "info" | "help"));
        parsed.findings.push(if is_warning { found.warning() } else { found });
    }
    parsed.text = Some(super::listed(&parsed.findings) + raw.stderr);
    Ok(parsed)
}
