//! Large outputs: kept out of the conversation, and readable in slices by a reference until the session ends.
//!
//! Where they are follows from the store: beside a SQLite file in private files (folders 0700, files 0600); in a PostgreSQL
//! store itself, so that every server that shares it can read them; for a store in memory in private files of this process.
//! The reference is made from the session and the content: the same output of the same session has the same reference on
//! every store, and is stored once. If it cannot be stored it is cut, and the answer says so: an output never stops a
//! session.
//!
//! An event `output.received` on its way to the recorder: [`Outputs::store_event`] -> [`Outputs::store`] -> the reference
//! and preview in the event, and from there in the decision. `session.ended` removes a session's outputs; what is left
//! behind is removed by [`Outputs::sweep`] after 24 hours.

mod folder;
mod session;
mod shelved;
mod slice;
mod sweep;

pub use folder::random_name;
pub use session::{Fitted, Outcome as OutputOutcome, OutputOptions, SessionOutputs};
pub use slice::{OutputMatch, OutputSlice};
pub use sweep::{ORPHAN_AGE, Swept, sweep};

use crate::address::Address;
use crate::incoming::Incoming;
use crate::journal::Desk;
use flyball::output::{OutputLimits, StoredOutput};
use flyball::{Event, Kind};
use folder::{content_name, file_name, find, is_session_name, make, session_name};
use shelved::Shelved;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// How many bytes of large outputs one session may have.
const SESSION_BYTES: u64 = 1024 * 1024 * 1024;

/// The name of a large output: the session it belongs to, and its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputRef {
    session: String,
    content: String,
}

impl OutputRef {
    fn new(session: &str, text: &str) -> Self {
        OutputRef { session: session_name(session), content: content_name(text.as_bytes()) }
    }

    /// Reads a reference; `None` if it cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (session, content) = text.trim().split_once('-')?;
        let both = is_session_name(session) && is_session_name(content);
        both.then(|| OutputRef { session: session.to_owned(), content: content.to_owned() })
    }
}

impl fmt::Display for OutputRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.content)
    }
}

/// Where the large outputs of a store's sessions are.
pub struct Outputs {
    place: Place,
}

enum Place {
    /// Private files below this folder, one folder for each session.
    Files(PathBuf),
    /// The same in a folder of this process, below a folder of this user.
    Process { all: PathBuf, own: PathBuf },
    /// In the store itself.
    Store(Shelved),
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("place", &self.describe()).finish()
    }
}

