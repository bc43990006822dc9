//! Files of our own that a host loads: the plugin for opencode, and the manifest that goose wants beside its hooks.

/// The plugin for opencode; `program` may be several words, as a shell would take them apart.
pub(super) fn opencode(program: &str, strict: bool) -> String {
    let path = program.trim_matches(['"', '\'']);
    let words = serde_json::json!([path, "hook", "opencode"]).to_string();
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
