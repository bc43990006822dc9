//! Large outputs: kept out of the conversation, and readable in slices by reference until the session ends.
//!
//! The store determines their location. A SQLite store keeps them beside its file in private files (directories 0700,
//! files 0600). A PostgreSQL store keeps them in the database, so that every server that shares it can read them. A
//! memory store keeps them in private files of this process. The reference is derived from the session and the
//! content: the same output of the same session has the same reference in every store, and is stored once. If an
//! output cannot be stored it is truncated, and the answer says so: an output never stops a session.
//!
//! An `output.received` event passes through [`LargeOutputs::store_event`] and [`LargeOutputs::store_if_large`] on
//! its way to the recorder. The reference and preview go into the event, and from there into the decision.
//! `session.ended` removes a session's outputs; [`LargeOutputs::remove_orphans`] removes leftovers after 24 hours.

mod cleanup;
mod kv_outputs;
mod output_slice;
mod session_dir;
mod session_outputs;

pub use cleanup::{CleanupSummary, MIN_ORPHAN_AGE, remove_orphans};
pub use output_slice::{OutputMatch, OutputSlice};
pub use session_dir::random_name;
pub use session_outputs::{FitOutcome as OutputOutcome, FittedText, OutputOptions, SessionOutputs};

use crate::event_store::AdminStore;
use crate::store_address::StoreAddress;
use crate::submission::Submission;
use flyball::output::{OutputLimits, StoredOutput};
use flyball::{Event, EventKind};
use kv_outputs::KvOutputs;
use session_dir::{content_name, file_name, is_hash_name, open_existing, open_or_create, session_dir_name};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum bytes of large outputs per session.
const MAX_SESSION_BYTES: u64 = 1024 * 1024 * 1024;

/// Reference to a large output: the session it belongs to, and its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputRef {
    session: String,
    content: String,
}

impl OutputRef {
    fn new(session: &str, text: &str) -> Self {
        OutputRef { session: session_dir_name(session), content: content_name(text.as_bytes()) }
    }

    /// Parses a reference; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (session, content) = text.trim().split_once('-')?;
        let both = is_hash_name(session) && is_hash_name(content);
        both.then(|| OutputRef { session: session.to_owned(), content: content.to_owned() })
    }
}

impl fmt::Display for OutputRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.content)
    }
}

/// The large outputs of a store's sessions.
pub struct LargeOutputs {
    location: OutputLocation,
}

enum OutputLocation {
    /// Private files in this directory, with one subdirectory per session.
    Directory(PathBuf),
    /// Private files in a directory of this process, under one of this user.
    ProcessDirectory { base: PathBuf, process_dir: PathBuf },
    /// In the store itself.
    Kv(KvOutputs),
}

impl fmt::Debug for LargeOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("place", &self.describe()).finish()
    }
}

