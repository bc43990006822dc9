//! Store addresses: parsing, and the project's default store.

use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::{AdminStore, StoreResult};
use crate::high_water_mark::{HighWaterMarkFile, HighWaterMarks};
use crate::memory::MemoryStore;
use crate::postgres::PostgresStore;
use crate::sqlite::{SqliteOptions, SqliteStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Path of the project store, relative to its root.
const PROJECT_STORE_PATH: [&str; 2] = [".flyball", "flyball.db"];
/// Events kept per session in a memory store.
const MEMORY_EVENTS_PER_SESSION: usize = 256;

/// Location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A SQLite file.
    File(PathBuf),
    /// The project's SQLite file, in a directory that is created on first use and private to the user.
    Project(PathBuf),
    /// A PostgreSQL server, as `postgres://…`.
    Postgres(String),
    /// In memory, lost at exit.
    Memory,
}

/// A session name with `_` in place of characters that do not belong in a file name.
fn sanitize_session_name(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    session.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

impl StoreAddress {
    /// Parses an address: `sqlite:PATH`, `postgres://…`, `memory:`. A bare `sqlite:` is the project store, as seen
    /// from the directory `from`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str, from: &Path) -> StoreResult<Self> {
        let text = text.trim();
        if text == "memory:" || text == "memory" {
            return Ok(StoreAddress::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(StoreAddress::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some("" | "//") => Ok(StoreAddress::find_project(from)),
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                Ok(StoreAddress::File(from.join(path)))
            }
            None => {
                let shown = text.split_once(':').map_or(text, |(scheme, _)| scheme);
                Err(StoreError::new(
                    StoreErrorKind::BadAddress,
                    format!("'{shown}' is not a store address scheme"),
                ))
            }
        }
    }

    /// The project store: the nearest `.flyball/flyball.db` in this directory or above, up to the root of the
    /// repository. If there is none, it belongs at that root, or here if there is no repository.
    #[must_use]
    pub fn find_project(from: &Path) -> Self {
        let own = |folder: &Path| {
            PROJECT_STORE_PATH.iter().fold(folder.to_path_buf(), |path, part| path.join(part))
        };
        for folder in from.ancestors() {
            if own(folder).is_file() || folder.join(".git").exists() {
                return StoreAddress::Project(own(folder));
            }
        }
        StoreAddress::Project(own(from))
    }

    /// Describes why the connection to the store is exposed to impersonation or eavesdropping, if it is.
    #[must_use]
    pub fn transport_weakness(&self) -> Option<&'static str> {
        match self {
            StoreAddress::Postgres(url) => crate::postgres::transport_weakness(url),
            StoreAddress::File(_) | StoreAddress::Project(_) | StoreAddress::Memory => None,
        }
    }

    /// Opens the store; creates a missing file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self) -> StoreResult<Arc<dyn AdminStore>> {
        self.open_with(false)
    }

    /// Opens an existing store, for read-only commands; creates nothing.
    ///
    /// # Errors
    /// If it cannot be opened, or is not a Flyball store.
    pub fn open_existing(&self) -> StoreResult<Arc<dyn AdminStore>> {
        self.open_with(true)
    }

    fn open_with(&self, existing: bool) -> StoreResult<Arc<dyn AdminStore>> {
        match self {
            StoreAddress::File(path) | StoreAddress::Project(path) => {
                let make_folder = matches!(self, StoreAddress::Project(_));
                let marks = HighWaterMarks::for_user();
                let options = SqliteOptions {
                    create_dir: make_folder,
                    must_exist: existing,
                    high_water_marks: marks,
                    ..SqliteOptions::default()
                };
                Ok(Arc::new(SqliteStore::open(path, options)?))
            }
            StoreAddress::Postgres(url) => Ok(Arc::new(PostgresStore::open(url)?)),
            StoreAddress::Memory => Ok(Arc::new(MemoryStore::bounded(MEMORY_EVENTS_PER_SESSION))),
        }
    }

    /// Directory for files that belong only to this store: workspaces of runs, large outputs. For a SQLite file,
    /// `FILE.files` next to it; the project store uses its `.flyball` directory. For a PostgreSQL store, a directory
    /// under the current one named after its address; for a memory store, a temporary directory of this process.
    ///
    /// # Errors
    /// If the current directory cannot be read.
    pub fn files_dir(&self) -> std::io::Result<PathBuf> {
        let folder = match self {
            StoreAddress::File(path) | StoreAddress::Project(path) => {
                let own = path.parent().filter(|_| path.ends_with(PROJECT_STORE_PATH.join("/")));
                own.map_or_else(|| with_suffix(path, ".files"), Path::to_owned)
            }
            StoreAddress::Postgres(url) => {
                let digest = blake3::hash(crate::postgres::redacted_address(url).as_bytes()).to_hex();
                let digest = digest.as_str().get(..12).unwrap_or_default();
                std::env::current_dir()?.join(PROJECT_STORE_PATH[0]).join(format!("postgres-{digest}"))
            }
            StoreAddress::Memory => {
                std::env::temp_dir().join(format!("flyball-memory-{}", std::process::id()))
            }
        };
        std::path::absolute(folder)
    }

    /// Directory for the large outputs of the store's sessions.
    ///
    /// # Errors
    /// If the current directory cannot be read.
    pub fn outputs_dir(&self) -> std::io::Result<PathBuf> {
        Ok(self.files_dir()?.join("outputs"))
    }

    /// Directory for the files of a run.
    ///
    /// # Errors
    /// If the current directory cannot be read.
    pub fn run_folder(&self, session: &str) -> std::io::Result<PathBuf> {
        Ok(self.files_dir()?.join("runs").join(StoreAddress::run_folder_name(session)))
    }

    /// Directory of a run whose session is already in the store. Earlier versions used one directory for the runs of
    /// all stores; the files of such a run are moved.
    ///
    /// # Errors
    /// If the current directory cannot be read, or the files cannot be moved.
    pub fn existing_run_dir(&self, session: &str) -> std::io::Result<PathBuf> {
        let folder = self.run_folder(session)?;
        let shared = match self {
            StoreAddress::File(path) | StoreAddress::Project(path) => {
                path.parent().map(Path::to_owned).unwrap_or_default()
            }
            StoreAddress::Postgres(_) => std::env::current_dir()?.join(PROJECT_STORE_PATH[0]),
            StoreAddress::Memory => return Ok(folder),
        };
        let before = shared.join("runs").join(sanitize_session_name(session));
        if !folder.exists() && before.is_dir() {
            std::fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
            std::fs::rename(&before, &folder)?;
        }
        Ok(folder)
    }

    /// Directory name for the files of a run: the session's name, with a digest if it is not a valid file name.
    #[must_use]
    pub fn run_folder_name(session: &str) -> String {
        let name = sanitize_session_name(session);
        if name == session && !name.starts_with('.') && name.len() <= 100 {
            return name;
        }
        let digest = blake3::hash(session.as_bytes()).to_hex();
        let short: String = name.trim_start_matches('.').chars().take(80).collect();
        format!("{short}-{}", digest.as_str().get(..8).unwrap_or_default())
    }

    fn mark_file(&self) -> Option<HighWaterMarkFile> {
        match self {
            StoreAddress::File(path) | StoreAddress::Project(path) => {
                HighWaterMarks::for_user()?.for_store(path, matches!(self, StoreAddress::Project(_)))
            }
            StoreAddress::Postgres(_) | StoreAddress::Memory => None,
        }
    }

    /// Checks for a removed store: this user's mark records one that governed open sessions, and it no longer exists.
    ///
    /// # Errors
    /// If it was removed.
    pub fn check_not_removed(&self) -> StoreResult<()> {
        match self.mark_file().and_then(|mark_file| mark_file.read().map(|mark| (mark_file, mark))) {
            Some((place, mark)) if !self.exists() => place.check_absent(&mark, "the store was removed"),
            _ => Ok(()),
        }
    }

    /// Accepts the current store, or its absence, by removing this user's mark.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn accept_current(&self) -> StoreResult<()> {
        let Some(place) = self.mark_file() else { return Ok(()) };
        place.remove().map_err(|error| {
            StoreError::new(StoreErrorKind::Io, format!("{}: {error}", place.file().display()))
        })
    }

    /// Whether there is a store to open, for read-only commands.
    #[must_use]
    pub fn exists(&self) -> bool {
        match self {
            StoreAddress::File(path) | StoreAddress::Project(path) => path.exists(),
            StoreAddress::Postgres(_) => true,
            StoreAddress::Memory => false,
        }
    }
}
