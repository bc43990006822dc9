//! Call pairing for hosts without call ids: matches the end of a call with its stored request.

use flyball::{Decision, Verdict};
use serde_json::Value;

/// The request that a finished call belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedRequest {
    /// The call id it was stored under.
    pub call_id: String,
    /// A warning for the model that the host could not show before the call.
    pub warning: Option<String>,
}

/// Finds the newest unfinished request among a session's last events. Each entry is an event's JSON and its decision's
/// JSON, oldest first; `start` is the prefix of the call id. Denied requests never finish and are skipped.
#[must_use]
pub fn find_open_request<'a>(
    last: impl IntoIterator<Item = (&'a str, &'a str)>,
    start: &str,
) -> Option<PairedRequest> {
    let mut open: Vec<(String, &str)> = Vec::new();
    for (event, decision) in last {
        if !event.contains(start) {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(event) else { continue };
        let Some(call) = event.get("call").and_then(Value::as_str).filter(|call| call.starts_with(start))
        else {
            continue;
        };
        match event.get("type").and_then(Value::as_str) {
            Some("tool.requested") => open.push((call.to_owned(), decision)),
            _ => open.retain(|(known, _)| known != call),
        }
    }
    let read = |text: &str| serde_json::from_str::<Decision>(text).unwrap_or_default();
    open.into_iter().rev().map(|(call, text)| (call, read(text))).find_map(|(call, decision)| {
        let warned = decision.feedback.filter(|_| decision.decision == Verdict::Warn);
        (decision.decision < Verdict::Block).then_some(PairedRequest { call_id: call, warning: warned })
    })
}

#[cfg(test)]
mod tests {
    use super::{PairedRequest, find_open_request};

    fn requested(call: &str) -> String {
        format!(r#"{{"type":"tool.requested","call":"{call}","tool":"bash","args":{{}}}}"#)
    }

    fn finished(call: &str) -> String {
        format!(r#"{{"type":"tool.finished","call":"{call}","ok":true}}"#)
    }

    fn decision_json(verdict: &str, feedback: &str) -> String {
        format!(
            r#"{{"session":"s","seq":1,"decision":"{verdict}","state":"running","trips":[],"feedback":{feedback},"retry_after_ms":null,"effects":[]}}"#
        )
    }

    #[test]
    fn newest_open_request_that_was_not_blocked_is_found() {
        let allow = decision_json("allow", "null");
        let events = [
            (requested("aa@1"), allow.clone()),
            (finished("aa@1"), allow.clone()),
            (requested("bb@2"), allow.clone()),
            (requested("aa@3"), decision_json("warn", r#""This is the third time.""#)),
            (requested("aa@4"), decision_json("block", r#""No.""#)),
        ];
        let last = || events.iter().map(|(event, decision)| (event.as_str(), decision.as_str()));
        let warned = Some("This is the third time.".to_owned());
        assert_eq!(
            find_open_request(last(), "aa@"),
            Some(PairedRequest { call_id: "aa@3".to_owned(), warning: warned })
        );
        assert_eq!(find_open_request(last(), "bb@").map(|found| found.call_id), Some("bb@2".to_owned()));
        assert_eq!(find_open_request(last(), "cc@"), None);
    }
}
