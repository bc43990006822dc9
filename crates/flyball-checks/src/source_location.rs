//! File names and lines in a tool's output.

use std::path::Path;

/// A location in a file, and the text after it.
pub(crate) struct SourceLocation<'a> {
    /// The file, as written.
    pub(crate) file: &'a str,
    /// The line, starting at 1.
    pub(crate) line: u32,
    /// The rest of the text, without the colon.
    pub(crate) rest: &'a str,
}

/// Parses `file:line: rest` and `file:line:column: rest` at the start of a line.
pub(crate) fn parse_location(text: &str) -> Option<SourceLocation<'_>> {
    let text = text.trim_start();
    // The colon after a drive letter does not end the file name.
    let drive = text.get(1..3).is_some_and(|two| two == ":\\" || two == ":/");
    let from = if drive { 2 } else { 0 };
    let colon = from + text.get(from..)?.find(':')?;
    let file = text.get(..colon)?;
    let bare = file.contains(['.', '/', '\\']) && !file.contains([' ', '\t', '"', '(', '<']);
    if file.is_empty() || !bare || file.starts_with("http") {
        return None;
    }
    let (line, rest) = parse_leading_number(text.get(colon + 1..)?)?;
    let rest = match rest.strip_prefix(':').and_then(parse_leading_number) {
        Some((_, rest)) => rest,
        None => rest,
    };
    Some(SourceLocation { file, line, rest: rest.strip_prefix(':').unwrap_or(rest).trim() })
}

/// A number at the start of a text, and the rest.
pub(crate) fn parse_leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?))
}

/// A file name relative to the workspace folder; a file outside is unchanged.
#[must_use]
pub fn relative_to(root: &Path, file: &str) -> String {
    let file = file.strip_prefix("file://").unwrap_or(file);
    let inside = Path::new(file).strip_prefix(root).ok().and_then(Path::to_str);
    let inside = inside.unwrap_or(file);
    inside.strip_prefix("./").unwrap_or(inside).to_owned()
}

/// Whether a file belongs to the project and not to a standard library or installed package.
pub(crate) fn is_project_file(file: &str) -> bool {
    let foreign = ["/rustc/", "node:", "<frozen", "/usr/lib/", "/usr/local/lib/"];
    let inside =
        ["site-packages/", "dist-packages/", "node_modules/", "/go/src/", "/rustdoctest", ".cargo/registry"];
    !foreign.iter().any(|prefix| file.starts_with(prefix)) && !inside.iter().any(|part| file.contains(part))
}

#[cfg(test)]
#[path = "source_location_tests.rs"]
mod tests;
