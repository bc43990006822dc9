//! Reasons why Codex does not run hooks: its feature switch, untrusted projects, and hooks that the user has not
//! reviewed. Codex stores a hash of every reviewed hook and skips a hook whose hash differs.

use super::edit::is_own_handler;
use super::host_json::{line_of_offset, parse_as_host};
use super::obstacles::{HookObstacle, HostSettings, SettingsFile, SettingsScope};
use crate::hook::host::Host;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Codex's default hook timeout, in seconds.
const DEFAULT_TIMEOUT_S: u64 = 600;
/// The context limit that Codex treats as unset, in tokens.
const DEFAULT_CONTEXT_LIMIT: u64 = 2_500;

/// The reason why Codex does not run the hooks of a file, if any.
pub(super) fn obstacle(view: &HostSettings<'_>, hooks: &Path) -> Option<HookObstacle> {
    let hooks_file = view.files.iter().find(|file| file.path == hooks)?;
    let mut user = None;
    for file in view.files.iter().filter(|file| file.path.extension().is_some_and(|ending| ending == "toml"))
    {
        let table = match DeTable::parse(&file.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let line = error.span().map(|span| line_of_offset(&file.text, span.start));
                let what = format!("Codex cannot read this file: {}", error.message());
                return Some(obstacle_in(file, what, line, "repair the file at that line"));
            }
        };
        if let Some(switch) = disabled_hooks(file, &table) {
            return Some(switch);
        }
        if file.file.scope == SettingsScope::User {
            user = Some((file, table));
        }
    }
    let home = view.home.as_ref()?;
    let path = user.as_ref().map_or_else(|| home.join("config.toml"), |(file, _)| file.path.clone());
    let table = user.map(|(_, table)| table).unwrap_or_default();
    let missing = |what: String, help: &str| HookObstacle {
        message: what,
        path: path.clone(),
        line: None,
        help: help.to_owned(),
    };
    if hooks_file.file.scope == SettingsScope::Project && !trusts_project(&table, view.project) {
        let what =
            format!("Codex does not trust {}, so it loads no hooks from the project", view.project.display());
        return Some(missing(what, "start `codex` here once and trust the project, or install with --user"));
    }
    let unreviewed = first_untrusted_hook(&hooks_file.text, hooks, &table)?;
    let what = match unreviewed {
        (event, HookTrust::Disabled) => format!("the {event} hook is disabled (`enabled = false`)"),
        (event, HookTrust::Changed) => {
            format!("the {event} hook differs from the one that was trusted in Codex")
        }
        (event, HookTrust::Untrusted) => format!("the {event} hook is not trusted in Codex yet"),
    };
    Some(missing(what, "start `codex` here and trust Flyball's hooks under /hooks"))
}

fn obstacle_in(file: &SettingsFile, what: String, line: Option<usize>, help: &str) -> HookObstacle {
    HookObstacle { message: what, path: file.path.clone(), line, help: help.to_owned() }
}

fn disabled_hooks(file: &SettingsFile, table: &DeTable<'_>) -> Option<HookObstacle> {
    let features = table.get("features").and_then(|features| features.get_ref().as_table());
    let off = ["hooks", "codex_hooks"].into_iter().find_map(|name| {
        let value = features?.get(name)?;
        (value.get_ref().as_bool() == Some(false))
            .then(|| (name, line_of_offset(&file.text, value.span().start)))
    });
    if let Some((name, line)) = off {
        let what = format!("`features.{name}` is false, so no hook runs");
        return Some(obstacle_in(file, what, Some(line), "remove that line"));
    }
    let only = table.get("allow_managed_hooks_only").filter(|only| only.get_ref().as_bool() == Some(true))?;
    let line = line_of_offset(&file.text, only.span().start);
    let what = "`allow_managed_hooks_only` is true, so only the organization's hooks run".to_owned();
    let help = "ask your administrator to add the hook to requirements.toml";
    Some(obstacle_in(file, what, Some(line), help))
}

