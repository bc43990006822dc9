//! Fenced blocks of Markdown pages, with the directives before them.
//!
//! A directive is an HTML comment on the line before a block, invisible in the rendered page; commas separate several:
//!
//! | directive | before | meaning |
//! |---|---|---|
//! | `<!-- not run: REASON -->` | `sh` | an example that the tests do not run, and why |
//! | `<!-- exit: N -->` | `sh` | the exit code of the last command in the block that failed |
//! | `<!-- record -->`, `<!-- record: N lines -->` | `sh` | recorded in `docs/images`, whole or the first lines |
//! | `<!-- output -->` | `text`, `json` | the exact output of the `sh` block before it |
//! | `<!-- output: N lines -->` | `text`, `json` | the first N lines of that output |

use crate::kit::repo_root;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One fenced block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) language: String,
    /// The text between the fences, with its last newline.
    pub(crate) text: String,
    /// The position of that text in the page.
    pub(crate) span: Range<usize>,
    /// The line of the opening fence, starting at 1.
    pub(crate) line: usize,
    /// The directive before it, without the comment markers.
    pub(crate) directive: Option<String>,
}

impl Block {
    /// The value of a directive `NAME: VALUE`, or an empty string for `NAME` alone.
    pub(crate) fn directive(&self, name: &str) -> Option<&str> {
        let mut parts = self.directive.as_deref()?.split(", ").map(str::trim);
        parts.find_map(|part| {
            let rest = part.strip_prefix(name)?;
            if rest.is_empty() { Some("") } else { rest.strip_prefix(':').map(str::trim) }
        })
    }
}

/// The blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    let mut at = 0;
    for (number, line) in page.split_inclusive('\n').enumerate() {
        let start = at;
        at += line.len();
        let content = line.trim_end();
        match (open.take(), content.trim_start().strip_prefix("```")) {
            (Some(mut block), Some(_)) => {
                block.span.end = start;
                page[block.span.clone()].clone_into(&mut block.text);
                found.push(block);
            }
            (None, Some(language)) => {
                let comment = before.strip_prefix("<!-- ").and_then(|text| text.strip_suffix(" -->"));
                open = Some(Block {
                    language: language.trim().to_owned(),
                    text: String::new(),
                    span: at..at,
                    line: number + 1,
                    directive: comment.map(str::to_owned),
                });
            }
            (block, None) => open = block,
        }
        before = content;
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// A page of the repository.
pub(crate) struct Page {
    /// Its path from the repository root.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let text =
            std::fs::read_to_string(repo_root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name: name.to_owned(), text }
    }
}

/// All pages for users: `README.md`, `docs`, and the examples.
pub(crate) fn all_pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "SECURITY.md".to_owned()];
    for folder in ["docs", "examples"] {
        markdown_below(&repo_root().join(folder), &mut names);
    }
    names.sort();
    names.iter().map(|name| Page::read(name)).collect()
}

fn markdown_below(folder: &Path, names: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with(".flyball") {
            markdown_below(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            names.push(path.strip_prefix(repo_root()).unwrap().to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn blocks_are_read_with_their_directives() {
    let page =
        "a\n\n<!-- exit: 3 -->\n```sh\nx\ny\n```\n\n<!-- output -->\n```text\nz\n```\n```json\n{}\n```\n";
    let found = blocks(page);
    let languages: Vec<&str> = found.iter().map(|block| block.language.as_str()).collect();
    assert_eq!(languages, ["sh", "text", "json"]);
    assert_eq!((found[0].text.as_str(), found[0].line), ("x\ny\n", 4));
    assert_eq!((found[0].directive("exit"), found[1].directive("output")), (Some("3"), Some("")));
    assert_eq!((found[0].directive("output"), found[2].directive("output")), (None, None));
    assert_eq!(&page[found[1].span.clone()], "z\n");
}
