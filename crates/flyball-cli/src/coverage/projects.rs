//! Coverage of projects: the hooks of their agents and the policies they use.

use super::ObservedItem;
use crate::args::PolicyArgs;
use crate::commands::hook;
use crate::error::CliError;
use crate::policy_loader;
use flyball::{Fingerprint, Preset};
use flyball_integrations::hook::Host;
use flyball_store::KvEntry;
use std::path::{Path, PathBuf};

/// Hooks and policies of these folders, of this user, and of other folders recorded earlier.
pub(super) fn probe_projects(folders: &[PathBuf], entries: &[KvEntry]) -> Vec<ObservedItem> {
    let mut all: Vec<PathBuf> = folders.to_vec();
    let recorded = entries.iter().filter_map(|note| note.key.strip_prefix("policy ").map(PathBuf::from));
    all.extend(recorded.filter(|folder| !folders.contains(folder)));
    let mut found: Vec<ObservedItem> = all.iter().map(|folder| probe_policy(folder)).collect();
    for host in Host::ALL {
        found.extend(all.iter().filter_map(|folder| probe_hook(host, Some(folder))));
        found.extend(probe_hook(host, None));
    }
    found
}

fn probe_policy(folder: &Path) -> ObservedItem {
    let source = policy_loader::source_from(folder, &PolicyArgs::default(), Preset::Agent);
    ObservedItem {
        key: format!("policy {}", folder.display()),
        kind: "policy",
        name: folder.display().to_string(),
        fingerprint: source
            .map(|source| Fingerprint::of_text(&source.to_json()).to_string())
            .map_err(first_message),
        changed_text: "it has changed since it was first seen".to_owned(),
        broken: false,
    }
}

/// A host's hook in a project or for the user; `None` if the host has no such settings.
fn probe_hook(host: Host, folder: Option<&Path>) -> Option<ObservedItem> {
    let (place, print) = hook::hook_fingerprint(host, folder).ok()?;
    let broken = print.as_ref().is_err_and(|failure| {
        failure.diagnostics.iter().any(|diagnostic| diagnostic.code == "hook_not_armed")
    });
    Some(ObservedItem {
        key: format!("hook {} {}", host.as_str(), place.display()),
        kind: "hook",
        name: format!("{}, {}", host.display_name(), place.display()),
        fingerprint: print.map_err(first_message),
        changed_text: "its command has changed since it was first seen".to_owned(),
        broken,
    })
}

fn first_message(failure: CliError) -> String {
    failure.diagnostics.into_iter().next().map(|diagnostic| diagnostic.message).unwrap_or_default()
}
