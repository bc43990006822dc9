//! The `search` tool: which lines of which files match, in the order of their names, and never too many.

use super::error::ToolError;
use super::place::{FOLDER, Spot, Workspace};
use super::text::is_binary;
use crate::process::Cancel;
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

/// The most matching lines unless one says otherwise.
pub(super) const MATCHES: u64 = 200;
/// Files beyond this are left out, and it is said so.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The deepest folder that is looked into.
const DEPTH: usize = 64;
/// The most files and folders that are looked at.
const ENTRIES: u64 = 200_000;
/// How much of a line is shown, in characters.
const LINE_CHARS: usize = 300;
/// How much of it before the match.
const BEFORE_CHARS: usize = 100;
/// Folders that hold what others have made; hidden folders are left out too.
const LEFT_OUT: [&str; 2] = ["target", "node_modules"];

/// What is looked for.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) pattern: Regex,
    glob: Option<(GlobMatcher, bool)>,
    limit: u64,
    room: usize,
}

impl Query {
    /// Reads what a model has asked for.
    pub(super) fn new(pattern: &str, regex: bool, ignore_case: bool) -> Result<Self, ToolError> {
        if pattern.is_empty() {
            let what = "the field 'pattern' of 'search' is empty";
            return Err(ToolError::new(
                "wrong_type",
                what,
                "send the text or regular expression to look for",
            ));
        }
        let written = if regex { pattern.to_owned() } else { regex::escape(pattern) };
        let pattern = RegexBuilder::new(&written).case_insensitive(ignore_case).build().map_err(|error| {
            let what = format!("the field 'pattern' of 'search' is no regular expression: {error}");
            ToolError::new("bad_pattern", what, "correct it, or leave 'regex' out to look for the plain text")
        })?;
        Ok(Query { pattern, glob: None, limit: MATCHES, room: super::read::PAGE_CHARS })
    }

    /// Only files whose name matches; with a `/` in it the whole path from the workspace on must.
    pub(super) fn glob(mut self, glob: &str) -> Result<Self, ToolError> {
        let matcher = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| {
            let what = format!("the field 'glob' of 'search' cannot be used: {error}");
            ToolError::new("bad_pattern", what, "write it like *.rs or src/**/*.py")
        })?;
        self.glob = Some((matcher.compile_matcher(), glob.contains('/')));
        Ok(self)
    }

    /// No more than this many lines, and this many characters.
    pub(super) fn at_most(mut self, limit: u64, room: usize) -> Self {
        (self.limit, self.room) = (limit, room);
        self
    }

    fn wants(&self, path: &Path, name: &OsStr) -> bool {
        match &self.glob {
            None => true,
            Some((glob, true)) => glob.is_match(path),
            Some((glob, false)) => glob.is_match(Path::new(name)),
        }
    }
}

