//! Locations of a host's settings on this machine, and the command they call.

use crate::args::SettingsScopeArgs;
use crate::error::CliError;
use flyball_integrations::hook::Host;
use flyball_integrations::hook::settings::{self, SettingsFileKind};
use std::path::{Path, PathBuf};

/// One settings file of a host.
pub(super) struct HookSettingsFile {
    pub(super) path: PathBuf,
    pub(super) kind: SettingsFileKind,
}

/// A host's settings files and the folder the host is started in.
pub(super) struct HookSettings {
    pub(super) host: Host,
    pub(super) user: bool,
    pub(super) folder: PathBuf,
    pub(super) files: Vec<HookSettingsFile>,
}

impl HookSettings {
    /// The settings selected on the command line.
    pub(super) fn from_args(host: Host, place: &SettingsScopeArgs) -> Result<Self, CliError> {
        Self::for_scope(host, place.user, repository_root(&std::env::current_dir()?))
    }

    /// The settings of a project, or of the user.
    pub(super) fn for_scope(host: Host, user: bool, folder: PathBuf) -> Result<Self, CliError> {
        if !user {
            let below = |file: &settings::SettingsPath| HookSettingsFile {
                path: folder.join(file.project),
                kind: file.kind,
            };
            let files = settings::settings_paths(host).iter().map(below).collect();
            return Ok(HookSettings { host, user: false, folder, files });
        }
        let Some(home) = user_settings_dir(host) else {
            let what = "neither HOME nor the host's own variable is set, so your settings folder is unknown";
            return Err(CliError::new(
                "hook_home",
                "",
                what,
                "set HOME, or install for this project: --project",
            ));
        };
        let below =
            |file: &settings::SettingsPath| HookSettingsFile { path: home.join(file.user), kind: file.kind };
        let files = settings::settings_paths(host).iter().map(below).collect();
        Ok(HookSettings { host, user: true, folder, files })
    }

    /// The file that contains the hooks.
    pub(super) fn hook_file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |file| &file.path)
    }

    /// The project root; empty for the user's settings.
    pub(super) fn project_path(&self) -> &Path {
        if self.user { Path::new("") } else { &self.folder }
    }

    /// The files in which the host may find the hook: the one `install` writes, and the user's local file for this
    /// project.
    pub(super) fn hook_files(&self) -> Vec<PathBuf> {
        let mut all = vec![self.hook_file().to_path_buf()];
        if self.host == Host::ClaudeCode && !self.user {
            all.push(self.folder.join(".claude/settings.local.json"));
        }
        all
    }

    /// The flag that selects these settings.
    pub(super) const fn scope_name(&self) -> &'static str {
        if self.user { "--user" } else { "--project" }
    }
}

/// The root of the repository around a folder, or the folder itself.
pub(crate) fn repository_root(from: &Path) -> PathBuf {
    from.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(from).to_path_buf()
}

/// The host's folder with the user's settings.
pub(super) fn user_settings_dir(host: Host) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let (variable, below) = settings::user_settings_dir(host);
    variable.and_then(set).or_else(|| Some(set("HOME")?.join(below)))
}

/// The shell command for this program: its name if that resolves to it, else its full path.
pub(super) fn program_command() -> Result<String, CliError> {
    let own = std::env::current_exe()?;
    let real = own.canonicalize().unwrap_or_else(|_| own.clone());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path).map(|folder| folder.join("flyball")).find(|path| path.is_file());
    if first.and_then(|found| found.canonicalize().ok()) == Some(real) {
        return Ok("flyball".to_owned());
    }
    let text = own.to_str().ok_or_else(|| {
        CliError::new(
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
        let what = "the path of this program contains a character that shells interpret";
        return Err(CliError::new("hook_program", text, what, "put `flyball` on the PATH"));
    }
    Ok(format!("\"{text}\""))
}
