//! Where a store is: an address as people write it, and the project's own place.

use crate::error::{StoreError, Trouble};
use crate::journal::{Desk, Result};
use crate::marks::{Marks, Place};
use crate::memory::Memory;
use crate::postgres::Postgres;
use crate::sqlite::{Sqlite, SqliteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The project's own store, below its folder.
const OWN: [&str; 2] = [".flyball", "flyball.db"];
/// How many events of a session a store in memory keeps.
const REMEMBERED: usize = 256;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A SQLite file.
    File(PathBuf),
    /// The project's own SQLite file, in a folder that is made on first use and private to the user.
    Project(PathBuf),
    /// A PostgreSQL server, as `postgres://…`.
    Server(String),
    /// Nowhere: it is forgotten at the end.
    Memory,
}

impl Address {
    /// Reads an address: `sqlite:PATH`, `postgres://…`, `memory:`. A bare `sqlite:` is the project's own store, seen
    /// from the folder `from`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn read(text: &str, from: &Path) -> Result<Self> {
        let text = text.trim();
        if text == "memory:" || text == "memory" {
            return Ok(Address::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Address::Server(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some("" | "//") => Ok(Address::project(from)),
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                Ok(Address::File(from.join(path)))
            }
            None => {
                let shown = text.split_once(':').map_or(text, |(scheme, _)| scheme);
                Err(StoreError::new(
                    Trouble::BadAddress,
                    format!("'{shown}' is not the beginning of a store's address"),
                ))
            }
        }
    }

    /// The project's own store: the nearest `.flyball/flyball.db` here or above, up to the root of the repository.
    /// If there is none, it belongs at that root, or here if there is no repository.
    #[must_use]
    pub fn project(from: &Path) -> Self {
        let own = |folder: &Path| OWN.iter().fold(folder.to_path_buf(), |path, part| path.join(part));
        for folder in from.ancestors() {
            if own(folder).is_file() || folder.join(".git").exists() {
                return Address::Project(own(folder));
            }
        }
        Address::Project(own(from))
    }

    /// Why the connection to the store is not protected against impostors and listeners on the network, if it is not.
    #[must_use]
    pub fn transport_weakness(&self) -> Option<&'static str> {
        match self {
            Address::Server(url) => crate::postgres::transport_weakness(url),
            Address::File(_) | Address::Project(_) | Address::Memory => None,
        }
    }

    /// Opens the store; a file is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self) -> Result<Arc<dyn Desk>> {
        self.open_with(false)
    }

    /// Opens a store that must be there already, for commands that only look: nothing is made.
    ///
    /// # Errors
    /// If it cannot be opened, or holds nothing of ours.
    pub fn open_existing(&self) -> Result<Arc<dyn Desk>> {
        self.open_with(true)
    }

    fn open_with(&self, existing: bool) -> Result<Arc<dyn Desk>> {
        match self {
            Address::File(path) | Address::Project(path) => {
                let make_folder = matches!(self, Address::Project(_));
                let marks = Marks::of_user();
                let options = SqliteOptions { make_folder, existing, marks, ..SqliteOptions::default() };
                Ok(Arc::new(Sqlite::open(path, options)?))
            }
            Address::Server(url) => Ok(Arc::new(Postgres::open(url)?)),
            Address::Memory => Ok(Arc::new(Memory::bounded(REMEMBERED))),
        }
    }

    /// The folder for the files of a run, beside the store; for a store without a folder, below the current one.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub fn run_folder(&self, session: &str) -> std::io::Result<PathBuf> {
        let base = match self {
            Address::File(path) | Address::Project(path) => {
                path.parent().map(Path::to_owned).unwrap_or_default()
            }
            Address::Server(_) | Address::Memory => std::env::current_dir()?.join(".flyball"),
        };
        std::path::absolute(base.join("runs").join(Address::run_folder_name(session)))
    }

    /// The name of the folder for the files of a run.
    #[must_use]
    pub fn run_folder_name(session: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        session.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
    }

    fn mark(&self) -> Option<Place> {
        match self {
            Address::File(path) | Address::Project(path) => {
                Marks::of_user()?.of(path, matches!(self, Address::Project(_)))
            }
            Address::Server(_) | Address::Memory => None,
        }
    }

    /// Whether this user's mark says that there was a store that governed something, and there is none now.
    ///
    /// # Errors
    /// If so.
    pub fn check_removed(&self) -> Result<()> {
        match self.mark().and_then(|place| place.read().map(|mark| (place, mark))) {
            Some((place, mark)) if !self.exists() => {
                place.check_absent(&mark, "the store that was here is gone")
            }
            _ => Ok(()),
        }
    }

    /// A person accepts the store that is there now, or that there is none: this user's mark is removed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn accept(&self) -> Result<()> {
        let Some(place) = self.mark() else { return Ok(()) };
        place
            .forget()
            .map_err(|error| StoreError::new(Trouble::Io, format!("{}: {error}", place.file().display())))
    }

    /// Whether there is something to open, for commands that only look.
    #[must_use]
    pub fn exists(&self) -> bool {
        match self {
            Address::File(path) | Address::Project(path) => path.exists(),
            Address::Server(_) => true,
            Address::Memory => false,
        }
    }
}
