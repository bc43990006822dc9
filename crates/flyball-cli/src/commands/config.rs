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
    let values = resolved.values();
    let lines: Vec<String> =
        values.iter().map(|value| format!("{} = {}", value.path, shown(value.value))).collect();
    let width = lines.iter().map(String::len).max().unwrap_or(0).min(64);
    for (value, line) in values.iter().zip(&lines) {
        if args.origin {
            let from = value.written.map_or_else(|| "default".to_owned(), place);
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
    let told = |warning: &&Warning| !args.origin || warning.code != Ignored::CODE;
    for warning in resolved.warnings.iter().filter(told) {
        writeln!(out, "{} {}: {}", paint_out(Style::Warn, "warning"), warning.path, warning.what)?;
    }
    Ok(Exit::Done)
}

fn as_json(resolved: &Resolved, origin: bool) -> Value {
    if !origin {
        return resolved.effective.clone();
    }
    let entries = resolved.values().into_iter().map(|value| (value.path.clone(), value.as_json()));
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

fn place(written: &Written) -> String {
    match written.place {
        Some(place) => format!("{}:{}", written.origin, place.line),
        None => written.origin.to_string(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
