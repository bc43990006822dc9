//! Reading events from files and pipes: line by line, bounded, with the number of each line.

use crate::clock;
use crate::fail::Failure;
use crate::recording;
use flyball::limits::EVENT_BYTES;
use flyball::policy::Policy;
use flyball::{Code, Error, Event};
use flyball_journal::{Door, Incoming, identifiers_are_kept, suspended_ms};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// A bar appears when reading takes longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines of one file.
pub(crate) struct Lines {
    name: String,
    reader: BufReader<Box<dyn Read>>,
    line: u64,
    buffer: Vec<u8>,
    bar: Bar,
    door: Door,
}

/// A progress bar that shows itself only when there is something to wait for.
pub(crate) struct Bar {
    total: u64,
    done: u64,
    started: Instant,
    shown: Option<ProgressBar>,
    wanted: bool,
}

impl Bar {
    /// A bar for so many bytes; 0 if nobody knows how many come.
    pub(crate) fn new(total: u64) -> Self {
        let wanted = total > 0 && std::io::stderr().is_terminal();
        Bar { total, done: 0, started: Instant::now(), shown: None, wanted }
    }

    /// So many bytes more were read.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if !self.wanted {
            return;
        }
        if self.shown.is_none() && self.started.elapsed() > PATIENCE {
            let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left");
            self.shown = Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())));
        }
        if let Some(bar) = &self.shown {
            bar.set_position(self.done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    /// Opens a file, or stdin for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Lines::from_reader("<stdin>", Box::new(std::io::stdin()), 0));
        }
        let (file, total) = recording::open(path)?;
        Ok(Lines::from_reader(&path.display().to_string(), Box::new(file), total))
    }

    fn from_reader(name: &str, reader: Box<dyn Read>, total: u64) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        let door = Door::default();
        Lines { name: name.to_owned(), reader, line: 0, buffer: Vec::new(), bar: Bar::new(total), door }
    }

    /// Takes out of each line what looks like a secret, as the policy wants it.
    pub(crate) fn behind(mut self, policy: &Policy) -> Result<Self, Failure> {
        self.door = Door::new(&policy.journal).map_err(|error| Failure::at("", &error))?;
        Ok(self)
    }

    /// The file and line that was read last.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.name, self.line)
    }

    /// The next event; blank lines are skipped. `None` at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<Result<Event, Error>>, Failure> {
        let found = self.advance(true)?;
        Ok(found.map(|usable| usable.and_then(|()| Event::from_bytes(&self.buffer))))
    }

    /// The next event with its line, as the recorder wants it, stamped if it names no time. With `wait` unset, only
    /// if a whole line was read already. `None` if there is none.
    pub(crate) fn next_incoming(&mut self, wait: bool) -> Result<Option<Result<Incoming, Error>>, Failure> {
        let found = self.advance(wait)?;
        Ok(found.map(|usable| {
            let event = usable.and_then(|()| Event::from_bytes(&self.buffer))?;
            identifiers_are_kept(&event)?;
            // What was understood as an event is UTF-8.
            let mut incoming = Incoming { event, text: String::from_utf8_lossy(&self.buffer).into_owned() };
            incoming.parse_raw_checks()?;
            if incoming.event.at.is_none() {
                incoming.stamp(clock::now(), suspended_ms());
            }
            Ok(incoming)
        }))
    }

    /// Reads the next line that is not blank into the buffer. `None` at the end.
    fn advance(&mut self, wait: bool) -> Result<Option<Result<(), Error>>, Failure> {
        loop {
            if !wait && !self.reader.buffer().contains(&b'\n') {
                return Ok(None);
            }
            let read = self.next_line().map_err(|error| {
                Failure::new("cannot_read", self.place(), error.to_string(), "check the file")
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
                    Code::EventTooLarge,
                    format!("the line has more than {EVENT_BYTES} bytes"),
                    "send a fingerprint or the first part of large outputs instead of the whole",
                ))));
            }
            if !self.buffer.is_empty() {
                self.redact();
                return Ok(Some(Ok(())));
            }
        }
    }

    /// A line that is not UTF-8 is refused later, and shown to nobody.
    fn redact(&mut self) {
        let clean = std::str::from_utf8(&self.buffer).map(|text| self.door.clean(text));
        if let Ok(Cow::Owned(clean)) = clean {
            self.buffer = clean.into_bytes();
        }
    }

    fn next_line(&mut self) -> std::io::Result<usize> {
        self.buffer.clear();
        let mut bounded = (&mut self.reader).take(EVENT_BYTES as u64 + 2);
        bounded.read_until(b'\n', &mut self.buffer)
    }

    /// Reads to the end of a line that is too long without keeping it.
    fn skip_rest(&mut self) -> Result<(), Failure> {
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
