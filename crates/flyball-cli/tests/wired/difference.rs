//! The proof that a setting has an effect: a text that is present with it and absent without it, or vice versa.

use crate::command_harness::repo_root;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The expected difference between two runs.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Difference {
    /// Text that is present only with the setting.
    pub(crate) shows: Option<String>,
    /// Text that is present only without the setting.
    pub(crate) hides: Option<String>,
}

impl Difference {
    /// A difference whose text is present only with the setting.
    pub(crate) fn shows(text: &str) -> Self {
        Difference { shows: Some(text.to_owned()), hides: None }
    }

    /// A difference whose text is present only without the setting.
    pub(crate) fn hides(text: &str) -> Self {
        Difference { shows: None, hides: Some(text.to_owned()) }
    }

    /// The error in the outputs with and without the setting, if any.
    pub(crate) fn error(&self, with: &str, without: &str) -> Option<String> {
        let there = |text: &String| (with.contains(text), without.contains(text));
        let wrong = match (&self.shows, &self.hides) {
            (Some(text), None) => (there(text) != (true, false)).then(|| (text, there(text))),
            (None, Some(text)) => (there(text) != (false, true)).then(|| (text, there(text))),
            _ => return Some("the proof must name a text that is shown or hidden".to_owned()),
        };
        wrong.map(|(text, (with, without))| {
            format!("{text:?} is present with it: {with}, without it: {without}")
        })
    }
}

/// Fails if a setting has no proof, or a proof has no setting.
pub(crate) fn assert_complete<'a>(
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
        "{what} without a proof: {missing:#?}\nproofs without a setting: {strange:#?}"
    );
    recorded(what, settings.len());
}

/// Prints the number of settings proven to have an effect; `docs/measured.md` must contain the same number.
pub(crate) fn recorded(what: &str, count: usize) {
    println!("{what}: {count} are wired");
    let page = std::fs::read_to_string(repo_root().join("docs/measured.md")).unwrap();
    let row = format!("| {what} | {count} |");
    assert!(page.contains(&row), "docs/measured.md lacks the row: {row}");
}

/// Fails with all errors, if any.
pub(crate) fn assert_no_errors(errors: Vec<String>) {
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
}
