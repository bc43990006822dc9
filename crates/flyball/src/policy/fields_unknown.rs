//! Keys that no section knows: a misspelled one is reported with the name that was probably meant, and one that stands in
//! the wrong place with the right one.

use super::error::Code;
use super::fields::Fields;
use super::guards::Guards;
use super::values::{Problem, unknown_help};

/// What to say of a guard, or a part of one, that does not look at single nodes, edges or tools.
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
    let is_part = match guard {
        _ if path.len() == 2 => true,
        "cycle" => ["calls", "transitions", "outputs", "blocks"].contains(&key),
        "confirmation" => true,
        _ => false,
    };
    (Guards::NAMES.contains(&guard) && is_part).then(|| {
        (format!("{written} does not look at {whose} by itself"), "write it under guards, for everything")
    })
}

impl Fields<'_> {
    /// Reports every key that was written and is not known.
    pub(super) fn report_unknown(&mut self) {
        let Some(source) = self.source else { return };
        for key in source.keys().filter(|key| !self.known.contains(&key.as_str())) {
            let guards = self.path.len() == 1 && self.path.first().is_some_and(|p| p == "guards");
            let (code, thing) =
                if guards { (Code::UnknownGuard, "guard") } else { (Code::UnknownKey, "key") };
            let mut path = self.path.clone();
            if let Some((what, help)) = misplaced(&path, key) {
                path.push(key.clone());
                let problem = Problem { code, path, as_written: false, what, help: help.to_owned() };
                self.found.problems.push(problem);
                continue;
            }
            let help = unknown_help(key, &self.known, thing);
            let what = match path.join(".") {
                around if around.is_empty() || guards => format!("unknown {thing} '{key}'"),
                around => format!("unknown {thing} '{key}' in {around}"),
            };
            path.push(key.clone());
            self.found.problems.push(Problem { code, path, as_written: false, what, help });
        }
    }
}
