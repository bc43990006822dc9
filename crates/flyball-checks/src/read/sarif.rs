//! SARIF 2.1.0, the common format of analysers.

use super::{Broken, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct Log {
    version: String,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    tool: Tool,
    #[serde(default)]
    results: Option<Vec<Outcome>>,
    #[serde(default)]
    invocations: Vec<Invocation>,
}

#[derive(Default, Deserialize)]
struct Tool {
    #[serde(default)]
    driver: Driver,
}

#[derive(Default, Deserialize)]
struct Driver {
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    #[serde(default)]
    default_configuration: Option<Configuration>,
}

#[derive(Deserialize)]
struct Configuration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    rule_id: Option<String>,
    rule: Option<RuleRef>,
    rule_index: Option<i64>,
    level: Option<String>,
    kind: Option<String>,
    baseline_state: Option<String>,
    #[serde(default)]
    message: Message,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    suppressions: Option<Vec<serde_json::Value>>,
}

#[derive(Deserialize)]
struct RuleRef {
    id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Message {
    text: Option<String>,
    markdown: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<Physical>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Option<Artifact>,
    region: Option<Region>,
}

#[derive(Deserialize)]
struct Artifact {
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: Option<bool>,
    #[serde(default)]
    tool_configuration_notifications: Vec<Notice>,
    #[serde(default)]
    tool_execution_notifications: Vec<Notice>,
}

#[derive(Deserialize)]
struct Notice {
    level: Option<String>,
    #[serde(default)]
    message: Message,
    #[serde(default)]
    locations: Vec<Location>,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let source = source.trim_start_matches('\u{feff}').trim();
    let log: Log = serde_json::from_str(source).map_err(|error| Broken::new(error.to_string()))?;
    if !log.version.starts_with("2.") {
        return Err(Broken::new(format!("its version is {}, not 2.1.0", log.version)));
    }
    let mut parsed = Parsed::default();
    for run in &log.runs {
        let results = run.results.iter().flatten();
        parsed.findings.extend(results.filter_map(|outcome| finding(outcome, run, raw)));
        for invocation in &run.invocations {
            parsed.findings.extend(of_invocation(invocation, raw));
        }
    }
    parsed.text = Some(super::listed(&parsed.findings) + raw.stderr);
    Ok(parsed)
}

fn finding(outcome: &Outcome, run: &Run, raw: &Raw<'_>) -> Option<Finding> {
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
    let found =
        Finding::new(FindingKind::Lint, id, words(&outcome.message)).maybe_at(at(&outcome.locations, raw));
    match level {
        "error" => Some(found),
        "warning" => Some(found.warning()),
        _ => None,
    }
}

fn words(message: &Message) -> &str {
    let said = message.text.as_deref().or(message.markdown.as_deref()).or(message.id.as_deref());
    said.unwrap_or("(the tool gave no message)")
}

fn at(locations: &[Location], raw: &Raw<'_>) -> Option<(String, Option<u32>)> {
    let physical = locations.first()?.physical_location.as_ref()?;
    let uri = physical.artifact_location.as_ref()?.uri.as_deref()?;
    Some((raw.relative(uri), physical.region.as_ref().and_then(|region| region.start_line)))
}

/// A tool that could not do its work has not found nothing.
fn of_invocation(invocation: &Invocation, raw: &Raw<'_>) -> Vec<Finding> {
    let notices =
        invocation.tool_configuration_notifications.iter().chain(&invocation.tool_execution_notifications);
    let errors = notices.filter(|notice| notice.level.as_deref() == Some("error"));
    let mut found: Vec<Finding> = errors
        .map(|notice| {
            Finding::new(FindingKind::Setup, "", words(&notice.message)).maybe_at(at(&notice.locations, raw))
        })
        .collect();
    if found.is_empty() && invocation.execution_successful == Some(false) {
        found.push(Finding::new(FindingKind::Setup, "", "the tool says that it did not end well"));
    }
    found
}
