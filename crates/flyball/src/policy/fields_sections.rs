//! Sections inside sections: one by its key, named ones, and lists of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::Code;
use super::fields::{Fields, Section, walk};
use super::tighten::Findings;
use super::values::kind;

impl Fields<'_> {
    /// A list of sections, each read from its own defaults. What is not a map is reported and left out. Without a
    /// direction: a list that differs from the present one counts as loosening.
    pub(super) fn items<S: Section + Default>(
        &mut self,
        key: &'static str,
        present: &Value,
    ) -> Option<Vec<S>> {
        let value = self.take(key).cloned()?;
        let none = Vec::new();
        let items = match &value {
            Value::Null => &none,
            Value::Array(items) => items,
            other => {
                self.wrong_type(key, other, "a list of maps");
                return None;
            }
        };
        let mut sections = Vec::new();
        let mut inner = Findings::default();
        for (index, item) in items.iter().enumerate() {
            let index = index.to_string();
            if !item.is_object() {
                let what = format!("'{key}' must be a list of maps, but holds {}", kind(item));
                self.refuse_at(Code::Type, &[key, &index], what, "write - {key: value, ...}");
                continue;
            }
            let path = [self.path.as_slice(), &[key.to_owned(), index]].concat();
            let mut section = S::default();
            walk(&mut section, Some(item), path, false, &mut inner);
            sections.push(section);
        }
        self.found.problems.append(&mut inner.problems);
        self.admits(key, value == *present, false).then_some(sections)
    }

    /// A section inside this one.
    pub(super) fn section(&mut self, key: &'static str, section: &mut dyn Section) {
        let source = self.take(key).cloned();
        let mut path = self.path.clone();
        path.push(key.to_owned());
        let out = walk(section, source.as_ref(), path, self.partial, self.found);
        self.put(key, out);
    }

    /// Named sections, each starting from a common one.
    pub(super) fn sections<S: Section + Clone>(
        &mut self,
        key: &'static str,
        common: &S,
        slot: &mut BTreeMap<String, S>,
    ) {
        let Some(value) = self.take(key).cloned() else {
            return;
        };
        let Value::Object(map) = &value else {
            return self.wrong_type(key, &value, "a map of names");
        };
        let mut out = Map::new();
        for (name, written) in map {
            let mut section = slot.get(name).unwrap_or(common).clone();
            let path = [self.path.as_slice(), &[key.to_owned(), name.clone()]].concat();
            let effective = walk(&mut section, Some(written), path, true, self.found);
            slot.insert(name.clone(), section);
            out.insert(name.clone(), effective);
        }
        self.put(key, Value::Object(out));
    }
}
