//! Finds obstacles that keep a host from running installed hooks: switches in other settings files, missing trust in
//! hooks or folders, and variables that settings pass to hooks.

use super::codex;
use super::edit::SettingsError;
use super::host_json::{line_of_key, parse_as_host};
use crate::hook::host::Host;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The scope of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsScope {
    /// The organization.
    Managed,
    /// One user in one project.
    Local,
    /// The project.
    Project,
    /// The user, in all projects.
    User,
    /// Machine-wide defaults.
    Default,
}

/// The base of a settings path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathBase {
    /// The root of the file system.
    System,
    /// The project root.
    Project,
    /// The user's settings folder of the host: see [`super::user_settings_dir`].
    User,
}

/// A file that a host reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFile {
    /// The scope of its settings.
    pub scope: SettingsScope,
    /// The base of its path.
    pub base: PathBase,
    /// The path; a folder means all JSON files in it.
    pub path: &'static str,
    /// A variable that overrides the path.
    pub path_variable: Option<&'static str>,
}

const fn host_file(scope: SettingsScope, base: PathBase, path: &'static str) -> HostFile {
    HostFile { scope, base, path, path_variable: None }
}

/// The files that determine whether a host runs hooks, highest precedence first.
#[must_use]
pub const fn host_files(host: Host) -> &'static [HostFile] {
    use PathBase::{Project as InProject, System, User as InHome};
    use SettingsScope::{Default, Local, Managed, Project, User};
    const CLAUDE_CODE: [HostFile; 7] = [
        host_file(Managed, System, "/etc/claude-code/managed-settings.json"),
        host_file(Managed, System, "/etc/claude-code/managed-settings.d"),
        host_file(Managed, System, "/Library/Application Support/ClaudeCode/managed-settings.json"),
        host_file(Managed, System, "/Library/Application Support/ClaudeCode/managed-settings.d"),
        host_file(Local, InProject, ".claude/settings.local.json"),
        host_file(Project, InProject, ".claude/settings.json"),
        host_file(User, InHome, "settings.json"),
    ];
    const CODEX: [HostFile; 6] = [
        host_file(Managed, System, "/etc/codex/requirements.toml"),
        host_file(Project, InProject, ".codex/config.toml"),
        host_file(User, InHome, "config.toml"),
        host_file(Default, System, "/etc/codex/config.toml"),
        host_file(Project, InProject, ".codex/hooks.json"),
        host_file(User, InHome, "hooks.json"),
    ];
    const GEMINI: [HostFile; 5] = [
        HostFile {
            path_variable: Some("GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
            ..host_file(Managed, System, "/etc/gemini-cli/settings.json")
        },
        host_file(Project, InProject, ".gemini/settings.json"),
        host_file(User, InHome, "settings.json"),
        HostFile {
            path_variable: Some("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"),
            ..host_file(Default, System, "/etc/gemini-cli/system-defaults.json")
        },
        host_file(User, InHome, "trustedFolders.json"),
    ];
    const COPILOT: [HostFile; 6] = [
        host_file(Local, InProject, ".github/copilot/settings.local.json"),
        host_file(Project, InProject, ".github/copilot/settings.json"),
        host_file(User, InHome, "settings.json"),
        host_file(User, InHome, "config.json"),
        host_file(Project, InProject, ".github/hooks/flyball.json"),
        host_file(User, InHome, "hooks/flyball.json"),
    ];
    match host {
        Host::ClaudeCode => &CLAUDE_CODE,
        Host::Codex => &CODEX,
        Host::Gemini => &GEMINI,
        Host::Copilot => &COPILOT,
        Host::Cursor | Host::Goose | Host::Opencode => &[],
    }
}

/// A file of [`host_files`] that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file's entry in [`host_files`].
    pub file: HostFile,
    /// The full path.
    pub path: PathBuf,
    /// The contents.
    pub text: String,
}

/// The reason why a host does not run an installed hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookObstacle {
    /// The message.
    pub message: String,
    /// The file that causes it.
    pub path: PathBuf,
    /// The line, starting at 1, if known.
    pub line: Option<usize>,
    /// The suggested fix.
    pub help: String,
}

/// A variable that the host's settings pass to hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The file that sets it.
    pub path: PathBuf,
    /// The line, starting at 1.
    pub line: Option<usize>,
}

/// All settings that a host reads in a project.
pub struct HostSettings<'a> {
    /// The host.
    pub host: Host,
    /// The project root.
    pub project: &'a Path,
    /// The existing files of [`host_files`], in that order.
    pub files: Vec<SettingsFile>,
    /// The user's settings folder of the host. Without it, trust cannot be checked.
    pub home: Option<PathBuf>,
    /// The environment in which the host is started.
    pub env_var: &'a dyn Fn(&str) -> Option<String>,
}

