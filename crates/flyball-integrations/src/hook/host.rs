//! Supported hosts (coding agents with hooks) and their events.

use super::invocation::HookPhase;
use super::session_names;
use HookPhase::{AfterBatch, AfterTool, BeforeTool, Notification, Permission, Prompt, SessionStart, Stop};

/// A coding agent with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cursor.
    Cursor,
    /// goose.
    Goose,
    /// opencode, through a plugin.
    Opencode,
}

impl Host {
    /// All hosts, in documentation order.
    pub const ALL: [Host; 7] = [
        Host::ClaudeCode,
        Host::Codex,
        Host::Gemini,
        Host::Copilot,
        Host::Cursor,
        Host::Goose,
        Host::Opencode,
    ];

    /// The name on the command line and the prefix of the host's session names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Host::ClaudeCode => "claude-code",
            Host::Codex => "codex",
            Host::Gemini => "gemini",
            Host::Copilot => "copilot",
            Host::Cursor => "cursor",
            Host::Goose => "goose",
            Host::Opencode => "opencode",
        }
    }

    /// Looks up a host by its command-line name.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Host::ALL.into_iter().find(|host| host.as_str() == word)
    }

    /// The product name, as its vendor writes it.
    #[must_use]
    pub const fn display_name(self) -> &'static str {
        match self {
            Host::ClaudeCode => "Claude Code",
            Host::Codex => "Codex",
            Host::Gemini => "Gemini CLI",
            Host::Copilot => "Copilot CLI",
            Host::Cursor => "Cursor",
            Host::Goose => "goose",
            Host::Opencode => "opencode",
        }
    }

    /// The events that Flyball handles, with the host's names.
    #[must_use]
    pub const fn events(self) -> &'static [(&'static str, HookPhase)] {
        match self {
            Host::ClaudeCode => &CLAUDE_CODE,
            Host::Codex => &CODEX,
            Host::Gemini => &GEMINI,
            Host::Copilot => &COPILOT,
            Host::Cursor => &CURSOR,
            Host::Goose => &GOOSE,
            Host::Opencode => &OPENCODE,
        }
    }

    /// The phase of a host's event.
    #[must_use]
    pub fn phase(self, event: &str) -> HookPhase {
        let found = self.events().iter().find(|(name, _)| *name == event);
        found.map_or(HookPhase::Unknown, |(_, phase)| *phase)
    }

    /// The name of a host's session in the store.
    #[must_use]
    pub fn session_name(self, id: &str) -> String {
        session_names::session_name(self, id, None)
    }

    /// Whether a stored session belongs to this host.
    #[must_use]
    pub fn owns_session(self, session: &str) -> bool {
        session.strip_prefix(self.as_str()).is_some_and(|rest| rest.starts_with(':'))
    }

    /// The variable that holds the session id in commands the host runs. For opencode the plugin sets
    /// `FLYBALL_SESSION`; the remaining hosts provide none.
    #[must_use]
    pub const fn session_variable(self) -> Option<&'static str> {
        match self {
            Host::ClaudeCode => Some("CLAUDE_CODE_SESSION_ID"),
            Host::Codex => Some("CODEX_THREAD_ID"),
            Host::Copilot => Some("COPILOT_AGENT_SESSION_ID"),
            Host::Gemini | Host::Cursor | Host::Goose | Host::Opencode => None,
        }
    }

    /// The variables that give hooks the project root; the first one set is used. Hosts without one report only the
    /// agent's current directory, which may change during a session.
    #[must_use]
    pub const fn root_variables(self) -> &'static [&'static str] {
        match self {
            Host::ClaudeCode => &["CLAUDE_PROJECT_DIR"],
            Host::Gemini => &["GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"],
            Host::Cursor => &["CURSOR_PROJECT_DIR"],
            _ => &[],
        }
    }

    /// Whether a hook can make the host ask its user before a call. Otherwise a call that needs approval is denied and
    /// can be approved with `flyball approve`.
    #[must_use]
    pub const fn can_ask(self) -> bool {
        matches!(self, Host::ClaudeCode | Host::Gemini | Host::Copilot | Host::Cursor)
    }
}

const CLAUDE_CODE: [(&str, HookPhase); 12] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("PostToolUseFailure", AfterTool),
    ("PostToolBatch", AfterBatch),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SubagentStart", Notification),
    ("SubagentStop", Stop),
    ("PreCompact", Notification),
    ("PermissionDenied", Notification),
    ("SessionStart", SessionStart),
    ("SessionEnd", Notification),
];

const CODEX: [(&str, HookPhase); 9] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SubagentStart", Notification),
    ("SubagentStop", Stop),
    ("PreCompact", Notification),
    ("SessionStart", SessionStart),
    ("SessionEnd", Notification),
];

const GEMINI: [(&str, HookPhase); 7] = [
    ("BeforeTool", BeforeTool),
    ("AfterTool", AfterTool),
    ("BeforeAgent", Prompt),
    ("AfterAgent", Stop),
    ("PreCompress", Notification),
    ("SessionStart", SessionStart),
    ("SessionEnd", Notification),
];

const COPILOT: [(&str, HookPhase); 9] = [
    ("preToolUse", BeforeTool),
    ("postToolUse", AfterTool),
    ("postToolUseFailure", AfterTool),
    ("permissionRequest", Permission),
    ("userPromptSubmitted", Prompt),
    ("agentStop", Stop),
    ("subagentStop", Stop),
    ("sessionStart", SessionStart),
    ("sessionEnd", Notification),
];

const CURSOR: [(&str, HookPhase); 10] = [
    ("preToolUse", BeforeTool),
    ("postToolUse", AfterTool),
    ("postToolUseFailure", AfterTool),
    ("beforeSubmitPrompt", Prompt),
    ("afterAgentResponse", Notification),
    ("stop", Stop),
    ("subagentStop", Stop),
    ("preCompact", Notification),
    ("sessionStart", SessionStart),
    ("sessionEnd", Notification),
];

const GOOSE: [(&str, HookPhase); 7] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("PostToolUseFailure", AfterTool),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SessionStart", SessionStart),
    ("SessionEnd", Notification),
];

const OPENCODE: [(&str, HookPhase); 7] = [
    ("tool.execute.before", BeforeTool),
    ("tool.execute.after", AfterTool),
    ("permission.ask", Permission),
    ("chat.message", Prompt),
    ("session.idle", Stop),
    ("session.created", SessionStart),
    ("session.compacted", Notification),
];
