//! `flyball trust`: allows a project's policy file, with exactly this content, to loosen the policy.

use crate::args::TrustArgs;
use crate::caller_check;
use crate::error::{CliError, Exit};
use crate::formatting::{plural, single_line, typed};
use crate::policy_loader;
use crate::trust_list::{self, Caller, TrustList};
use flyball::Preset;
use flyball::policy::{IgnoredValue, PolicyFormat, parse};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Runs the command.
pub(crate) fn run(args: &TrustArgs) -> Result<Exit, CliError> {
    if args.list {
        return list_trusted(args.json);
    }
    let path = policy_path(args)?;
    let shown = path.display().to_string();
    if args.revoke {
        caller_check::require_no_agent()?;
        let found = trust_list::revoke_file(&path)?;
        let what = if found { "is no longer trusted" } else { "was not trusted; nothing was changed" };
        return print_result(
            args.json,
            &json!({"file": shown, "revoked": found}),
            &[format!("{} {what}.", single_line(&shown, 300))],
        );
    }
    let text = policy_loader::read_text_file(&path)?;
    // Reject an invalid file before anything is trusted.
    let layer = parse(&text, PolicyFormat::guess(&shown, &text), &shown)?;
    let loosened = policy_loader::loosened_by(&layer, Preset::Agent)?;
    let digest = trust_list::digest(text.as_bytes());
    let mut lines = loosened_lines(&shown, &loosened);
    if !args.dry_run {
        caller_check::require_no_agent()?;
        trust_list::trust_file(&path, text.as_bytes())?;
        lines.push(format!("Trusted: {}, with exactly this content.", single_line(&shown, 300)));
    }
    lines.push(format!("Digest, for continuous integration: {}={digest}", trust_list::TRUST_VARIABLE));
    let keys: Vec<&str> = loosened.iter().map(|ignored| ignored.path.as_str()).collect();
    print_result(
        args.json,
        &json!({"file": shown, "digest": digest, "trusted": !args.dry_run, "loosens": keys}),
        &lines,
    )
}

/// The canonical path of the policy file.
fn policy_path(args: &TrustArgs) -> Result<PathBuf, CliError> {
    let found = match &args.file {
        Some(file) => Some(file.clone()),
        None => policy_loader::project_policy(&std::env::current_dir()?),
    };
    let Some(path) = found else {
        let what = "no policy file in this folder or above";
        return Err(CliError::new("cannot_read", "", what, "name the file: flyball trust FILE"));
    };
    // A deleted file can still be revoked by the path it was trusted under.
    path.canonicalize().or_else(|error| if args.revoke { Ok(path.clone()) } else { Err(error) }).map_err(
        |error| CliError::new("cannot_read", path.display().to_string(), error.to_string(), "check the path"),
    )
}

fn loosened_lines(file: &str, loosened: &[IgnoredValue]) -> Vec<String> {
    if loosened.is_empty() {
        return vec![format!("{} only tightens the policy.", single_line(file, 300))];
    }
    let count = plural(loosened.len() as u64, "value");
    let mut lines =
        vec![format!("{} has {count} that loosen the policy or have no direction:", single_line(file, 300))];
    lines.extend(loosened.iter().map(|one| {
        let place = one.written.position.map_or_else(String::new, |place| format!("line {}: ", place.line));
        let value = match &one.value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("  {place}{}: {}", single_line(&one.written.key, 100), single_line(&value, 300))
    }));
    lines
}

fn list_trusted(as_json: bool) -> Result<Exit, CliError> {
    let list = TrustList::read(Caller::Person);
    let mut lines = Vec::new();
    let mut all = Vec::new();
    for (path, digests) in &list.files {
        let content = std::fs::read(path).ok();
        let now = content.map(|content| trust_list::digest(&content));
        for digest in digests {
            let state = match &now {
                None => "gone",
                Some(now) if now == digest => "trusted",
                Some(_) => "changed since, not trusted",
            };
            all.push(json!({"file": path, "digest": digest, "state": state}));
            lines.push(format!("{}  {digest}  {state}", single_line(path, 300)));
        }
    }
    if lines.is_empty() {
        lines.push(format!("No policy file is trusted. Trust one: flyball trust {}", typed("FILE")));
    }
    print_result(as_json, &json!({"files": all}), &lines)
}

fn print_result(as_json: bool, value: &serde_json::Value, lines: &[String]) -> Result<Exit, CliError> {
    let mut out = crate::terminal::stdout();
    if as_json {
        writeln!(out, "{value}")?;
    } else {
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(Exit::Success)
}
