//! `flyball config`: the effective policy, and where each value came from.

use crate::args::Config;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::paint::{Style, paint_out};
use crate::words::line;
use flyball::Preset;
use flyball::policy::{Ignored, Resolved, Warning, Written};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &Config) -> Result<Exit, Failure> {
    let resolved = load::resolved(&args.policy, Preset::Agent)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", as_json(&resolved, args.origin))?;
        return Ok(Exit::Done);
    }
    let mut leaves = Vec::new();
    flatten("", &resolved.effective, &mut leaves);
    let width = leaves.iter().map(|(path, value)| path.len() + value.len() + 3).max().unwrap_or(0).min(64);
    for (path, value) in &leaves {
        let line = format!("{path} = {value}");
        if args.origin {
            let from = origin_of(&resolved, path).map_or_else(|| "default".to_owned(), place);
            writeln!(out, "{line:<width$}  {}", paint_out(Style::Dim, &from))?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    if args.origin {
        for ignored in &resolved.ignored {
            let place = place(&ignored.written);
            writeln!(
                out,
                "{} {}",
                paint_out(Style::Warn, "ignored"),
                line(&format!("{place}: {}", ignored.what()), 400)
            )?;
            writeln!(out, "  help: {}", line(&ignored.help(), 300))?;
        }
    }
    let shown = |warning: &&Warning| !args.origin || warning.code != Ignored::CODE;
    for warning in resolved.warnings.iter().filter(shown) {
        writeln!(out, "{} {}: {}", paint_out(Style::Warn, "warning"), warning.path, warning.what)?;
    }
    Ok(Exit::Done)
}

fn as_json(resolved: &Resolved, origin: bool) -> Value {
    if !origin {
        return resolved.effective.clone();
    }
    let mut leaves = Vec::new();
    flatten("", &resolved.effective, &mut leaves);
    let entries = leaves.into_iter().map(|(path, _)| {
        let value = pointer(&resolved.effective, &path).cloned().unwrap_or(Value::Null);
        let written = origin_of(resolved, &path);
        let from = written.map_or_else(|| "default".to_owned(), |written| written.origin.to_string());
        let line = written.and_then(|written| written.place).map(|place| place.line);
        (path, json!({"value": value, "origin": from, "line": line}))
    });
    let mut all = entries.collect::<Map<_, _>>();
    if !resolved.ignored.is_empty() {
        let ignored = resolved.ignored.iter().map(|ignored| {
            let line = ignored.written.place.map(|place| place.line);
            json!({"path": ignored.path, "value": ignored.value, "origin": ignored.written.origin.to_string(), "line": line,
                   "why": ignored.why, "help": ignored.help()})
        });
        all.insert("ignored".to_owned(), ignored.collect());
    }
    Value::Object(all)
}

/// The origin of a value: its own, or that of the object that it stands in.
fn origin_of<'a>(resolved: &'a Resolved, path: &str) -> Option<&'a Written> {
    let mut path = path;
    loop {
        if let Some(found) = resolved.origins.get(path) {
            return Some(found);
        }
        path = path.rsplit_once('.')?.0;
    }
}

fn place(written: &Written) -> String {
    match written.place {
        Some(place) => format!("{}:{}", written.origin, place.line),
        None => written.origin.to_string(),
    }
}

fn pointer<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(tree, |value, key| value.get(key))
}

fn flatten(path: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                let inner_path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&inner_path, inner, leaves);
            }
        }
        Value::String(text) => leaves.push((path.to_owned(), text.clone())),
        other => leaves.push((path.to_owned(), other.to_string())),
    }
}
