//! The project root and the store of a session: fixed when the session starts, whatever folder the agent moves to.
//!
//! Some hosts name the root in the environment of each call. For the others the folder of the session's first call is
//! remembered in the user's state folder. So is the store, so that a changed setting cannot move a session elsewhere.

use crate::clock;
use crate::store;
use crate::trust::Caller;
use flyball_adapt::hook::{Call, Host};
use flyball_journal::Address;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A session that was not heard of for so long is forgotten when another one starts.
const KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// So many sessions are remembered before old ones are looked for.
const MANY: usize = 256;

/// What is fixed for a session.
pub(super) struct SessionPlace {
    /// The project root.
    pub(super) root: PathBuf,
    /// The store that was used first, if it is a file.
    store: Option<Address>,
    /// Where it is remembered; none if there is no state folder.
    record: Option<PathBuf>,
    known: bool,
}

impl SessionPlace {
    /// The place of a call's session: as remembered, else as the host names it, else the folder of this call.
    pub(super) fn of(call: &Call) -> SessionPlace {
        // A state folder inside the project would be the project's own word. The agent chooses its folder, so that says
        // nothing about what is remembered already.
        let own = |root: &Path, record: &Path| Caller::HookEntry(root).owns(record);
        let named = named_root(call.host);
        let record = record_path(call).filter(|path| named.as_deref().is_none_or(|root| own(root, path)));
        if let Some(path) = &record
            && let Some((root, store)) = read(path).filter(|(root, _)| own(root, path))
        {
            return SessionPlace { root, store, record, known: true };
        }
        let cwd = || call.cwd.as_deref().map(PathBuf::from).filter(|cwd| cwd.is_absolute());
        let root = named.or_else(cwd).unwrap_or_else(here);
        let record = record.filter(|path| own(&root, path));
        SessionPlace { root, store: None, record, known: false }
    }

    /// Where a call is that cannot be read: what the host says.
    pub(super) fn unknown(host: Host) -> SessionPlace {
        let root = named_root(host).unwrap_or_else(here);
        SessionPlace { root, store: None, record: None, known: false }
    }

    /// The store of the session: the one that it started with.
    pub(super) fn store(&self, present: Address) -> Address {
        self.store.clone().unwrap_or(present)
    }

    /// Remembers root and store, if they are new.
    pub(super) fn remember(&self, store: &Address) {
        let Some(path) = self.record.as_deref().filter(|_| !self.known) else { return };
        // Without it the folder of each call counts; nothing else depends on it.
        let _ = write(path, &self.root, store);
    }
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

/// The root that the host names in the environment of its hooks.
fn named_root(host: Host) -> Option<PathBuf> {
    let set = |name: &&str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    host.root_variables().iter().find_map(set).filter(|path| path.is_dir())
}

/// Sub-agents belong to the session that started them.
fn record_path(call: &Call) -> Option<PathBuf> {
    let session = match call.session.split_once('/') {
        Some((session, _)) => session,
        None => &call.session,
    };
    let name = blake3::hash(session.as_bytes()).to_hex();
    Some(store::state_folder()?.join("flyball").join("sessions").join(name.as_str()))
}

fn read(path: &Path) -> Option<(PathBuf, Option<Address>)> {
    let bytes = std::fs::read(path).ok()?;
    let mut parts =
        bytes.split(|byte| *byte == 0).map(|part| PathBuf::from(std::ffi::OsString::from_vec(part.to_vec())));
    let root = parts.next().filter(|root| root.is_absolute() && root.is_dir())?;
    let kind = parts.next()?;
    let file = parts.next().filter(|file| file.is_absolute());
    let store = match kind.to_str()? {
        "project" => file.map(Address::Project),
        "file" => file.map(Address::File),
        _ => None,
    };
    Some((root, store))
}

fn write(path: &Path, root: &Path, store: &Address) -> std::io::Result<()> {
    let (kind, file) = match store {
        Address::Project(file) => ("project", file.as_path()),
        Address::File(file) => ("file", file.as_path()),
        // An address may hold a password.
        _ => ("server", Path::new("")),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    forget_old(folder);
    let mut bytes = root.as_os_str().as_bytes().to_vec();
    for part in [kind.as_bytes(), file.as_os_str().as_bytes()] {
        bytes.push(0);
        bytes.extend_from_slice(part);
    }
    // Only the first call of a session decides.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&bytes)
}

fn forget_old(folder: &Path) {
    let Ok(all) = std::fs::read_dir(folder) else { return };
    let all: Vec<_> = all.flatten().collect();
    if all.len() < MANY {
        return;
    }
    let now = clock::now().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    let Some(old) = now.and_then(|now| now.checked_sub(KEPT)) else { return };
    for entry in all {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        if modified.is_ok_and(|modified| modified < old) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