/// A search under way.
pub(super) struct Search<'a> {
    query: &'a Query,
    cancel: &'a Cancel,
    stop_at: Option<Instant>,
    text: String,
    /// The length of the text in characters.
    chars: usize,
    matches: u64,
    files: u64,
    entries: u64,
    left_out: u64,
    stopped: Option<ToolError>,
    full: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(query: &'a Query, cancel: &'a Cancel, stop_at: Option<Instant>) -> Self {
        Search {
            query,
            cancel,
            stop_at,
            text: String::new(),
            chars: 0,
            matches: 0,
            files: 0,
            entries: 0,
            left_out: 0,
            stopped: None,
            full: false,
        }
    }

    /// Searches a file, or everything below a folder.
    pub(super) fn spot(&mut self, workspace: &Workspace, spot: &Spot) -> Result<(), ToolError> {
        if spot.kind() != Some(FileType::Directory) {
            let file = spot.open()?;
            self.file(file, &spot.shown());
            return Ok(());
        }
        let folder = rustix::fs::openat(&spot.folder, &spot.name, FOLDER, Mode::empty());
        let folder = folder.map_err(|errno| ToolError::io(&spot.shown(), &errno.into()))?;
        self.folder(workspace, &folder, &spot.path, 0);
        Ok(())
    }

    /// Searches everything below a folder. What cannot be read is counted and left out.
    fn folder(&mut self, workspace: &Workspace, folder: &OwnedFd, path: &Path, depth: usize) {
        let Ok(listing) = Dir::read_from(folder) else {
            self.left_out += 1;
            return;
        };
        let mut names: Vec<Vec<u8>> = listing
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_bytes().to_vec()))
            .filter(|name| name != b"." && name != b"..")
            .collect();
        names.sort_unstable();
        for name in names {
            if self.is_over() {
                return;
            }
            self.entries += 1;
            self.entry(workspace, folder, OsStr::from_bytes(&name), path, depth);
        }
    }

    /// Searches one name of a folder; links are not followed.
    fn entry(&mut self, workspace: &Workspace, folder: &OwnedFd, name: &OsStr, path: &Path, depth: usize) {
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let path: PathBuf = path.join(name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let hidden = name.as_bytes().starts_with(b".") || LEFT_OUT.iter().any(|left| name == *left);
                if hidden || workspace.is_closed(&stat) {
                    return;
                }
                match rustix::fs::openat(folder, name, FOLDER, Mode::empty()) {
                    Ok(inner) if depth < DEPTH => self.folder(workspace, &inner, &path, depth + 1),
                    _ => self.left_out += 1,
                }
            }
            FileType::RegularFile if self.query.wants(&path, name) => {
                let flags = super::place::FILE;
                match rustix::fs::openat(folder, name, flags, Mode::empty()) {
                    Ok(file) => self.file(File::from(file), &path.display().to_string()),
                    Err(_) => self.left_out += 1,
                }
            }
            _ => {}
        }
    }

    /// Searches one file.
    pub(super) fn file(&mut self, file: File, shown: &str) {
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES + 1).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() as u64 > FILE_BYTES || is_binary(&bytes) {
            self.left_out += 1;
            return;
        }
        self.files += 1;
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            let Some(found) = self.query.pattern.find(line) else { continue };
            let shown = format!("{shown}:{}: {}\n", number + 1, excerpt(line, found.start()));
            self.chars += shown.chars().count();
            if self.matches == self.query.limit || self.chars > self.query.room {
                self.full = true;
                return;
            }
            self.matches += 1;
            self.text.push_str(&shown);
        }
    }

    /// Whether there is no use in going on.
    fn is_over(&mut self) -> bool {
        if self.full || self.stopped.is_some() {
            return true;
        }
        self.stopped = if self.cancel.is_cancelled() {
            Some(ToolError::new(
                "cancelled",
                "the search was cancelled",
                "what was found so far is in the output",
            ))
        } else if self.stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
            let hint = "narrow the path or the glob; what was found so far is in the output";
            Some(ToolError::new("deadline", "the search took too long and was stopped", hint))
        } else if self.entries >= ENTRIES {
            let what = format!("there are more than {ENTRIES} files and folders");
            Some(ToolError::new(
                "too_many_files",
                what,
                "narrow the path; what was found so far is in the output",
            ))
        } else {
            None
        };
        self.stopped.is_some()
    }

    /// The matches, with notes in brackets about what is not among them; and why it was stopped, if it was.
    pub(super) fn finish(mut self) -> (String, Option<ToolError>) {
        if self.matches == 0 {
            let _ = writeln!(self.text, "[no match in {} files]", self.files);
        }
        if self.full {
            let shown = self.matches;
            let _ = writeln!(
                self.text,
                "[the first {shown} matches; there are more: narrow the pattern, path or glob]"
            );
        }
        if self.left_out > 0 {
            let (left, size) = (self.left_out, FILE_BYTES);
            let _ =
                writeln!(self.text, "[{left} left out: no text, more than {size} bytes, or not readable]");
        }
        (self.text.trim_end().to_owned(), self.stopped)
    }
}

/// A line, or of a very long line what is around the match.
fn excerpt(line: &str, at: usize) -> String {
    if line.len() <= LINE_CHARS {
        return line.to_owned();
    }
    let column = line.get(..at).unwrap_or_default().chars().count();
    let first = column.saturating_sub(BEFORE_CHARS);
    let shown: String = line.chars().skip(first).take(LINE_CHARS).collect();
    let end = if first + LINE_CHARS < line.chars().count() { "…" } else { "" };
    if first == 0 {
        format!("{shown}{end}")
    } else {
        format!("(from character {}) …{shown}{end}", first + 1)
    }
}
