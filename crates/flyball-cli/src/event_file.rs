//! Reads an agent's events from a file or a pipe: Flyball's events or another tool's transcript.

use crate::error::CliError;
use crate::event_lines::ReadProgress;
use flyball::policy::Policy;
use flyball_integrations::transcript::{
    EventFolder, Transcript, TranscriptError, TranscriptEvent, TranscriptFormat, TranscriptSummary,
    open_event_folder, read_redacted,
};
use flyball_store::RedactingParser;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Size of the read buffer.
const READ_BUFFER_BYTES: usize = 1 << 16;

/// An open event file or transcript.
pub(crate) struct EventFileReader {
    name: String,
    stem: String,
    format: Option<TranscriptFormat>,
    redactor: RedactingParser,
    reader: BufReader<ReadWithProgress>,
}

/// A reader that reports its progress.
struct ReadWithProgress {
    inner: Box<dyn Read>,
    bar: ReadProgress,
}

impl Read for ReadWithProgress {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(into)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}

impl EventFileReader {
    /// Opens a file, or stdin for `-`.
    pub(crate) fn open(path: &Path, format: Option<TranscriptFormat>) -> Result<Self, CliError> {
        let (name, from, total): (String, Box<dyn Read>, u64) = if path == Path::new("-") {
            ("<stdin>".to_owned(), Box::new(std::io::stdin()), 0)
        } else if let Some(dump) = open_dump(path)? {
            (path.display().to_string(), Box::new(dump), 0)
        } else {
            let (file, total) = open_file(path)?;
            (path.display().to_string(), Box::new(file), total)
        };
        // An OpenHands conversation is a folder whose `events` subfolder holds the events.
        let called = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
        let stem = called.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let stem = if stem.is_empty() || stem == "-" { "stdin".to_owned() } else { stem };
        let reader = BufReader::with_capacity(
            READ_BUFFER_BYTES,
            ReadWithProgress { inner: from, bar: ReadProgress::new(total) },
        );
        Ok(EventFileReader { name, stem, format, redactor: RedactingParser::default(), reader })
    }

    /// Redacts secrets in each line as the policy requires.
    pub(crate) fn with_redaction(mut self, policy: &Policy) -> Result<Self, CliError> {
        self.redactor =
            RedactingParser::new(&policy.journal).map_err(|error| CliError::from_core("", &error))?;
        Ok(self)
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `each` for every event with the file's name, up to the end or the first error.
    pub(crate) fn for_each_event(
        &mut self,
        mut each: impl FnMut(&TranscriptEvent, &str) -> Result<(), CliError>,
    ) -> Result<TranscriptSummary, CliError> {
        let mut failed = None;
        // An unrecognized format is reported as an invalid event file.
        let (format, otherwise) = (self.format, Some(TranscriptFormat::Flyball));
        let transcript =
            Transcript { name: &self.stem, format, fallback_format: otherwise, input: &mut self.reader };
        let read = read_redacted(transcript, &self.redactor, &mut |item| match each(&item, &self.name) {
            Ok(()) => true,
            Err(failure) => {
                failed = Some(failure);
                false
            }
        });
        match (failed, read) {
            (Some(failure), _) => Err(failure),
            (None, Ok(summary)) => Ok(summary),
            (None, Err(TranscriptError { line: 0, error })) => Err(CliError::from_core(&self.name, &error)),
            (None, Err(TranscriptError { line: 1, mut error })) if self.format.is_none() => {
                error.help.push_str("; for another tool's transcript, give its format with --format");
                Err(CliError::from_core(format!("{}:1", self.name), &error))
            }
            (None, Err(TranscriptError { line, error })) => {
                Err(CliError::from_core(format!("{}:{line}", self.name), &error))
            }
        }
    }
}

/// Opens a folder that holds one transcript with a file for each event.
fn open_dump(path: &Path) -> Result<Option<EventFolder>, CliError> {
    if !path.is_dir() {
        return Ok(None);
    }
    let name = path.display().to_string();
    open_event_folder(path).map_err(|error| {
        CliError::new("cannot_read", name, error.to_string(), "check that the files in it are readable")
    })
}

/// Opens a regular file and returns its length.
pub(crate) fn open_file(path: &Path) -> Result<(File, u64), CliError> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| {
        let help = if error.kind() == std::io::ErrorKind::NotFound {
            "check the path"
        } else {
            "check that it is readable"
        };
        CliError::new("cannot_read", name.clone(), error.to_string(), help)
    };
    let file = File::open(path).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if meta.is_dir() {
        return Err(CliError::new("cannot_read", name, "this is a folder", "name an event file"));
    }
    Ok((file, meta.len()))
}
