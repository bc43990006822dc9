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

/// A session's name with `_` for what a file's name should not have.
fn plain_name(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    session.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
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

    /// The folder for files that belong to the store and to no other: workspaces of runs, large outputs. Beside a SQLite
    /// file, `FILE.files`; the project's own store has its `.flyball` to itself. For a PostgreSQL store, a folder below the
    /// current one that is named after its address; for a store in memory, one of this process among the temporary files.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub fn files_folder(&self) -> std::io::Result<PathBuf> {
        let folder = match self {
            Address::File(path) | Address::Project(path) => {
                let own = path.parent().filter(|_| path.ends_with(OWN.join("/")));
                own.map_or_else(|| with_suffix(path, ".files"), Path::to_owned)
            }
            Address::Server(url) => {
                let digest = blake3::hash(crate::postgres::shown_address(url).as_bytes()).to_hex();
                let digest = digest.as_str().get(..12).unwrap_or_default();
                std::env::current_dir()?.join(OWN[0]).join(format!("postgres-{digest}"))
            }
            Address::Memory => std::env::temp_dir().join(format!("flyball-memory-{}", std::process::id())),
        };
        std::path::absolute(folder)
    }

    /// The folder for the large outputs of the store's sessions.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub fn outputs_folder(&self) -> std::io::Result<PathBuf> {
        Ok(self.files_folder()?.join("outputs"))
    }

    /// The folder for the files of a run.
    ///
    /// # Errors
    /// If the current folder cannot be read.
    pub fn run_folder(&self, session: &str) -> std::io::Result<PathBuf> {
        Ok(self.files_folder()?.join("runs").join(Address::run_folder_name(session)))
    }

    /// The folder of a run whose session is in the store already. Before stores had folders of their own, all stores in a
    /// folder shared one for their runs; a run from then takes its files along.
    ///
    /// # Errors
    /// If the current folder cannot be read, or the files cannot be moved.
    pub fn known_run_folder(&self, session: &str) -> std::io::Result<PathBuf> {
        let folder = self.run_folder(session)?;
        let shared = match self {
            Address::File(path) | Address::Project(path) => {
                path.parent().map(Path::to_owned).unwrap_or_default()
            }
            Address::Server(_) => std::env::current_dir()?.join(OWN[0]),
            Address::Memory => return Ok(folder),
        };
        let before = shared.join("runs").join(plain_name(session));
        if !folder.exists() && before.is_dir() {
            std::fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
            std::fs::rename(&before, &folder)?;
        }
        Ok(folder)
    }

    /// The name of the folder for the files of a run: the session's, with a digest where that cannot be a file's name.
    #[must_use]
    pub fn run_folder_name(session: &str) -> String {
        let name = plain_name(session);
        if name == session && !name.starts_with('.') && name.len() <= 100 {
            return name;
        }
        let digest = blake3::hash(session.as_bytes()).to_hex();
        let short: String = name.trim_start_matches('.').chars().take(80).collect();
        format!("{short}-{}", digest.as_str().get(..8).unwrap_or_default())
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
