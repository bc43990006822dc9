//! `flyball trust`: lets a project's policy file do more than tighten, for exactly this content.

use crate::args::Trust;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::person;
use crate::trust::{self, Caller, TrustList};
use crate::words::{line, plural, typed};
use flyball::Preset;
use flyball::policy::{Format, Ignored, parse};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Runs the command.
pub(crate) fn run(args: &Trust) -> Result<Exit, Failure> {
    if args.list {
        return list(args.json);
    }
    let path = file(args)?;
    let shown = path.display().to_string();
    if args.revoke {
        person::speaks_at_all()?;
        let found = trust::revoke_file(&path)?;
        let what = if found { "is no longer trusted" } else { "was not trusted; nothing was changed" };
        return tell(
            args.json,
            &json!({"file": shown, "revoked": found}),
            &[format!("{} {what}.", line(&shown, 300))],
        );
    }
    let text = load::read(&path)?;
    // A file that cannot be used is refused before anything is trusted.
    let layer = parse(&text, Format::guess(&shown, &text), &shown)?;
    let loosened = load::loosened_by(&layer, Preset::Agent)?;
    let digest = trust::digest(text.as_bytes());
    let mut lines = describe(&shown, &loosened);
    if !args.dry_run {
        person::speaks_at_all()?;
        trust::trust_file(&path, text.as_bytes())?;
        lines.push(format!("Trusted: {}, with exactly this content.", line(&shown, 300)));
    }
    lines.push(format!("Digest, for continuous integration: {}={digest}", trust::VARIABLE));
    let keys: Vec<&str> = loosened.iter().map(|ignored| ignored.path.as_str()).collect();
    tell(
        args.json,
        &json!({"file": shown, "digest": digest, "trusted": !args.dry_run, "loosens": keys}),
        &lines,
    )
}

/// The file that is meant, by its canonical path.
fn file(args: &Trust) -> Result<PathBuf, Failure> {
    let found = match &args.file {
        Some(file) => Some(file.clone()),
        None => load::project_policy(&std::env::current_dir()?),
    };
    let Some(path) = found else {
        let what = "there is no policy file in this folder or above";
        return Err(Failure::new("cannot_read", "", what, "name the file: flyball trust FILE"));
    };
    // A file that is gone can still be revoked, by the path that was trusted.
    path.canonicalize().or_else(|error| if args.revoke { Ok(path.clone()) } else { Err(error) }).map_err(
        |error| Failure::new("cannot_read", path.display().to_string(), error.to_string(), "check the path"),
    )
}

fn describe(file: &str, loosened: &[Ignored]) -> Vec<String> {
    if loosened.is_empty() {
        return vec![format!("{} only tightens the policy.", line(file, 300))];
    }
    let count = plural(loosened.len() as u64, "value");
    let mut lines =
        vec![format!("{} has {count} that loosen the policy or have no direction:", line(file, 300))];
    lines.extend(loosened.iter().map(|one| {
        let place = one.written.place.map_or_else(String::new, |place| format!("line {}: ", place.line));
        let value = match &one.value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("  {place}{}: {}", line(&one.written.key, 100), line(&value, 300))
    }));
    lines
}

fn list(as_json: bool) -> Result<Exit, Failure> {
    let list = TrustList::read(Caller::Person);
    let mut lines = Vec::new();
    let mut all = Vec::new();
    for (path, digests) in &list.files {
        let content = std::fs::read(path).ok();
        let now = content.map(|content| trust::digest(&content));
        for digest in digests {
            let state = match &now {
                None => "gone",
                Some(now) if now == digest => "trusted",
                Some(_) => "changed since, not trusted",
            };
            all.push(json!({"file": path, "digest": digest, "state": state}));
            lines.push(format!("{}  {digest}  {state}", line(path, 300)));
        }
    }
    if lines.is_empty() {
        lines.push(format!("No policy file is trusted. Trust one: flyball trust {}", typed("FILE")));
    }
    tell(as_json, &json!({"files": all}), &lines)
}

fn tell(as_json: bool, value: &serde_json::Value, lines: &[String]) -> Result<Exit, Failure> {
    let mut out = crate::terminal::stdout();
    if as_json {
        writeln!(out, "{value}")?;
    } else {
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(Exit::Done)
}
