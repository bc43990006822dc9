//! `flyball config`: the effective policy and the origin of each value.

use crate::args::ConfigArgs;
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use crate::formatting::single_line;
use crate::policy_loader;
use flyball::Preset;
use flyball::policy::{IgnoredValue, PolicyWarning, ResolvedPolicy, ValueSource};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> Result<Exit, CliError> {
    let resolved = policy_loader::resolve_policy(&args.policy, Preset::Agent)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", as_json(&resolved, args.origin))?;
        return Ok(Exit::Success);
    }
    let values = resolved.values();
    let lines: Vec<String> =
        values.iter().map(|value| format!("{} = {}", value.path, value_text(value.value))).collect();
    let width = lines.iter().map(String::len).max().unwrap_or(0).min(64);
    for (value, line) in values.iter().zip(&lines) {
        if args.origin {
            let from = value.written.map_or_else(|| "default".to_owned(), origin_text);
            writeln!(out, "{line:<width$}  {}", style_stdout(TextStyle::Dim, &from))?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    if args.origin {
        for ignored in &resolved.ignored {
            let place = origin_text(&ignored.written);
            writeln!(
                out,
                "{} {}",
                style_stdout(TextStyle::Warning, "ignored"),
                single_line(&format!("{place}: {}", ignored.message()), 400)
            )?;
            writeln!(out, "  help: {}", single_line(&ignored.help(), 300))?;
        }
    }
    let is_shown = |warning: &&PolicyWarning| !args.origin || warning.code != IgnoredValue::CODE;
    for warning in resolved.warnings.iter().filter(is_shown) {
        writeln!(
            out,
            "{} {}: {}",
            style_stdout(TextStyle::Warning, "warning"),
            warning.path,
            warning.message
        )?;
    }
    Ok(Exit::Success)
}

fn as_json(resolved: &ResolvedPolicy, origin: bool) -> Value {
    if !origin {
        return resolved.effective.clone();
    }
    let entries = resolved.values().into_iter().map(|value| (value.path.clone(), value.as_json()));
    let mut all = entries.collect::<Map<_, _>>();
    if !resolved.ignored.is_empty() {
        let ignored = resolved.ignored.iter().map(|ignored| {
            let line = ignored.written.position.map(|place| place.line);
            json!({"path": ignored.path, "value": ignored.value, "origin": ignored.written.origin.to_string(), "line": line,
                   "why": ignored.reason, "help": ignored.help()})
        });
        all.insert("ignored".to_owned(), ignored.collect());
    }
    Value::Object(all)
}

fn origin_text(written: &ValueSource) -> String {
    match written.position {
        Some(place) => format!("{}:{}", written.origin, place.line),
        None => written.origin.to_string(),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
