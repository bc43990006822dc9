//! What a host reads besides the file that its hooks are in, and what of it keeps the hooks from running: switches in
//! other settings files, trust in hooks and folders, and the environment that settings give to hooks.

use super::codex;
use super::edit::Broken;
use super::readable::{line_of, readable};
use crate::hook::host::Host;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Whose settings a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The organization's.
    Managed,
    /// One user's, for one project.
    Local,
    /// The project's.
    Project,
    /// The user's, for all projects.
    User,
    /// Defaults of the machine.
    Default,
}

/// Where the path of a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// At the root of the file system.
    System,
    /// At the root of the project.
    Project,
    /// At the host's folder of the user: see [`super::home`].
    User,
}

/// A file that a host reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFile {
    /// Whose settings it holds.
    pub scope: Scope,
    /// Where its path begins.
    pub base: Base,
    /// The path; a folder stands for the JSON files in it.
    pub path: &'static str,
    /// A variable that names another file instead.
    pub variable: Option<&'static str>,
}

const fn file(scope: Scope, base: Base, path: &'static str) -> HostFile {
    HostFile { scope, base, path, variable: None }
}

/// The files that a host reads and that decide whether hooks run, the strongest first.
#[must_use]
pub const fn host_files(host: Host) -> &'static [HostFile] {
    use Base::{Project as InProject, System, User as InHome};
    use Scope::{Default, Local, Managed, Project, User};
    const CLAUDE_CODE: [HostFile; 7] = [
        file(Managed, System, "/etc/claude-code/managed-settings.json"),
        file(Managed, System, "/etc/claude-code/managed-settings.d"),
        file(Managed, System, "/Library/Application Support/ClaudeCode/managed-settings.json"),
        file(Managed, System, "/Library/Application Support/ClaudeCode/managed-settings.d"),
        file(Local, InProject, ".claude/settings.local.json"),
        file(Project, InProject, ".claude/settings.json"),
        file(User, InHome, "settings.json"),
    ];
    const CODEX: [HostFile; 6] = [
        file(Managed, System, "/etc/codex/requirements.toml"),
        file(Project, InProject, ".codex/config.toml"),
        file(User, InHome, "config.toml"),
        file(Default, System, "/etc/codex/config.toml"),
        file(Project, InProject, ".codex/hooks.json"),
        file(User, InHome, "hooks.json"),
    ];
    const GEMINI: [HostFile; 5] = [
        HostFile {
            variable: Some("GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
            ..file(Managed, System, "/etc/gemini-cli/settings.json")
        },
        file(Project, InProject, ".gemini/settings.json"),
        file(User, InHome, "settings.json"),
        HostFile {
            variable: Some("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"),
            ..file(Default, System, "/etc/gemini-cli/system-defaults.json")
        },
        file(User, InHome, "trustedFolders.json"),
    ];
    const COPILOT: [HostFile; 6] = [
        file(Local, InProject, ".github/copilot/settings.local.json"),
        file(Project, InProject, ".github/copilot/settings.json"),
        file(User, InHome, "settings.json"),
        file(User, InHome, "config.json"),
        file(Project, InProject, ".github/hooks/flyball.json"),
        file(User, InHome, "hooks/flyball.json"),
    ];
    match host {
        Host::ClaudeCode => &CLAUDE_CODE,
        Host::Codex => &CODEX,
        Host::Gemini => &GEMINI,
        Host::Copilot => &COPILOT,
        Host::Cursor | Host::Goose | Host::Opencode => &[],
    }
}

/// A file of [`host_files`] that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// Which one.
    pub file: HostFile,
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// Why a host does not run a hook that is in its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What is in the way.
    pub what: String,
    /// The file that says so.
    pub path: PathBuf,
    /// The line, from 1, where that is known.
    pub line: Option<usize>,
    /// What to do about it.
    pub help: String,
}

/// A variable that settings of the host give to its hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The file that sets it.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
}

