//! What keeps Codex from running hooks: its feature switch, projects that it does not trust, and hooks that its user has
//! not reviewed. Codex stores a hash of every hook that was reviewed, and skips a hook whose hash is another one.

use super::coverage::{HostView, Obstacle, Scope, SettingsFile};
use super::edit::calls_us;
use super::readable::{line_at, readable};
use crate::hook::host::Host;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// What Codex takes as the timeout of a hook that names none, in seconds.
const DEFAULT_TIMEOUT_S: u64 = 600;
/// The number of tokens that Codex takes for no limit of its own.
const DEFAULT_CONTEXT_LIMIT: u64 = 2_500;

/// What keeps Codex from running the hooks of a file.
pub(super) fn obstacle(view: &HostView<'_>, hooks: &Path) -> Option<Obstacle> {
    let hooks_file = view.files.iter().find(|file| file.path == hooks)?;
    let mut user = None;
    for file in view.files.iter().filter(|file| file.path.extension().is_some_and(|ending| ending == "toml"))
    {
        let table = match DeTable::parse(&file.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let line = error.span().map(|span| line_at(&file.text, span.start));
                let what = format!("Codex cannot read this file: {}", error.message());
                return Some(found(file, what, line, "repair the file at that line"));
            }
        };
        if let Some(switch) = switched_off(file, &table) {
            return Some(switch);
        }
        if file.file.scope == Scope::User {
            user = Some((file, table));
        }
    }
    let home = view.home.as_ref()?;
    let path = user.as_ref().map_or_else(|| home.join("config.toml"), |(file, _)| file.path.clone());
    let table = user.map(|(_, table)| table).unwrap_or_default();
    let missing =
        |what: String, help: &str| Obstacle { what, path: path.clone(), line: None, help: help.to_owned() };
    if hooks_file.file.scope == Scope::Project && !trusts(&table, view.project) {
        let what =
            format!("Codex does not trust {}, so it reads no hooks of the project", view.project.display());
        return Some(missing(what, "start `codex` here once and trust the project, or install with --user"));
    }
    let unreviewed = unreviewed(&hooks_file.text, hooks, &table)?;
    let what = match unreviewed {
        (event, State::Disabled) => format!("the hook of {event} is disabled (`enabled = false`)"),
        (event, State::Changed) => format!("the hook of {event} is another one than Codex was told to trust"),
        (event, State::Untrusted) => format!("Codex was not told to trust the hook of {event}"),
    };
    Some(missing(what, "start `codex` here, and trust Flyball's hooks at /hooks"))
}

fn found(file: &SettingsFile, what: String, line: Option<usize>, help: &str) -> Obstacle {
    Obstacle { what, path: file.path.clone(), line, help: help.to_owned() }
}

fn switched_off(file: &SettingsFile, table: &DeTable<'_>) -> Option<Obstacle> {
    let features = table.get("features").and_then(|features| features.get_ref().as_table());
    let off = ["hooks", "codex_hooks"].into_iter().find_map(|name| {
        let value = features?.get(name)?;
        (value.get_ref().as_bool() == Some(false)).then(|| (name, line_at(&file.text, value.span().start)))
    });
    if let Some((name, line)) = off {
        let what = format!("`features.{name}` is false, so no hook runs");
        return Some(found(file, what, Some(line), "remove that line"));
    }
    let only = table.get("allow_managed_hooks_only").filter(|only| only.get_ref().as_bool() == Some(true))?;
    let line = line_at(&file.text, only.span().start);
    let what = "`allow_managed_hooks_only` is true, so only hooks of the organization run".to_owned();
    let help = "ask your administrator to add the hook to requirements.toml";
    Some(found(file, what, Some(line), help))
}

/// Whether the user's configuration trusts a project.
fn trusts(table: &DeTable<'_>, project: &Path) -> bool {
    let projects = table.get("projects").and_then(|projects| projects.get_ref().as_table());
    spellings(project).iter().any(|path| {
        let level = projects.and_then(|projects| {
            let project = projects.get(path.to_string_lossy().as_ref())?;
            project.get_ref().get("trust_level")
        });
        level.and_then(|level| level.get_ref().as_str()) == Some("trusted")
    })
}

