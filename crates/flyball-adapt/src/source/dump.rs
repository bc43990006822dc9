//! Folders in which each event is a file of its own, read as one transcript: conversations of OpenHands, and the storage
//! of opencode.

use super::Format;
use super::format::look;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How deep a folder is looked through.
const DEPTH: usize = 4;
/// The most files of one folder.
const FILES: usize = 1_000_000;
/// The largest of them, in bytes; of a larger one the beginning is read, and told as broken.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The files of a folder, one a line.
pub struct Dump {
    files: std::vec::IntoIter<PathBuf>,
    line: Vec<u8>,
    at: usize,
}

/// Reads a folder as one transcript, if it holds one that was written as a file for each event.
///
/// # Errors
/// If the folder or its first file cannot be read.
pub fn dump(folder: &Path) -> std::io::Result<Option<Dump>> {
    let mut files = Vec::new();
    collect(folder, DEPTH, &mut files)?;
    files.sort_by(|left, right| order(left, right));
    let Some(first) = files.first() else { return Ok(None) };
    let line = line_of(first)?;
    let known = matches!(look(&line), Some(Format::OpenHands | Format::Opencode));
    let single = line.trim_ascii_start().first() == Some(&b'{');
    Ok((known && single).then(|| Dump { files: files.into_iter(), line: Vec::new(), at: 0 }))
}

impl Read for Dump {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.line.len() {
            let Some(path) = self.files.next() else { return Ok(0) };
            self.line = line_of(&path)?;
            self.at = 0;
        }
        let mut rest = self.line.get(self.at..).unwrap_or_default();
        let read = rest.read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// A file as one line: between the strings of JSON an end of line means no more than a space, and inside there is none.
fn line_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    File::open(path)?.take(FILE_BYTES).read_to_end(&mut line)?;
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    Ok(line)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "json") && files.len() < FILES {
            files.push(path);
        }
    }
    Ok(())
}

/// Sessions before messages before parts; then by folder; numbers as numbers, all else as it is written.
fn order(left: &Path, right: &Path) -> Ordering {
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
