//! Where a host's settings are on this machine, and how they call this program.

use crate::args::Place;
use crate::fail::Failure;
use flyball_adapt::hook::Host;
use flyball_adapt::hook::settings::{self, Kind};
use std::path::{Path, PathBuf};

/// One file of a host's settings.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// The files of a host, and the folder that the host is started in.
pub(super) struct Setting {
    pub(super) host: Host,
    pub(super) user: bool,
    pub(super) folder: PathBuf,
    pub(super) files: Vec<File>,
}

impl Setting {
    /// The settings that a person means.
    pub(super) fn of(host: Host, place: &Place) -> Result<Self, Failure> {
        Self::at(host, place.user, project(&std::env::current_dir()?))
    }

    /// The settings of a project, or of the user.
    pub(super) fn at(host: Host, user: bool, folder: PathBuf) -> Result<Self, Failure> {
        if !user {
            let below = |file: &settings::Place| File { path: folder.join(file.project), kind: file.kind };
            let files = settings::places(host).iter().map(below).collect();
            return Ok(Setting { host, user: false, folder, files });
        }
        let Some(home) = home(host) else {
            let what = "neither HOME nor the host's own variable says where your settings are";
            return Err(Failure::new(
                "hook_home",
                "",
                what,
                "set HOME, or install for this project: --project",
            ));
        };
        let below = |file: &settings::Place| File { path: home.join(file.user), kind: file.kind };
        let files = settings::places(host).iter().map(below).collect();
        Ok(Setting { host, user: true, folder, files })
    }

    /// The file that the hooks stand in.
    pub(super) fn main(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |file| &file.path)
    }

    /// The project, or the empty path for the settings of all projects.
    pub(super) fn project(&self) -> &Path {
        if self.user { Path::new("") } else { &self.folder }
    }

    /// The files that the host may find the hook in: the one that `install` writes, and beside it the user's own for
    /// this project.
    pub(super) fn hook_files(&self) -> Vec<PathBuf> {
        let mut all = vec![self.main().to_path_buf()];
        if self.host == Host::ClaudeCode && !self.user {
            all.push(self.folder.join(".claude/settings.local.json"));
        }
        all
    }

    /// The word for which settings these are.
    pub(super) const fn flag(&self) -> &'static str {
        if self.user { "--user" } else { "--project" }
    }
}

/// The root of the repository that a folder is in, or the folder itself.
pub(crate) fn project(from: &Path) -> PathBuf {
    from.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(from).to_path_buf()
}

/// The host's folder of the user's settings.
pub(super) fn home(host: Host) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (variable, below) = settings::home(host);
    variable.and_then(set).or_else(|| Some(set("HOME")?.join(below)))
}

/// How the settings call this program: by its name if that leads here, else by its whole path, as a shell reads it.
pub(super) fn program() -> Result<String, Failure> {
    let own = std::env::current_exe()?;
    let real = own.canonicalize().unwrap_or_else(|_| own.clone());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path).map(|folder| folder.join("flyball")).find(|path| path.is_file());
    if first.and_then(|found| found.canonicalize().ok()) == Some(real) {
        return Ok("flyball".to_owned());
    }
    let text = own.to_str().ok_or_else(|| {
        Failure::new(
            "hook_program",
            own.display().to_string(),
            "the path of this program is not UTF-8",
            "put `flyball` on the PATH",
        )
    })?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | '@' | ':');
    if text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    if text.contains(['"', '\'', '\\', '$', '`', '\n']) {
        let what = "the path of this program holds a character that shells take for something else";
        return Err(Failure::new("hook_program", text, what, "put `flyball` on the PATH"));
    }
    Ok(format!("\"{text}\""))
}
