//! Parses label webhooks: Flyball's own format, or GitHub's `labeled` and `unlabeled` payloads.

use super::TrackerLabelChange;
use flyball::policy::LabelSync;
use serde_json::Value;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// The change that a payload reports; `None` if it is about something else.
///
/// # Errors
/// A message that says what is missing.
pub(crate) fn parse_payload(
    body: &Value,
    settings: &LabelSync,
) -> Result<Option<TrackerLabelChange>, String> {
    if !body.is_object() {
        return Err("the body must be a JSON object".to_owned());
    }
    let added = match body.get("action").and_then(Value::as_str) {
        Some("added" | "labeled") => true,
        Some("removed" | "unlabeled") => false,
        // Trackers send other events to the same URL.
        Some(_) => return Ok(None),
        None if body.get("label").is_none() => return Ok(None),
        None => return Err("`action` is missing: expected added, removed, labeled or unlabeled".to_owned()),
    };
    let label = body.get("label");
    let label = label.and_then(Value::as_str).or_else(|| label?.get("name")?.as_str());
    let Some(label) = label else {
        return Err("`label` is missing: expected a name, or {name: …}".to_owned());
    };
    let Some(session) = settings.session_name(body) else {
        return Err(format!(
            "cannot tell which session the body means: journal.labels.session is '{}'",
            settings.session
        ));
    };
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let changed = ["/at", "/issue/updated_at", "/pull_request/updated_at"];
    let at = changed.iter().find_map(|pointer| parse_time(body.pointer(pointer)?));
    Ok(Some(TrackerLabelChange {
        session,
        label: label.to_owned(),
        added,
        by: text("/by").or_else(|| text("/sender/login")),
        at,
        why: text("/why").map(|why| why.chars().take(MAX_REASON_CHARS).collect()),
    }))
}

/// Parses milliseconds since 1970, or RFC 3339.
fn parse_time(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let text = value.as_str()?;
        let line = serde_json::json!({"type": "compaction", "at": text}).to_string();
        flyball::Event::from_json(&line).ok()?.at
    })
}

#[cfg(test)]
mod tests {
    use super::{TrackerLabelChange, parse_payload};
    use flyball::policy::LabelSync;
    use serde_json::json;

    fn settings(session: &str) -> LabelSync {
        LabelSync { session: session.to_owned(), ..LabelSync::default() }
    }

    #[test]
    fn own_and_tracker_formats_are_parsed() {
        let own = json!({"session": "issue-7", "label": "flyball-hitl:loop-prevention", "action": "removed",
            "by": "anna", "at": 1_700_000_000_000_u64, "why": "fixed the tests"});
        let expected = TrackerLabelChange {
            session: "issue-7".to_owned(),
            label: "flyball-hitl:loop-prevention".to_owned(),
            added: false,
            by: Some("anna".to_owned()),
            at: Some(1_700_000_000_000),
            why: Some("fixed the tests".to_owned()),
        };
        assert_eq!(parse_payload(&own, &settings("{session}")), Ok(Some(expected.clone())));
        let hub = json!({"action": "unlabeled", "label": {"id": 1, "name": "flyball-hitl:loop-prevention"},
            "issue": {"number": 7, "updated_at": "2023-11-14T22:13:20Z"}, "sender": {"login": "anna"},
            "repository": {"full_name": "o/r"}});
        assert_eq!(
            parse_payload(&hub, &settings("issue-{issue.number}")),
            Ok(Some(TrackerLabelChange { why: None, ..expected }))
        );
        let added = parse_payload(
            &json!({"action": "labeled", "label": "x", "session": "s"}),
            &settings("{session}"),
        );
        assert!(added.unwrap().unwrap().added);
    }

    #[test]
    fn unrelated_payload_is_ignored_and_missing_fields_are_reported() {
        for other in [json!({"zen": "…", "hook_id": 1}), json!({"action": "opened", "issue": {"number": 7}})]
        {
            assert_eq!(parse_payload(&other, &settings("{issue.number}")), Ok(None), "{other}");
        }
        for (bad, what) in [
            (json!([]), "JSON object"),
            (json!({"label": "x", "session": "s"}), "`action` is missing"),
            (json!({"action": "removed", "session": "s"}), "`label` is missing"),
            (json!({"action": "removed", "label": "x"}), "which session"),
        ] {
            assert!(parse_payload(&bad, &settings("{session}")).unwrap_err().contains(what), "{bad}");
        }
    }
}
