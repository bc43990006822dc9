//! Reading what an agent did from a file or a pipe: Flyball's events, or another tool's transcript.

use crate::fail::Failure;
use crate::input::Bar;
use flyball::policy::Policy;
use flyball_adapt::source::{Broken, Dump, Format, Item, Summary, Transcript, dump, read_behind};
use flyball_journal::Door;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// How much is read at once.
const PORTION: usize = 1 << 16;

/// A file that is to be read.
pub(crate) struct Recording {
    name: String,
    stem: String,
    format: Option<Format>,
    door: Door,
    reader: BufReader<Watched>,
}

/// A file whose progress is shown.
struct Watched {
    from: Box<dyn Read>,
    bar: Bar,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(into)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}

impl Recording {
    /// Opens a file, or stdin for `-`.
    pub(crate) fn open(path: &Path, format: Option<Format>) -> Result<Self, Failure> {
        let (name, from, total): (String, Box<dyn Read>, u64) = if path == Path::new("-") {
            ("<stdin>".to_owned(), Box::new(std::io::stdin()), 0)
        } else if let Some(dump) = dumped(path)? {
            (path.display().to_string(), Box::new(dump), 0)
        } else {
            let (file, total) = open(path)?;
            (path.display().to_string(), Box::new(file), total)
        };
        // A conversation of OpenHands is a folder with its events in another one inside.
        let called = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
        let stem = called.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let stem = if stem.is_empty() || stem == "-" { "stdin".to_owned() } else { stem };
        let reader = BufReader::with_capacity(PORTION, Watched { from, bar: Bar::new(total) });
        Ok(Recording { name, stem, format, door: Door::default(), reader })
    }

    /// Takes out of each line what looks like a secret, as the policy wants it.
    pub(crate) fn behind(mut self, policy: &Policy) -> Result<Self, Failure> {
        self.door = Door::new(&policy.journal).map_err(|error| Failure::at("", &error))?;
        Ok(self)
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Hands on each event with the name of the file, to its end or to the first failure.
    pub(crate) fn each(
        &mut self,
        mut each: impl FnMut(&Item, &str) -> Result<(), Failure>,
    ) -> Result<Summary, Failure> {
        let mut failed = None;
        // What looks like nothing that is known is told what is wrong with it as a file of events.
        let (format, otherwise) = (self.format, Some(Format::Flyball));
        let transcript = Transcript { name: &self.stem, format, otherwise, input: &mut self.reader };
        let read = read_behind(transcript, &self.door, &mut |item| match each(&item, &self.name) {
            Ok(()) => true,
            Err(failure) => {
                failed = Some(failure);
                false
            }
        });
        match (failed, read) {
            (Some(failure), _) => Err(failure),
            (None, Ok(summary)) => Ok(summary),
            (None, Err(Broken { line: 0, error })) => Err(Failure::at(&self.name, &error)),
            (None, Err(Broken { line: 1, mut error })) if self.format.is_none() => {
                error.advice.push_str("; another tool's transcript: name its format with --format");
                Err(Failure::at(format!("{}:1", self.name), &error))
            }
            (None, Err(Broken { line, error })) => Err(Failure::at(format!("{}:{line}", self.name), &error)),
        }
    }
}

/// A folder that holds one transcript, with a file for each event.
fn dumped(path: &Path) -> Result<Option<Dump>, Failure> {
    if !path.is_dir() {
        return Ok(None);
    }
    let name = path.display().to_string();
    dump(path).map_err(|error| {
        Failure::new("cannot_read", name, error.to_string(), "check that the files in it can be read")
    })
}

/// Opens a file that is no folder, and tells how long it is.
pub(crate) fn open(path: &Path) -> Result<(File, u64), Failure> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| {
        let advice = if error.kind() == std::io::ErrorKind::NotFound {
            "check the path"
        } else {
            "check that it can be read"
        };
        Failure::new("cannot_read", name.clone(), error.to_string(), advice)
    };
    let file = File::open(path).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if meta.is_dir() {
        return Err(Failure::new("cannot_read", name, "this is a folder", "name a file of events"));
    }
    Ok((file, meta.len()))
}
