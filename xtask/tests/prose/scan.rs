//! Finds phrases in prose: Markdown is reduced to its sentences first, without code, link targets and comments.

use super::rules::{PHRASES, SPELLINGS};
use std::fmt;

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Markup {
    /// A page: code and link targets are not prose.
    Markdown,
    /// A message or a help text: all of it is prose, except what is in backticks.
    Plain,
}

/// A phrase in a text.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) phrase: &'static str,
    pub(crate) instead: &'static str,
    /// The words around it.
    pub(crate) context: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { name, line, phrase, instead, context } = self;
        write!(out, "{name}:{line}: `{phrase}` (write: {instead}) in: {context}")
    }
}

/// A run of words that belong together: a paragraph, a list item, a table cell or a heading.
#[derive(Default)]
struct Block {
    /// Each word with its line.
    words: Vec<(usize, String)>,
    is_heading: bool,
}

/// Words of context on each side of a finding.
const CONTEXT_WORDS: usize = 6;
/// Replaces inline code, so that a phrase does not reach across it.
const CODE: &str = "`…`";
/// Words after which `of its own` is the end of a phrase.
const FUNCTION_WORDS: [&str; 18] = [
    "and", "as", "at", "but", "by", "for", "from", "has", "in", "is", "on", "or", "so", "that", "to",
    "which", "who", "with",
];

/// The findings in one text.
pub(crate) fn scan(name: &str, text: &str, markup: Markup) -> Vec<Finding> {
    let blocks = if markup == Markup::Markdown { markdown_blocks(text) } else { plain_blocks(text) };
    blocks.iter().flat_map(|block| scan_block(name, block)).collect()
}

fn scan_block(name: &str, block: &Block) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < block.words.len() {
        let matching = PHRASES.iter().chain(&SPELLINGS).filter(|(phrase, _)| starts_at(block, at, phrase));
        if let Some((phrase, instead)) = matching.max_by_key(|(phrase, _)| phrase.len()) {
            found.push(finding(name, block, at, phrase, instead));
            at += phrase.split(' ').count();
            continue;
        }
        if block.words[at].1 == "What"
            && !block.is_heading
            && starts_sentence(block, at)
            && !is_question(block, at)
        {
            found.push(finding(name, block, at, "What …", "name the subject"));
        }
        at += 1;
    }
    found
}

fn finding(name: &str, block: &Block, at: usize, phrase: &'static str, instead: &'static str) -> Finding {
    let end = at + phrase.split(' ').count() + CONTEXT_WORDS;
    let words = &block.words[at.saturating_sub(CONTEXT_WORDS)..end.min(block.words.len())];
    let context = words.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ");
    Finding { name: name.to_owned(), line: block.words[at].0, phrase, instead, context }
}

/// Whether the phrase is the words from `at` on, with nothing but space between them.
fn starts_at(block: &Block, at: usize, phrase: &str) -> bool {
    let parts: Vec<&str> = phrase.split(' ').collect();
    let Some(words) = block.words.get(at..at + parts.len()) else { return false };
    let is_equal = words.iter().zip(&parts).all(|((_, word), part)| bare(word) == *part);
    let is_joined = words.windows(2).all(|pair| {
        pair[0].1.ends_with(char::is_alphanumeric) && pair[1].1.starts_with(char::is_alphanumeric)
    });
    is_equal && is_joined && !(phrase.ends_with(" own") && precedes_noun(block, at + parts.len()))
}

/// Whether `own` before this word is an adjective (`of its own sessions`), not the end of a phrase (`of its own`).
fn precedes_noun(block: &Block, at: usize) -> bool {
    let is_closed = block.words[at - 1].1.ends_with(|c: char| !c.is_alphanumeric());
    let next = block.words.get(at).map(|(_, word)| bare(word)).unwrap_or_default();
    !is_closed && !next.is_empty() && !FUNCTION_WORDS.contains(&next.as_str())
}

/// A word without punctuation, in lower case.
fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

/// A word without closing quotes, parentheses and emphasis.
fn closing(word: &str) -> &str {
    word.trim_end_matches(['*', '_', ')', '"', '\u{201d}'])
}

