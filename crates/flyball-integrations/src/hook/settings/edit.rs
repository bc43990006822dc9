//! Adds entries to a settings file and removes them without changing any other byte: comments, key order, line endings
//! and byte-order mark are kept.

use super::command::HookCommand;
use super::handlers::HandlerCommand;
use super::hook_entry::{hook_entry, input_to_json, settings_version};
use super::host_json::{parse_as_host, parse_options};
use crate::hook::host::Host;
use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstRootNode};
use serde_json::Value;

/// A settings file that cannot be changed safely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// The error message.
    pub message: String,
    /// The line, starting at 1, if known.
    pub line: Option<usize>,
    /// The column, starting at 1.
    pub column: Option<usize>,
}

impl SettingsError {
    /// The stable code of this error.
    pub const CODE: &'static str = "hook_settings";

    fn invalid_shape(what: impl Into<String>) -> Self {
        SettingsError { message: what.into(), line: None, column: None }
    }
}

pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Parses a settings file for editing. Comments and trailing commas are accepted, so that entries can be removed from
/// files that the host itself rejects.
pub(super) fn parse_settings(text: &str) -> Result<CstRootNode, SettingsError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    CstRootNode::parse(text, &parse_options(true, true)).map_err(|error| SettingsError {
        message: format!("invalid JSON: {}", error.kind()),
        line: Some(error.line_display()),
        column: Some(error.column_display()),
    })
}

/// Returns the text with Flyball's entries added, or `None` if all of them are present. `text` is `None` if there is no
/// file.
///
/// # Errors
/// If the text is not a JSON object, `hooks` has another type than expected, or the host could not read the result.
pub fn install(
    host: Host,
    text: Option<&str>,
    command: &HookCommand,
    strict: bool,
) -> Result<Option<String>, SettingsError> {
    let text = text.unwrap_or("{}\n");
    let root = parse_settings(text)?;
    let top = match (root.value(), root.object_value()) {
        (_, Some(top)) => top,
        (None, None) => root.object_value_or_set(),
        (Some(_), None) => return Err(SettingsError::invalid_shape("the file is JSON but not an object")),
    };
    let hooks = match top.get("hooks") {
        Some(found) => {
            found.object_value().ok_or_else(|| SettingsError::invalid_shape("`hooks` is not an object"))?
        }
        None => {
            if let (Some(version), None) = (settings_version(host), top.get("version")) {
                top.append("version", version.into());
            }
            top.object_value_or_set("hooks")
        }
    };
    let mut changed = false;
    for (event, _) in host.events() {
        let list = match hooks.get(event) {
            Some(found) => found
                .array_value()
                .ok_or_else(|| SettingsError::invalid_shape(format!("`hooks.{event}` is not a list")))?,
            None => hooks.array_value_or_set(event),
        };
        let wanted = hook_entry(host, command, event, strict);
        let own: Vec<CstNode> =
            list.elements().into_iter().filter(|found| is_own_node(host, found)).collect();
        if let [one] = own.as_slice()
            && one.to_serde_value().as_ref() == Some(&input_to_json(&wanted))
        {
            continue;
        }
        remove_own_handlers(host, &list);
        list.append(wanted);
        changed = true;
    }
    let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK } else { "" };
    let new = format!("{mark}{root}");
    parse_as_host(host, &new)?;
    Ok(changed.then_some(new))
}

/// The command of Flyball's entries in a text, if it contains any.
#[must_use]
pub fn installed_command(host: Host, text: &str) -> Option<HookCommand> {
    let value = parse_settings(text).ok()?.to_serde_value()?;
    let lists = value.get("hooks")?.as_object()?.values().filter_map(Value::as_array).flatten();
    let mut handlers = lists.flat_map(|entry| {
        let inner = entry.get("hooks").and_then(Value::as_array);
        inner.into_iter().flatten().chain(std::iter::once(entry))
    });
    let own = handlers.find(|handler| is_own_handler(host, handler))?;
    let line = ["command", "bash"].iter().find_map(|key| own.get(*key)?.as_str())?;
    HookCommand::parse(host, &HandlerCommand::Shell(line.to_owned()))
}

/// Returns the text without Flyball's entries, or `None` if there are none.
///
/// # Errors
/// If the text is not valid JSON.
pub fn uninstall(host: Host, text: &str) -> Result<Option<String>, SettingsError> {
    let root = parse_settings(text)?;
    let Some(hooks) = root.object_value().and_then(|top| top.object_value("hooks")) else { return Ok(None) };
    let mut changed = false;
    for property in hooks.properties() {
        let Some(list) = property.array_value() else { continue };
        if !remove_own_handlers(host, &list) {
            continue;
        }
        changed = true;
        if list.elements().is_empty() {
            property.remove();
        }
    }
    if changed && hooks.properties().is_empty() {
        remove_hooks_key(&root, hooks);
    }
    let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK } else { "" };
    Ok(changed.then(|| format!("{mark}{root}")))
}

fn remove_hooks_key(root: &CstRootNode, hooks: CstObject) {
    match root.object_value().and_then(|top| top.get("hooks")) {
        Some(property) => property.remove(),
        None => hooks.remove(),
    }
}

/// Removes our handlers from a list of entries, and entries that become empty. Returns whether anything was removed.
fn remove_own_handlers(host: Host, list: &CstArray) -> bool {
    let mut found = false;
    for element in list.elements() {
        if !is_own_node(host, &element) {
            continue;
        }
        found = true;
        let inner = element.as_object().and_then(|group| group.array_value("hooks"));
        let handlers = inner.map(|list| list.elements()).unwrap_or_default();
        let foreign = handlers.iter().any(|handler| !is_own_node(host, handler));
        if handlers.is_empty() || !foreign {
            element.remove();
            continue;
        }
        for handler in handlers {
            if is_own_node(host, &handler) {
                handler.remove();
            }
        }
    }
    found
}

fn is_own_node(host: Host, node: &CstNode) -> bool {
    node.to_serde_value().is_some_and(|value| contains_own_handler(host, &value))
}

/// Whether an entry or one of its handlers calls Flyball for this host.
pub(super) fn contains_own_handler(host: Host, entry: &Value) -> bool {
    let inner = entry.get("hooks").and_then(Value::as_array);
    is_own_handler(host, entry)
        || inner.is_some_and(|list| list.iter().any(|handler| is_own_handler(host, handler)))
}

/// Whether a handler calls Flyball for this host.
pub(super) fn is_own_handler(host: Host, handler: &Value) -> bool {
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
