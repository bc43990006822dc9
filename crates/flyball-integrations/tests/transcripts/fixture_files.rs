//! Transcript fixtures: paths, formats and readers.

use flyball_integrations::transcript::{
    Transcript, TranscriptError, TranscriptEvent, TranscriptFormat, TranscriptSummary, read,
};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A transcript, with the format that its folder is named after.
pub(crate) struct TranscriptFixture {
    pub(crate) format: TranscriptFormat,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl TranscriptFixture {
    /// The path of the golden events.
    pub(crate) fn golden(&self) -> PathBuf {
        self.path.with_extension("events.jsonl")
    }
}

/// The repository root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All transcripts, sorted by format.
pub(crate) fn fixtures() -> Vec<TranscriptFixture> {
    let mut all = Vec::new();
    for format in TranscriptFormat::ALL {
        let folder = root().join("fixtures/transcripts").join(format.name());
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| !path.to_string_lossy().ends_with(".events.jsonl"));
        paths.sort();
        for path in paths {
            let bytes = std::fs::read(&path).expect("a fixture");
            all.push(TranscriptFixture { format, path, bytes });
        }
    }
    all
}

/// Reads bytes through a buffer of the given capacity.
pub(crate) fn read_as(
    bytes: &[u8],
    format: Option<TranscriptFormat>,
    capacity: usize,
) -> Result<(Vec<TranscriptEvent>, TranscriptSummary), TranscriptError> {
    let mut items = Vec::new();
    let mut input = BufReader::with_capacity(capacity, bytes);
    let transcript = Transcript { name: "run", format, fallback_format: None, input: &mut input };
    let summary = read(transcript, &mut |item| {
        items.push(item);
        true
    })?;
    Ok((items, summary))
}

/// Reads a whole fixture with format detection.
pub(crate) fn read_all(fixture: &TranscriptFixture) -> (Vec<TranscriptEvent>, TranscriptSummary) {
    read_as(&fixture.bytes, None, 1 << 16)
        .unwrap_or_else(|broken| panic!("{}: {broken:?}", fixture.path.display()))
}
