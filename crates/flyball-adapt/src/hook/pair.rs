//! Calls of hosts that give them no ids: the end of a call is paired with its request through the journal.

use flyball::{Decision, Verdict};
use serde_json::Value;

/// The request that belongs to the end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// The id that it was stored under.
    pub call: String,
    /// What the model was to be told then, if the host could not be told before the call.
    pub warned: Option<String>,
}

/// Finds the newest request that has not ended among a session's last events: each as its JSON and the JSON of its
/// decision, oldest first. `start` is the beginning of the id that it has. A request that was refused has no end.
#[must_use]
pub fn pair<'a>(last: impl IntoIterator<Item = (&'a str, &'a str)>, start: &str) -> Option<Earlier> {
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
        (decision.decision < Verdict::Block).then_some(Earlier { call, warned })
    })
}

#[cfg(test)]
mod tests {
    use super::{Earlier, pair};

    fn asked(call: &str) -> String {
        format!(r#"{{"type":"tool.requested","call":"{call}","tool":"bash","args":{{}}}}"#)
    }

    fn ended(call: &str) -> String {
        format!(r#"{{"type":"tool.finished","call":"{call}","ok":true}}"#)
    }

    fn decided(verdict: &str, feedback: &str) -> String {
        format!(
            r#"{{"session":"s","seq":1,"decision":"{verdict}","state":"running","trips":[],"feedback":{feedback},"retry_after_ms":null,"effects":[]}}"#
        )
    }

    #[test]
    fn the_newest_open_request_that_was_not_refused_is_found() {
        let allow = decided("allow", "null");
        let events = [
            (asked("aa@1"), allow.clone()),
            (ended("aa@1"), allow.clone()),
            (asked("bb@2"), allow.clone()),
            (asked("aa@3"), decided("warn", r#""This is the third time.""#)),
            (asked("aa@4"), decided("block", r#""No.""#)),
        ];
        let last = || events.iter().map(|(event, decision)| (event.as_str(), decision.as_str()));
        let warned = Some("This is the third time.".to_owned());
        assert_eq!(pair(last(), "aa@"), Some(Earlier { call: "aa@3".to_owned(), warned }));
        assert_eq!(pair(last(), "bb@").map(|found| found.call), Some("bb@2".to_owned()));
        assert_eq!(pair(last(), "cc@"), None);
    }
}
