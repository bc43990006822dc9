//! What a run knows by name, and templates that use it: `{{goal}}`, `{{coder.output}}`, `{{slots.day}}`.

use super::stop::Outcome;
use serde_json::{Map, Value, json};

/// What a run knows.
#[derive(Debug, Clone, Default)]
pub struct Vars {
    map: Map<String, Value>,
}

impl Vars {
    /// Puts a value under a name.
    pub fn set(&mut self, name: impl Into<String>, value: Value) {
        self.map.insert(name.into(), value);
    }

    /// The value at a dotted path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let mut found = self.map.get(parts.next()?.trim())?;
        for part in parts {
            let part = part.trim();
            found = match found {
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                other => other.get(part)?,
            };
        }
        Some(found)
    }

    /// What a visit of a node gave.
    pub fn visited(&mut self, node: &str, outcome: &Outcome) {
        let known = json!({
            "output": outcome.output,
            "outcome": outcome.status.as_str(),
            "structured": outcome.structured,
        });
        self.set(node, known);
        self.set("last", json!(outcome.output));
    }

    /// Everything, for conditions.
    #[must_use]
    pub fn all(&self) -> Value {
        Value::Object(self.map.clone())
    }

    /// Takes over what a branch has found out since it branched.
    pub fn merge(&mut self, before: &Vars, other: &Vars) {
        for (name, value) in other.map.iter().filter(|(name, value)| before.map.get(*name) != Some(*value)) {
            self.map.insert(name.clone(), value.clone());
        }
    }

    /// A template with its names filled in. A name that nothing is known about becomes empty.
    #[must_use]
    pub fn fill(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(begin) = rest.find("{{") {
            let (before, after) = rest.split_at(begin);
            out.push_str(before);
            let Some(end) = after.find("}}") else {
                out.push_str(after);
                return out;
            };
            let path = after.get(2..end).unwrap_or_default();
            if let Some(value) = self.get(path.trim()) {
                out.push_str(&plain(value));
            }
            rest = after.get(end + 2..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// A value in which all texts are filled in. A text that is one name alone becomes the value itself.
    #[must_use]
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let name = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                match name.filter(|name| !name.contains("{{")).and_then(|name| self.get(name.trim())) {
                    Some(found) => found.clone(),
                    None => Value::String(self.fill(text)),
                }
            }
            Value::Array(list) => list.iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, value)| (key.clone(), self.fill_value(value))).collect())
            }
            other => other.clone(),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
