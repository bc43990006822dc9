//! Unknown keys: a misspelled key is reported with a suggestion, a misplaced one with the right place.

use super::GuardPolicies;
use super::policy_error::PolicyErrorCode;
use super::section_reader::SectionReader;
use super::values::{PolicyProblem, unknown_help};

/// Message and help for a guard, or a part of one, that cannot be set per node, edge or tool.
fn misplaced(path: &[String], key: &str) -> Option<(String, &'static str)> {
    let whose = match path.first()?.as_str() {
        "nodes" => "a node",
        "edges" => "an edge",
        "tools" => "a tool",
        _ => return None,
    };
    let guard = path.get(2).map_or(key, String::as_str);
    let written = match path {
        [_, _] => format!("guard '{key}'"),
        [_, _, guard] => format!("'{key}' of guard '{guard}'"),
        _ => return None,
    };
    let of_guard = path.len() == 2 || GuardPolicies::default().has_key(guard, key);
    (GuardPolicies::NAMES.contains(&guard) && of_guard).then(|| {
        (format!("{written} cannot be set for {whose}"), "set it under guards, for the whole session")
    })
}

impl SectionReader<'_> {
    /// Reports every unknown key.
    pub(super) fn report_unknown(&mut self) {
        let Some(source) = self.source else { return };
        for key in source.keys().filter(|key| !self.known_keys.contains(&key.as_str())) {
            let guards = self.path.len() == 1 && self.path.first().is_some_and(|p| p == "guards");
            let (code, thing) = if guards {
                (PolicyErrorCode::UnknownGuard, "guard")
            } else {
                (PolicyErrorCode::UnknownKey, "key")
            };
            let mut path = self.path.clone();
            if let Some((what, help)) = misplaced(&path, key) {
                path.push(key.clone());
                let problem =
                    PolicyProblem { code, path, as_written: false, message: what, help: help.to_owned() };
                self.findings.problems.push(problem);
                continue;
            }
            let help = unknown_help(key, self.only.unwrap_or(&self.known_keys), thing);
            let what = match path.join(".") {
                around if around.is_empty() || guards => format!("unknown {thing} '{key}'"),
                around => format!("unknown {thing} '{key}' in {around}"),
            };
            path.push(key.clone());
            self.findings.problems.push(PolicyProblem { code, path, as_written: false, message: what, help });
        }
    }
}
