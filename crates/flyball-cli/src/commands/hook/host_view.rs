//! Reads all of a host's settings files on this machine and determines whether the hook will run.

use super::hook_settings::{HookSettings, user_settings_dir};
use super::settings_file;
use flyball::policy::from_environment;
use flyball_integrations::hook::Host;
use flyball_integrations::hook::settings::{
    self, HandlerCommand, HookHandler, HookObstacle, HookReadiness, HookVariable, HostSettings, PathBase,
    SettingsFile, shell_words,
};
use std::path::{Path, PathBuf};

/// The hook found in a host's settings.
pub(super) enum HookMatch {
    /// The host will run these handlers.
    Handlers(Vec<HookHandler>),
    /// No hook is installed.
    Absent(String),
    /// A hook is installed, but the host will not run it.
    Blocked(HookObstacle),
}

fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All settings the host reads in a project.
pub(super) fn host_view(host: Host, project: &Path) -> HostSettings<'_> {
    let home = user_settings_dir(host);
    let mut found = Vec::new();
    for file in settings::host_files(host) {
        let moved = file.path_variable.and_then(std::env::var_os).map(PathBuf::from);
        let path = match (moved, file.base) {
            (Some(moved), _) => moved,
            (None, PathBase::System) => PathBuf::from(file.path),
            (None, PathBase::Project) => project.join(file.path),
            (None, PathBase::User) => match &home {
                Some(home) => home.join(file.path),
                None => continue,
            },
        };
        for path in json_files(path) {
            // The host cannot read an unreadable file either.
            if let Ok(Some(text)) = settings_file::read(&path) {
                found.push(SettingsFile { file: *file, path, text });
            }
        }
    }
    HostSettings { host, project, files: found, home, env_var: &env_var }
}

/// The path itself, or the JSON files of a folder in name order.
fn json_files(path: PathBuf) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(&path) else { return vec![path] };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    all.sort();
    all
}

/// The hook in a project's or the user's settings, its file, and whether the host will run it.
pub(super) fn find_hook(hook_settings: &HookSettings) -> (PathBuf, HookMatch) {
    let host = hook_settings.host;
    let mut first = None;
    for path in hook_settings.hook_files() {
        let found = find_in_file(hook_settings, &path);
        if !matches!(found, HookMatch::Absent(_)) {
            return (path, found);
        }
        first.get_or_insert((path, found));
    }
    first.unwrap_or_else(|| {
        (PathBuf::new(), HookMatch::Absent(format!("{} has no settings", host.display_name())))
    })
}

fn find_in_file(hook_settings: &HookSettings, path: &Path) -> HookMatch {
    let host = hook_settings.host;
    let text = match settings_file::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return HookMatch::Absent(format!("{} does not exist", path.display())),
        Err(failure) => {
            let what = failure.diagnostics.into_iter().next().map(|diagnostic| diagnostic.message);
            let what = what.unwrap_or_default();
            return HookMatch::Blocked(HookObstacle {
                message: what,
                path: path.to_path_buf(),
                line: None,
                help: "make the file readable".to_owned(),
            });
        }
    };
    match settings::check_armed(host, &text, host.shell_tool()) {
        Err(broken) if text.contains("flyball") => {
            HookMatch::Blocked(HookObstacle::unreadable(path, &broken))
        }
        Err(broken) => HookMatch::Absent(HookObstacle::unreadable(path, &broken).one_line()),
        Ok(HookReadiness::NotArmed(why)) => HookMatch::Absent(format!("{why} ({})", path.display())),
        Ok(HookReadiness::Armed(handlers)) => match host_view(host, &hook_settings.folder).obstacle(path) {
            Some(obstacle) => HookMatch::Blocked(obstacle),
            None => HookMatch::Handlers(handlers),
        },
    }
}

/// Variables in the host's settings that change the hook's store or policy.
pub(super) fn redirecting_variables(
    host: Host,
    project: &Path,
    path: &Path,
    handlers: &[HookHandler],
) -> Vec<HookVariable> {
    let mut found = host_view(host, project).environment();
    for handler in handlers {
        let words = match &handler.command {
            HandlerCommand::Shell(line) => shell_words(line).unwrap_or_default(),
            HandlerCommand::Exec(_) => Vec::new(),
        };
        let assigned = words.into_iter().map_while(|word| {
            let (name, value) = word.split_once('=')?;
            let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            plain.then(|| (name.to_owned(), value.to_owned()))
        });
        for (name, value) in assigned.chain(handler.env.iter().cloned()) {
            if !found.iter().any(|known| known.name == name) {
                found.push(HookVariable { name, value, path: path.to_path_buf(), line: None });
            }
        }
    }
    found.retain(|variable| {
        let pair = (variable.name.clone(), variable.value.clone());
        let policy = !matches!(from_environment(std::iter::once(pair)), Ok(None));
        policy || variable.name == "FLYBALL_STORE"
    });
    found
}

/// The environment that the host's settings give to hooks, to run them as the host does.
pub(super) fn hook_environment(host: Host, project: &Path) -> Vec<(String, String)> {
    host_view(host, project)
        .environment()
        .into_iter()
        .map(|variable| (variable.name, variable.value))
        .collect()
}
