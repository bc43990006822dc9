//! The workflows that may be run: those of one folder, by name. No name leads out of it, and no link either.

use crate::problem::Problem;
use axum::http::StatusCode;
use flyball_view::words::line;
use serde::Serialize;
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
        known.take(LISTED).map(|(path, name)| look(&path, name)).collect()
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

fn look(path: &Path, name: String) -> Listed {
    let large = path.metadata().is_ok_and(|about| about.len() > FILE_BYTES);
    let text = if large { None } else { std::fs::read_to_string(path).ok() };
    let Some(text) = text else {
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

#[cfg(test)]
mod tests {
    //! Which names are names.

    use super::is_name;

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
