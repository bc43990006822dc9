//! The `search` tool: matching lines of files, in name order, with limits.

use super::text_reader::is_binary;
use super::tool_error::ToolError;
use super::workspace::{OPEN_DIR_FLAGS, WorkspacePath, WorkspaceRoot};
use crate::process::CancelToken;
use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Default maximum of matching lines.
pub(super) const DEFAULT_MATCHES: u64 = 200;
/// Larger files are skipped, with a note.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum folder depth.
const MAX_DEPTH: usize = 64;
/// Maximum number of files and folders visited.
const MAX_ENTRIES: u64 = 200_000;
/// Maximum length of a shown line, in characters.
const MAX_LINE_CHARS: usize = 300;
/// Maximum characters shown before the match.
const MAX_CHARS_BEFORE_MATCH: usize = 100;
/// Folders with generated files; hidden folders are skipped too.
const SKIPPED_DIRS: [&str; 2] = ["target", "node_modules"];

/// A search query.
#[derive(Debug)]
pub(super) struct SearchQuery {
    pub(super) pattern: Regex,
    glob: Option<(GlobMatcher, bool)>,
    limit: u64,
    max_chars: usize,
}

impl SearchQuery {
    /// Compiles a query.
    pub(super) fn new(pattern: &str, regex: bool, ignore_case: bool) -> Result<Self, ToolError> {
        if pattern.is_empty() {
            let what = "the field 'pattern' of 'search' is empty";
            return Err(ToolError::new("wrong_type", what, "send the text or regular expression to find"));
        }
        let written = if regex { pattern.to_owned() } else { regex::escape(pattern) };
        let pattern = RegexBuilder::new(&written).case_insensitive(ignore_case).build().map_err(|error| {
            let what = format!("the field 'pattern' of 'search' is not a regular expression: {error}");
            ToolError::new("bad_pattern", what, "fix it, or omit 'regex' to find plain text")
        })?;
        Ok(SearchQuery {
            pattern,
            glob: None,
            limit: DEFAULT_MATCHES,
            max_chars: super::read::MAX_PAGE_CHARS,
        })
    }

    /// Restricts the search to matching file names; with a `/`, to matching paths relative to the workspace.
    pub(super) fn glob(mut self, glob: &str) -> Result<Self, ToolError> {
        let matcher = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| {
            let what = format!("the field 'glob' of 'search' is invalid: {error}");
            ToolError::new("bad_pattern", what, "use a glob such as *.rs or src/**/*.py")
        })?;
        self.glob = Some((matcher.compile_matcher(), glob.contains('/')));
        Ok(self)
    }

    /// Limits the number of lines and characters.
    pub(super) fn with_limits(mut self, limit: u64, max_chars: usize) -> Self {
        (self.limit, self.max_chars) = (limit, max_chars);
        self
    }

    fn matches_glob(&self, path: &Path, name: &OsStr) -> bool {
        match &self.glob {
            None => true,
            Some((glob, true)) => glob.is_match(path),
            Some((glob, false)) => glob.is_match(Path::new(name)),
        }
    }
}

/// A search in progress.
pub(super) struct FileSearch<'a> {
    query: &'a SearchQuery,
    cancel: &'a CancelToken,
    stop_at: Option<Instant>,
    text: String,
    /// Length of the text in characters.
    chars: usize,
    matches: u64,
    files: u64,
    entries: u64,
    skipped: u64,
    stopped: Option<ToolError>,
    full: bool,
}

impl<'a> FileSearch<'a> {
    pub(super) fn new(query: &'a SearchQuery, cancel: &'a CancelToken, stop_at: Option<Instant>) -> Self {
        FileSearch {
            query,
            cancel,
            stop_at,
            text: String::new(),
            chars: 0,
            matches: 0,
            files: 0,
            entries: 0,
            skipped: 0,
            stopped: None,
            full: false,
        }
    }

    /// Searches a file, or everything below a folder.
    pub(super) fn search_path(
        &mut self,
        workspace: &WorkspaceRoot,
        target: &WorkspacePath,
    ) -> Result<(), ToolError> {
        if target.file_type() != Some(FileType::Directory) {
            let file = target.open()?;
            self.search_file(file, &target.display());
            return Ok(());
        }
        let folder = rustix::fs::openat(&target.parent, &target.name, OPEN_DIR_FLAGS, Mode::empty());
        let folder = folder.map_err(|errno| ToolError::io(&target.display(), &errno.into()))?;
        self.search_dir(workspace, &folder, &target.path, 0);
        Ok(())
    }