impl HostSettings<'_> {
    /// The obstacle that keeps the host from running the hooks of a file, if any.
    #[must_use]
    pub fn obstacle(&self, hooks: &Path) -> Option<HookObstacle> {
        match self.host {
            Host::ClaudeCode => self.claude_code_obstacle(hooks),
            Host::Codex => codex::obstacle(self, hooks),
            Host::Gemini => self.gemini_obstacle(hooks),
            Host::Copilot => self.copilot_obstacle(hooks),
            Host::Cursor | Host::Goose | Host::Opencode => None,
        }
    }

    /// The variables that the settings pass to hooks, with precedence applied.
    #[must_use]
    pub fn environment(&self) -> Vec<HookVariable> {
        let mut found: Vec<HookVariable> = Vec::new();
        if self.host != Host::ClaudeCode {
            return found;
        }
        for (file, value) in self.readable_files() {
            for (name, value) in value.get("env").and_then(Value::as_object).into_iter().flatten() {
                if found.iter().any(|known| known.name == *name) {
                    continue;
                }
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let line = line_of_key(&file.text, &["env", name]);
                found.push(HookVariable { name: name.clone(), value: text, path: file.path.clone(), line });
            }
        }
        found
    }

    /// The JSON files that the host can read; it skips the others.
    fn readable_files(&self) -> impl Iterator<Item = (&SettingsFile, Value)> {
        let json =
            self.files.iter().filter(|file| file.path.extension().is_some_and(|ending| ending == "json"));
        json.filter_map(|file| Some((file, parse_as_host(self.host, &file.text).ok()?)))
    }

    /// The first file for which `read` returns a value, with that value.
    fn find_setting<T>(
        &self,
        say: impl Fn(&SettingsFile, &Value) -> Option<T>,
    ) -> Option<(&SettingsFile, T)> {
        self.readable_files().find_map(|(file, value)| say(file, &value).map(|said| (file, said)))
    }

    fn scope_of(&self, path: &Path) -> Option<SettingsScope> {
        self.files.iter().find(|file| file.path == path).map(|file| file.file.scope)
    }

    fn claude_code_obstacle(&self, hooks: &Path) -> Option<HookObstacle> {
        let managed = self.scope_of(hooks) == Some(SettingsScope::Managed);
        let only = self.find_setting(|file, value| {
            let on = |key: &'static str| (value.get(key)?.as_bool() == Some(true)).then_some(key);
            let strict = value.get("strictPluginOnlyCustomization");
            let strict = strict.filter(|strict| match strict {
                Value::Array(list) => list.iter().any(|part| part == "hooks"),
                other => other.as_bool() == Some(true),
            });
            let found = on("allowManagedHooksOnly").or(strict.map(|_| "strictPluginOnlyCustomization"));
            found.filter(|_| file.file.scope == SettingsScope::Managed)
        });
        if let Some((file, key)) = only.filter(|_| !managed) {
            let what = format!("`{key}` is set, so only hooks from managed settings run");
            let help = "ask your administrator to add the hook to the managed settings";
            return Some(self.setting_obstacle(file, &[key], &what, help));
        }
        let switch = |_: &SettingsFile, value: &Value| value.get("disableAllHooks")?.as_bool();
        let (file, disabled) = self.find_setting(switch)?;
        let applies = !managed || file.file.scope == SettingsScope::Managed;
        (disabled && applies).then(|| {
            let help = "remove `disableAllHooks` from that file";
            self.setting_obstacle(
                file,
                &["disableAllHooks"],
                "`disableAllHooks` is true, so no hook runs",
                help,
            )
        })
    }

    fn gemini_obstacle(&self, hooks: &Path) -> Option<HookObstacle> {
        let enabled = |_: &SettingsFile, value: &Value| value.pointer("/hooksConfig/enabled")?.as_bool();
        if let Some((file, false)) = self.find_setting(enabled) {
            let what = "`hooksConfig.enabled` is false, so no hook runs";
            return Some(self.setting_obstacle(file, &["hooksConfig", "enabled"], what, "set it to true"));
        }
        let names = self.handler_names(hooks);
        let listed = |_: &SettingsFile, value: &Value| {
            let list = value.pointer("/hooksConfig/disabled")?.as_array()?;
            list.iter()
                .filter_map(Value::as_str)
                .find(|name| names.iter().any(|own| own == name))
                .map(str::to_owned)
        };
        if let Some((file, name)) = self.find_setting(listed) {
            let what = format!("`hooksConfig.disabled` lists the hook `{name}`");
            let help = "remove it from that list, or enable it with `/hooks enable`";
            return Some(self.setting_obstacle(file, &["hooksConfig", "disabled"], &what, help));
        }
        self.gemini_trust_obstacle()
    }

    /// Gemini CLI runs no hooks, not even the user's, in an untrusted folder.
    fn gemini_trust_obstacle(&self) -> Option<HookObstacle> {
        let set = |name: &str, value: &str| (self.env_var)(name).as_deref() == Some(value);
        let list = self.home.as_ref()?.join("trustedFolders.json");
        let help = "start `gemini` here once and trust the folder; without a terminal, set GEMINI_CLI_TRUST_WORKSPACE=true";
        let what = |why: &str| {
            format!("Gemini CLI does not trust {} ({why}), so no hook runs", self.project.display())
        };
        let obstacle = |why: &str| HookObstacle {
            message: what(why),
            path: list.clone(),
            line: None,
            help: help.to_owned(),
        };
        if set("GEMINI_RESTRICTED_MODE", "true") || set("GEMINI_CLI_TRUST_WORKSPACE", "false") {
            return Some(obstacle("distrusted by the environment"));
        }
        // The project cannot disable the trust check.
        let asked = self.find_setting(|file, value| {
            let enabled = value.pointer("/security/folderTrust/enabled")?.as_bool()?;
            (file.file.scope != SettingsScope::Project).then_some(enabled)
        });
        if set("GEMINI_CLI_TRUST_WORKSPACE", "true") || asked.is_some_and(|(_, asked)| !asked) {
            return None;
        }
        let rules = self
            .find_setting(|file, value| file.path.ends_with("trustedFolders.json").then(|| value.clone()));
        let rules = rules.as_ref().and_then(|(_, rules)| rules.as_object()).into_iter().flatten();
        let longest = rules
            .filter_map(|(path, level)| {
                let level = level.as_str()?;
                let folder = Path::new(path);
                let folder = if level == "TRUST_PARENT" { folder.parent()? } else { folder };
                is_inside(folder, self.project).then_some((path.len(), level))
            })
            .max_by_key(|(length, _)| *length);
        match longest {
            Some((_, "TRUST_FOLDER" | "TRUST_PARENT")) => None,
            Some(_) => Some(obstacle("a user refused to trust it")),
            None => Some(obstacle("not trusted yet")),
        }
    }

    fn copilot_obstacle(&self, hooks: &Path) -> Option<HookObstacle> {
        let switch = |file: &SettingsFile, value: &Value| {
            // In a hooks file the switch applies only to that file.
            let concerns = !file.path.ends_with("flyball.json") || file.path == hooks;
            value.get("disableAllHooks")?.as_bool().filter(|on| *on && concerns)
        };
        if let Some((file, _)) = self.find_setting(switch) {
            let what = "`disableAllHooks` is true, so no hook runs";
            return Some(self.setting_obstacle(
                file,
                &["disableAllHooks"],
                what,
                "remove `disableAllHooks` from that file",
            ));
        }
        let set = |name: &str| (self.env_var)(name).as_deref() == Some("true");
        let home = self.home.as_ref()?;
        let project = self.scope_of(hooks) != Some(SettingsScope::User);
        if !project || set("COPILOT_ALLOW_ALL") || set("GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS") {
            return None;
        }
        // Copilot CLI writes comments into this file, so it is not parsed as plain JSON.
        let config = self.files.iter().find(|file| file.path.ends_with("config.json"));
        let value = config.and_then(|file| super::edit::parse_settings(&file.text).ok()?.to_serde_value());
        let trusted = ["trustedFolders", "trusted_folders"].iter().any(|key| {
            let list = value.as_ref().and_then(|value| value.get(*key)?.as_array());
            list.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .any(|path| is_inside(Path::new(path), self.project))
        });
        (!trusted).then(|| HookObstacle {
            message: format!(
                "Copilot CLI does not trust {}, so it runs no hooks from the project",
                self.project.display()
            ),
            path: home.join("config.json"),
            line: None,
            help: "start `copilot` here once and trust the folder, or install with --user".to_owned(),
        })
    }

    /// The names of a file's handlers in Gemini CLI.
    fn handler_names(&self, hooks: &Path) -> Vec<String> {
        let text = self.files.iter().find(|file| file.path == hooks).map(|file| file.text.as_str());
        let value = text.and_then(|text| parse_as_host(self.host, text).ok()).unwrap_or_default();
        let lists = value.get("hooks").and_then(Value::as_object).into_iter().flatten();
        let entries = lists.filter_map(|(_, list)| list.as_array()).flatten();
        let handlers = entries.filter_map(|entry| entry.get("hooks")?.as_array()).flatten();
        let own = handlers.filter(|handler| super::edit::is_own_handler(self.host, handler));
        own.filter_map(|handler| Some(handler.get("name").or(handler.get("command"))?.as_str()?.to_owned()))
            .collect()
    }

    fn setting_obstacle(&self, file: &SettingsFile, key: &[&str], what: &str, help: &str) -> HookObstacle {
        HookObstacle {
            message: what.to_owned(),
            path: file.path.clone(),
            line: line_of_key(&file.text, key),
            help: help.to_owned(),
        }
    }
}

impl HookObstacle {
    /// A file that the host rejects.
    #[must_use]
    pub fn unreadable(path: &Path, broken: &SettingsError) -> Self {
        HookObstacle {
            message: broken.message.clone(),
            path: path.to_path_buf(),
            line: broken.line,
            help: "repair the file at that line".to_owned(),
        }
    }

    /// The obstacle on one line, with its location.
    #[must_use]
    pub fn one_line(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{} ({}{line})", self.message, self.path.display())
    }
}

/// Whether a folder is another one or is inside it, with symbolic links resolved.
fn is_inside(above: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    !above.as_os_str().is_empty() && (folder.starts_with(above) || real(folder).starts_with(real(above)))
}
