//! The tool calls of a host that are known to be read-only.
//!
//! This allowlist applies when Flyball itself fails (`on_error: reads`). It contains each host's built-in read-only
//! tools and shell commands that pass [`flyball_shell::check_read_only`]. MCP tools are never on it, because the server
//! chooses their names and hints; the policy can declare one read-only with `tools: {NAME: {effect: read}}`.

use super::host::Host;
use super::invocation::HookToolCall;
use flyball_shell::{check_argv_read_only, check_read_only};
use serde_json::Value;

/// Maximum size of a shell tool's arguments, in bytes. Longer arguments may have been truncated before this check.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// Whether a tool call is known to be read-only.
#[must_use]
pub fn is_known_read_only(host: Host, tool: &HookToolCall) -> bool {
    let name = tool.name.as_str();
    if shell_tools(host).contains(&name) {
        return shell_is_read_only(&tool.args);
    }
    if host == Host::Goose && matches!(name, "developer__text_editor" | "text_editor") {
        return tool.args.get("command").and_then(Value::as_str) == Some("view");
    }
    read_only_tools(host).split_whitespace().any(|listed| listed == name)
}

/// Tools that run a shell command.
const fn shell_tools(host: Host) -> &'static [&'static str] {
    match host {
        Host::ClaudeCode => &["Bash"],
        Host::Codex => &["Bash", "shell", "shell_command", "local_shell", "exec_command", "container.exec"],
        Host::Gemini => &["run_shell_command"],
        Host::Copilot => &["bash", "Bash"],
        Host::Cursor => &["Shell", "run_terminal_cmd"],
        Host::Goose => &["developer__shell", "shell"],
        Host::Opencode => &["bash"],
    }
}

const CLAUDE_CODE: &str = "Read Grep Glob LS LSP NotebookRead TodoRead TaskGet TaskList TaskOutput BashOutput ToolSearch \
                           WebSearch ListMcpResourcesTool AskUserQuestion";
const CODEX: &str = "read_file list_dir grep_files view_image web_search tool_search list_mcp_resources \
                     list_mcp_resource_templates request_user_input";
const GEMINI: &str = "read_file read_many_files list_directory glob search_file_content grep_search google_web_search \
                      get_internal_docs ask_user";
/// Copilot uses Claude Code's tool names if the event names are in Pascal case.
const COPILOT: &str = "view glob grep rg read_bash list_bash web_search ask_user Read Grep Glob LS";
const CURSOR: &str = "Read Grep Glob LS SemanticSearch ReadLints WebSearch read_file list_dir grep_search file_search \
                      codebase_search read_lints";
const GOOSE: &str = "developer__tree developer__analyze developer__read_file developer__list_windows analyze__analyze \
                     todo__todo_read tree analyze";
const OPENCODE: &str = "read grep glob list lsp todoread websearch codesearch question";

/// Built-in tools that only read or ask the user.
const fn read_only_tools(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => CLAUDE_CODE,
        Host::Codex => CODEX,
        Host::Gemini => GEMINI,
        Host::Copilot => COPILOT,
        Host::Cursor => CURSOR,
        Host::Goose => GOOSE,
        Host::Opencode => OPENCODE,
    }
}

/// Whether a shell tool's command is read-only. Arguments that select another interpreter, an environment or stdin make
/// it unknown.
fn shell_is_read_only(args: &Value) -> bool {
    // The parser supports POSIX shell grammar only.
    if cfg!(windows) || text_bytes(args) > MAX_ARGUMENT_BYTES {
        return false;
    }
    if let Some(command) = args.as_str() {
        return check_read_only(command).is_ok();
    }
    let Some(fields) = args.as_object() else { return false };
    let mut checked = false;
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("command" | "cmd", Value::String(command)) => {
                if check_read_only(command).is_err() {
                    return false;
                }
                checked = true;
            }
            ("command" | "cmd", Value::Array(words)) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                if words.is_none_or(|words| check_argv_read_only(&words).is_err()) {
                    return false;
                }
                checked = true;
            }
            ("command" | "cmd" | "script" | "code" | "stdin" | "input" | "chars" | "args" | "argv", _) => {
                return false;
            }
            ("shell", Value::String(shell)) => {
                let name = shell.rsplit('/').next().unwrap_or_default();
                if !matches!(name, "" | "sh" | "bash" | "zsh") {
                    return false;
                }
            }
            ("env" | "environment" | "shell", value) if !is_empty(value) => return false,
            _ => {}
        }
    }
    checked
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + text_bytes(value)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "read_only_tests.rs"]
mod tests;
