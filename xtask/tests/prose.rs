//! Checks the prose of the documentation for mannerisms: phrases that a native-speaking engineer would not write.
//!
//! `findings` takes `(name, text)` pairs, so that help texts and messages can be checked with the same rules.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may panic on a file that it cannot read")]

#[allow(dead_code, reason = "shared with the other tests of the repository")]
#[path = "tidy/code.rs"]
mod code;
#[allow(dead_code, reason = "shared with the other tests of the repository")]
#[path = "tidy/files.rs"]
mod files;
#[path = "prose/rules.rs"]
mod rules;
#[path = "prose/scan.rs"]
mod scan;

use rules::{ALLOWED, PHRASES, SPELLINGS};
use scan::{Finding, Markup, scan};

/// All findings in the texts, in order.
fn findings<'a>(markup: Markup, texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    texts.into_iter().flat_map(|(name, text)| scan(name, text, markup)).collect()
}

/// Whether an entry of the allow-list covers the finding.
fn is_allowed(finding: &Finding, (file, phrase, context, _): &(&str, &str, &str, &str)) -> bool {
    finding.name == *file && finding.phrase == *phrase && finding.context.contains(context)
}

/// The documentation: name and text of each page.
fn pages() -> Vec<(String, String)> {
    let is_page = |path: &str| {
        let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
        let below = path.starts_with("docs/") || path.starts_with("examples/");
        top.contains(&path) || below && path.ends_with(".md")
    };
    let pages = files::all_files().into_iter().filter(|file| is_page(&file.path));
    pages.map(|file| (file.path, file.text)).collect()
}

/// Fails with every finding that no entry of the allow-list covers, and with every entry that covers none.
fn assert_allowed(found: &[Finding], is_covered: impl Fn(&str) -> bool) {
    let entries: Vec<_> = ALLOWED.iter().filter(|(file, ..)| is_covered(file)).collect();
    let stale = entries.iter().filter(|entry| !found.iter().any(|finding| is_allowed(finding, entry)));
    let stale =
        stale.map(|(file, phrase, ..)| format!("{file}: the allow-list has `{phrase}`, which is not there"));
    let wrong = found.iter().filter(|finding| !entries.iter().any(|entry| is_allowed(finding, entry)));
    let complaints: Vec<String> = wrong.map(Finding::to_string).chain(stale).collect();
    assert!(complaints.is_empty(), "\n{}\n{} findings\n", complaints.join("\n"), complaints.len());
}

#[test]
fn documentation_is_plain_english() {
    let pages = pages();
    assert!(pages.len() > 20, "only {} pages found", pages.len());
    let found = findings(Markup::Markdown, pages.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    assert_allowed(&found, |file| file.ends_with(".md"));
}

#[test]
fn help_messages_and_comments_are_plain_english() {
    let is_source =
        |path: &str| path.contains("/src/") && path.ends_with(".rs") && !path.ends_with("_tests.rs");
    let files = files::all_files().into_iter().filter(|file| is_source(&file.path));
    let mut texts = 0;
    let mut found = Vec::new();
    for file in files {
        for (line, text) in code::prose(code::without_tests(&file.text)) {
            texts += 1;
            let own = findings(Markup::Plain, [(file.path.as_str(), text.as_str())]);
            found.extend(own.into_iter().map(|finding| Finding { line: finding.line + line - 1, ..finding }));
        }
    }
    assert!(texts > 10_000, "only {texts} texts found");
    assert_allowed(&found, |file| file.ends_with(".rs"));
}

#[test]
fn every_rule_finds_its_phrase_and_says_what_to_write() {
    for (phrase, instead) in PHRASES.iter().chain(&SPELLINGS) {
        let text = format!("The server {phrase}.");
        let found = findings(Markup::Plain, [("text", text.as_str())]);
        assert!(found.iter().any(|finding| finding.phrase == *phrase), "{phrase}: {found:?}");
        assert!(!instead.is_empty(), "{phrase} has no replacement");
    }
}

/// The phrases found in a Markdown text.
fn phrases(text: &str) -> Vec<&'static str> {
    findings(Markup::Markdown, [("page", text)]).iter().map(|finding| finding.phrase).collect()
}

#[test]
fn phrases_are_found_across_lines_and_only_as_whole_words() {
    assert_eq!(phrases("The session is\ntold, and it goes\non."), ["is told", "goes on"]);
    assert!(phrases("It cargoes on. Understands. A yesterday.").is_empty());
    assert_eq!(phrases("| whoever | a cell |"), ["whoever"]);
    assert!(phrases("It goes.\n\nOn and off.").is_empty(), "a phrase does not cross a paragraph");
    assert!(phrases("| it goes | on |").is_empty(), "a phrase does not cross a cell");
    assert!(phrases("It goes. On and off. A \"no\" revokes it.").is_empty(), "nor punctuation or quotes");
    assert_eq!(phrases("It has a file of its own. It has a file of its own and a key."), ["of its own"; 2]);
    assert!(phrases("It sees the state of its own sessions.").is_empty(), "`own` is an adjective here");
}

#[test]
fn code_links_and_comments_are_skipped() {
    assert!(phrases("```sh\nwhoever\n```\n\n    whoever\n").is_empty());
    assert!(phrases("See `whoever` and ``a ` whoever``.\n<!-- whoever -->").is_empty());
    assert_eq!(phrases("[whoever](whoever.md#whoever)"), ["whoever"], "the text of a link, not its target");
    assert_eq!(phrases("- an item\n\n      whoever"), ["whoever"], "indented text of a list is prose");
}

#[test]
fn sentences_that_start_with_what_are_found() {
    assert_eq!(phrases("It stops. What was sent is kept."), ["What …"]);
    assert_eq!(phrases("| What was sent is kept |"), ["What …"]);
    assert!(phrases("What happens next? It stops.").is_empty(), "a question");
    assert!(phrases("## What it stops").is_empty(), "a heading");
    assert!(phrases("It asks \"Start over. What do you want?\" and waits.").is_empty(), "a quoted question");
}

#[test]
fn findings_name_page_and_line() {
    let found = findings(Markup::Markdown, [("page.md", "One.\n\nTwo\nwhoever.")]);
    assert!(found[0].to_string().starts_with("page.md:4: `whoever`"), "{}", found[0]);
}
