//! The built-in tools: what a model is told about each, how dangerous a call is, and what it does.

use super::edit;
use super::error::ToolError;
use super::execute::Done;
use super::place::Workspace;
use super::read::{self, Wanted};
use super::risk::{self, Finding, Risk};
use super::search::{self, Query, Search};
use super::write;
use super::{Bench, ToolSpec};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// A tool that every workspace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builtin {
    Shell,
    Read,
    Write,
    Edit,
    Search,
}

impl Builtin {
    pub(super) const ALL: [Builtin; 5] =
        [Builtin::Shell, Builtin::Read, Builtin::Write, Builtin::Edit, Builtin::Search];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Builtin::Shell => "shell",
            Builtin::Read => "read",
            Builtin::Write => "write",
            Builtin::Edit => "edit",
            Builtin::Search => "search",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Builtin::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn names() -> Vec<&'static str> {
        Builtin::ALL.iter().map(|tool| tool.name()).collect()
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
            Builtin::Shell => {
                "Runs a command line with `sh -c` in the workspace and returns its output, standard output and \
                 standard error together. It has no input and no terminal. When it ends or takes too long, everything \
                 it has started is ended too, so nothing can be left running in the background."
            }
            Builtin::Read => {
                "Reads a text file of the workspace, or a large output that was saved to a file. Long files come in \
                 pages: the last line in brackets says how to read on."
            }
            Builtin::Write => {
                "Writes a text file of the workspace as a whole, new or over the old one. Missing folders are made."
            }
            Builtin::Edit => {
                "Replaces a text in a file of the workspace. The text must stand there exactly as given, white space \
                 included, and only once, unless 'all' is set."
            }
            Builtin::Search => {
                "Finds the lines that hold a text or match a regular expression, in the files below a folder of the \
                 workspace. Hidden folders, target and node_modules are left out unless the path names them."
            }
        }
    }

    pub(super) fn schema(self) -> Value {
        let path =
            json!({"type": "string", "minLength": 1, "description": "the file, from the workspace on"});
        let (properties, required) = match self {
            Builtin::Shell => (
                json!({
                    "command": {"type": "string", "minLength": 1, "description": "the command line"},
                    "timeout_ms": {"type": "integer", "minimum": 1, "description": "the longest it may take"},
                }),
                json!(["command"]),
            ),
            Builtin::Read => (
                json!({
                    "path": path,
                    "offset": {"type": "integer", "minimum": 1, "description": "the first line, from 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "how many lines, by default 2000"},
                    "column": {"type": "integer", "minimum": 1,
                        "description": "the first character of the first line, from 1, to read on in a long line"},
                }),
                json!(["path"]),
            ),
            Builtin::Write => (
                json!({"path": path, "content": {"type": "string", "description": "the whole new content"}}),
                json!(["path", "content"]),
            ),
            Builtin::Edit => (
                json!({
                    "path": path,
                    "old": {"type": "string", "description": "the text to replace, exactly as it stands there"},
                    "new": {"type": "string", "description": "the text to put in its place"},
                    "all": {"type": "boolean", "description": "replace it everywhere in the file"},
                }),
                json!(["path", "old", "new"]),
            ),
            Builtin::Search => (
                json!({
                    "pattern": {"type": "string", "minLength": 1, "description": "what to look for"},
                    "regex": {"type": "boolean", "description": "the pattern is a regular expression"},
                    "ignore_case": {"type": "boolean", "description": "capital and small letters are the same"},
                    "path": {"type": "string", "minLength": 1, "description": "the folder or file, by default all"},
                    "glob": {"type": "string", "minLength": 1,
                        "description": "only files like this: *.rs by their name, src/**/*.py by their path"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000,
                        "description": "the most lines, by default 200"},
                }),
                json!(["pattern"]),
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// What is dangerous about a call whose arguments fit.
    pub(super) fn findings(self, workspace: &Workspace, args: &Value) -> Vec<Finding> {
        match self {
            Builtin::Read | Builtin::Search => vec![Finding::new(Risk::Safe, "it only looks")],
            Builtin::Write | Builtin::Edit => {
                let path = text(args, "path");
                let into_git = Path::new(path).components().any(|part| part.as_os_str() == ".git");
                vec![if into_git {
                    Finding::new(Risk::Unknown, "git runs or trusts what stands in its own folder")
                } else {
                    Finding::new(Risk::Moderate, format!("it changes the file '{path}'"))
                }]
            }
            Builtin::Shell => {
                let exists = |path: &str| workspace.root().join(path).symlink_metadata().is_ok();
                risk::of_shell(text(args, "command"), &exists)
            }
        }
    }

    pub(super) fn perform(self, bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
        match self {
            Builtin::Shell => shell(bench, args),
            Builtin::Read => read(bench, args),
            Builtin::Write => write(bench, args),
            Builtin::Edit => edit(bench, args),
            Builtin::Search => search(bench, args),
        }
    }
}

/// A text among arguments that fit the schema.
fn text<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(args: &Value, name: &str, default: u64) -> u64 {
    args.get(name).and_then(Value::as_u64).unwrap_or(default)
}

fn flag(args: &Value, name: &str) -> bool {
    args.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn shell(bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
    let asked = args.get("timeout_ms").and_then(Value::as_u64).map(Duration::from_millis);
    let deadline = asked.map_or(bench.deadline, |asked| asked.min(bench.deadline));
    let bench = Bench { deadline, ..*bench };
    bench.execute(["sh", "-c", text(args, "command")].map(str::to_owned).into())
}

fn read(bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
    let path = text(args, "path");
    let wanted = Wanted {
        offset: number(args, "offset", 1),
        column: number(args, "column", 1),
        limit: number(args, "limit", read::PAGE_LINES),
        room: bench.page_chars(),
    };
    let file = match stored_output(bench, path) {
        Some(file) => file?,
        None => bench.toolbox.workspace.find(path, false)?.open()?,
    };
    Ok(Done::well(read::page(file, path, wanted)?))
}

/// One of the session's own large outputs, if the path is one; they are outside the workspace.
fn stored_output(bench: &Bench<'_>, path: &str) -> Option<Result<File, ToolError>> {
    let outputs = bench.toolbox.options.outputs.as_ref().filter(|outputs| outputs.owns(Path::new(path)))?;
    Some(outputs.read(Path::new(path)).map_err(|error| ToolError::io(path, &error)))
}

fn write(bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
    let content = text(args, "content");
    let spot = bench.toolbox.workspace.find(text(args, "path"), true)?;
    write::replace(&spot, content.as_bytes())?;
    let done = if spot.found.is_some() { "replaced" } else { "new" };
    Ok(Done::well(format!("'{}' is written ({} bytes, {done})", spot.shown(), content.len())))
}

fn edit(bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
    let spot = bench.toolbox.workspace.find(text(args, "path"), false)?;
    let shown = spot.shown();
    let mut bytes = Vec::new();
    let limit = write::FILE_BYTES as u64 + 1;
    spot.open()?.take(limit).read_to_end(&mut bytes).map_err(|error| ToolError::io(&shown, &error))?;
    if bytes.len() as u64 == limit {
        let what = format!("'{shown}' has more than {} bytes", write::FILE_BYTES);
        return Err(ToolError::new("file_too_large", what, "change it with a program through the shell"));
    }
    let before = String::from_utf8(bytes).map_err(|_| {
        ToolError::new(
            "not_text",
            format!("'{shown}' is no UTF-8 text"),
            "change it with a program through the shell",
        )
    })?;
    let edited = edit::replace(&before, text(args, "old"), text(args, "new"), flag(args, "all"), &shown)?;
    write::replace(&spot, edited.text.as_bytes())?;
    let places = if edited.places == 1 { "1 place".to_owned() } else { format!("{} places", edited.places) };
    Ok(Done::well(format!("'{shown}' is changed in {places}, the first in line {}", edited.line)))
}

fn search(bench: &Bench<'_>, args: &Value) -> Result<Done, ToolError> {
    let mut query = Query::new(text(args, "pattern"), flag(args, "regex"), flag(args, "ignore_case"))?
        .at_most(number(args, "limit", search::MATCHES), bench.page_chars());
    if let Some(glob) = args.get("glob").and_then(Value::as_str) {
        query = query.glob(glob)?;
    }
    let path = args.get("path").and_then(Value::as_str).unwrap_or(".");
    let stop_at = Instant::now().checked_add(bench.deadline);
    let mut search = Search::new(&query, bench.cancel, stop_at);
    match stored_output(bench, path) {
        Some(file) => search.file(file?, path),
        None => {
            let workspace = &bench.toolbox.workspace;
            search.spot(workspace, &workspace.find(path, false)?)?;
        }
    }
    let (text, trouble) = search.finish();
    Ok(Done { text, trouble })
}
