//! Which line of which policy file a finding was compared with.

use crate::office::Office;
use crate::problem::Problem;
use flyball::policy::Resolved;
use flyball::{State, Trip};
use serde_json::{Value, json};

/// Where the values of a session's policy came from.
pub(super) struct Origins(Option<Resolved>);

/// One value: its key, what it is, and where that was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) place: String,
}

impl Origins {
    /// The origins of the policy that a session is under.
    ///
    /// # Errors
    /// If the session cannot be read.
    pub(super) fn of(office: &Office, name: &str, state: &State) -> Result<Self, Problem> {
        let recorder = office.under(name)?;
        let inline = state.inline_policy().and_then(|text| serde_json::from_str::<Value>(text).ok());
        // A policy that can no longer be resolved is not pointed into.
        Ok(Origins(recorder.source().with(&inline.unwrap_or_else(|| json!({}))).ok()))
    }

    /// The value that a trip was compared with, if it can be told.
    pub(super) fn line(&self, trip: &Trip) -> Option<Line> {
        let resolved = self.0.as_ref()?;
        let path = path(&resolved.effective, trip)?;
        let value = path.iter().try_fold(&resolved.effective, |tree, key| tree.get(key))?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut key = path.join(".");
        let whole = key.clone();
        let place = loop {
            if let Some(written) = resolved.origins.get(&key) {
                break match written.place {
                    Some(place) => format!("{}, line {}", written.origin, place.line),
                    None => written.origin.to_string(),
                };
            }
            match key.rsplit_once('.') {
                Some((above, _)) => key = above.to_owned(),
                None => break "default".to_owned(),
            }
        };
        Some(Line { key: whole, value, place })
    }
}

/// The key in the effective policy.
fn path(effective: &Value, trip: &Trip) -> Option<Vec<String>> {
    if let Some(budget) = &trip.budget {
        let scope = if budget.scope == "tree" { "session" } else { budget.scope.as_str() };
        let section = effective.get("budgets")?.get(scope)?.as_object()?;
        let bare = budget.name.trim_end_matches("_ms").trim_end_matches("_micro_usd");
        let key = section.keys().find(|key| key.trim_end_matches("_usd") == bare || **key == budget.name);
        let key = key.or_else(|| section.keys().find(|key| *key == "timeout"))?;
        return Some(vec!["budgets".to_owned(), scope.to_owned(), key.clone()]);
    }
    let mut places = Vec::new();
    for (kind, section) in [("tool", "tools"), ("node", "nodes"), ("edge", "edges")] {
        if let Some(name) = trip.scope.get(kind) {
            places.push(vec![section.to_owned(), name.clone(), trip.guard.clone()]);
        }
    }
    places.push(vec!["guards".to_owned(), trip.guard.clone()]);
    for place in places {
        let Some(found) = place.iter().try_fold(effective, |tree, key| tree.get(key)) else { continue };
        let mut below = place.clone();
        if leaf(found, trip.limit, &mut below) {
            return Some(below);
        }
        if found.get("mode").is_some() {
            below.truncate(place.len());
            below.push("mode".to_owned());
            return Some(below);
        }
    }
    None
}

/// Finds a number below a section, depth first.
fn leaf(tree: &Value, limit: u64, path: &mut Vec<String>) -> bool {
    match tree {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            path.push(key.clone());
            let found = leaf(inner, limit, path);
            if !found {
                path.pop();
            }
            found
        }),
        Value::Number(number) => limit > 0 && number.as_u64() == Some(limit),
        _ => false,
    }
}
