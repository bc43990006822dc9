//! Reads events from files and pipes line by line, bounded, with line numbers.

use crate::clock;
use crate::error::CliError;
use crate::event_file;
use flyball::limits::EVENT_BYTES;
use flyball::policy::Policy;
use flyball::{Error, ErrorCode, Event};
use flyball_store::{RedactingParser, Submission, check_identifiers_not_redacted, suspended_ms};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Delay before a progress bar appears.
const PROGRESS_BAR_DELAY: Duration = Duration::from_secs(1);

/// The event lines of one file or of stdin.
pub(crate) struct EventLines {
    name: String,
    reader: BufReader<Box<dyn Read>>,
    line: u64,
    buffer: Vec<u8>,
    bar: ReadProgress,
    parser: RedactingParser,
}

/// A progress bar that appears only when reading takes long.
pub(crate) struct ReadProgress {
    total: u64,
    done: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    enabled: bool,
}

impl ReadProgress {
    /// A bar for this many bytes; 0 if the total is unknown.
    pub(crate) fn new(total: u64) -> Self {
        let enabled = total > 0 && std::io::stderr().is_terminal();
        ReadProgress { total, done: 0, started: Instant::now(), bar: None, enabled }
    }

    /// Adds to the number of bytes read.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if !self.enabled {
            return;
        }
        if self.bar.is_none() && self.started.elapsed() > PROGRESS_BAR_DELAY {
            let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left");
            self.bar = Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }
}

impl Drop for ReadProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl EventLines {
    /// Opens a file, or stdin for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        if path == Path::new("-") {
            return Ok(EventLines::from_reader("<stdin>", Box::new(std::io::stdin()), 0));
        }
        let (file, total) = event_file::open_file(path)?;
        Ok(EventLines::from_reader(&path.display().to_string(), Box::new(file), total))
    }

    fn from_reader(name: &str, reader: Box<dyn Read>, total: u64) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        let parser = RedactingParser::default();
        EventLines {
            name: name.to_owned(),
            reader,
            line: 0,
            buffer: Vec::new(),
            bar: ReadProgress::new(total),
            parser,
        }
    }

    /// Redacts secrets in each line as the policy requires.
    pub(crate) fn with_redaction(mut self, policy: &Policy) -> Result<Self, CliError> {
        self.parser =
            RedactingParser::new(&policy.journal).map_err(|error| CliError::from_core("", &error))?;
        Ok(self)
    }

    /// The file and line read last.
    pub(crate) fn location(&self) -> String {
        format!("{}:{}", self.name, self.line)
    }

    /// The next event; blank lines are skipped. `None` at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<Result<Event, Error>>, CliError> {
        let found = self.read_next_line(true)?;
        Ok(found.map(|usable| usable.and_then(|()| Event::from_bytes(&self.buffer))))
    }

    /// The next event with its line, ready for the recorder; stamped with the current time if it has none. With `wait`
    /// unset, `None` unless a whole line is buffered already.
    pub(crate) fn next_submission(
        &mut self,
        wait: bool,
    ) -> Result<Option<Result<Submission, Error>>, CliError> {
        let found = self.read_next_line(wait)?;
        Ok(found.map(|usable| {
            let event = usable.and_then(|()| Event::from_bytes(&self.buffer))?;
            check_identifiers_not_redacted(&event)?;
            // A parsed event is valid UTF-8.
            let mut incoming = Submission { event, text: String::from_utf8_lossy(&self.buffer).into_owned() };
            incoming.parse_raw_checks()?;
            if incoming.event.at.is_none() {
                incoming.stamp(clock::now(), suspended_ms());
            }
            Ok(incoming)
        }))
    }

    /// Reads the next line that is not blank into the buffer. `None` at the end.
    fn read_next_line(&mut self, wait: bool) -> Result<Option<Result<(), Error>>, CliError> {
        loop {
            if !wait && !self.reader.buffer().contains(&b'\n') {
                return Ok(None);
            }
            let read = self.next_line().map_err(|error| {
                CliError::new("cannot_read", self.location(), error.to_string(), "check the file")
            })?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            self.bar.advance(read as u64);
            let first = self.line == 1;
            if first && self.buffer.starts_with(&[0xef, 0xbb, 0xbf]) {
                self.buffer.drain(..3);
            }
            while self.buffer.last().is_some_and(u8::is_ascii_whitespace) {
                self.buffer.pop();
            }
            if self.buffer.len() > EVENT_BYTES {
                self.skip_rest()?;
                return Ok(Some(Err(Error::new(
                    ErrorCode::EventTooLarge,
                    format!("the line is longer than {EVENT_BYTES} bytes"),
                    "send a fingerprint or only the first part of a large output",
                ))));
            }
            if !self.buffer.is_empty() {
                self.redact();
                return Ok(Some(Ok(())));
            }
        }
    }

    /// Redacts the buffer. A line that is not UTF-8 stays as it is: it is rejected later and never displayed.
    fn redact(&mut self) {
        let clean = std::str::from_utf8(&self.buffer).map(|text| self.parser.redact(text));
        if let Ok(Cow::Owned(clean)) = clean {
            self.buffer = clean.into_bytes();
        }
    }

    fn next_line(&mut self) -> std::io::Result<usize> {
        self.buffer.clear();
        let mut bounded = (&mut self.reader).take(EVENT_BYTES as u64 + 2);
        bounded.read_until(b'\n', &mut self.buffer)
    }

    /// Discards the rest of an oversized line.
    fn skip_rest(&mut self) -> Result<(), CliError> {
        let mut rest = Vec::new();
        loop {
            rest.clear();
            let mut bounded = (&mut self.reader).take(1 << 16);
            let read = bounded.read_until(b'\n', &mut rest)?;
            if read == 0 || rest.last() == Some(&b'\n') {
                return Ok(());
            }
        }
    }
}
