//! Record of hook runs in the user's state folder: host, project, time of the last run, store and policy.
//! `flyball doctor` compares it with the host's settings and so notices a removed hook without a server.
//!
//! A hook writes only when something has changed or the last write is a minute old, and never waits for the disk.

use crate::clock;
use crate::store;
use flyball::Fingerprint;
use flyball_integrations::hook::Host;
use flyball_store::StoreAddress;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Age in milliseconds at which the time of the last run is rewritten.
const REFRESH_INTERVAL_MS: u64 = 60_000;

/// One run of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookRun {
    /// The host's name on the command line.
    pub(crate) host: String,
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// The store it recorded to, without the password.
    pub(crate) store: String,
    /// The policy file it found.
    pub(crate) policy: Option<PathBuf>,
}

/// The last recorded run and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRun {
    /// Time of the run in milliseconds; up to a minute earlier than the actual last run.
    pub(crate) at: u64,
    pub(crate) run: HookRun,
}

/// A person's last change to a host's hook in a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InstallRecord {
    /// Installed in this settings file.
    Installed { at: u64, settings: PathBuf },
    /// Removed, or its absence was accepted.
    Removed { at: u64 },
}

/// The record file of one kind for a host and project; an empty path means all of the user's projects.
fn record_path(host: Host, project: &Path, kind: &str) -> Option<PathBuf> {
    let name = Fingerprint::of_text(&format!("{} {}", host.as_str(), project.display()));
    Some(store::state_folder()?.join("flyball").join("hooks").join(format!("{name}.{kind}")))
}

/// Replaces a file without waiting for the disk. Write errors are ignored: the hook must still answer, and the store
/// records the session as well.
fn write_best_effort(path: &Path, text: &str) {
    let Some(folder) = path.parent() else { return };
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written = std::fs::write(&beside, text).or_else(|_| {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&beside, text)
    });
    if written.and_then(|()| std::fs::rename(&beside, path)).is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}

/// Records a hook run.
pub(crate) fn record_run(host: Host, run: &HookRun) {
    let (Some(path), Some(now)) = (record_path(host, &run.project, "run"), clock::now()) else { return };
    let Ok(json) = serde_json::to_string(run) else { return };
    if let Ok(text) = std::fs::read_to_string(&path)
        && let Some((at, before)) = text.split_once('\n')
        && before == json
        && at.parse::<u64>().is_ok_and(|at| now.abs_diff(at) < REFRESH_INTERVAL_MS)
    {
        return;
    }
    write_best_effort(&path, &format!("{now}\n{json}"));
}

/// The last run of a host's hook in a project.
pub(crate) fn last_run(host: Host, project: &Path) -> Option<LastRun> {
    let text = std::fs::read_to_string(record_path(host, project, "run")?).ok()?;
    let (at, json) = text.split_once('\n')?;
    Some(LastRun { at: at.parse().ok()?, run: serde_json::from_str(json).ok()? })
}

/// Records an install or removal of a hook. `project` is empty for the user's settings.
pub(crate) fn record_install(host: Host, project: &Path, intent: &InstallRecord) {
    if let (Some(path), Ok(text)) = (record_path(host, project, "intent"), serde_json::to_string(intent)) {
        write_best_effort(&path, &text);
    }
}

/// The last recorded install or removal of a hook.
pub(crate) fn install_record(host: Host, project: &Path) -> Option<InstallRecord> {
    serde_json::from_str(&std::fs::read_to_string(record_path(host, project, "intent")?).ok()?).ok()
}

/// A store's address without the password.
pub(crate) fn display_address(address: &StoreAddress) -> String {
    match address {
        StoreAddress::File(path) | StoreAddress::Project(path) => format!("sqlite:{}", path.display()),
        StoreAddress::Postgres(url) => {
            let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
            let rest = rest.split('?').next().unwrap_or_default();
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        }
        StoreAddress::Memory => "memory:".to_owned(),
    }
}
