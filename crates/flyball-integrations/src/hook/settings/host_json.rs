//! Parses settings files as strictly as each host does. If a host cannot read a file, it ignores the file or does not
//! start; either way none of the file's hooks run.

use super::edit::{BYTE_ORDER_MARK, SettingsError};
use crate::hook::host::Host;
use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

/// The JSON extensions that a host accepts. Tested with Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and Copilot CLI
/// 1.0; for other hosts only plain JSON is assumed.
struct HostJsonSyntax {
    comments: bool,
    byte_order_mark: bool,
}

const fn host_json_syntax(host: Host) -> HostJsonSyntax {
    HostJsonSyntax {
        comments: matches!(host, Host::Gemini),
        byte_order_mark: matches!(host, Host::ClaudeCode),
    }
}

/// Parser options for a level of strictness.
pub(super) const fn parse_options(comments: bool, trailing_commas: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: comments,
        allow_trailing_commas: trailing_commas,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Parses the settings as the host does.
///
/// # Errors
/// With the position, if the host rejects the file.
pub fn parse_as_host(host: Host, text: &str) -> Result<Value, SettingsError> {
    let syntax = host_json_syntax(host);
    let broken = |what: String, line: Option<usize>, column: Option<usize>| SettingsError {
        message: format!("{} cannot read this file: {what}", host.display_name()),
        line,
        column,
    };
    let text = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if syntax.byte_order_mark => rest,
        Some(_) => return Err(broken("it starts with a byte-order mark".to_owned(), Some(1), Some(1))),
        None => text,
    };
    let node = parse_to_ast(text, &CollectOptions::default(), &parse_options(syntax.comments, false))
        .map_err(|error| {
            let what = error.kind().to_string();
            broken(lowercase_first(&what), Some(error.line_display()), Some(error.column_display()))
        })?;
    let value = if syntax.comments {
        node.value.map(Value::from).unwrap_or_default()
    } else {
        serde_json::from_str(text)
            .map_err(|error| broken(error.to_string(), Some(error.line()), Some(error.column())))?
    };
    let Some(top) = value.as_object() else {
        return Err(broken("it is not an object".to_owned(), Some(1), None));
    };
    let rejected = top.iter().find_map(|(key, value)| match (host, key.as_str()) {
        // Claude Code skips the whole file if this key has another type.
        (Host::ClaudeCode, "disableAllHooks") if !value.is_boolean() => {
            Some((key, "`disableAllHooks` is not a boolean".to_owned()))
        }
        (Host::Codex, "hooks" | "description") => None,
        (Host::Codex, _) => {
            Some((key, format!("unknown key `{key}`; only `hooks` and `description` are allowed")))
        }
        _ => None,
    });
    match rejected {
        Some((key, what)) => Err(broken(what, line_of_key(text, &[key]), None)),
        None => Ok(value),
    }
}

/// The line, starting at 1, of a key in JSON with or without comments.
#[must_use]
pub fn line_of_key(text: &str, path: &[&str]) -> Option<usize> {
    let tree = parse_to_ast(
        text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
        &CollectOptions::default(),
        &parse_options(true, true),
    );
    let mut node = tree.ok()?.value?;
    let mut start = None;
    for key in path {
        let Node::Object(mut object) = node else { return None };
        let property = object.take(key)?;
        start = Some(property.start());
        node = property.value;
    }
    let bare = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    Some(line_of_offset(bare, start?))
}

/// The line, starting at 1, of a byte offset.
pub(super) fn line_of_offset(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
