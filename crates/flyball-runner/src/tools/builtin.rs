//! Built-in tools: descriptions for the model, risk and behavior.

use super::edit;
use super::execute::ToolResult;
use super::read::{self, PageRequest};
use super::risk::{self, Risk, RiskFinding};
use super::search::{self, FileSearch, SearchQuery};
use super::tool_error::ToolError;
use super::workspace::WorkspaceRoot;
use super::write;
use super::{ToolContext, ToolSpec};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// A tool available in every workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltinTool {
    Shell,
    Read,
    Write,
    Edit,
    Search,
}

impl BuiltinTool {
    pub(super) const ALL: [BuiltinTool; 5] =
        [BuiltinTool::Shell, BuiltinTool::Read, BuiltinTool::Write, BuiltinTool::Edit, BuiltinTool::Search];

    pub(super) const fn name(self) -> &'static str {
        match self {
            BuiltinTool::Shell => "shell",
            BuiltinTool::Read => "read",
            BuiltinTool::Write => "write",
            BuiltinTool::Edit => "edit",
            BuiltinTool::Search => "search",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        BuiltinTool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn names() -> Vec<&'static str> {
        BuiltinTool::ALL.iter().map(|tool| tool.name()).collect()
    }

    pub(super) fn spec(self) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            schema: self.schema(),
        }
    }

    const fn description(self) -> &'static str {
        match self {
            BuiltinTool::Shell => {
                "Runs a command line with `sh -c` in the workspace and returns its combined standard output \
                 and standard error. It has no input and no terminal. When it exits or times out, all \
                 processes it started are killed, so nothing keeps running in the background."
            }
            BuiltinTool::Read => {
                "Reads a text file of the workspace, or a large output that was saved to a file. Long files \
                 are paged: the last line, in brackets, says how to continue."
            }
            BuiltinTool::Write => {
                "Writes a complete text file of the workspace, new or replacing an existing one. Creates \
                 missing folders."
            }
            BuiltinTool::Edit => {
                "Replaces a text in a file of the workspace. The text must match exactly, including \
                 whitespace, and occur only once, unless 'all' is set."
            }
            BuiltinTool::Search => {
                "Finds the lines that contain a text or match a regular expression in the files below a \
                 folder of the workspace. Skips hidden folders, target and node_modules unless the path \
                 names them."
            }
        }
    }

    pub(super) fn schema(self) -> Value {
        let path =
            json!({"type": "string", "minLength": 1, "description": "file path, relative to the workspace"});
        let (properties, required) = match self {
            BuiltinTool::Shell => (
                json!({
                    "command": {"type": "string", "minLength": 1, "description": "the command line"},
                    "timeout_ms": {"type": "integer", "minimum": 1, "description": "timeout"},
                }),
                json!(["command"]),
            ),
            BuiltinTool::Read => (
                json!({
                    "path": path,
                    "offset": {"type": "integer", "minimum": 1, "description": "first line, starting at 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "lines to read; default: 2000"},
                    "column": {"type": "integer", "minimum": 1,
                        "description": "first character of the first line, to continue within a long line"},
                }),
                json!(["path"]),
            ),
            BuiltinTool::Write => (
                json!({"path": path, "content": {"type": "string", "description": "the new content"}}),
                json!(["path", "content"]),
            ),
            BuiltinTool::Edit => (
                json!({
                    "path": path,
                    "old": {"type": "string", "description": "the text to replace, exactly as in the file"},
                    "new": {"type": "string", "description": "the replacement"},
                    "all": {"type": "boolean", "description": "replace all occurrences"},
                }),
                json!(["path", "old", "new"]),
            ),
            BuiltinTool::Search => (
                json!({
                    "pattern": {"type": "string", "minLength": 1, "description": "text or pattern to find"},
                    "regex": {"type": "boolean", "description": "treat the pattern as a regular expression"},
                    "ignore_case": {"type": "boolean", "description": "ignore case"},
                    "path": {"type": "string", "minLength": 1, "description": "folder or file; default: all"},
                    "glob": {"type": "string", "minLength": 1,
                        "description": "only matching files: *.rs by name, src/**/*.py by path"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000,
                        "description": "maximum number of lines; default: 200"},
                }),
                json!(["pattern"]),
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// Risk findings of a call with validated arguments.
    pub(super) fn findings(self, workspace: &WorkspaceRoot, args: &Value) -> Vec<RiskFinding> {
        match self {
            BuiltinTool::Read | BuiltinTool::Search => vec![RiskFinding::new(Risk::Safe, "it only reads")],
            BuiltinTool::Write | BuiltinTool::Edit => {
                let path = text_arg(args, "path");
                let into_git = Path::new(path).components().any(|part| part.as_os_str() == ".git");
                vec![if into_git {
                    RiskFinding::new(Risk::Unknown, "git runs or trusts files in its own folder")
                } else {
                    RiskFinding::new(Risk::Moderate, format!("it changes the file '{path}'"))
                }]
            }
            BuiltinTool::Shell => {
                let exists = |path: &str| workspace.root().join(path).symlink_metadata().is_ok();
                risk::assess_shell(text_arg(args, "command"), &exists)
            }
        }
    }

    pub(super) fn run(self, context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
        match self {
            BuiltinTool::Shell => shell(context, args),
            BuiltinTool::Read => read(context, args),
            BuiltinTool::Write => write(context, args),
            BuiltinTool::Edit => edit(context, args),
            BuiltinTool::Search => search(context, args),
        }
    }
}

/// A string among validated arguments.
fn text_arg<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number_arg(args: &Value, name: &str, default: u64) -> u64 {
    args.get(name).and_then(Value::as_u64).unwrap_or(default)
}

fn flag_arg(args: &Value, name: &str) -> bool {
    args.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn shell(context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
    let asked = args.get("timeout_ms").and_then(Value::as_u64).map(Duration::from_millis);
    let deadline = asked.map_or(context.deadline, |asked| asked.min(context.deadline));
    let context = ToolContext { deadline, ..*context };
    context.execute(["sh", "-c", text_arg(args, "command")].map(str::to_owned).into())
}

fn read(context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
    let path = text_arg(args, "path");
    let wanted = PageRequest {
        offset: number_arg(args, "offset", 1),
        column: number_arg(args, "column", 1),
        limit: number_arg(args, "limit", read::DEFAULT_PAGE_LINES),
        max_chars: context.max_page_chars(),
    };
    let file = match open_stored_output(context, path) {
        Some(file) => file?,
        None => context.toolbox.workspace.resolve(path, false)?.open()?,
    };
    Ok(ToolResult::success(read::read_page(file, path, wanted)?))
}

/// A large output of this session, if the path is one; these are outside the workspace.
fn open_stored_output(context: &ToolContext<'_>, path: &str) -> Option<Result<File, ToolError>> {
    let outputs = context.toolbox.options.outputs.as_ref().filter(|outputs| outputs.owns(Path::new(path)))?;
    Some(outputs.read(Path::new(path)).map_err(|error| ToolError::io(path, &error)))
}

fn write(context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
    let content = text_arg(args, "content");
    let target = context.toolbox.workspace.resolve(text_arg(args, "path"), true)?;
    write::replace_file(&target, content.as_bytes())?;
    let done = if target.stat.is_some() { "replaced" } else { "new" };
    Ok(ToolResult::success(format!("wrote '{}' ({} bytes, {done})", target.display(), content.len())))
}

fn edit(context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
    let target = context.toolbox.workspace.resolve(text_arg(args, "path"), false)?;
    let shown = target.display();
    let mut bytes = Vec::new();
    let limit = write::MAX_FILE_BYTES as u64 + 1;
    target.open()?.take(limit).read_to_end(&mut bytes).map_err(|error| ToolError::io(&shown, &error))?;
    if bytes.len() as u64 == limit {
        let what = format!("'{shown}' has more than {} bytes", write::MAX_FILE_BYTES);
        return Err(ToolError::new("file_too_large", what, "change it with a program in the shell"));
    }
    let before = String::from_utf8(bytes).map_err(|_| {
        ToolError::new(
            "not_text",
            format!("'{shown}' is not UTF-8 text"),
            "change it with a program in the shell",
        )
    })?;
    let edited = edit::replace_text(
        &before,
        text_arg(args, "old"),
        text_arg(args, "new"),
        flag_arg(args, "all"),
        &shown,
    )?;
    write::replace_file(&target, edited.text.as_bytes())?;
    let places =
        if edited.replaced == 1 { "1 place".to_owned() } else { format!("{} places", edited.replaced) };
    Ok(ToolResult::success(format!("changed '{shown}' in {places}, first in line {}", edited.first_line)))
}

fn search(context: &ToolContext<'_>, args: &Value) -> Result<ToolResult, ToolError> {
    let mut query =
        SearchQuery::new(text_arg(args, "pattern"), flag_arg(args, "regex"), flag_arg(args, "ignore_case"))?
            .with_limits(number_arg(args, "limit", search::DEFAULT_MATCHES), context.max_page_chars());
    if let Some(glob) = args.get("glob").and_then(Value::as_str) {
        query = query.glob(glob)?;
    }
    let path = args.get("path").and_then(Value::as_str).unwrap_or(".");
    let stop_at = Instant::now().checked_add(context.deadline);
    let mut search = FileSearch::new(&query, context.cancel, stop_at);
    match open_stored_output(context, path) {
        Some(file) => search.search_file(file?, path),
        None => {
            let workspace = &context.toolbox.workspace;
            search.search_path(workspace, &workspace.resolve(path, false)?)?;
        }
    }
    let (text, error) = search.finish();
    Ok(ToolResult { text, error })
}
