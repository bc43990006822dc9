//! The report as JSON. The keys are stable and documented in `docs/audit.md`.

use super::report::{AuditReport, format_day};
use serde_json::{Value, json};

/// The whole report.
pub(super) fn report_json(report: &AuditReport<'_>) -> Value {
    let audit_summary = report.audit_summary;
    let named = |name: &str, line: &dyn Fn() -> Result<Value, serde_json::Error>, key: &str| {
        let mut value = line().unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert(key.to_owned(), json!(name));
        }
        value
    };
    let tools: Vec<Value> = report
        .tools_by_waste()
        .into_iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "tool"))
        .collect();
    let guards: Vec<Value> = report
        .guards_by_savings()
        .into_iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "guard"))
        .collect();
    let formats: Vec<Value> = audit_summary
        .formats
        .iter()
        .map(|(name, line)| named(name, &|| serde_json::to_value(line), "format"))
        .collect();
    let days: Vec<Value> = audit_summary
        .days
        .iter()
        .map(|(at, line)| named(&format_day(*at), &|| serde_json::to_value(line), "day"))
        .collect();
    let unpriced: Vec<Value> = audit_summary
        .unpriced
        .iter()
        .map(|(model, tokens)| json!({"model": model, "tokens": tokens}))
        .collect();
    json!({
        "version": 1,
        "preset": report.preset,
        "prices_dated": report.prices_date,
        "files": audit_summary.files,
        "events": audit_summary.events,
        "left_out": audit_summary.skipped_events,
        "runs": audit_summary.totals.runs,
        "sub_agents": audit_summary.sub_agent_runs,
        "looped": audit_summary.totals.looped_runs,
        "warned": audit_summary.warned_runs,
        "over_budget": audit_summary.over_budget_runs,
        "loops": audit_summary.totals.loops,
        "spent": audit_summary.spent,
        "saved": audit_summary.totals.saved,
        "tools": tools,
        "guards": guards,
        "formats": formats,
        "days": days,
        "unpriced": unpriced,
        "worst": audit_summary.worst_loops(),
        "doubtful": audit_summary.doubtful_count,
        "doubts": audit_summary.top_doubtful.as_slice(),
        "foreign": audit_summary.unknown_files,
        "broken": audit_summary.broken_files,
    })
}