/// A path as it was given, and as it is without links.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let real = path.canonicalize().ok();
    std::iter::once(path.to_path_buf()).chain(real).collect()
}

enum State {
    Untrusted,
    Changed,
    Disabled,
}

/// The first of Flyball's hooks that Codex skips. The end of a session is left out: how its timeout goes into the hash
/// has changed between versions, and no call depends on it.
fn unreviewed(text: &str, hooks: &Path, table: &DeTable<'_>) -> Option<(&'static str, State)> {
    let value = readable(Host::Codex, text).ok()?;
    let states = table.get("hooks").and_then(|hooks| hooks.get_ref().get("state")?.get_ref().as_table());
    let state = |key: &str| -> Option<&DeValue<'_>> { Some(states?.get(key)?.get_ref()) };
    for (event, _) in Host::Codex.events().iter().filter(|(event, _)| *event != "SessionEnd") {
        let groups = value.pointer(&format!("/hooks/{event}")).and_then(Value::as_array);
        for (g, group) in groups.into_iter().flatten().enumerate() {
            let handlers = group.get("hooks").and_then(Value::as_array);
            for (h, handler) in handlers.into_iter().flatten().enumerate() {
                if !calls_us(Host::Codex, handler) {
                    continue;
                }
                let label = snake(event);
                let known = spellings(hooks)
                    .iter()
                    .find_map(|path| state(&format!("{}:{label}:{g}:{h}", path.display())));
                let Some(known) = known else { return Some((event, State::Untrusted)) };
                if known.get("enabled").and_then(|on| on.get_ref().as_bool()) == Some(false) {
                    return Some((event, State::Disabled));
                }
                match known.get("trusted_hash").and_then(|hash| hash.get_ref().as_str()) {
                    None => return Some((event, State::Untrusted)),
                    Some(hash) if hash != hook_hash(&label, group, handler) => {
                        return Some((event, State::Changed));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    None
}

/// The hash under which Codex remembers that a hook was reviewed.
fn hook_hash(label: &str, group: &Value, handler: &Value) -> String {
    let timeout = handler.get("timeout").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT_S).max(1);
    let mut identity = json!({
        "type": "command",
        "command": handler.get("command"),
        "timeout": timeout,
        "async": handler.get("async").and_then(Value::as_bool).unwrap_or(false),
    });
    let limit =
        handler.get("additionalContextLimit").filter(|limit| limit.as_u64() != Some(DEFAULT_CONTEXT_LIMIT));
    for (key, value) in [("statusMessage", handler.get("statusMessage")), ("additionalContextLimit", limit)] {
        if let (Some(value), Some(fields)) = (value, identity.as_object_mut()) {
            fields.insert(key.to_owned(), value.clone());
        }
    }
    let mut whole = json!({"event_name": label, "hooks": [identity]});
    // Only events of tools have a matcher.
    let matcher = group.get("matcher").filter(|matcher| matcher.is_string() && label.ends_with("_tool_use"));
    if let (Some(matcher), Some(fields)) = (matcher, whole.as_object_mut()) {
        fields.insert("matcher".to_owned(), matcher.clone());
    }
    let digest = Sha256::digest(sorted(&whole).as_bytes());
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// JSON without spaces, keys in order.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            let parts = keys.into_iter().filter_map(|key| {
                Some(format!("{}:{}", Value::from(key.as_str()), sorted(fields.get(key)?)))
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// `PreToolUse` as `pre_tool_use`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_hook_is_the_one_that_codex_stores() {
        // As Codex 0.169.0 wrote it after a review.
        let handler =
            json!({"type": "command", "command": "flyball hook codex --event PreToolUse", "timeout": 10});
        let hash = hook_hash("pre_tool_use", &json!({}), &handler);
        assert_eq!(hash, "sha256:ae4937bfc07b557658aa8e79632aab8b6ebbd0553f51c715e3cf6dd71955a14e");
    }
}