/// Whether the user's configuration trusts a project.
fn trusts_project(table: &DeTable<'_>, project: &Path) -> bool {
    let projects = table.get("projects").and_then(|projects| projects.get_ref().as_table());
    path_spellings(project).iter().any(|path| {
        let level = projects.and_then(|projects| {
            let project = projects.get(path.to_string_lossy().as_ref())?;
            project.get_ref().get("trust_level")
        });
        level.and_then(|level| level.get_ref().as_str()) == Some("trusted")
    })
}

/// A path as given, and with symbolic links resolved.
fn path_spellings(path: &Path) -> Vec<PathBuf> {
    let real = path.canonicalize().ok();
    std::iter::once(path.to_path_buf()).chain(real).collect()
}

enum HookTrust {
    Untrusted,
    Changed,
    Disabled,
}

/// The first Flyball hook that Codex skips. The session-end hook is not checked: the way its timeout enters the hash
/// differs between Codex versions, and no call depends on it.
fn first_untrusted_hook(text: &str, hooks: &Path, table: &DeTable<'_>) -> Option<(&'static str, HookTrust)> {
    let value = parse_as_host(Host::Codex, text).ok()?;
    let states = table.get("hooks").and_then(|hooks| hooks.get_ref().get("state")?.get_ref().as_table());
    let state = |key: &str| -> Option<&DeValue<'_>> { Some(states?.get(key)?.get_ref()) };
    for (event, _) in Host::Codex.events().iter().filter(|(event, _)| *event != "SessionEnd") {
        let groups = value.pointer(&format!("/hooks/{event}")).and_then(Value::as_array);
        for (g, group) in groups.into_iter().flatten().enumerate() {
            let handlers = group.get("hooks").and_then(Value::as_array);
            for (h, handler) in handlers.into_iter().flatten().enumerate() {
                if !is_own_handler(Host::Codex, handler) {
                    continue;
                }
                let label = snake_case(event);
                let known = path_spellings(hooks)
                    .iter()
                    .find_map(|path| state(&format!("{}:{label}:{g}:{h}", path.display())));
                let Some(known) = known else { return Some((event, HookTrust::Untrusted)) };
                if known.get("enabled").and_then(|on| on.get_ref().as_bool()) == Some(false) {
                    return Some((event, HookTrust::Disabled));
                }
                match known.get("trusted_hash").and_then(|hash| hash.get_ref().as_str()) {
                    None => return Some((event, HookTrust::Untrusted)),
                    Some(hash) if hash != hook_hash(&label, group, handler) => {
                        return Some((event, HookTrust::Changed));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    None
}

/// The hash that Codex stores for a reviewed hook.
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
    // Only tool events have a matcher.
    let matcher = group.get("matcher").filter(|matcher| matcher.is_string() && label.ends_with("_tool_use"));
    if let (Some(matcher), Some(fields)) = (matcher, whole.as_object_mut()) {
        fields.insert("matcher".to_owned(), matcher.clone());
    }
    let digest = Sha256::digest(sorted_json(&whole).as_bytes());
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Compact JSON with sorted keys.
fn sorted_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            let parts = keys.into_iter().filter_map(|key| {
                Some(format!("{}:{}", Value::from(key.as_str()), sorted_json(fields.get(key)?)))
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted_json).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// Converts `PreToolUse` to `pre_tool_use`.
fn snake_case(name: &str) -> String {
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
    fn hook_hash_matches_codex() {
        // Recorded from Codex 0.169.0 after a review.
        let handler =
            json!({"type": "command", "command": "flyball hook codex --event PreToolUse", "timeout": 10});
        let hash = hook_hash("pre_tool_use", &json!({}), &handler);
        assert_eq!(hash, "sha256:ae4937bfc07b557658aa8e79632aab8b6ebbd0553f51c715e3cf6dd71955a14e");
    }
}