fn ends_sentence(word: &str) -> bool {
    closing(word).ends_with(['.', '!', '?'])
}

fn starts_sentence(block: &Block, at: usize) -> bool {
    at == 0 || ends_sentence(&block.words[at - 1].1)
}

fn is_question(block: &Block, at: usize) -> bool {
    let end = block.words[at..].iter().find(|(_, word)| ends_sentence(word));
    end.is_some_and(|(_, word)| closing(word).ends_with('?'))
}

fn plain_blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            blocks.push(Block::default());
        }
        add_words(&mut blocks, at + 1, &without_code(line));
    }
    blocks
}

/// The prose of a page, block by block.
fn markdown_blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    let mut fence = None;
    let mut in_list = false;
    let text = blanked(text);
    for (at, line) in text.lines().enumerate() {
        let inner = line.trim_start_matches([' ', '>']);
        let mark = ["```", "~~~"].into_iter().find(|mark| inner.starts_with(mark));
        if let Some(open) = fence {
            fence = if mark == Some(open) { None } else { Some(open) };
            continue;
        }
        if mark.is_some() {
            fence = mark;
            blocks.push(Block::default());
            continue;
        }
        let is_item = item(inner).is_some();
        let is_indented = line.starts_with("    ");
        if !inner.is_empty() && !line.starts_with(' ') {
            in_list = is_item;
        }
        if inner.is_empty()
            || is_indented && !in_list && blocks.last().is_none_or(|block| block.words.is_empty())
        {
            blocks.push(Block::default());
            continue;
        }
        let heading = inner.trim_start_matches('#');
        if heading.len() < inner.len() && heading.starts_with(' ') {
            blocks.push(Block { is_heading: true, ..Block::default() });
            add_words(&mut blocks, at + 1, heading);
            blocks.push(Block::default());
        } else if inner.starts_with('|') {
            for cell in inner.split('|') {
                blocks.push(Block::default());
                add_words(&mut blocks, at + 1, cell);
            }
            blocks.push(Block::default());
        } else {
            if is_item {
                blocks.push(Block::default());
            }
            add_words(&mut blocks, at + 1, item(inner).unwrap_or(inner));
        }
    }
    blocks
}

/// The text of a list item.
fn item(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    bullet.or_else(|| line.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(". "))
}

fn add_words(blocks: &mut [Block], line: usize, text: &str) {
    let Some(block) = blocks.last_mut() else { return };
    block.words.extend(text.split_whitespace().map(|word| (line, word.to_owned())));
}

/// The text without inline code, link targets and comments; lines stay where they are.
fn blanked(text: &str) -> String {
    let mut out = String::new();
    let mut in_fence = false;
    let mut rest = text;
    while !rest.is_empty() {
        let at_line_start = out.is_empty() || out.ends_with('\n');
        if at_line_start && (rest.trim_start_matches([' ', '>']).starts_with("```") || in_fence) {
            let line = rest.split_inclusive('\n').next().unwrap_or(rest);
            in_fence ^= line.trim_start_matches([' ', '>']).starts_with("```");
            out.push_str(line);
            rest = &rest[line.len()..];
        } else if rest.starts_with('`') {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let end = rest[ticks..].find(&rest[..ticks]).map(|at| ticks + at + ticks);
            rest = skip(&mut out, rest, end.unwrap_or(ticks), CODE);
        } else if rest.starts_with("<!--") {
            rest = skip(&mut out, rest, rest.find("-->").map_or(rest.len(), |at| at + 3), "");
        } else if rest.starts_with("](") {
            rest = skip(&mut out, rest, rest.find(')').map_or(rest.len(), |at| at + 1), "]");
        } else {
            let next = rest.chars().next().unwrap_or_default();
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// Replaces the first `length` bytes by `instead`, and keeps their line breaks.
fn skip<'a>(out: &mut String, rest: &'a str, length: usize, instead: &str) -> &'a str {
    let (skipped, rest) = rest.split_at(length);
    out.push_str(instead);
    out.extend(skipped.matches('\n'));
    rest
}

fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { CODE }).collect()
}