impl Outputs {
    /// The large outputs of a store.
    #[must_use]
    pub fn of_store(store: &Arc<dyn Desk>) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let address = Address::read(&store.address(), &here);
        let files = |address: &Address| address.outputs_folder().ok();
        let place = match address {
            Ok(Address::Server(_)) => Place::Store(Shelved::new(store)),
            Ok(address @ (Address::File(_) | Address::Project(_))) => {
                files(&address).map_or_else(of_process, Place::Files)
            }
            Ok(Address::Memory) | Err(_) => of_process(),
        };
        Outputs { place }
    }

    /// The large outputs of processes of this user whose store is in memory.
    #[must_use]
    pub fn of_processes() -> Self {
        Outputs { place: of_process() }
    }

    /// Large outputs in files below a folder.
    #[must_use]
    pub fn in_folder(base: &Path) -> Self {
        Outputs { place: Place::Files(base.to_owned()) }
    }

    /// Where they are, in words for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.place {
            Place::Files(base) => base.display().to_string(),
            Place::Process { all, .. } => all.display().to_string(),
            Place::Store(shelved) => format!("the store {}", shelved.address()),
        }
    }

    /// Stores the text of an `output.received` event if it is large, and puts the reference in its place. `limits` are
    /// those of the event's session.
    pub(crate) fn store_event(&self, incoming: &mut Incoming, limits: &OutputLimits) {
        let session = incoming.event.session.clone();
        let Kind::OutputReceived { text: text @ Some(_), output, .. } = &mut incoming.event.kind else {
            return;
        };
        let Some((stored, rest)) = text.as_deref().and_then(|text| self.store(&session, text, limits)) else {
            return;
        };
        *output = Some(stored);
        *text = rest;
        rewrite(incoming);
    }

    /// Stores a text if it is large: gives what the governor is told about it, and, if it could not be stored, as much of
    /// the text as may be kept.
    #[must_use]
    pub fn store(
        &self,
        session: &str,
        text: &str,
        limits: &OutputLimits,
    ) -> Option<(StoredOutput, Option<String>)> {
        let chars = limits.exceeded_by(text)? as u64;
        let stored = StoredOutput {
            reference: None,
            preview: limits.preview_of(text),
            bytes: text.len() as u64,
            chars,
            error: None,
        };
        Some(match self.write(session, text) {
            Ok(reference) => (StoredOutput { reference: Some(reference.to_string()), ..stored }, None),
            Err(error) => (StoredOutput { error: Some(error), ..stored }, Some(limits.cut(text))),
        })
    }

    /// Stores a text, however long it is.
    fn write(&self, session: &str, text: &str) -> Result<OutputRef, String> {
        let reference = OutputRef::new(session, text);
        match &self.place {
            Place::Files(base) | Place::Process { own: base, .. } => {
                let mut folder = make(base, &reference.session).map_err(|error| error.to_string())?;
                if folder.used.saturating_add(text.len() as u64) > SESSION_BYTES {
                    return Err(format!(
                        "the session has used up its {SESSION_BYTES} bytes for large outputs"
                    ));
                }
                folder.write(session, text.as_bytes()).map_err(|error| error.to_string())?;
            }
            Place::Store(shelved) => shelved.write(session, &reference, text)?,
        }
        Ok(reference)
    }

    /// The session that an output belongs to; `None` if there is no such output here.
    ///
    /// # Errors
    /// If it cannot be looked up.
    pub fn session_of(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        if let Place::Store(shelved) = &self.place {
            return shelved.session_of(reference);
        }
        let folder = self.folder_of(reference)?;
        Ok(folder.and_then(|folder| folder.session(&reference.session)))
    }

    /// A slice of an output, by characters; `None` if there is no such output here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn slice(&self, reference: &OutputRef, offset: u64, limit: u64) -> io::Result<Option<OutputSlice>> {
        self.open(reference)?.map(|text| slice::slice(text, offset, limit)).transpose()
    }

    /// The lines of an output that contain a text, at most `limit`; `None` if there is no such output here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn search(
        &self,
        reference: &OutputRef,
        needle: &str,
        limit: usize,
    ) -> io::Result<Option<Vec<OutputMatch>>> {
        self.open(reference)?.map(|text| slice::search(text, needle, limit)).transpose()
    }

    /// The file of an output, if it is in one.
    #[must_use]
    pub fn path(&self, reference: &OutputRef) -> Option<PathBuf> {
        let path = |base: &Path| base.join(&reference.session).join(file_name(&reference.content));
        let found = match &self.place {
            Place::Files(base) => Some(path(base)),
            Place::Process { all, .. } => {
                processes(all).iter().map(|base| path(base)).find(|path| path.exists())
            }
            Place::Store(_) => None,
        };
        found.filter(|path| path.is_file())
    }

    fn open(&self, reference: &OutputRef) -> io::Result<Option<Box<dyn BufRead>>> {
        if let Place::Store(shelved) = &self.place {
            let text = shelved.read(reference)?;
            return Ok(text.map(|text| Box::new(io::Cursor::new(text.into_bytes())) as Box<dyn BufRead>));
        }
        let Some(folder) = self.folder_of(reference)? else { return Ok(None) };
        match folder.read(OsStr::new(&file_name(&reference.content))) {
            Ok(file) => Ok(Some(Box::new(BufReader::new(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folder that an output is in, if it is in one.
    fn folder_of(&self, reference: &OutputRef) -> io::Result<Option<folder::Folder>> {
        let name = file_name(&reference.content);
        let bases = match &self.place {
            Place::Files(base) => vec![base.clone()],
            Place::Process { all, .. } => processes(all),
            Place::Store(_) => Vec::new(),
        };
        let mut refused = None;
        for base in bases {
            match find(&base, &reference.session) {
                Ok(Some(folder)) if folder.read(OsStr::new(&name)).is_ok() => return Ok(Some(folder)),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// Removes an output.
    ///
    /// # Errors
    /// If it cannot be removed; a sweep will do it later.
    pub fn remove(&self, reference: &OutputRef) -> io::Result<()> {
        if let Place::Store(shelved) = &self.place {
            return shelved.remove(reference);
        }
        let Some(folder) = self.folder_of(reference)? else { return Ok(()) };
        let others = folder.remove(&file_name(&reference.content))?;
        match &self.place {
            Place::Files(base) | Place::Process { own: base, .. } if !others => {
                gone(base.join(&reference.session))
            }
            _ => Ok(()),
        }
    }

    /// Removes everything of a session that has ended.
    ///
    /// # Errors
    /// If it cannot be removed; a sweep will do it later.
    pub fn end_session(&self, session: &str) -> io::Result<()> {
        match &self.place {
            Place::Files(base) | Place::Process { own: base, .. } => gone(base.join(session_name(session))),
            Place::Store(shelved) => shelved.end_session(session),
        }
    }

    /// Removes what was left behind more than 24 hours ago. To be called when a process starts, and from time to time in
    /// one that stays.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn sweep(&self, now: SystemTime) -> io::Result<Swept> {
        match &self.place {
            Place::Files(base) => sweep(base, now, ORPHAN_AGE),
            Place::Process { all, .. } => {
                let mut sum = Swept::default();
                for base in processes(all) {
                    let swept = sweep(&base, now, ORPHAN_AGE)?;
                    sum.removed += swept.removed;
                    sum.kept += swept.kept;
                    sum.failed += swept.failed;
                    // Only a folder that is empty goes.
                    let _ = std::fs::remove_dir(&base);
                }
                Ok(sum)
            }
            Place::Store(shelved) => shelved.sweep(),
        }
    }
}

impl Drop for Outputs {
    /// The sessions of a store in memory end with the process.
    fn drop(&mut self) {
        if let Place::Process { own, .. } = &self.place {
            let _ = gone(own.clone());
        }
    }
}

/// A folder of this process, below one of this user in the folder for temporary files.
fn of_process() -> Place {
    let all = std::env::temp_dir().join(format!("flyball-outputs-{}", rustix::process::geteuid().as_raw()));
    // Without random numbers the number of the process must do; a sweep clears up after one that had it before.
    let name = random_name().unwrap_or_else(|_| format!("{:032x}", std::process::id()));
    let own = all.join(name);
    Place::Process { all, own }
}

/// The folders of all processes of this user.
fn processes(all: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(all) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_session_name(name)).map(|name| all.join(name)).collect()
}

fn gone(folder: PathBuf) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is stored is what the governor sees: after a restart there is nothing else.
fn rewrite(incoming: &mut Incoming) {
    let text = incoming.event.to_json().to_string();
    // The id covers the body, and the body is another now.
    let id = Event::from_json(&text).ok().and_then(|event| event.id);
    incoming.event.id = id;
    incoming.text = text;
}
