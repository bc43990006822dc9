//! Reads a webhook: our own words, or those of a tracker that sends `labeled` and `unlabeled` as GitHub does.

use super::LabelChange;
use flyball::policy::LabelSync;
use serde_json::Value;

/// The longest reason that is kept.
const WHY_CHARS: usize = 500;

/// The change that a body tells of; nothing if it is about something else, and why.
///
/// # Errors
/// What is missing, in words.
pub(crate) fn read(body: &Value, settings: &LabelSync) -> Result<Option<LabelChange>, String> {
    if !body.is_object() {
        return Err("the body must be a JSON object".to_owned());
    }
    let added = match body.get("action").and_then(Value::as_str) {
        Some("added" | "labeled") => true,
        Some("removed" | "unlabeled") => false,
        // A tracker tells of much else at the same address.
        Some(_) => return Ok(None),
        None if body.get("label").is_none() => return Ok(None),
        None => return Err("`action` is missing: it is added, removed, labeled or unlabeled".to_owned()),
    };
    let label = body.get("label");
    let label = label.and_then(Value::as_str).or_else(|| label?.get("name")?.as_str());
    let Some(label) = label else {
        return Err("`label` is missing: it is a name, or {name: …}".to_owned());
    };
    let Some(session) = settings.session_of(body) else {
        return Err(format!(
            "the body does not say which session: journal.labels.session is '{}'",
            settings.session
        ));
    };
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let changed = ["/at", "/issue/updated_at", "/pull_request/updated_at"];
    let at = changed.iter().find_map(|pointer| moment(body.pointer(pointer)?));
    Ok(Some(LabelChange {
        session,
        label: label.to_owned(),
        added,
        by: text("/by").or_else(|| text("/sender/login")),
        at,
        why: text("/why").map(|why| why.chars().take(WHY_CHARS).collect()),
    }))
}

/// Milliseconds since 1970, or RFC 3339.
fn moment(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let text = value.as_str()?;
        let line = serde_json::json!({"type": "compaction", "at": text}).to_string();
        flyball::Event::from_json(&line).ok()?.at
    })
}

#[cfg(test)]
mod tests {
    use super::{LabelChange, read};
    use flyball::policy::LabelSync;
    use serde_json::json;

    fn settings(session: &str) -> LabelSync {
        LabelSync { session: session.to_owned(), ..LabelSync::default() }
    }

    #[test]
    fn our_own_words_and_those_of_a_tracker_are_read() {
        let own = json!({"session": "issue-7", "label": "flyball-hitl:loop-prevention", "action": "removed",
            "by": "anna", "at": 1_700_000_000_000_u64, "why": "fixed the tests"});
        let expected = LabelChange {
            session: "issue-7".to_owned(),
            label: "flyball-hitl:loop-prevention".to_owned(),
            added: false,
            by: Some("anna".to_owned()),
            at: Some(1_700_000_000_000),
            why: Some("fixed the tests".to_owned()),
        };
        assert_eq!(read(&own, &settings("{session}")), Ok(Some(expected.clone())));
        let hub = json!({"action": "unlabeled", "label": {"id": 1, "name": "flyball-hitl:loop-prevention"},
            "issue": {"number": 7, "updated_at": "2023-11-14T22:13:20Z"}, "sender": {"login": "anna"},
            "repository": {"full_name": "o/r"}});
        assert_eq!(
            read(&hub, &settings("issue-{issue.number}")),
            Ok(Some(LabelChange { why: None, ..expected }))
        );
        let added = read(&json!({"action": "labeled", "label": "x", "session": "s"}), &settings("{session}"));
        assert!(added.unwrap().unwrap().added);
    }

    #[test]
    fn what_is_about_something_else_is_left_alone_and_what_is_missing_is_told() {
        for other in [json!({"zen": "…", "hook_id": 1}), json!({"action": "opened", "issue": {"number": 7}})]
        {
            assert_eq!(read(&other, &settings("{issue.number}")), Ok(None), "{other}");
        }
        for (bad, what) in [
            (json!([]), "JSON object"),
            (json!({"label": "x", "session": "s"}), "`action` is missing"),
            (json!({"action": "removed", "session": "s"}), "`label` is missing"),
            (json!({"action": "removed", "label": "x"}), "which session"),
        ] {
            assert!(read(&bad, &settings("{session}")).unwrap_err().contains(what), "{bad}");
        }
    }
}
