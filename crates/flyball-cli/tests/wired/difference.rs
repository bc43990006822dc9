//! What shows that a setting has an effect: a text that is there with it and not without it, or the other way round.

use crate::kit::root;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The named difference between two runs.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Difference {
    /// Only with the setting this text is there.
    pub(crate) shows: Option<String>,
    /// Only without it.
    pub(crate) hides: Option<String>,
}

impl Difference {
    /// A text that is there only with the setting.
    pub(crate) fn shows(text: &str) -> Self {
        Difference { shows: Some(text.to_owned()), hides: None }
    }

    /// A text that is there only without it.
    pub(crate) fn hides(text: &str) -> Self {
        Difference { shows: None, hides: Some(text.to_owned()) }
    }

    /// What is wrong with what a run gave with the setting and without it.
    pub(crate) fn fault(&self, with: &str, without: &str) -> Option<String> {
        let there = |text: &String| (with.contains(text), without.contains(text));
        let wrong = match (&self.shows, &self.hides) {
            (Some(text), None) => (there(text) != (true, false)).then(|| (text, there(text))),
            (None, Some(text)) => (there(text) != (false, true)).then(|| (text, there(text))),
            _ => return Some("the proof must name what is shown, or what is hidden".to_owned()),
        };
        wrong.map(|(text, (with, without))| {
            format!("{text:?} is there with it: {with}, without it: {without}")
        })
    }
}

/// Fails if a setting has no proof, or a proof no setting.
pub(crate) fn complete<'a>(
    what: &str,
    settings: impl IntoIterator<Item = &'a str>,
    proven: impl IntoIterator<Item = &'a str>,
) {
    let (settings, proven): (BTreeSet<&str>, BTreeSet<&str>) =
        (settings.into_iter().collect(), proven.into_iter().collect());
    let missing: Vec<&&str> = settings.difference(&proven).collect();
    let strange: Vec<&&str> = proven.difference(&settings).collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "{what} without a proof: {missing:#?}\nproofs of nothing: {strange:#?}"
    );
    recorded(what, settings.len());
}

/// Tells how many settings were shown to have an effect; `docs/measured.md` says the same.
pub(crate) fn recorded(what: &str, count: usize) {
    println!("{what}: {count} are wired");
    let page = std::fs::read_to_string(root().join("docs/measured.md")).unwrap();
    let row = format!("| {what} | {count} |");
    assert!(page.contains(&row), "docs/measured.md lacks the row: {row}");
}

/// Fails with all faults.
pub(crate) fn settle(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
