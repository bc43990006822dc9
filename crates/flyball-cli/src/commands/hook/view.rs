//! Reading what a host reads: all of its settings files on this machine, and what follows from them for the hook.

use super::files;
use super::setting::{Setting, home};
use flyball::policy::from_environment;
use flyball_adapt::hook::Host;
use flyball_adapt::hook::settings::{
    self, Base, Handler, HostView, Line, Obstacle, Ready, SettingsFile, Variable, shell_words,
};
use std::path::{Path, PathBuf};

/// What a host's settings say about the hook.
pub(super) enum Found {
    /// The host will run these handlers.
    Handlers(Vec<Handler>),
    /// There is no hook.
    Absent(String),
    /// There is one, and the host will not run it.
    Blocked(Obstacle),
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Everything that the host reads in a project.
pub(super) fn view(host: Host, project: &Path) -> HostView<'_> {
    let home = home(host);
    let mut found = Vec::new();
    for file in settings::host_files(host) {
        let moved = file.variable.and_then(std::env::var_os).map(PathBuf::from);
        let path = match (moved, file.base) {
            (Some(moved), _) => moved,
            (None, Base::System) => PathBuf::from(file.path),
            (None, Base::Project) => project.join(file.path),
            (None, Base::User) => match &home {
                Some(home) => home.join(file.path),
                None => continue,
            },
        };
        for path in json_files(path) {
            // A file that cannot be read says nothing to the host either.
            if let Ok(Some(text)) = files::read(&path) {
                found.push(SettingsFile { file: *file, path, text });
            }
        }
    }
    HostView { host, project, files: found, home, variable: &variable }
}

/// The path itself, or the JSON files of a folder in the order of their names.
fn json_files(path: PathBuf) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(&path) else { return vec![path] };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    all.sort();
    all
}

/// The hook in the settings of a project or of the user, the file that it is in, and whether the host will run it.
pub(super) fn find(setting: &Setting) -> (PathBuf, Found) {
    let host = setting.host;
    let mut first = None;
    for path in setting.hook_files() {
        let found = in_file(setting, &path);
        if !matches!(found, Found::Absent(_)) {
            return (path, found);
        }
        first.get_or_insert((path, found));
    }
    first.unwrap_or_else(|| (PathBuf::new(), Found::Absent(format!("{} has no settings", host.shown()))))
}

fn in_file(setting: &Setting, path: &Path) -> Found {
    let host = setting.host;
    let text = match files::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Found::Absent(format!("there is no {}", path.display())),
        Err(failure) => {
            let what = failure.complaints.into_iter().next().map(|complaint| complaint.what);
            let what = what.unwrap_or_default();
            return Found::Blocked(Obstacle {
                what,
                path: path.to_path_buf(),
                line: None,
                help: "make the file readable".to_owned(),
            });
        }
    };
    match settings::armed(host, &text, host.shell()) {
        Err(broken) if text.contains("flyball") => Found::Blocked(Obstacle::unreadable(path, &broken)),
        Err(broken) => Found::Absent(Obstacle::unreadable(path, &broken).told()),
        Ok(Ready::No(why)) => Found::Absent(format!("{why} ({})", path.display())),
        Ok(Ready::Yes(handlers)) => match view(host, &setting.folder).obstacle(path) {
            Some(obstacle) => Found::Blocked(obstacle),
            None => Found::Handlers(handlers),
        },
    }
}

/// Variables that the host's settings give to the hook and that change its store or its policy.
pub(super) fn redirects(host: Host, project: &Path, path: &Path, handlers: &[Handler]) -> Vec<Variable> {
    let mut found = view(host, project).environment();
    for handler in handlers {
        let words = match &handler.line {
            Line::Shell(line) => shell_words(line).unwrap_or_default(),
            Line::Exec(_) => Vec::new(),
        };
        let assigned = words.into_iter().map_while(|word| {
            let (name, value) = word.split_once('=')?;
            let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            plain.then(|| (name.to_owned(), value.to_owned()))
        });
        for (name, value) in assigned.chain(handler.env.iter().cloned()) {
            if !found.iter().any(|known| known.name == name) {
                found.push(Variable { name, value, path: path.to_path_buf(), line: None });
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

/// The environment that the host's settings give to their hooks, for running them as the host does.
pub(super) fn environment(host: Host, project: &Path) -> Vec<(String, String)> {
    view(host, project).environment().into_iter().map(|variable| (variable.name, variable.value)).collect()
}
