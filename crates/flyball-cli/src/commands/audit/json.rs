//! The report as JSON. The keys are a promise: `docs/audit.md` explains each.

use super::report::{Report, day};
use serde_json::{Value, json};

/// The whole report.
pub(super) fn json(report: &Report<'_>) -> Value {
    let survey = report.survey;
    let named = |name: &str, line: &dyn Fn() -> Result<Value, serde_json::Error>, key: &str| {
        let mut value = line().unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert(key.to_owned(), json!(name));
        }
        value
    };
    let tools: Vec<Value> = report
        .tools()
        .into_iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "tool"))
        .collect();
    let guards: Vec<Value> = report
        .guards()
        .into_iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "guard"))
        .collect();
    let formats: Vec<Value> = survey
        .formats
        .iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "format"))
        .collect();
    let days: Vec<Value> = survey
        .days
        .iter()
        .map(|(at, line)| named(&day(*at), &|| serde_json::to_value(line), "day"))
        .collect();
    let unpriced: Vec<Value> =
        survey.unpriced.iter().map(|(model, tokens)| json!({"model": model, "tokens": tokens})).collect();
    json!({
        "version": 1,
        "preset": report.preset,
        "prices_dated": report.dated,
        "files": survey.files,
        "events": survey.events,
        "left_out": survey.left_out,
        "runs": survey.all.runs,
        "sub_agents": survey.children,
        "looped": survey.all.looped,
        "warned": survey.warned,
        "over_budget": survey.over_budget,
        "loops": survey.all.loops,
        "spent": survey.spent,
        "saved": survey.all.saved,
        "tools": tools,
        "guards": guards,
        "formats": formats,
        "days": days,
        "unpriced": unpriced,
        "worst": survey.worst(),
        "doubtful": survey.doubtful,
        "doubts": survey.doubts.list(),
        "foreign": survey.foreign,
        "broken": survey.broken,
    })
}
