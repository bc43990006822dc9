//! The `edit` tool: one exact text becomes another. Whoever is wrong about the file is told what is really there.

use super::error::ToolError;
use std::fmt::Write as _;

/// How many places a message lists.
const SHOWN: usize = 5;
/// How much of a line a message shows, in characters.
const LINE_CHARS: usize = 160;

/// What an edit leads to.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    /// How many places were changed.
    pub(super) places: usize,
    /// The line of the first.
    pub(super) line: usize,
}

/// Replaces `old` by `new`: the one place where it stands, or all of them.
pub(super) fn replace(text: &str, old: &str, new: &str, all: bool, shown: &str) -> Result<Edited, ToolError> {
    if old.is_empty() {
        let what = "the field 'old' of 'edit' is empty";
        return Err(ToolError::new(
            "wrong_type",
            what,
            "send the text to replace; use write to make a new file",
        ));
    }
    if old == new {
        let what = "the fields 'old' and 'new' of 'edit' are the same";
        return Err(ToolError::new("nothing_to_change", what, "send the text as it should become in 'new'"));
    }
    let lines: Vec<usize> = text.match_indices(old).map(|(at, _)| line_of(text, at)).collect();
    match lines.as_slice() {
        [] => Err(not_found(text, old, shown)),
        [_, _, ..] if !all => Err(not_unique(&lines, shown)),
        // A text that overlaps itself ("aa" in "aaa") stands in more places than can be replaced one after another.
        [line] if !all && overlaps(text, old) => Err(not_unique(&[*line, *line], shown)),
        [line, ..] => Ok(Edited { text: text.replace(old, new), places: lines.len(), line: *line }),
    }
}

/// The line of a place, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// Whether the only match has another one that begins inside it.
fn overlaps(text: &str, old: &str) -> bool {
    let Some(at) = text.find(old) else { return false };
    let step = old.chars().next().map_or(1, char::len_utf8);
    text.get(at + step..).is_some_and(|rest| rest.contains(old))
}

fn not_unique(lines: &[usize], shown: &str) -> ToolError {
    let listed: Vec<String> = lines.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if lines.len() > SHOWN { ", …" } else { "" };
    let what =
        format!("the text stands {} times in '{shown}' (lines {}{more})", lines.len(), listed.join(", "));
    ToolError::new("text_not_unique", what, "send more of what is around it in 'old', or set 'all'")
}

/// Says what is there instead: the same text but for white space, or where its first line stands.
fn not_found(text: &str, old: &str, shown: &str) -> ToolError {
    let mut what = format!("the text does not stand in '{shown}'");
    if text.contains('\r') && !old.contains('\r') && text.replace("\r\n", "\n").contains(old) {
        what.push_str("; its lines end with CR LF, those of 'old' with LF alone");
        return ToolError::new(
            "text_not_found",
            what,
            "send one line at a time, or the line ends as they are",
        );
    }
    let wanted: Vec<String> = old.lines().map(squeezed).skip_while(String::is_empty).collect();
    let Some(first) = wanted.first() else {
        return ToolError::new("text_not_found", what, "read the file again and copy the text exactly");
    };
    let there: Vec<&str> = text.lines().collect();
    let squeezed_lines: Vec<String> = there.iter().map(|line| squeezed(line)).collect();
    let alike = squeezed_lines.windows(wanted.len()).position(|window| window == wanted);
    if let Some(at) = alike {
        let line = there.get(at).copied().unwrap_or_default();
        let _ = write!(what, "; from line {} on it differs only in white space: {}", at + 1, quoted(line));
        return ToolError::new("text_not_found", what, "read these lines and copy them exactly");
    }
    let near: Vec<usize> = squeezed_lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(first.as_str()))
        .map(|(at, _)| at)
        .collect();
    match near.split_first() {
        None => what.push_str("; its first line stands nowhere in it"),
        Some((at, more)) => {
            let line = there.get(*at).copied().unwrap_or_default();
            let _ = write!(what, "; its first line stands in line {}: {}", at + 1, quoted(line));
            if !more.is_empty() {
                let _ = write!(what, " and in {} more", more.len());
            }
            what.push_str(", but what follows is different");
        }
    }
    ToolError::new("text_not_found", what, "read the file again and copy the text exactly")
}

/// A line with its white space as single blanks.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quoted(line: &str) -> String {
    let shown: String = line.chars().take(LINE_CHARS).collect();
    let dots = if shown.len() < line.len() { "…" } else { "" };
    format!("`{shown}{dots}`")
}
