//! The workflows in one folder, by name. Neither a name nor a symlink can lead out of it.

use crate::api_error::ApiError;
use axum::http::StatusCode;
use flyball_view::formatting::single_line;
use serde::Serialize;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 64;
/// Maximum number of listed workflows.
const MAX_LISTED: usize = 500;
/// Maximum size of a listed workflow file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// File extensions of workflows.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "toml", "json"];

/// A workflow in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WorkflowInfo {
    /// Name to start it by.
    pub(crate) name: String,
    /// Its goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<String>,
    /// Why its file is invalid; then it cannot be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The workflow folder.
#[derive(Debug)]
pub(crate) struct WorkflowRegistry {
    folder: Option<PathBuf>,
}

impl WorkflowRegistry {
    /// The workflows in a folder. A missing folder has none.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        WorkflowRegistry { folder: folder.and_then(|folder| folder.canonicalize().ok()) }
    }

    /// All workflows, by name.
    pub(crate) fn list(&self) -> Vec<WorkflowInfo> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let found = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = found.filter_map(|entry| name_of(&entry.path())).collect();
        names.sort();
        names.dedup();
        let known = names.into_iter().filter_map(|name| Some((self.path(&name)?, name)));
        known.take(MAX_LISTED).map(|(path, name)| self.describe(&path, name)).collect()
    }

    /// The file of a workflow.
    ///
    /// # Errors
    /// If there is no workflow with this name.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, ApiError> {
        self.path(name).ok_or_else(|| {
            let message = format!("there is no workflow '{}'", single_line(name, MAX_NAME_BYTES));
            let help = "GET /v1/workflows lists the workflows; --workflows sets the server's folder";
            ApiError::new(StatusCode::NOT_FOUND, "no_such_workflow", message, help)
        })
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        if !is_name(name) {
            return None;
        }
        let files = EXTENSIONS.iter().map(|end| folder.join(format!("{name}.{end}")));
        let mut files = files.chain([folder.join(name).join("workflow.yaml")]);
        files.find(|path| self.contains(path))
    }

    /// Describes a workflow file.
    fn describe(&self, path: &Path, name: String) -> WorkflowInfo {
        let Some(text) = self.read(path) else {
            return WorkflowInfo { name, goal: None, problem: Some("the file cannot be read".to_owned()) };
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        match flyball_runner::workflow::parse_workflow(&text, &name, folder) {
            Ok(plan) => WorkflowInfo { name, goal: plan.goal, problem: None },
            Err(wrong) => {
                let problem = wrong.first().map(|first| single_line(&first.to_string(), 400));
                WorkflowInfo { name, goal: None, problem: Some(problem.unwrap_or_default()) }
            }
        }
    }

    /// Reads a file in the folder. The opened file must be the one at its canonical path, so that a symlink swapped
    /// in between the check and the open is not followed.
    fn read(&self, path: &Path) -> Option<String> {
        let mut file = std::fs::File::open(path).ok()?;
        let about = file.metadata().ok().filter(|about| about.is_file() && about.len() <= MAX_FILE_BYTES)?;
        let real = path
            .canonicalize()
            .ok()
            .filter(|real| real.starts_with(self.folder.as_deref().unwrap_or(path)))?;
        let on_disk = std::fs::symlink_metadata(real).ok()?;
        if (on_disk.dev(), on_disk.ino()) != (about.dev(), about.ino()) {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Whether a file is in the folder after resolving symlinks.
    pub(crate) fn contains(&self, file: &Path) -> bool {
        let Some(folder) = &self.folder else { return false };
        file.canonicalize().is_ok_and(|real| real.is_file() && real.starts_with(folder))
    }
}

/// Whether a name is plain: it cannot be mistaken for a path or a flag.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.chars().all(plain)
        && !name.starts_with(['.', '-'])
}

/// The name under which a file or folder could be started.
fn name_of(path: &Path) -> Option<String> {
    let name = match path.extension().and_then(|end| end.to_str()) {
        Some(end) if EXTENSIONS.contains(&end) => path.file_stem()?,
        _ => path.file_name()?,
    };
    name.to_str().filter(|name| is_name(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    //! Valid names, and symlinks that lead out.

    use super::{WorkflowRegistry, is_name};
    use rustix::fs::{RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Minimum number of reads while symlinks are swapped in.
    const READS: usize = 10_000;

    #[test]
    fn swapped_symlink_never_escapes_the_folder() {
        let dir = std::env::temp_dir().join(format!("flyball-library-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let inside = dir.join("inside");
        std::fs::create_dir_all(&inside).unwrap();
        let workflow = |goal: &str| format!("goal: {goal}\nnodes:\n  a: {{type: agent, prompt: x}}\n");
        std::fs::write(inside.join("w.yaml"), workflow("ours")).unwrap();
        std::fs::write(dir.join("outside.yaml"), workflow("a secret")).unwrap();
        std::os::unix::fs::symlink(dir.join("outside.yaml"), inside.join("other")).unwrap();
        let registry = WorkflowRegistry::new(Some(&inside));
        let folder = std::fs::File::open(&inside).unwrap();
        let over = AtomicBool::new(false);
        let (mut ours, mut none) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    renameat_with(&folder, "w.yaml", &folder, "other", RenameFlags::EXCHANGE).unwrap();
                }
            });
            for read in 0.. {
                let text = registry.read(&inside.join("w.yaml"));
                if text.as_deref().is_some_and(|text| text.contains("secret")) {
                    ours = 0;
                    break;
                }
                *(if text.is_some() { &mut ours } else { &mut none }) += 1;
                if read >= READS && ours > 0 && none > 0 {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(ours > 0 && none > 0, "the outside file was read, or there was no race: {ours}, {none}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn workflow_names_cannot_be_paths() {
        for good in ["fix", "fix-until-green", "a.b", "x_1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "../up", "a/b", "a\\b", ".hidden", "--json", "a b", "a\0b", "ä", "%2e%2e"]
        {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"x".repeat(65)));
    }
}
