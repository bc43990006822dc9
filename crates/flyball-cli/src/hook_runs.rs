//! The record of hook runs, in the user's state folder: which host ran Flyball's hook in which project, when last, with
//! which store and policy. `flyball doctor` compares it with the host's settings, so that a hook that was
//! removed is noticed without any server.
//!
//! A hook writes only when something has changed or the last time is a minute old, and never waits for the disk.

use crate::clock;
use crate::store;
use flyball::Fingerprint;
use flyball_adapt::hook::Host;
use flyball_journal::Address;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How old the time of the last run may become before it is written again, in milliseconds.
const STALE_MS: u64 = 60_000;

/// What a hook did when it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookRun {
    /// The host, as on the command line.
    pub(crate) host: String,
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// The store that it recorded in, without a password.
    pub(crate) store: String,
    /// The policy file that it found.
    pub(crate) policy: Option<PathBuf>,
}

/// A run and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRun {
    /// When it was, in milliseconds; up to a minute earlier than the very last.
    pub(crate) at: u64,
    pub(crate) run: HookRun,
}

/// What a person last did to the hook of a host in a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Intent {
    /// Installed it in this file.
    Installed { at: u64, settings: PathBuf },
    /// Removed it, or accepted that it is gone.
    Removed { at: u64 },
}

/// The file of a kind for a host in a project; the empty path stands for all projects of the user.
fn file(host: Host, project: &Path, kind: &str) -> Option<PathBuf> {
    let name = Fingerprint::of_text(&format!("{} {}", host.as_str(), project.display()));
    Some(store::state_folder()?.join("flyball").join("hooks").join(format!("{name}.{kind}")))
}

/// Writes a file at once and without waiting for the disk. A record that cannot be written is not worth an error: the
/// hook must answer, and the store has the session as well.
fn write(path: &Path, text: &str) {
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

/// Records that a hook runs.
pub(crate) fn record(host: Host, run: &HookRun) {
    let (Some(path), Some(now)) = (file(host, &run.project, "run"), clock::now()) else { return };
    let Ok(told) = serde_json::to_string(run) else { return };
    if let Ok(text) = std::fs::read_to_string(&path)
        && let Some((at, before)) = text.split_once('\n')
        && before == told
        && at.parse::<u64>().is_ok_and(|at| now.abs_diff(at) < STALE_MS)
    {
        return;
    }
    write(&path, &format!("{now}\n{told}"));
}

/// The last run of a host's hook in a project.
pub(crate) fn last(host: Host, project: &Path) -> Option<LastRun> {
    let text = std::fs::read_to_string(file(host, project, "run")?).ok()?;
    let (at, told) = text.split_once('\n')?;
    Some(LastRun { at: at.parse().ok()?, run: serde_json::from_str(told).ok()? })
}

/// Records what a person has done to a hook. `project` is empty for the user's own settings.
pub(crate) fn intend(host: Host, project: &Path, intent: &Intent) {
    if let (Some(path), Ok(text)) = (file(host, project, "intent"), serde_json::to_string(intent)) {
        write(&path, &text);
    }
}

/// What a person last did to a hook.
pub(crate) fn intent(host: Host, project: &Path) -> Option<Intent> {
    serde_json::from_str(&std::fs::read_to_string(file(host, project, "intent")?).ok()?).ok()
}

/// How a store is named in the record: without a password.
pub(crate) fn shown(address: &Address) -> String {
    match address {
        Address::File(path) | Address::Project(path) => format!("sqlite:{}", path.display()),
        Address::Server(url) => {
            let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
            let rest = rest.split('?').next().unwrap_or_default();
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        }
        Address::Memory => "memory:".to_owned(),
    }
}
