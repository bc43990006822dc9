//! SARIF 2.1.0, the common format of static analyzers.

use super::{ParseFailure, ParserOutput, RawResults};
use crate::finding::{CheckFinding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct SarifLog {
    version: String,
    runs: Vec<SarifRun>,
}

#[derive(Deserialize)]
struct SarifRun {
    #[serde(default)]
    tool: SarifTool,
    #[serde(default)]
    results: Option<Vec<SarifResult>>,
    #[serde(default)]
    invocations: Vec<SarifInvocation>,
}

#[derive(Default, Deserialize)]
struct SarifTool {
    #[serde(default)]
    driver: SarifDriver,
}

#[derive(Default, Deserialize)]
struct SarifDriver {
    #[serde(default)]
    rules: Vec<SarifRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifRule {
    id: String,
    #[serde(default)]
    default_configuration: Option<SarifConfiguration>,
}

#[derive(Deserialize)]
struct SarifConfiguration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: Option<String>,
    rule: Option<SarifRuleRef>,
    rule_index: Option<i64>,
    level: Option<String>,
    kind: Option<String>,
    baseline_state: Option<String>,
    #[serde(default)]
    message: SarifMessage,
    #[serde(default)]
    locations: Vec<SarifLocation>,
    #[serde(default)]
    suppressions: Option<Vec<serde_json::Value>>,
}

#[derive(Deserialize)]
struct SarifRuleRef {
    id: Option<String>,
}

#[derive(Default, Deserialize)]
struct SarifMessage {
    text: Option<String>,
    markdown: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifLocation {
    physical_location: Option<SarifPhysicalLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifPhysicalLocation {
    artifact_location: Option<SarifArtifact>,
    region: Option<SarifRegion>,
}

#[derive(Deserialize)]
struct SarifArtifact {
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifRegion {
    start_line: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifInvocation {
    execution_successful: Option<bool>,
    #[serde(default)]
    tool_configuration_notifications: Vec<SarifNotification>,
    #[serde(default)]
    tool_execution_notifications: Vec<SarifNotification>,
}

#[derive(Deserialize)]
struct SarifNotification {
    level: Option<String>,
    #[serde(default)]
    message: SarifMessage,
    #[serde(default)]
    locations: Vec<SarifLocation>,
}

pub(super) fn parse_sarif(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let source = source.trim_start_matches('\u{feff}').trim();
    let log: SarifLog = serde_json::from_str(source).map_err(|error| ParseFailure::new(error.to_string()))?;
    if !log.version.starts_with("2.") {
        return Err(ParseFailure::new(format!("its version is {}, not 2.1.0", log.version)));
    }
    let mut parsed = ParserOutput::default();
    for run in &log.runs {
        let results = run.results.iter().flatten();
        parsed.findings.extend(results.filter_map(|outcome| result_finding(outcome, run, raw)));
        for invocation in &run.invocations {
            parsed.findings.extend(invocation_findings(invocation, raw));
        }
    }
    parsed.text = Some(super::list_findings(&parsed.findings) + raw.stderr);
    Ok(parsed)
}

fn result_finding(outcome: &SarifResult, run: &SarifRun, raw: &RawResults<'_>) -> Option<CheckFinding> {
    let is_fail = outcome.kind.as_deref().is_none_or(|kind| kind == "fail");
    let is_gone = outcome.baseline_state.as_deref() == Some("absent");
    let is_suppressed = outcome.suppressions.as_ref().is_some_and(|list| !list.is_empty());
    if !is_fail || is_gone || is_suppressed {
        return None;
    }
    let by_index = outcome
        .rule_index
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| run.tool.driver.rules.get(at));
    let own = outcome.rule_id.as_deref().or(outcome.rule.as_ref().and_then(|rule| rule.id.as_deref()));
    let id = own.or(by_index.map(|rule| rule.id.as_str())).unwrap_or_default();
    let rule = by_index.or_else(|| run.tool.driver.rules.iter().find(|rule| rule.id == id));
    let usual =
        rule.and_then(|rule| rule.default_configuration.as_ref()).and_then(|usual| usual.level.as_deref());
    let level = outcome.level.as_deref().or(usual).unwrap_or("warning");
    let found = CheckFinding::new(FindingKind::Lint, id, message_text(&outcome.message))
        .at_optional(first_location(&outcome.locations, raw));
    match level {
        "error" => Some(found),
        "warning" => Some(found.warning()),
        _ => None,
    }
}

fn message_text(message: &SarifMessage) -> &str {
    let said = message.text.as_deref().or(message.markdown.as_deref()).or(message.id.as_deref());
    said.unwrap_or("(the tool gave no message)")
}

fn first_location(locations: &[SarifLocation], raw: &RawResults<'_>) -> Option<(String, Option<u32>)> {
    let physical = locations.first()?.physical_location.as_ref()?;
    let uri = physical.artifact_location.as_ref()?.uri.as_deref()?;
    Some((raw.relative(uri), physical.region.as_ref().and_then(|region| region.start_line)))
}

/// The findings of a tool run that did not succeed; an empty result list then does not mean success.
fn invocation_findings(invocation: &SarifInvocation, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let notices =
        invocation.tool_configuration_notifications.iter().chain(&invocation.tool_execution_notifications);
    let errors = notices.filter(|notice| notice.level.as_deref() == Some("error"));
    let mut found: Vec<CheckFinding> = errors
        .map(|notice| {
            CheckFinding::new(FindingKind::Setup, "", message_text(&notice.message))
                .at_optional(first_location(&notice.locations, raw))
        })
        .collect();
    if found.is_empty() && invocation.execution_successful == Some(false) {
        found.push(CheckFinding::new(
            FindingKind::Setup,
            "",
            "the tool reported that it did not finish \
             successfully",
        ));
    }
    found
}
