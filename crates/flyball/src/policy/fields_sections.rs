//! Nested sections: single, named, and in lists.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::policy_error::PolicyErrorCode;
use super::section_reader::{PolicySection, SectionReader, read_part, read_section};
use super::tighten::SectionFindings;
use super::values::describe_value;

impl SectionReader<'_> {
    /// Reads a list of sections, each starting from its defaults. Items that are not maps are reported and skipped.
    /// Lists have no order of strictness, so every change counts as loosening.
    pub(crate) fn items<S: PolicySection + Default>(
        &mut self,
        key: &'static str,
        present: &Value,
    ) -> Option<Vec<S>> {
        let value = self.written_value(key).cloned()?;
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
        let mut inner = SectionFindings::default();
        for (index, item) in items.iter().enumerate() {
            let index = index.to_string();
            if !item.is_object() {
                let what = format!("'{key}' must be a list of maps, but contains {}", describe_value(item));
                self.report_at(PolicyErrorCode::Type, &[key, &index], what, "write - {key: value, ...}");
                continue;
            }
            let path = [self.path.as_slice(), &[key.to_owned(), index]].concat();
            let mut section = S::default();
            read_section(&mut section, Some(item), path, false, &mut inner);
            sections.push(section);
        }
        self.findings.problems.append(&mut inner.problems);
        self.accepts(key, value == *present, false).then_some(sections)
    }

    /// Reads a nested section.
    pub(crate) fn section(&mut self, key: &'static str, section: &mut dyn PolicySection) {
        self.part(key, section, None);
    }

    /// Reads some keys of a nested section; `None` = all.
    pub(crate) fn part(
        &mut self,
        key: &'static str,
        section: &mut dyn PolicySection,
        only: Option<&'static [&'static str]>,
    ) {
        let source = self.written_value(key).cloned();
        let mut path = self.path.clone();
        path.push(key.to_owned());
        let out = read_part(section, only, source.as_ref(), path, self.partial, self.findings);
        self.emit(key, out);
    }

    /// Reads named sections, each starting from a common one.
    pub(crate) fn sections<S: PolicySection + Clone>(
        &mut self,
        key: &'static str,
        common: &S,
        slot: &mut BTreeMap<String, S>,
    ) {
        let Some(value) = self.written_value(key).cloned() else {
            return;
        };
        let Value::Object(map) = &value else {
            return self.wrong_type(key, &value, "a map of names");
        };
        let mut out = Map::new();
        for (name, written) in map {
            let mut section = slot.get(name).unwrap_or(common).clone();
            let path = [self.path.as_slice(), &[key.to_owned(), name.clone()]].concat();
            let effective = read_section(&mut section, Some(written), path, true, self.findings);
            slot.insert(name.clone(), section);
            out.insert(name.clone(), effective);
        }
        self.emit(key, Value::Object(out));
    }
}
