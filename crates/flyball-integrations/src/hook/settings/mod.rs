//! A host's settings: their paths, the entries that Flyball adds and removes, and the handlers that the host would run.
//! Pure functions on texts; nothing here opens a file.

mod codex;
mod command;
mod edit;
mod handlers;
mod hook_entry;
mod host_json;
mod obstacles;
mod plugin;

pub use command::{HookCommand, shell_words};
pub use edit::{SettingsError, install, installed_command, uninstall};
pub use handlers::{HandlerCommand, HookHandler, HookReadiness, check_armed};
pub use host_json::{line_of_key, parse_as_host};
pub use obstacles::{
    HookObstacle, HookVariable, HostFile, HostSettings, PathBase, SettingsFile, SettingsScope, host_files,
};

use super::host::Host;

/// The kind of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFileKind {
    /// The host's settings, to which Flyball adds entries.
    Settings,
    /// A file that belongs to Flyball.
    Owned,
}

/// A settings file, relative to the project or to the user's settings folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsPath {
    /// Relative to the project folder.
    pub project: &'static str,
    /// Relative to the user's settings folder of the host: see [`user_settings_dir`].
    pub user: &'static str,
    /// The kind of file.
    pub kind: SettingsFileKind,
}

/// The user's settings folder of a host: the environment variable that overrides it, and the default relative to the
/// home directory.
#[must_use]
pub const fn user_settings_dir(host: Host) -> (Option<&'static str>, &'static str) {
    match host {
        Host::ClaudeCode => (Some("CLAUDE_CONFIG_DIR"), ".claude"),
        Host::Codex => (Some("CODEX_HOME"), ".codex"),
        Host::Gemini => (None, ".gemini"),
        Host::Copilot => (Some("COPILOT_HOME"), ".copilot"),
        Host::Cursor => (None, ".cursor"),
        Host::Goose => (None, ".agents"),
        Host::Opencode => (Some("OPENCODE_CONFIG_DIR"), ".config/opencode"),
    }
}

/// The settings files of a host. The first one holds the hooks.
#[must_use]
pub const fn settings_paths(host: Host) -> &'static [SettingsPath] {
    use SettingsFileKind::{Owned, Settings};
    match host {
        Host::ClaudeCode => {
            &[SettingsPath { project: ".claude/settings.json", user: "settings.json", kind: Settings }]
        }
        Host::Codex => &[SettingsPath { project: ".codex/hooks.json", user: "hooks.json", kind: Settings }],
        Host::Gemini => {
            &[SettingsPath { project: ".gemini/settings.json", user: "settings.json", kind: Settings }]
        }
        Host::Copilot => &[SettingsPath {
            project: ".github/hooks/flyball.json",
            user: "hooks/flyball.json",
            kind: Settings,
        }],
        Host::Cursor => &[SettingsPath { project: ".cursor/hooks.json", user: "hooks.json", kind: Settings }],
        Host::Goose => &[
            SettingsPath {
                project: ".agents/plugins/flyball/hooks/hooks.json",
                user: "plugins/flyball/hooks/hooks.json",
                kind: Settings,
            },
            SettingsPath {
                project: ".agents/plugins/flyball/plugin.json",
                user: "plugins/flyball/plugin.json",
                kind: Owned,
            },
        ],
        Host::Opencode => {
            &[SettingsPath { project: ".opencode/plugin/flyball.js", user: "plugin/flyball.js", kind: Owned }]
        }
    }
}

/// The text of a file that belongs to Flyball. With `strict`, a hook that cannot be run blocks the agent.
#[must_use]
pub fn owned_file_text(host: Host, command: &HookCommand, strict: bool) -> String {
    match host {
        Host::Opencode => plugin::opencode_plugin(command, strict),
        _ => plugin::goose_manifest(),
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