    /// Searches everything below a folder. Unreadable entries are counted and skipped.
    fn search_dir(&mut self, workspace: &WorkspaceRoot, folder: &OwnedFd, path: &Path, depth: usize) {
        let Ok(listing) = Dir::read_from(folder) else {
            self.skipped += 1;
            return;
        };
        let mut names: Vec<Vec<u8>> = listing
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_bytes().to_vec()))
            .filter(|name| name != b"." && name != b"..")
            .collect();
        names.sort_unstable();
        for name in names {
            if self.is_finished() {
                return;
            }
            self.entries += 1;
            self.search_entry(workspace, folder, OsStr::from_bytes(&name), path, depth);
        }
    }

    /// Searches one entry of a folder; links are not followed.
    fn search_entry(
        &mut self,
        workspace: &WorkspaceRoot,
        folder: &OwnedFd,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) {
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let path: PathBuf = path.join(name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let hidden =
                    name.as_bytes().starts_with(b".") || SKIPPED_DIRS.iter().any(|skipped| name == *skipped);
                if hidden || workspace.is_protected(&stat) {
                    return;
                }
                match rustix::fs::openat(folder, name, OPEN_DIR_FLAGS, Mode::empty()) {
                    Ok(inner) if depth < MAX_DEPTH => self.search_dir(workspace, &inner, &path, depth + 1),
                    _ => self.skipped += 1,
                }
            }
            FileType::RegularFile if self.query.matches_glob(&path, name) => {
                let flags = super::workspace::OPEN_FILE_FLAGS;
                match rustix::fs::openat(folder, name, flags, Mode::empty()) {
                    Ok(file) => self.search_file(File::from(file), &path.display().to_string()),
                    Err(_) => self.skipped += 1,
                }
            }
            _ => {}
        }
    }

    /// Searches one file.
    pub(super) fn search_file(&mut self, file: File, shown: &str) {
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() as u64 > MAX_FILE_BYTES || is_binary(&bytes) {
            self.skipped += 1;
            return;
        }
        self.files += 1;
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            let Some(found) = self.query.pattern.find(line) else { continue };
            let shown = format!("{shown}:{}: {}\n", number + 1, excerpt(line, found.start()));
            self.chars += shown.chars().count();
            if self.matches == self.query.limit || self.chars > self.query.max_chars {
                self.full = true;
                return;
            }
            self.matches += 1;
            self.text.push_str(&shown);
        }
    }

    /// Whether the search should stop.
    fn is_finished(&mut self) -> bool {
        if self.full || self.stopped.is_some() {
            return true;
        }
        self.stopped = if self.cancel.is_cancelled() {
            Some(ToolError::new(
                "cancelled",
                "the search was cancelled",
                "the matches so far are in the output",
            ))
        } else if self.stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
            let help = "narrow the path or the glob; the matches so far are in the output";
            Some(ToolError::new("deadline", "the search took too long and was stopped", help))
        } else if self.entries >= MAX_ENTRIES {
            let what = format!("there are more than {MAX_ENTRIES} files and folders");
            Some(ToolError::new(
                "too_many_files",
                what,
                "narrow the path; the matches so far are in the output",
            ))
        } else {
            None
        };
        self.stopped.is_some()
    }

    /// The matches, with notes in brackets about omissions, and the error if the search was stopped.
    pub(super) fn finish(mut self) -> (String, Option<ToolError>) {
        if self.matches == 0 {
            let _ = writeln!(self.text, "[no match in {} files]", self.files);
        }
        if self.full {
            let shown = self.matches;
            let _ = writeln!(
                self.text,
                "[first {shown} matches; there are more: narrow the pattern, path or glob]"
            );
        }
        if self.skipped > 0 {
            let (skipped, size) = (self.skipped, MAX_FILE_BYTES);
            let _ =
                writeln!(self.text, "[{skipped} skipped: not text, larger than {size} bytes, or unreadable]");
        }
        (self.text.trim_end().to_owned(), self.stopped)
    }
}

/// A line, or the part of a very long line around the match.
fn excerpt(line: &str, at: usize) -> String {
    if line.len() <= MAX_LINE_CHARS {
        return line.to_owned();
    }
    let column = line.get(..at).unwrap_or_default().chars().count();
    let first = column.saturating_sub(MAX_CHARS_BEFORE_MATCH);
    let shown: String = line.chars().skip(first).take(MAX_LINE_CHARS).collect();
    let end = if first + MAX_LINE_CHARS < line.chars().count() { "…" } else { "" };
    if first == 0 {
        format!("{shown}{end}")
    } else {
        format!("(from character {}) …{shown}{end}", first + 1)
    }
}
