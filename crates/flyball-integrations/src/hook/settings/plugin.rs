//! Files that belong to Flyball and are loaded by a host: the opencode plugin and the goose manifest.

use super::command::HookCommand;
use serde_json::Value;

/// The opencode plugin, which runs the program without a shell.
pub(super) fn opencode_plugin(command: &HookCommand, strict: bool) -> String {
    let path = command.program.trim_matches(['"', '\'']);
    let words = [path, "hook", "opencode"].into_iter().chain(command.flags.iter().map(String::as_str));
    let words = words.map(Value::from).collect::<Value>().to_string();
    include_str!("opencode.js")
        .replace("[\"flyball\", \"hook\", \"opencode\"]", &words)
        .replace("const STRICT = false", if strict { "const STRICT = true" } else { "const STRICT = false" })
}

/// The manifest of the goose plugin.
pub(super) fn goose_manifest() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{{\n  \"name\": \"flyball\",\n  \"version\": \"{version}\",\n  \"description\": \"The governor for AI agents\"\n}}\n"
    )
}
