//! Template variables of a run: `{{goal}}`, `{{coder.output}}`, `{{slots.day}}`.

use super::outcome::NodeOutcome;
use serde_json::{Map, Value, json};

/// Variables by name.
#[derive(Debug, Clone, Default)]
pub struct TemplateVars {
    map: Map<String, Value>,
}

impl TemplateVars {
    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<String>, value: Value) {
        self.map.insert(name.into(), value);
    }

    /// Value at a dotted path.
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

    /// Sets the outcome of a node visit.
    pub fn record_outcome(&mut self, node: &str, outcome: &NodeOutcome) {
        let known = json!({
            "output": outcome.output,
            "outcome": outcome.status.as_str(),
            "structured": outcome.structured,
        });
        self.set(node, known);
        self.set("last", json!(outcome.output));
    }

    /// All variables, for conditions.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Object(self.map.clone())
    }

    /// Merges the variables that a branch changed since the fork.
    pub fn merge(&mut self, before: &TemplateVars, other: &TemplateVars) {
        for (name, value) in other.map.iter().filter(|(name, value)| before.map.get(*name) != Some(*value)) {
            self.map.insert(name.clone(), value.clone());
        }
    }

    /// Fills in a template. Unknown names become empty.
    #[must_use]
    pub fn render(&self, template: &str) -> String {
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
                out.push_str(&to_text(value));
            }
            rest = after.get(end + 2..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// Fills in all strings of a value. A string that is a single placeholder becomes the value itself.
    #[must_use]
    pub fn render_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let name = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                match name.filter(|name| !name.contains("{{")).and_then(|name| self.get(name.trim())) {
                    Some(found) => found.clone(),
                    None => Value::String(self.render(text)),
                }
            }
            Value::Array(list) => list.iter().map(|value| self.render_value(value)).collect(),
            Value::Object(map) => Value::Object(
                map.iter().map(|(key, value)| (key.clone(), self.render_value(value))).collect(),
            ),
            other => other.clone(),
        }
    }
}

fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
