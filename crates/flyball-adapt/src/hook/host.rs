//! The hosts: coding agents that call a program before and after what they do, and the events of each.

use super::call::Moment;
use super::name;
use Moment::{AfterBatch, AfterTool, BeforeTool, Fact, Permission, Prompt, SessionStart, Stop};

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
    /// All of them, in the order of the documentation.
    pub const ALL: [Host; 7] = [
        Host::ClaudeCode,
        Host::Codex,
        Host::Gemini,
        Host::Copilot,
        Host::Cursor,
        Host::Goose,
        Host::Opencode,
    ];

    /// The word on the command line, and the beginning of its sessions' names.
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

    /// The host of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Host::ALL.into_iter().find(|host| host.as_str() == word)
    }

    /// The name as its makers write it.
    #[must_use]
    pub const fn shown(self) -> &'static str {
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

    /// The events that Flyball listens to, as the host writes them.
    #[must_use]
    pub const fn events(self) -> &'static [(&'static str, Moment)] {
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

    /// What an event of the host stands for.
    #[must_use]
    pub fn moment(self, event: &str) -> Moment {
        let found = self.events().iter().find(|(name, _)| *name == event);
        found.map_or(Moment::Unknown, |(_, moment)| *moment)
    }

    /// The name of a session of the host in the store.
    #[must_use]
    pub fn session(self, id: &str) -> String {
        name::session(self, id, None)
    }

    /// Whether a session of the store is one of the host's.
    #[must_use]
    pub fn owns(self, session: &str) -> bool {
        session.strip_prefix(self.as_str()).is_some_and(|rest| rest.starts_with(':'))
    }

    /// The variable in which the host tells the commands that it runs the id of their session, as its hooks have it.
    /// opencode is told by the plugin to set `FLYBALL_SESSION`; the others tell nothing.
    #[must_use]
    pub const fn session_variable(self) -> Option<&'static str> {
        match self {
            Host::ClaudeCode => Some("CLAUDE_CODE_SESSION_ID"),
            Host::Codex => Some("CODEX_THREAD_ID"),
            Host::Copilot => Some("COPILOT_AGENT_SESSION_ID"),
            Host::Gemini | Host::Cursor | Host::Goose | Host::Opencode => None,
        }
    }

    /// The variables in which the host names the project root to its hooks, the first that is set counts. Hosts without
    /// one say only where the agent is, which changes as it works.
    #[must_use]
    pub const fn root_variables(self) -> &'static [&'static str] {
        match self {
            Host::ClaudeCode => &["CLAUDE_PROJECT_DIR"],
            Host::Gemini => &["GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"],
            Host::Cursor => &["CURSOR_PROJECT_DIR"],
            _ => &[],
        }
    }

    /// Whether a hook may make the host ask its user before a call. Where it may not, a call that needs a person is
    /// refused, and approved with `flyball approve`.
    #[must_use]
    pub const fn can_ask(self) -> bool {
        matches!(self, Host::ClaudeCode | Host::Gemini | Host::Copilot | Host::Cursor)
    }
}

const CLAUDE_CODE: [(&str, Moment); 12] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("PostToolUseFailure", AfterTool),
    ("PostToolBatch", AfterBatch),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SubagentStart", Fact),
    ("SubagentStop", Stop),
    ("PreCompact", Fact),
    ("PermissionDenied", Fact),
    ("SessionStart", SessionStart),
    ("SessionEnd", Fact),
];

const CODEX: [(&str, Moment); 9] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SubagentStart", Fact),
    ("SubagentStop", Stop),
    ("PreCompact", Fact),
    ("SessionStart", SessionStart),
    ("SessionEnd", Fact),
];

const GEMINI: [(&str, Moment); 7] = [
    ("BeforeTool", BeforeTool),
    ("AfterTool", AfterTool),
    ("BeforeAgent", Prompt),
    ("AfterAgent", Stop),
    ("PreCompress", Fact),
    ("SessionStart", SessionStart),
    ("SessionEnd", Fact),
];

const COPILOT: [(&str, Moment); 9] = [
    ("preToolUse", BeforeTool),
    ("postToolUse", AfterTool),
    ("postToolUseFailure", AfterTool),
    ("permissionRequest", Permission),
    ("userPromptSubmitted", Prompt),
    ("agentStop", Stop),
    ("subagentStop", Stop),
    ("sessionStart", SessionStart),
    ("sessionEnd", Fact),
];

const CURSOR: [(&str, Moment); 10] = [
    ("preToolUse", BeforeTool),
    ("postToolUse", AfterTool),
    ("postToolUseFailure", AfterTool),
    ("beforeSubmitPrompt", Prompt),
    ("afterAgentResponse", Fact),
    ("stop", Stop),
    ("subagentStop", Stop),
    ("preCompact", Fact),
    ("sessionStart", SessionStart),
    ("sessionEnd", Fact),
];

const GOOSE: [(&str, Moment); 7] = [
    ("PreToolUse", BeforeTool),
    ("PostToolUse", AfterTool),
    ("PostToolUseFailure", AfterTool),
    ("UserPromptSubmit", Prompt),
    ("Stop", Stop),
    ("SessionStart", SessionStart),
    ("SessionEnd", Fact),
];

const OPENCODE: [(&str, Moment); 7] = [
    ("tool.execute.before", BeforeTool),
    ("tool.execute.after", AfterTool),
    ("permission.ask", Permission),
    ("chat.message", Prompt),
    ("session.idle", Stop),
    ("session.created", SessionStart),
    ("session.compacted", Fact),
];
