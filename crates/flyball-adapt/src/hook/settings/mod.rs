//! A host's settings: where they are, what Flyball adds to them, how it is taken away again, and what the host would
//! run. Pure: texts in, texts out; nothing here touches a file.

mod codex;
mod command;
mod coverage;
mod edit;
mod entry;
mod handlers;
mod plugin;
mod readable;

pub use command::{HookCommand, shell_words};
pub use coverage::{Base, HostFile, HostView, Obstacle, Scope, SettingsFile, Variable, host_files};
pub use edit::{Broken, install, installed_command, uninstall};
pub use handlers::{Handler, Line, Ready, armed};
pub use readable::{line_of, readable};

use super::host::Host;

/// What a file of the host's settings is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The host's settings, in which Flyball has some entries.
    Settings,
    /// A file of Flyball's own.
    Own,
}

/// One file that is written, below the project's folder or the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Below the project's folder.
    pub project: &'static str,
    /// Below the folder of the host's own settings of the user: see [`home`].
    pub user: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// The folder of the user's settings of a host: the environment variable that moves it, and where it is otherwise,
/// below the user's home.
#[must_use]
pub const fn home(host: Host) -> (Option<&'static str>, &'static str) {
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

/// The files of a host. The first is the one that the hooks stand in.
#[must_use]
pub const fn places(host: Host) -> &'static [Place] {
    use Kind::{Own, Settings};
    match host {
        Host::ClaudeCode => {
            &[Place { project: ".claude/settings.json", user: "settings.json", kind: Settings }]
        }
        Host::Codex => &[Place { project: ".codex/hooks.json", user: "hooks.json", kind: Settings }],
        Host::Gemini => &[Place { project: ".gemini/settings.json", user: "settings.json", kind: Settings }],
        Host::Copilot => {
            &[Place { project: ".github/hooks/flyball.json", user: "hooks/flyball.json", kind: Settings }]
        }
        Host::Cursor => &[Place { project: ".cursor/hooks.json", user: "hooks.json", kind: Settings }],
        Host::Goose => &[
            Place {
                project: ".agents/plugins/flyball/hooks/hooks.json",
                user: "plugins/flyball/hooks/hooks.json",
                kind: Settings,
            },
            Place {
                project: ".agents/plugins/flyball/plugin.json",
                user: "plugins/flyball/plugin.json",
                kind: Own,
            },
        ],
        Host::Opencode => {
            &[Place { project: ".opencode/plugin/flyball.js", user: "plugin/flyball.js", kind: Own }]
        }
    }
}

/// The text of a file of Flyball's own. `strict`: a hook that cannot be run stops the agent.
#[must_use]
pub fn own_file(host: Host, command: &HookCommand, strict: bool) -> String {
    match host {
        Host::Opencode => plugin::opencode(command, strict),
        _ => plugin::manifest(),
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
