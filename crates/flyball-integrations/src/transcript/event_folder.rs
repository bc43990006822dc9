//! Folders with one file per event, read as one transcript: OpenHands conversations and opencode storage.

use super::TranscriptFormat;
use super::format::guess_format;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum folder depth.
const MAX_DEPTH: usize = 4;
/// Maximum number of files in a folder.
const MAX_FILES: usize = 1_000_000;
/// Maximum file size, in bytes; a larger file is truncated and counted as broken.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A reader that yields one line per file.
pub struct EventFolder {
    files: std::vec::IntoIter<PathBuf>,
    line: Vec<u8>,
    at: usize,
}

/// Opens a folder as one transcript, if it contains one file per event.
///
/// # Errors
/// If the folder or its first file cannot be read.
pub fn open_event_folder(folder: &Path) -> std::io::Result<Option<EventFolder>> {
    let mut files = Vec::new();
    collect_files(folder, MAX_DEPTH, &mut files)?;
    files.sort_by(|left, right| compare_paths(left, right));
    let Some(first) = files.first() else { return Ok(None) };
    let line = file_as_line(first)?;
    let known = matches!(guess_format(&line), Some(TranscriptFormat::OpenHands | TranscriptFormat::Opencode));
    let single = line.trim_ascii_start().first() == Some(&b'{');
    Ok((known && single).then(|| EventFolder { files: files.into_iter(), line: Vec::new(), at: 0 }))
}

impl Read for EventFolder {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.line.len() {
            let Some(path) = self.files.next() else { return Ok(0) };
            self.line = file_as_line(&path)?;
            self.at = 0;
        }
        let mut rest = self.line.get(self.at..).unwrap_or_default();
        let read = rest.read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// Reads a file as one line. Outside of JSON strings a line break is whitespace, and strings contain none.
fn file_as_line(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut line)?;
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    Ok(line)
}

fn collect_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && depth > 0 {
            collect_files(&path, depth - 1, files)?;
        } else if kind.is_file()
            && path.extension().is_some_and(|end| end == "json")
            && files.len() < MAX_FILES
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Compares paths: sessions before messages before parts, then by folder; numbers numerically, everything else as text.
fn compare_paths(left: &Path, right: &Path) -> Ordering {
    let rank = |path: &Path| {
        let names = ["session", "message", "part"];
        path.components().rev().find_map(|part| names.iter().position(|name| part.as_os_str() == *name))
    };
    let number = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
    rank(left)
        .cmp(&rank(right))
        .then_with(|| left.parent().cmp(&right.parent()))
        .then_with(|| number(left).cmp(&number(right)))
        .then_with(|| left.cmp(right))
}
