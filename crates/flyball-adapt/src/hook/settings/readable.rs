//! Whether a host can read one of its settings files. A file that it cannot read is ignored or stops it from starting:
//! either way no hook of that file runs.

use super::edit::{Broken, MARK};
use crate::hook::host::Host;
use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

/// The syntax that a host accepts beyond JSON. Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and Copilot CLI 1.0 were
/// tried; for the others only plain JSON is safe.
struct Syntax {
    comments: bool,
    byte_order_mark: bool,
}

const fn syntax(host: Host) -> Syntax {
    Syntax { comments: matches!(host, Host::Gemini), byte_order_mark: matches!(host, Host::ClaudeCode) }
}

/// How strictly JSON is parsed.
pub(super) const fn options(comments: bool, trailing_commas: bool) -> ParseOptions {
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

/// The settings as the host reads them.
///
/// # Errors
/// With the place, if the host rejects the file.
pub fn readable(host: Host, text: &str) -> Result<Value, Broken> {
    let syntax = syntax(host);
    let broken = |what: String, line: Option<usize>, column: Option<usize>| Broken {
        what: format!("{} cannot read this file: {what}", host.shown()),
        line,
        column,
    };
    let text = match text.strip_prefix(MARK) {
        Some(rest) if syntax.byte_order_mark => rest,
        Some(_) => return Err(broken("it begins with a byte-order mark".to_owned(), Some(1), Some(1))),
        None => text,
    };
    let node = parse_to_ast(text, &CollectOptions::default(), &options(syntax.comments, false)).map_err(
        |error| {
            let what = error.kind().to_string();
            broken(lower(&what), Some(error.line_display()), Some(error.column_display()))
        },
    )?;
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
        // A wrong type there makes Claude Code skip the whole file.
        (Host::ClaudeCode, "disableAllHooks") if !value.is_boolean() => {
            Some((key, "`disableAllHooks` is neither true nor false".to_owned()))
        }
        (Host::Codex, "hooks" | "description") => None,
        (Host::Codex, _) => {
            Some((key, format!("unknown key `{key}`; only `hooks` and `description` are allowed")))
        }
        _ => None,
    });
    match rejected {
        Some((key, what)) => Err(broken(what, line_of(text, &[key]), None)),
        None => Ok(value),
    }
}

/// The line, from 1, of a key in JSON with or without comments.
#[must_use]
pub fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let tree = parse_to_ast(
        text.strip_prefix(MARK).unwrap_or(text),
        &CollectOptions::default(),
        &options(true, true),
    );
    let mut node = tree.ok()?.value?;
    let mut start = None;
    for key in path {
        let Node::Object(mut object) = node else { return None };
        let property = object.take(key)?;
        start = Some(property.start());
        node = property.value;
    }
    let bare = text.strip_prefix(MARK).unwrap_or(text);
    Some(line_at(bare, start?))
}

/// The line, from 1, of a byte.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
