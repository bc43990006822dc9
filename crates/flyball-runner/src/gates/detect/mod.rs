//! Detects the gates of a workspace, with a reason for each gate that cannot run.
//!
//! Files determine the kind of project. Tools are probed by running them with `--version`, because a name in `PATH` may
//! be an empty shim. Nothing is installed or written.

mod go_test;
mod javascript;
mod probe;
mod python;
mod rust;

use super::gate::QualityGate;
use flyball_checks::CheckKind;
use probe::ProjectProbe;
use std::path::Path;

/// Maximum number of subfolders probed if the workspace root is not a project.
const MAX_PROJECT_DIRS: usize = 16;

/// Detects the gates of a workspace: Rust, Python, JavaScript, TypeScript and Go. A gate that cannot run is included
/// with the reason. If the workspace root is not a project, its direct subfolders are probed.
#[must_use]
pub fn detect(workspace: &Path) -> Vec<QualityGate> {
    let mut sets = detect_in_dir(workspace, Path::new(""));
    if sets.is_empty() {
        for name in project_dirs(workspace).into_iter().take(MAX_PROJECT_DIRS) {
            sets.extend(detect_in_dir(workspace, Path::new(&name)));
        }
    }
    if sets.is_empty() {
        let reason = "no project recognized: no Cargo.toml, pyproject.toml, package.json or go.mod";
        return vec![QualityGate::skipped("tests", CheckKind::Tests, reason)];
    }
    let several = sets.len() > 1;
    sets.into_iter().flat_map(|set| if several { set.with_label_prefix() } else { set.gates }).collect()
}

/// Gates of one project.
struct ProjectGates {
    label: String,
    gates: Vec<QualityGate>,
}

impl ProjectGates {
    /// Prefixes gate names with the project label, to distinguish several projects: `rust build`, `web javascript
    /// build`.
    fn with_label_prefix(mut self) -> Vec<QualityGate> {
        for gate in &mut self.gates {
            gate.name = format!("{} {}", self.label, gate.name);
            for need in &mut gate.needs {
                *need = format!("{} {need}", self.label);
            }
        }
        self.gates
    }
}

fn detect_in_dir(workspace: &Path, dir: &Path) -> Vec<ProjectGates> {
    let probe = ProjectProbe::new(workspace.join(dir));
    let found = [
        ("rust", rust::gates(&probe)),
        ("python", python::gates(&probe)),
        ("javascript", javascript::gates(&probe)),
        ("go", go_test::gates(&probe)),
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
        Some(ProjectGates { label, gates })
    });
    sets.collect()
}

/// Direct subfolders, sorted, without vendored code.
fn project_dirs(workspace: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(workspace) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !probe::is_vendored_dir(name)).collect();
    names.sort();
    names
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
