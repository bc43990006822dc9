//! Files and lines in a tool's output.

use std::path::Path;

/// A place in a file, and what stands after it.
pub(crate) struct Place<'a> {
    /// The file as it was written.
    pub(crate) file: &'a str,
    /// The line, from 1.
    pub(crate) line: u32,
    /// What follows, without the colon.
    pub(crate) rest: &'a str,
}

/// Reads `file:line: rest` and `file:line:column: rest` at the beginning of a line.
pub(crate) fn place(text: &str) -> Option<Place<'_>> {
    let text = text.trim_start();
    // The colon after the letter of a drive is none that ends a file's name.
    let drive = text.get(1..3).is_some_and(|two| two == ":\\" || two == ":/");
    let from = if drive { 2 } else { 0 };
    let colon = from + text.get(from..)?.find(':')?;
    let file = text.get(..colon)?;
    let bare = file.contains(['.', '/', '\\']) && !file.contains([' ', '\t', '"', '(', '<']);
    if file.is_empty() || !bare || file.starts_with("http") {
        return None;
    }
    let (line, rest) = number(text.get(colon + 1..)?)?;
    let rest = match rest.strip_prefix(':').and_then(number) {
        Some((_, rest)) => rest,
        None => rest,
    };
    Some(Place { file, line, rest: rest.strip_prefix(':').unwrap_or(rest).trim() })
}

/// A number at the beginning of a text, and what follows it.
pub(crate) fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?))
}

/// A file as seen from the workspace's folder; one that lies outside stays as it is.
#[must_use]
pub fn relative(root: &Path, file: &str) -> String {
    let file = file.strip_prefix("file://").unwrap_or(file);
    let inside = Path::new(file).strip_prefix(root).ok().and_then(Path::to_str);
    let inside = inside.unwrap_or(file);
    inside.strip_prefix("./").unwrap_or(inside).to_owned()
}

/// Whether a file is the project's own: not of a language's library and not of an installed package.
pub(crate) fn is_own(file: &str) -> bool {
    let foreign = ["/rustc/", "node:", "<frozen", "/usr/lib/", "/usr/local/lib/"];
    let inside =
        ["site-packages/", "dist-packages/", "node_modules/", "/go/src/", "/rustdoctest", ".cargo/registry"];
    !foreign.iter().any(|prefix| file.starts_with(prefix)) && !inside.iter().any(|part| file.contains(part))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
