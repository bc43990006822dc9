//! The policy value, with file and line, that a trip was compared with.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use flyball::policy::ResolvedPolicy;
use flyball::{SessionState, Trip};
use serde_json::{Value, json};

/// Origins of the values of a session's policy.
pub(super) struct PolicyOrigins(Option<ResolvedPolicy>);

/// A policy value with its key and where it is defined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PolicyValueOrigin {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) location: String,
}

impl PolicyOrigins {
    /// Loads the origins of a session's policy.
    ///
    /// # Errors
    /// If the session cannot be read.
    pub(super) fn load(app: &AppState, name: &str, state: &SessionState) -> Result<Self, ApiError> {
        let recorder = app.recorder_for(name)?;
        let inline = state.inline_policy().and_then(|text| serde_json::from_str::<Value>(text).ok());
        // If the policy can no longer be resolved, no origins are shown.
        Ok(PolicyOrigins(recorder.policy_source().resolve_inline(&inline.unwrap_or_else(|| json!({}))).ok()))
    }

    /// The value that a trip was compared with, if known.
    pub(super) fn origin_of(&self, trip: &Trip) -> Option<PolicyValueOrigin> {
        let resolved = self.0.as_ref()?;
        let path = policy_path(&resolved.effective, trip)?;
        let value = path.iter().try_fold(&resolved.effective, |tree, key| tree.get(key))?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut key = path.join(".");
        let whole = key.clone();
        let location = loop {
            if let Some(written) = resolved.origins.get(&key) {
                break match written.position {
                    Some(position) => format!("{}, line {}", written.origin, position.line),
                    None => written.origin.to_string(),
                };
            }
            match key.rsplit_once('.') {
                Some((above, _)) => key = above.to_owned(),
                None => break "default".to_owned(),
            }
        };
        Some(PolicyValueOrigin { key: whole, value, location })
    }
}

/// The path of the value in the effective policy.
fn policy_path(effective: &Value, trip: &Trip) -> Option<Vec<String>> {
    if let Some(budget) = &trip.budget {
        let scope = if budget.scope == "tree" { "session" } else { budget.scope.as_str() };
        let section = effective.get("budgets")?.get(scope)?.as_object()?;
        let bare = budget.name.trim_end_matches("_ms").trim_end_matches("_micro_usd");
        let key = section.keys().find(|key| key.trim_end_matches("_usd") == bare || **key == budget.name);
        let key = key.or_else(|| section.keys().find(|key| *key == "timeout"))?;
        return Some(vec!["budgets".to_owned(), scope.to_owned(), key.clone()]);
    }
    let mut candidates = Vec::new();
    for (kind, section) in [("tool", "tools"), ("node", "nodes"), ("edge", "edges")] {
        if let Some(name) = trip.scope.get(kind) {
            candidates.push(vec![section.to_owned(), name.clone(), trip.guard.clone()]);
        }
    }
    candidates.push(vec!["guards".to_owned(), trip.guard.clone()]);
    for candidate in candidates {
        let Some(found) = candidate.iter().try_fold(effective, |tree, key| tree.get(key)) else { continue };
        let mut below = candidate.clone();
        if find_number(found, trip.limit, &mut below) {
            return Some(below);
        }
        if found.get("mode").is_some() {
            below.truncate(candidate.len());
            below.push("mode".to_owned());
            return Some(below);
        }
    }
    None
}

/// Finds a number in a section, depth first.
fn find_number(tree: &Value, limit: u64, path: &mut Vec<String>) -> bool {
    match tree {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            path.push(key.clone());
            let found = find_number(inner, limit, path);
            if !found {
                path.pop();
            }
            found
        }),
        Value::Number(number) => limit > 0 && number.as_u64() == Some(limit),
        _ => false,
    }
}
