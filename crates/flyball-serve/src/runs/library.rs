//! The workflows that may be run: those of one folder, by name. No name leads out of it, and no link either.

use crate::problem::Problem;
use axum::http::StatusCode;
use flyball_view::words::line;
use serde::Serialize;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// How long a name may be.
const NAME: usize = 64;
/// How many workflows are listed.
const LISTED: usize = 500;
/// How large the file of a workflow may be, to be listed.
const FILE_BYTES: u64 = 1 << 20;
/// How files of workflows end.
const ENDS: [&str; 4] = ["yaml", "yml", "toml", "json"];

/// A workflow of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Listed {
    /// The name that it is started by.
    pub(crate) name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<String>,
    /// What is wrong with its file; it cannot be started then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The folder.
#[derive(Debug)]
pub(crate) struct Library {
    folder: Option<PathBuf>,
}

impl Library {
    /// The workflows of a folder. One that is not there has none.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        Library { folder: folder.and_then(|folder| folder.canonicalize().ok()) }
    }

    /// All workflows, by name.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let found = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = found.filter_map(|entry| name_of(&entry.path())).collect();
        names.sort();
        names.dedup();
        let known = names.into_iter().filter_map(|name| Some((self.path(&name)?, name)));
        known.take(LISTED).map(|(path, name)| self.look(&path, name)).collect()
    }

    /// The file of a workflow.
    ///
    /// # Errors
    /// If there is none of this name.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, Problem> {
        self.path(name).ok_or_else(|| {
            let what = format!("there is no workflow '{}'", line(name, NAME));
            let advice = "GET /v1/workflows has the names; the server is told the folder with --workflows";
            Problem::new(StatusCode::NOT_FOUND, "no_such_workflow", what, advice)
        })
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        if !is_name(name) {
            return None;
        }
        let files = ENDS.iter().map(|end| folder.join(format!("{name}.{end}")));
        let mut files = files.chain([folder.join(name).join("workflow.yaml")]);
        files.find(|path| self.holds(path))
    }

    /// What the file of a workflow says.
    fn look(&self, path: &Path, name: String) -> Listed {
        let Some(text) = self.read(path) else {
            return Listed { name, goal: None, problem: Some("its file cannot be read".to_owned()) };
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        match flyball_run::workflow::read(&text, &name, folder) {
            Ok(plan) => Listed { name, goal: plan.goal, problem: None },
            Err(wrong) => {
                let problem = wrong.first().map(|first| line(&first.to_string(), 400));
                Listed { name, goal: None, problem: Some(problem.unwrap_or_default()) }
            }
        }
    }

    /// The text of a file of the folder. What was opened must be what is there: a link that is put in its place between
    /// the look and the opening leads nowhere.
    fn read(&self, path: &Path) -> Option<String> {
        let mut file = std::fs::File::open(path).ok()?;
        let about = file.metadata().ok().filter(|about| about.is_file() && about.len() <= FILE_BYTES)?;
        let real = path
            .canonicalize()
            .ok()
            .filter(|real| real.starts_with(self.folder.as_deref().unwrap_or(path)))?;
        let there = std::fs::symlink_metadata(real).ok()?;
        if (there.dev(), there.ino()) != (about.dev(), about.ino()) {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Whether a file is in the folder, wherever links lead.
    pub(crate) fn holds(&self, file: &Path) -> bool {
        let Some(folder) = &self.folder else { return false };
        file.canonicalize().is_ok_and(|real| real.is_file() && real.starts_with(folder))
    }
}

/// A plain name: it cannot be taken for a path or for a flag.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= NAME && name.chars().all(plain) && !name.starts_with(['.', '-'])
}

/// The name under which something in the folder could be started.
fn name_of(path: &Path) -> Option<String> {
    let name = match path.extension().and_then(|end| end.to_str()) {
        Some(end) if ENDS.contains(&end) => path.file_stem()?,
        _ => path.file_name()?,
    };
    name.to_str().filter(|name| is_name(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    //! Which names are names, and that no link leads out.

    use super::{Library, is_name};
    use rustix::fs::{RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// How often the folder is looked at while links are swapped in.
    const LOOKS: usize = 10_000;

    #[test]
    fn a_link_that_is_swapped_in_again_and_again_never_leads_out() {
        let place = std::env::temp_dir().join(format!("flyball-library-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let inside = place.join("inside");
        std::fs::create_dir_all(&inside).unwrap();
        let workflow = |goal: &str| format!("goal: {goal}\nnodes:\n  a: {{type: agent, prompt: x}}\n");
        std::fs::write(inside.join("w.yaml"), workflow("ours")).unwrap();
        std::fs::write(place.join("outside.yaml"), workflow("a secret")).unwrap();
        std::os::unix::fs::symlink(place.join("outside.yaml"), inside.join("other")).unwrap();
        let library = Library::new(Some(&inside));
        let folder = std::fs::File::open(&inside).unwrap();
        let over = AtomicBool::new(false);
        let (mut ours, mut none) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    renameat_with(&folder, "w.yaml", &folder, "other", RenameFlags::EXCHANGE).unwrap();
                }
            });
            for look in 0.. {
                let text = library.read(&inside.join("w.yaml"));
                if text.as_deref().is_some_and(|text| text.contains("secret")) {
                    ours = 0;
                    break;
                }
                *(if text.is_some() { &mut ours } else { &mut none }) += 1;
                if look >= LOOKS && ours > 0 && none > 0 {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(ours > 0 && none > 0, "it was read, or there was no race: {ours}, {none}");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_name_leads_nowhere_else() {
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