impl LargeOutputs {
    /// The large outputs of a store.
    #[must_use]
    pub fn for_store(store: &Arc<dyn AdminStore>) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let address = StoreAddress::parse(&store.address(), &here);
        let files = |address: &StoreAddress| address.outputs_dir().ok();
        let location = match address {
            Ok(StoreAddress::Postgres(_)) => OutputLocation::Kv(KvOutputs::new(store)),
            Ok(address @ (StoreAddress::File(_) | StoreAddress::Project(_))) => {
                files(&address).map_or_else(process_location, OutputLocation::Directory)
            }
            Ok(StoreAddress::Memory) | Err(_) => process_location(),
        };
        LargeOutputs { location }
    }

    /// The large outputs of this user's processes whose store is in memory.
    #[must_use]
    pub fn for_processes() -> Self {
        LargeOutputs { location: process_location() }
    }

    /// Large outputs in files under a directory.
    #[must_use]
    pub fn in_dir(base: &Path) -> Self {
        LargeOutputs { location: OutputLocation::Directory(base.to_owned()) }
    }

    /// Describes the location for display.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.location {
            OutputLocation::Directory(base) => base.display().to_string(),
            OutputLocation::ProcessDirectory { base: all, .. } => all.display().to_string(),
            OutputLocation::Kv(shelved) => format!("the store {}", shelved.address()),
        }
    }

    /// Stores the text of an `output.received` event if it is large, and replaces it with the reference. `limits` are
    /// those of the event's session.
    pub(crate) fn store_event(&self, incoming: &mut Submission, limits: &OutputLimits) {
        let session = incoming.event.session.clone();
        let EventKind::OutputReceived { text: text @ Some(_), output, .. } = &mut incoming.event.kind else {
            return;
        };
        let Some((stored, rest)) =
            text.as_deref().and_then(|text| self.store_if_large(&session, text, limits))
        else {
            return;
        };
        *output = Some(stored);
        *text = rest;
        refresh_line(incoming);
    }

    /// Stores a text if it is large. Returns the facts for the governor and, if it could not be stored, the part of
    /// the text that may be kept.
    #[must_use]
    pub fn store_if_large(
        &self,
        session: &str,
        text: &str,
        limits: &OutputLimits,
    ) -> Option<(StoredOutput, Option<String>)> {
        let chars = limits.large_char_count(text)? as u64;
        let stored = StoredOutput {
            reference: None,
            preview: limits.preview_of(text),
            bytes: text.len() as u64,
            chars,
            error: None,
        };
        Some(match self.write(session, text) {
            Ok(reference) => (StoredOutput { reference: Some(reference.to_string()), ..stored }, None),
            Err(error) => (StoredOutput { error: Some(error), ..stored }, Some(limits.truncate(text))),
        })
    }

    /// Stores a text of any size.
    fn write(&self, session: &str, text: &str) -> Result<OutputRef, String> {
        let reference = OutputRef::new(session, text);
        match &self.location {
            OutputLocation::Directory(base) | OutputLocation::ProcessDirectory { process_dir: base, .. } => {
                let mut folder =
                    open_or_create(base, &reference.session).map_err(|error| error.to_string())?;
                if folder.used_bytes.saturating_add(text.len() as u64) > MAX_SESSION_BYTES {
                    return Err(format!(
                        "the session reached its limit of {MAX_SESSION_BYTES} bytes for large outputs"
                    ));
                }
                folder.write_output(session, text.as_bytes()).map_err(|error| error.to_string())?;
            }
            OutputLocation::Kv(shelved) => shelved.write(session, &reference, text)?,
        }
        Ok(reference)
    }

    /// The session that an output belongs to; `None` if the output does not exist here.
    ///
    /// # Errors
    /// If it cannot be looked up.
    pub fn session_of(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        if let OutputLocation::Kv(shelved) = &self.location {
            return shelved.session_of(reference);
        }
        let folder = self.session_dir(reference)?;
        Ok(folder.and_then(|folder| folder.read_session_name(&reference.session)))
    }

    /// A slice of an output, in characters; `None` if the output does not exist here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn slice(&self, reference: &OutputRef, offset: u64, limit: u64) -> io::Result<Option<OutputSlice>> {
        self.open_output(reference)?.map(|text| output_slice::read_slice(text, offset, limit)).transpose()
    }

    /// Up to `limit` lines of an output that contain a text; `None` if the output does not exist here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn search(
        &self,
        reference: &OutputRef,
        needle: &str,
        limit: usize,
    ) -> io::Result<Option<Vec<OutputMatch>>> {
        self.open_output(reference)?.map(|text| output_slice::search_lines(text, needle, limit)).transpose()
    }

    /// Path of an output that is stored in a file.
    #[must_use]
    pub fn file_path(&self, reference: &OutputRef) -> Option<PathBuf> {
        let path = |base: &Path| base.join(&reference.session).join(file_name(&reference.content));
        let found = match &self.location {
            OutputLocation::Directory(base) => Some(path(base)),
            OutputLocation::ProcessDirectory { base: all, .. } => {
                process_dirs(all).iter().map(|base| path(base)).find(|path| path.exists())
            }
            OutputLocation::Kv(_) => None,
        };
        found.filter(|path| path.is_file())
    }

    fn open_output(&self, reference: &OutputRef) -> io::Result<Option<Box<dyn BufRead>>> {
        if let OutputLocation::Kv(shelved) = &self.location {
            let text = shelved.read(reference)?;
            return Ok(text.map(|text| Box::new(io::Cursor::new(text.into_bytes())) as Box<dyn BufRead>));
        }
        let Some(folder) = self.session_dir(reference)? else { return Ok(None) };
        match folder.open_file(OsStr::new(&file_name(&reference.content))) {
            Ok(file) => Ok(Some(Box::new(BufReader::new(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Directory of an output that is stored in a file.
    fn session_dir(&self, reference: &OutputRef) -> io::Result<Option<session_dir::SessionDir>> {
        let name = file_name(&reference.content);
        let bases = match &self.location {
            OutputLocation::Directory(base) => vec![base.clone()],
            OutputLocation::ProcessDirectory { base: all, .. } => process_dirs(all),
            OutputLocation::Kv(_) => Vec::new(),
        };
        let mut refused = None;
        for base in bases {
            match open_existing(&base, &reference.session) {
                Ok(Some(folder)) if folder.open_file(OsStr::new(&name)).is_ok() => return Ok(Some(folder)),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// Removes an output.
    ///
    /// # Errors
    /// If it cannot be removed; orphan cleanup will retry.
    pub fn remove(&self, reference: &OutputRef) -> io::Result<()> {
        if let OutputLocation::Kv(shelved) = &self.location {
            return shelved.remove(reference);
        }
        let Some(folder) = self.session_dir(reference)? else { return Ok(()) };
        let others = folder.remove_file(&file_name(&reference.content))?;
        match &self.location {
            OutputLocation::Directory(base) | OutputLocation::ProcessDirectory { process_dir: base, .. }
                if !others =>
            {
                remove_if_exists(base.join(&reference.session))
            }
            _ => Ok(()),
        }
    }

    /// Removes all outputs of an ended session.
    ///
    /// # Errors
    /// If they cannot be removed; orphan cleanup will retry.
    pub fn end_session(&self, session: &str) -> io::Result<()> {
        match &self.location {
            OutputLocation::Directory(base) | OutputLocation::ProcessDirectory { process_dir: base, .. } => {
                remove_if_exists(base.join(session_dir_name(session)))
            }
            OutputLocation::Kv(shelved) => shelved.end_session(session),
        }
    }

    /// Removes leftovers that are older than 24 hours. Call it at startup, and periodically in a long-running
    /// process.
    ///
    /// # Errors
    /// If the location cannot be read.
    pub fn remove_orphans(&self, now: SystemTime) -> io::Result<CleanupSummary> {
        match &self.location {
            OutputLocation::Directory(base) => remove_orphans(base, now, MIN_ORPHAN_AGE),
            OutputLocation::ProcessDirectory { base: all, .. } => {
                let mut sum = CleanupSummary::default();
                for base in process_dirs(all) {
                    let summary = remove_orphans(&base, now, MIN_ORPHAN_AGE)?;
                    sum.removed += summary.removed;
                    sum.kept += summary.kept;
                    sum.failed += summary.failed;
                    // Succeeds only if the directory is empty.
                    let _ = std::fs::remove_dir(&base);
                }
                Ok(sum)
            }
            OutputLocation::Kv(shelved) => shelved.remove_orphans(),
        }
    }
}

impl Drop for LargeOutputs {
    /// Sessions of a memory store end with the process.
    fn drop(&mut self) {
        if let OutputLocation::ProcessDirectory { process_dir: own, .. } = &self.location {
            let _ = remove_if_exists(own.clone());
        }
    }
}

/// A directory of this process, under one of this user in the temporary directory.
fn process_location() -> OutputLocation {
    let all = std::env::temp_dir().join(format!("flyball-outputs-{}", rustix::process::geteuid().as_raw()));
    // Fall back to the process id without random numbers; orphan cleanup handles an earlier process with the same id.
    let name = random_name().unwrap_or_else(|_| format!("{:032x}", std::process::id()));
    let own = all.join(name);
    OutputLocation::ProcessDirectory { base: all, process_dir: own }
}

/// The directories of all processes of this user.
fn process_dirs(all: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(all) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_hash_name(name)).map(|name| all.join(name)).collect()
}

fn remove_if_exists(folder: PathBuf) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The stored text must equal what the governor saw, because a restart has nothing else.
fn refresh_line(incoming: &mut Submission) {
    let text = incoming.event.to_json().to_string();
    // The body hash covers the body, and the body has changed.
    let id = Event::from_json(&text).ok().and_then(|event| event.id);
    incoming.event.id = id;
    incoming.text = text;
}
