//! The store's place on the disk: ours alone, and no link to somewhere else.

use super::Finding;
use flyball_journal::Address;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Looks at the folder and the files of a store. Nothing for a server.
pub(super) fn check(address: &Address) -> impl Iterator<Item = Finding> {
    let wrong = match address {
        Address::File(path) => Some(looked_at(path, false)),
        Address::Project(path) => Some(looked_at(path, true)),
        Address::Server(_) | Address::Memory => None,
    };
    wrong.into_iter().map(|wrong| match wrong {
        None => Finding::ok("permissions", "private to you: folder, file and what lies beside it"),
        Some((what, advice)) => Finding::wrong("permissions", what, advice),
    })
}

/// The first thing that is wrong, and what to do.
fn looked_at(path: &Path, own_folder: bool) -> Option<(String, String)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that holds other things too need not be closed to readers, only to writers.
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
                format!("{shown} is a link"),
                "put the store itself there, or name its real place".to_owned(),
            ));
        }
        let meta: Metadata = if meta.is_symlink() { std::fs::metadata(place).ok()? } else { meta };
        let sticky = *is_folder && meta.mode() & 0o1000 != 0;
        if me.is_some_and(|me| me != meta.uid()) && !sticky && (!is_folder || own_folder) {
            return Some((format!("{shown} belongs to somebody else"), "use a store of your own".to_owned()));
        }
        let open = meta.mode() & forbidden != 0 && !sticky;
        open.then(|| {
            let what = format!("{shown} is open to others (mode {:o})", meta.mode() & 0o7777);
            let mode = if *is_folder && !own_folder { "go-w" } else { mode };
            (what, format!("chmod {mode} {}", crate::words::typed(&place.to_string_lossy())))
        })
    })
}
