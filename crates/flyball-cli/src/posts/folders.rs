//! What stands in a project: the hooks of its agents, and the policy that they go by.

use super::Standing;
use crate::args::PolicyArgs;
use crate::commands::hook;
use crate::fail::Failure;
use crate::load;
use flyball::{Fingerprint, Preset};
use flyball_adapt::hook::Host;
use flyball_journal::Note;
use std::path::{Path, PathBuf};

/// What stands in folders, and for this user; and what was noted of other folders, which is still to stand.
pub(super) fn look(folders: &[PathBuf], noted: &[Note]) -> Vec<Standing> {
    let mut all: Vec<PathBuf> = folders.to_vec();
    let told = noted.iter().filter_map(|note| note.key.strip_prefix("policy ").map(PathBuf::from));
    all.extend(told.filter(|folder| !folders.contains(folder)));
    let mut found: Vec<Standing> = all.iter().map(|folder| policy(folder)).collect();
    for host in Host::ALL {
        found.extend(all.iter().filter_map(|folder| a_hook(host, Some(folder))));
        found.extend(a_hook(host, None));
    }
    found
}

fn policy(folder: &Path) -> Standing {
    let source = load::source_from(folder, &PolicyArgs::default(), Preset::Agent);
    Standing {
        key: format!("policy {}", folder.display()),
        kind: "policy",
        name: folder.display().to_string(),
        print: source.map(|source| Fingerprint::of_text(&source.to_json()).to_string()).map_err(first),
        changed: "it is another one than when it was first seen".to_owned(),
        broken: false,
    }
}

/// A hook of a host, in a project or for the user; none if there is no place for it.
fn a_hook(host: Host, folder: Option<&Path>) -> Option<Standing> {
    let (place, print) = hook::glance(host, folder).ok()?;
    let broken = print
        .as_ref()
        .is_err_and(|failure| failure.complaints.iter().any(|complaint| complaint.code == "hook_not_armed"));
    Some(Standing {
        key: format!("hook {} {}", host.as_str(), place.display()),
        kind: "hook",
        name: format!("{}, {}", host.shown(), place.display()),
        print: print.map_err(first),
        changed: "it calls something else than when it was first seen".to_owned(),
        broken,
    })
}

fn first(failure: Failure) -> String {
    failure.complaints.into_iter().next().map(|complaint| complaint.what).unwrap_or_default()
}
