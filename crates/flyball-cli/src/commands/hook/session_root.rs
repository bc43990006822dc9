//! Project root and store of a session: fixed when the session starts, even if the agent changes folders.
//!
//! Some hosts pass the root in the environment of each call. For the others the folder of the session's first call is
//! remembered in the user's state folder. The store is remembered too, so that a changed setting cannot move a session.

use crate::clock;
use crate::store;
use crate::trust_list::Caller;
use flyball_integrations::hook::{HookInvocation, Host};
use flyball_store::StoreAddress;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Age at which a session's record is deleted when another session starts.
const RECORD_RETENTION: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Number of records kept before old ones are deleted.
const MAX_RECORDS: usize = 256;

/// The fixed root and store of a session.
pub(super) struct SessionRoot {
    /// The project root.
    pub(super) root: PathBuf,
    /// The store used first, if it is a file.
    store: Option<StoreAddress>,
    /// The record's path; `None` if there is no state folder.
    record_path: Option<PathBuf>,
    is_recorded: bool,
}

impl SessionRoot {
    /// The root of a call's session: as remembered, else as named by the host, else the folder of this call.
    pub(super) fn for_invocation(call: &HookInvocation) -> SessionRoot {
        // A state folder inside the project would be under the project's control. The agent chooses its folder, so that
        // must not affect existing records.
        let own = |root: &Path, record: &Path| Caller::HookEntry(root).is_user_owned(record);
        let named = root_from_environment(call.host);
        let record_path =
            record_path(call).filter(|path| named.as_deref().is_none_or(|root| own(root, path)));
        if let Some(path) = &record_path
            && let Some((root, store)) = read_record(path).filter(|(root, _)| own(root, path))
        {
            return SessionRoot { root, store, record_path, is_recorded: true };
        }
        let cwd = || call.cwd.as_deref().map(PathBuf::from).filter(|cwd| cwd.is_absolute());
        let root = named.or_else(cwd).unwrap_or_else(current_dir);
        let record_path = record_path.filter(|path| own(&root, path));
        SessionRoot { root, store: None, record_path, is_recorded: false }
    }

    /// The root for unreadable input: as named by the host.
    pub(super) fn for_unreadable_input(host: Host) -> SessionRoot {
        let root = root_from_environment(host).unwrap_or_else(current_dir);
        SessionRoot { root, store: None, record_path: None, is_recorded: false }
    }

    /// The session's store: the one it started with.
    pub(super) fn store(&self, present: StoreAddress) -> StoreAddress {
        self.store.clone().unwrap_or(present)
    }

    /// Remembers root and store if they are new.
    pub(super) fn remember(&self, store: &StoreAddress) {
        let Some(path) = self.record_path.as_deref().filter(|_| !self.is_recorded) else { return };
        // Without a record the folder of each call is used; nothing else depends on it.
        let _ = write_record(path, &self.root, store);
    }
}

fn current_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

/// The root named in the environment of the host's hooks.
fn root_from_environment(host: Host) -> Option<PathBuf> {
    let set = |name: &&str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    host.root_variables().iter().find_map(set).filter(|path| path.is_dir())
}

/// The record's path. Sub-agents belong to the session that started them.
fn record_path(call: &HookInvocation) -> Option<PathBuf> {
    let session = match call.session.split_once('/') {
        Some((session, _)) => session,
        None => &call.session,
    };
    let name = blake3::hash(session.as_bytes()).to_hex();
    Some(store::state_folder()?.join("flyball").join("sessions").join(name.as_str()))
}

fn read_record(path: &Path) -> Option<(PathBuf, Option<StoreAddress>)> {
    let bytes = std::fs::read(path).ok()?;
    let mut parts =
        bytes.split(|byte| *byte == 0).map(|part| PathBuf::from(std::ffi::OsString::from_vec(part.to_vec())));
    let root = parts.next().filter(|root| root.is_absolute() && root.is_dir())?;
    let kind = parts.next()?;
    let file = parts.next().filter(|file| file.is_absolute());
    let store = match kind.to_str()? {
        "project" => file.map(StoreAddress::Project),
        "file" => file.map(StoreAddress::File),
        _ => None,
    };
    Some((root, store))
}

fn write_record(path: &Path, root: &Path, store: &StoreAddress) -> std::io::Result<()> {
    let (kind, file) = match store {
        StoreAddress::Project(file) => ("project", file.as_path()),
        StoreAddress::File(file) => ("file", file.as_path()),
        // An address may contain a password.
        _ => ("server", Path::new("")),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    remove_old_records(folder);
    let mut bytes = root.as_os_str().as_bytes().to_vec();
    for part in [kind.as_bytes(), file.as_os_str().as_bytes()] {
        bytes.push(0);
        bytes.extend_from_slice(part);
    }
    // Only a session's first call creates the record.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&bytes)
}

fn remove_old_records(folder: &Path) {
    let Ok(all) = std::fs::read_dir(folder) else { return };
    let all: Vec<_> = all.flatten().collect();
    if all.len() < MAX_RECORDS {
        return;
    }
    let now = clock::now().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    let Some(old) = now.and_then(|now| now.checked_sub(RECORD_RETENTION)) else { return };
    for entry in all {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        if modified.is_ok_and(|modified| modified < old) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
