//! Files of our own that a host loads: the plugin for opencode, and the manifest that goose wants beside its hooks.

use super::command::HookCommand;
use serde_json::Value;

/// The plugin for opencode. It starts the program without a shell.
pub(super) fn opencode(command: &HookCommand, strict: bool) -> String {
    let path = command.program.trim_matches(['"', '\'']);
    let words = [path, "hook", "opencode"].into_iter().chain(command.flags.iter().map(String::as_str));
    let words = words.map(Value::from).collect::<Value>().to_string();
    include_str!("opencode.js")
        .replace("[\"flyball\", \"hook\", \"opencode\"]", &words)
        .replace("const STRICT = false", if strict { "const STRICT = true" } else { "const STRICT = false" })
}

/// The manifest of the plugin for goose.
pub(super) fn manifest() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{{\n  \"name\": \"flyball\",\n  \"version\": \"{version}\",\n  \"description\": \"The governor for AI agents\"\n}}\n"
    )
}
