//! The `edit` tool: replaces an exact text. If the text is not found, the error shows what the file contains instead.

use super::tool_error::ToolError;
use std::fmt::Write as _;

/// Maximum number of places listed in a message.
const MAX_LISTED_PLACES: usize = 5;
/// Maximum length of a quoted line, in characters.
const MAX_LINE_CHARS: usize = 160;

/// Result of an edit.
#[derive(Debug)]
pub(super) struct EditResult {
    pub(super) text: String,
    /// Number of replacements.
    pub(super) replaced: usize,
    /// Line of the first replacement.
    pub(super) first_line: usize,
}

/// Replaces `old` with `new`: its only occurrence, or all of them.
pub(super) fn replace_text(
    text: &str,
    old: &str,
    new: &str,
    all: bool,
    shown: &str,
) -> Result<EditResult, ToolError> {
    if old.is_empty() {
        let what = "the field 'old' of 'edit' is empty";
        return Err(ToolError::new(
            "wrong_type",
            what,
            "send the text to replace; use write to create a file",
        ));
    }
    if old == new {
        let what = "the fields 'old' and 'new' of 'edit' are the same";
        return Err(ToolError::new("nothing_to_change", what, "send the replacement in 'new'"));
    }
    let lines: Vec<usize> = text.match_indices(old).map(|(at, _)| line_of(text, at)).collect();
    match lines.as_slice() {
        [] => Err(not_found(text, old, shown)),
        [_, _, ..] if !all => Err(not_unique(&lines, shown)),
        // A self-overlapping text ("aa" in "aaa") occurs more often than it can be replaced.
        [line] if !all && overlaps(text, old) => Err(not_unique(&[*line, *line], shown)),
        [line, ..] => {
            Ok(EditResult { text: text.replace(old, new), replaced: lines.len(), first_line: *line })
        }
    }
}

/// Line number of a position, starting at 1.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// Whether another match starts inside the only match.
fn overlaps(text: &str, old: &str) -> bool {
    let Some(at) = text.find(old) else { return false };
    let step = old.chars().next().map_or(1, char::len_utf8);
    text.get(at + step..).is_some_and(|rest| rest.contains(old))
}

fn not_unique(lines: &[usize], shown: &str) -> ToolError {
    let listed: Vec<String> = lines.iter().take(MAX_LISTED_PLACES).map(usize::to_string).collect();
    let more = if lines.len() > MAX_LISTED_PLACES { ", …" } else { "" };
    let what =
        format!("the text occurs {} times in '{shown}' (lines {}{more})", lines.len(), listed.join(", "));
    ToolError::new("text_not_unique", what, "include more context in 'old', or set 'all'")
}

/// Error that describes the closest match: the text with different whitespace, or its first line.
fn not_found(text: &str, old: &str, shown: &str) -> ToolError {
    let mut what = format!("the text was not found in '{shown}'");
    if text.contains('\r') && !old.contains('\r') && text.replace("\r\n", "\n").contains(old) {
        what.push_str("; the file uses CR LF line endings, 'old' uses LF");
        return ToolError::new(
            "text_not_found",
            what,
            "send one line at a time, or use the line endings of the file",
        );
    }
    let wanted: Vec<String> = old.lines().map(collapse_whitespace).skip_while(String::is_empty).collect();
    let Some(first) = wanted.first() else {
        return ToolError::new("text_not_found", what, "read the file again and copy the text exactly");
    };
    let lines: Vec<&str> = text.lines().collect();
    let collapsed: Vec<String> = lines.iter().map(|line| collapse_whitespace(line)).collect();
    let alike = collapsed.windows(wanted.len()).position(|window| window == wanted);
    if let Some(at) = alike {
        let line = lines.get(at).copied().unwrap_or_default();
        let _ =
            write!(what, "; the text at line {} differs only in whitespace: {}", at + 1, quote_line(line));
        return ToolError::new("text_not_found", what, "read these lines and copy them exactly");
    }
    let near: Vec<usize> = collapsed
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(first.as_str()))
        .map(|(at, _)| at)
        .collect();
    match near.split_first() {
        None => what.push_str("; its first line does not occur either"),
        Some((at, more)) => {
            let line = lines.get(*at).copied().unwrap_or_default();
            let _ = write!(what, "; its first line occurs in line {}: {}", at + 1, quote_line(line));
            if !more.is_empty() {
                let _ = write!(what, " and in {} other lines", more.len());
            }
            what.push_str(", but the following lines differ");
        }
    }
    ToolError::new("text_not_found", what, "read the file again and copy the text exactly")
}

/// A line with its whitespace collapsed to single spaces.
fn collapse_whitespace(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quote_line(line: &str) -> String {
    let shown: String = line.chars().take(MAX_LINE_CHARS).collect();
    let dots = if shown.len() < line.len() { "…" } else { "" };
    format!("`{shown}{dots}`")
}
