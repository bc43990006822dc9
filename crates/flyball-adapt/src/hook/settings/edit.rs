//! Putting entries into a settings file and taking them out, without touching a byte of what is there: comments,
//! order, line ends, a byte-order mark.

use super::command::HookCommand;
use super::entry::{entry, plain, version};
use super::handlers::Line;
use super::readable::{options, readable};
use crate::hook::host::Host;
use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstRootNode};
use serde_json::Value;

/// A settings file that cannot be changed safely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// What is wrong.
    pub what: String,
    /// The line, from 1, where that is known.
    pub line: Option<usize>,
    /// The column, from 1.
    pub column: Option<usize>,
}

impl Broken {
    /// The stable code of this error.
    pub const CODE: &'static str = "hook_settings";

    fn shape(what: impl Into<String>) -> Self {
        Broken { what: what.into(), line: None, column: None }
    }
}

pub(super) const MARK: &str = "\u{feff}";

/// How a settings file is read to be edited: JSON, with comments and trailing commas, so that entries can be taken out
/// of files that the host itself cannot read.
pub(super) fn read(text: &str) -> Result<CstRootNode, Broken> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    CstRootNode::parse(text, &options(true, true)).map_err(|error| Broken {
        what: format!("this is no JSON: {}", error.kind()),
        line: Some(error.line_display()),
        column: Some(error.column_display()),
    })
}

/// The text with Flyball's entries in it; `None` if they are all there already. `text` is `None` if there is no file.
///
/// # Errors
/// If the text is no JSON object, holds something else where the hooks belong, or is nothing that the host can read
/// with the entries in it.
pub fn install(
    host: Host,
    text: Option<&str>,
    command: &HookCommand,
    strict: bool,
) -> Result<Option<String>, Broken> {
    let text = text.unwrap_or("{}\n");
    let root = read(text)?;
    let top = match (root.value(), root.object_value()) {
        (_, Some(top)) => top,
        (None, None) => root.object_value_or_set(),
        (Some(_), None) => return Err(Broken::shape("this is JSON, but not an object")),
    };
    let hooks = match top.get("hooks") {
        Some(found) => found.object_value().ok_or_else(|| Broken::shape("`hooks` is not an object"))?,
        None => {
            if let (Some(version), None) = (version(host), top.get("version")) {
                top.append("version", version.into());
            }
            top.object_value_or_set("hooks")
        }
    };
    let mut changed = false;
    for (event, _) in host.events() {
        let list = match hooks.get(event) {
            Some(found) => {
                found.array_value().ok_or_else(|| Broken::shape(format!("`hooks.{event}` is not a list")))?
            }
            None => hooks.array_value_or_set(event),
        };
        let wanted = entry(host, command, event, strict);
        let own: Vec<CstNode> = list.elements().into_iter().filter(|found| is_own(host, found)).collect();
        if let [one] = own.as_slice()
            && one.to_serde_value().as_ref() == Some(&plain(&wanted))
        {
            continue;
        }
        take_out(host, &list);
        list.append(wanted);
        changed = true;
    }
    let mark = if text.starts_with(MARK) { MARK } else { "" };
    let new = format!("{mark}{root}");
    readable(host, &new)?;
    Ok(changed.then_some(new))
}

/// The command of Flyball's entries in a text, if there are any that Flyball wrote.
#[must_use]
pub fn installed_command(host: Host, text: &str) -> Option<HookCommand> {
    let value = read(text).ok()?.to_serde_value()?;
    let lists = value.get("hooks")?.as_object()?.values().filter_map(Value::as_array).flatten();
    let mut handlers = lists.flat_map(|entry| {
        let inner = entry.get("hooks").and_then(Value::as_array);
        inner.into_iter().flatten().chain(std::iter::once(entry))
    });
    let own = handlers.find(|handler| calls_us(host, handler))?;
    let line = ["command", "bash"].iter().find_map(|key| own.get(*key)?.as_str())?;
    HookCommand::read(host, &Line::Shell(line.to_owned()))
}

/// The text without Flyball's entries; `None` if there are none.
///
/// # Errors
/// If the text is no JSON.
pub fn uninstall(host: Host, text: &str) -> Result<Option<String>, Broken> {
    let root = read(text)?;
    let Some(hooks) = root.object_value().and_then(|top| top.object_value("hooks")) else { return Ok(None) };
    let mut changed = false;
    for property in hooks.properties() {
        let Some(list) = property.array_value() else { continue };
        if !take_out(host, &list) {
            continue;
        }
        changed = true;
        if list.elements().is_empty() {
            property.remove();
        }
    }
    if changed && hooks.properties().is_empty() {
        empty(&root, hooks);
    }
    let mark = if text.starts_with(MARK) { MARK } else { "" };
    Ok(changed.then(|| format!("{mark}{root}")))
}

fn empty(root: &CstRootNode, hooks: CstObject) {
    match root.object_value().and_then(|top| top.get("hooks")) {
        Some(property) => property.remove(),
        None => hooks.remove(),
    }
}

/// Removes our handlers from a list of entries, and the entries that hold nothing else. Says whether there were any.
fn take_out(host: Host, list: &CstArray) -> bool {
    let mut found = false;
    for element in list.elements() {
        if !is_own(host, &element) {
            continue;
        }
        found = true;
        let inner = element.as_object().and_then(|group| group.array_value("hooks"));
        let handlers = inner.map(|list| list.elements()).unwrap_or_default();
        let foreign = handlers.iter().any(|handler| !is_own(host, handler));
        if handlers.is_empty() || !foreign {
            element.remove();
            continue;
        }
        for handler in handlers {
            if is_own(host, &handler) {
                handler.remove();
            }
        }
    }
    found
}

fn is_own(host: Host, node: &CstNode) -> bool {
    node.to_serde_value().is_some_and(|value| holds_own(host, &value))
}

/// Whether an entry, or one of the handlers in it, calls Flyball for this host.
pub(super) fn holds_own(host: Host, entry: &Value) -> bool {
    let inner = entry.get("hooks").and_then(Value::as_array);
    calls_us(host, entry) || inner.is_some_and(|list| list.iter().any(|handler| calls_us(host, handler)))
}

/// Whether a handler calls Flyball for this host.
pub(super) fn calls_us(host: Host, handler: &Value) -> bool {
    let mut line = ["command", "bash", "exec"]
        .iter()
        .find_map(|key| handler.get(*key)?.as_str())
        .unwrap_or_default()
        .to_owned();
    for word in handler.get("args").and_then(Value::as_array).into_iter().flatten() {
        line.push(' ');
        line.push_str(word.as_str().unwrap_or_default());
    }
    let Some((program, rest)) = line.split_once(&format!(" hook {}", host.as_str())) else { return false };
    let program = program.trim_end_matches(['"', '\'']);
    let ours = program.ends_with("flyball") || program.ends_with("flyball.exe");
    ours && (rest.is_empty() || rest.starts_with(' '))
}