/// Everything that a host reads in a project.
pub struct HostView<'a> {
    /// The host.
    pub host: Host,
    /// The root of the project.
    pub project: &'a Path,
    /// The files of [`host_files`] that are there, in that order.
    pub files: Vec<SettingsFile>,
    /// The host's folder of the user. Without one nothing is known about trust.
    pub home: Option<PathBuf>,
    /// The environment that the host is started in.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl HostView<'_> {
    /// What keeps the host from running the hooks of a file, if something does.
    #[must_use]
    pub fn obstacle(&self, hooks: &Path) -> Option<Obstacle> {
        match self.host {
            Host::ClaudeCode => self.claude_code(hooks),
            Host::Codex => codex::obstacle(self, hooks),
            Host::Gemini => self.gemini(hooks),
            Host::Copilot => self.copilot(hooks),
            Host::Cursor | Host::Goose | Host::Opencode => None,
        }
    }

    /// The variables that the settings give to hooks; of two with one name, the one that counts.
    #[must_use]
    pub fn environment(&self) -> Vec<Variable> {
        let mut found: Vec<Variable> = Vec::new();
        if self.host != Host::ClaudeCode {
            return found;
        }
        for (file, value) in self.readable() {
            for (name, value) in value.get("env").and_then(Value::as_object).into_iter().flatten() {
                if found.iter().any(|known| known.name == *name) {
                    continue;
                }
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let line = line_of(&file.text, &["env", name]);
                found.push(Variable { name: name.clone(), value: text, path: file.path.clone(), line });
            }
        }
        found
    }

    /// The JSON files that the host can read. It skips the others.
    fn readable(&self) -> impl Iterator<Item = (&SettingsFile, Value)> {
        let json =
            self.files.iter().filter(|file| file.path.extension().is_some_and(|ending| ending == "json"));
        json.filter_map(|file| Some((file, readable(self.host, &file.text).ok()?)))
    }

    /// The first file that says something, and what.
    fn first<T>(&self, say: impl Fn(&SettingsFile, &Value) -> Option<T>) -> Option<(&SettingsFile, T)> {
        self.readable().find_map(|(file, value)| say(file, &value).map(|said| (file, said)))
    }

    fn scope(&self, path: &Path) -> Option<Scope> {
        self.files.iter().find(|file| file.path == path).map(|file| file.file.scope)
    }

    fn claude_code(&self, hooks: &Path) -> Option<Obstacle> {
        let managed = self.scope(hooks) == Some(Scope::Managed);
        let only = self.first(|file, value| {
            let on = |key: &'static str| (value.get(key)?.as_bool() == Some(true)).then_some(key);
            let strict = value.get("strictPluginOnlyCustomization");
            let strict = strict.filter(|strict| match strict {
                Value::Array(list) => list.iter().any(|part| part == "hooks"),
                other => other.as_bool() == Some(true),
            });
            let found = on("allowManagedHooksOnly").or(strict.map(|_| "strictPluginOnlyCustomization"));
            found.filter(|_| file.file.scope == Scope::Managed)
        });
        if let Some((file, key)) = only.filter(|_| !managed) {
            let what = format!("`{key}` is set, so only hooks of managed settings run");
            let help = "ask your administrator to put the hook into the managed settings";
            return Some(self.switch(file, &[key], &what, help));
        }
        let switch = |_: &SettingsFile, value: &Value| value.get("disableAllHooks")?.as_bool();
        let (file, disabled) = self.first(switch)?;
        let applies = !managed || file.file.scope == Scope::Managed;
        (disabled && applies).then(|| {
            let help = "remove `disableAllHooks` from that file";
            self.switch(file, &["disableAllHooks"], "`disableAllHooks` is true, so no hook runs", help)
        })
    }

    fn gemini(&self, hooks: &Path) -> Option<Obstacle> {
        let enabled = |_: &SettingsFile, value: &Value| value.pointer("/hooksConfig/enabled")?.as_bool();
        if let Some((file, false)) = self.first(enabled) {
            let what = "`hooksConfig.enabled` is false, so no hook runs";
            return Some(self.switch(file, &["hooksConfig", "enabled"], what, "set it to true"));
        }
        let names = self.names(hooks);
        let listed = |_: &SettingsFile, value: &Value| {
            let list = value.pointer("/hooksConfig/disabled")?.as_array()?;
            list.iter()
                .filter_map(Value::as_str)
                .find(|name| names.iter().any(|own| own == name))
                .map(str::to_owned)
        };
        if let Some((file, name)) = self.first(listed) {
            let what = format!("`hooksConfig.disabled` lists the hook `{name}`");
            let help = "remove it from that list, or `/hooks enable` it";
            return Some(self.switch(file, &["hooksConfig", "disabled"], &what, help));
        }
        self.gemini_trust()
    }

    /// Gemini CLI runs no hooks at all, not even the user's, in a folder that it does not trust.
    fn gemini_trust(&self) -> Option<Obstacle> {
        let set = |name: &str, value: &str| (self.variable)(name).as_deref() == Some(value);
        let list = self.home.as_ref()?.join("trustedFolders.json");
        let help = "start `gemini` here once and trust the folder; without a terminal, set GEMINI_CLI_TRUST_WORKSPACE=true";
        let what = |why: &str| {
            format!("Gemini CLI does not trust {} ({why}), so no hook runs", self.project.display())
        };
        let obstacle =
            |why: &str| Obstacle { what: what(why), path: list.clone(), line: None, help: help.to_owned() };
        if set("GEMINI_RESTRICTED_MODE", "true") || set("GEMINI_CLI_TRUST_WORKSPACE", "false") {
            return Some(obstacle("the environment says so"));
        }
        // The project cannot switch the question off.
        let asked = self.first(|file, value| {
            let enabled = value.pointer("/security/folderTrust/enabled")?.as_bool()?;
            (file.file.scope != Scope::Project).then_some(enabled)
        });
        if set("GEMINI_CLI_TRUST_WORKSPACE", "true") || asked.is_some_and(|(_, asked)| !asked) {
            return None;
        }
        let rules =
            self.first(|file, value| file.path.ends_with("trustedFolders.json").then(|| value.clone()));
        let rules = rules.as_ref().and_then(|(_, rules)| rules.as_object()).into_iter().flatten();
        let longest = rules
            .filter_map(|(path, level)| {
                let level = level.as_str()?;
                let folder = Path::new(path);
                let folder = if level == "TRUST_PARENT" { folder.parent()? } else { folder };
                below(folder, self.project).then_some((path.len(), level))
            })
            .max_by_key(|(length, _)| *length);
        match longest {
            Some((_, "TRUST_FOLDER" | "TRUST_PARENT")) => None,
            Some(_) => Some(obstacle("a person has refused it")),
            None => Some(obstacle("nobody has trusted it yet")),
        }
    }

    fn copilot(&self, hooks: &Path) -> Option<Obstacle> {
        let switch = |file: &SettingsFile, value: &Value| {
            // In a file of hooks the switch is for this file.
            let concerns = !file.path.ends_with("flyball.json") || file.path == hooks;
            value.get("disableAllHooks")?.as_bool().filter(|on| *on && concerns)
        };
        if let Some((file, _)) = self.first(switch) {
            let what = "`disableAllHooks` is true, so no hook runs";
            return Some(self.switch(
                file,
                &["disableAllHooks"],
                what,
                "remove `disableAllHooks` from that file",
            ));
        }
        let set = |name: &str| (self.variable)(name).as_deref() == Some("true");
        let home = self.home.as_ref()?;
        let project = self.scope(hooks) != Some(Scope::User);
        if !project || set("COPILOT_ALLOW_ALL") || set("GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS") {
            return None;
        }
        // Copilot CLI writes comments into this one file, so it is not held to plain JSON.
        let config = self.files.iter().find(|file| file.path.ends_with("config.json"));
        let value = config.and_then(|file| super::edit::read(&file.text).ok()?.to_serde_value());
        let trusted = ["trustedFolders", "trusted_folders"].iter().any(|key| {
            let list = value.as_ref().and_then(|value| value.get(*key)?.as_array());
            list.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .any(|path| below(Path::new(path), self.project))
        });
        (!trusted).then(|| Obstacle {
            what: format!(
                "Copilot CLI does not trust {}, so it runs no hooks of the project",
                self.project.display()
            ),
            path: home.join("config.json"),
            line: None,
            help: "start `copilot` here once and trust the folder, or install with --user".to_owned(),
        })
    }

    /// The names under which Gemini CLI knows the handlers of a file.
    fn names(&self, hooks: &Path) -> Vec<String> {
        let text = self.files.iter().find(|file| file.path == hooks).map(|file| file.text.as_str());
        let value = text.and_then(|text| readable(self.host, text).ok()).unwrap_or_default();
        let lists = value.get("hooks").and_then(Value::as_object).into_iter().flatten();
        let entries = lists.filter_map(|(_, list)| list.as_array()).flatten();
        let handlers = entries.filter_map(|entry| entry.get("hooks")?.as_array()).flatten();
        let own = handlers.filter(|handler| super::edit::calls_us(self.host, handler));
        own.filter_map(|handler| Some(handler.get("name").or(handler.get("command"))?.as_str()?.to_owned()))
            .collect()
    }

    fn switch(&self, file: &SettingsFile, key: &[&str], what: &str, help: &str) -> Obstacle {
        Obstacle {
            what: what.to_owned(),
            path: file.path.clone(),
            line: line_of(&file.text, key),
            help: help.to_owned(),
        }
    }
}

impl Obstacle {
    /// A file that the host rejects.
    #[must_use]
    pub fn unreadable(path: &Path, broken: &Broken) -> Self {
        Obstacle {
            what: broken.what.clone(),
            path: path.to_path_buf(),
            line: broken.line,
            help: "repair the file at that line".to_owned(),
        }
    }

    /// The obstacle in one line, with its place.
    #[must_use]
    pub fn told(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{} ({}{line})", self.what, self.path.display())
    }
}

/// Whether a folder is another one or inside of it, whatever links lead there.
fn below(above: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    !above.as_os_str().is_empty() && (folder.starts_with(above) || real(folder).starts_with(real(above)))
}
