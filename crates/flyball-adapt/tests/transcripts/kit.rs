//! The fixtures: where they are, what they are, and how they are read.

use flyball_adapt::source::{Broken, Format, Item, Summary, Transcript, read};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// One transcript, with the format that its folder is named after.
pub(crate) struct Fixture {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Fixture {
    /// The events that it becomes.
    pub(crate) fn golden(&self) -> PathBuf {
        self.path.with_extension("events.jsonl")
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All transcripts, by format.
pub(crate) fn fixtures() -> Vec<Fixture> {
    let mut all = Vec::new();
    for format in Format::ALL {
        let folder = root().join("fixtures/transcripts").join(format.name());
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| !path.to_string_lossy().ends_with(".events.jsonl"));
        paths.sort();
        for path in paths {
            let bytes = std::fs::read(&path).expect("a fixture");
            all.push(Fixture { format, path, bytes });
        }
    }
    all
}

/// Reads bytes through a buffer of a size.
pub(crate) fn read_as(
    bytes: &[u8],
    format: Option<Format>,
    capacity: usize,
) -> Result<(Vec<Item>, Summary), Broken> {
    let mut items = Vec::new();
    let mut input = BufReader::with_capacity(capacity, bytes);
    let transcript = Transcript { name: "run", format, otherwise: None, input: &mut input };
    let summary = read(transcript, &mut |item| {
        items.push(item);
        true
    })?;
    Ok((items, summary))
}

/// Reads a whole fixture, its format found out.
pub(crate) fn read_all(fixture: &Fixture) -> (Vec<Item>, Summary) {
    read_as(&fixture.bytes, None, 1 << 16)
        .unwrap_or_else(|broken| panic!("{}: {broken:?}", fixture.path.display()))
}
