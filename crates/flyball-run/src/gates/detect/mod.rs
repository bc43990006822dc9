//! Finds out from a workspace which gates it has, and says in words why one is left out.
//!
//! Files decide what a project is; whether a tool is there is found out by asking it for its version, because a name
//! on the `PATH` may be an empty shim. Nothing is installed and nothing is written.

mod go;
mod javascript;
mod probe;
mod python;
mod rust;

use super::gate::Gate;
use flyball_checks::CheckKind;
use probe::Probe;
use std::path::Path;

/// How many folders are looked into if the workspace's own is no project.
const FOLDERS: usize = 16;

/// The gates of a workspace: for Rust, Python, JavaScript, TypeScript and Go. A gate that cannot run is there too,
/// with the reason. If the workspace's own folder is no project, the folders right below it are looked at.
#[must_use]
pub fn detect(workspace: &Path) -> Vec<Gate> {
    let mut sets = of_folder(workspace, Path::new(""));
    if sets.is_empty() {
        for name in folders(workspace).into_iter().take(FOLDERS) {
            sets.extend(of_folder(workspace, Path::new(&name)));
        }
    }
    if sets.is_empty() {
        let reason =
            "no project was recognised: there is no Cargo.toml, pyproject.toml, package.json or go.mod";
        return vec![Gate::skipped("tests", CheckKind::Tests, reason)];
    }
    let several = sets.len() > 1;
    sets.into_iter().flat_map(|set| if several { set.with_names_of_its_own() } else { set.gates }).collect()
}

/// The gates of one project.
struct Set {
    label: String,
    gates: Vec<Gate>,
}

impl Set {
    /// Several projects have several builds: `rust build`, `web javascript build`.
    fn with_names_of_its_own(mut self) -> Vec<Gate> {
        for gate in &mut self.gates {
            gate.name = format!("{} {}", self.label, gate.name);
            for need in &mut gate.needs {
                *need = format!("{} {need}", self.label);
            }
        }
        self.gates
    }
}

fn of_folder(workspace: &Path, dir: &Path) -> Vec<Set> {
    let probe = Probe::new(workspace.join(dir));
    let found = [
        ("rust", rust::gates(&probe)),
        ("python", python::gates(&probe)),
        ("javascript", javascript::gates(&probe)),
        ("go", go::gates(&probe)),
    ];
    let sets = found.into_iter().filter_map(|(language, gates)| {
        let mut gates = gates?;
        for gate in &mut gates {
            gate.dir = dir.to_path_buf();
            gate.env.insert("NO_COLOR".to_owned(), "1".to_owned());
        }
        let label = match dir.to_str() {
            Some("") | None => language.to_owned(),
            Some(dir) => format!("{dir} {language}"),
        };
        Some(Set { label, gates })
    });
    sets.collect()
}

/// The folders right below, sorted; not those that hold other people's code.
fn folders(workspace: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(workspace) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !probe::is_foreign(name)).collect();
    names.sort();
    names
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
