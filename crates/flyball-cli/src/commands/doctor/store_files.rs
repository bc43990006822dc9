//! Checks the store's files: private to this user and not symbolic links.

use super::DoctorCheck;
use flyball_store::StoreAddress;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Checks the folder and files of a store; nothing for PostgreSQL or memory.
pub(super) fn check_files(address: &StoreAddress) -> impl Iterator<Item = DoctorCheck> {
    let wrong = match address {
        StoreAddress::File(path) => Some(file_problem(path, false)),
        StoreAddress::Project(path) => Some(file_problem(path, true)),
        StoreAddress::Postgres(_) | StoreAddress::Memory => None,
    };
    wrong.into_iter().map(|wrong| match wrong {
        None => DoctorCheck::ok("permissions", "the store's folder and files are private to you"),
        Some((message, help)) => DoctorCheck::wrong("permissions", message, help),
    })
}

/// The first problem and how to fix it.
fn file_problem(path: &Path, own_folder: bool) -> Option<(String, String)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder with other content may be readable by others, but not writable.
    let closed = if own_folder { 0o077 } else { 0o022 };
    let mut places =
        vec![(folder.to_path_buf(), closed, "700", true), (path.to_path_buf(), 0o077, "600", false)];
    for ending in ["-wal", "-shm", "-turn", "-queue"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        places.push((PathBuf::from(name), 0o077, "600", false));
    }
    let me = std::fs::metadata("/proc/self").map(|me| me.uid()).ok();
    places.iter().find_map(|(place, forbidden, mode, is_folder)| {
        let meta = std::fs::symlink_metadata(place).ok()?;
        let shown = place.display();
        if meta.is_symlink() && (!is_folder || own_folder) {
            return Some((
                format!("{shown} is a symbolic link"),
                "move the store there, or name its real path".to_owned(),
            ));
        }
        let meta: Metadata = if meta.is_symlink() { std::fs::metadata(place).ok()? } else { meta };
        let sticky = *is_folder && meta.mode() & 0o1000 != 0;
        if me.is_some_and(|me| me != meta.uid()) && !sticky && (!is_folder || own_folder) {
            return Some((format!("{shown} belongs to another user"), "use your own store".to_owned()));
        }
        let open = meta.mode() & forbidden != 0 && !sticky;
        open.then(|| {
            let message = format!("{shown} is accessible to other users (mode {:o})", meta.mode() & 0o7777);
            let mode = if *is_folder && !own_folder { "go-w" } else { mode };
            (message, format!("chmod {mode} {}", crate::formatting::typed(&place.to_string_lossy())))
        })
    })
}
