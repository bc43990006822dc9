//! The only place that looks for a policy: file, environment and command line become layers.

use crate::args::PolicyArgs;
use crate::fail::Failure;
use flyball::policy::{Format, Layer, Origin, Resolved, from_environment, from_set, parse, resolve};
use flyball::{PolicySource, Preset};
use std::path::{Path, PathBuf};

/// The names under which a project's policy is looked for.
const NAMES: [&str; 4] = ["flyball.yaml", "flyball.yml", "flyball.toml", "flyball.json"];

/// All layers, lowest first, and the preset that they start from.
pub(crate) fn layers(args: &PolicyArgs, default: Preset) -> Result<(Vec<Layer>, Preset), Failure> {
    layers_from(std::env::current_dir().ok().as_deref(), args, default)
}

/// The source of policies for sessions whose agent works in another folder than this one.
pub(crate) fn source_from(
    folder: &Path,
    args: &PolicyArgs,
    default: Preset,
) -> Result<PolicySource, Failure> {
    let (layers, preset) = layers_from(Some(folder), args, default)?;
    if layers.is_empty() {
        return Ok(PolicySource::preset(preset));
    }
    Ok(PolicySource::new(layers, preset)?)
}

fn layers_from(
    folder: Option<&Path>,
    args: &PolicyArgs,
    default: Preset,
) -> Result<(Vec<Layer>, Preset), Failure> {
    let mut layers = Vec::new();
    if let Some(path) = args.policy.clone().or_else(|| project_policy(folder?)) {
        let text = read(&path)?;
        let name = path.display().to_string();
        layers.push(parse(&text, Format::guess(&name, &text), &name)?);
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    layers.extend(from_environment(variables)?);
    let mut set = args.set.clone();
    if let Some(preset) = &args.preset {
        set.insert(0, format!("preset={preset}"));
    }
    if !set.is_empty() {
        layers.push(from_set(&set)?);
    }
    Ok((layers, default))
}

/// The layers of a run: the project's, then the workflow's own, then the environment and the command line.
pub(crate) fn layers_of_run(own: Option<&Layer>, args: &PolicyArgs) -> Result<(Vec<Layer>, Preset), Failure> {
    let (mut layers, preset) = layers(args, Preset::Workflow)?;
    if let Some(own) = own {
        let above = |origin: &Origin| matches!(origin, Origin::Environment { .. } | Origin::CommandLine);
        let at = layers.iter().position(|layer| above(&layer.origin)).unwrap_or(layers.len());
        layers.insert(at, own.clone());
    }
    Ok((layers, preset))
}

/// The source of policies for sessions.
pub(crate) fn source(args: &PolicyArgs, default: Preset) -> Result<PolicySource, Failure> {
    let (layers, preset) = layers(args, default)?;
    Ok(PolicySource::new(layers, preset)?)
}

/// The effective policy with everything that is known about it.
pub(crate) fn resolved(args: &PolicyArgs, default: Preset) -> Result<Resolved, Failure> {
    let (layers, preset) = layers(args, default)?;
    Ok(resolve(&layers, preset)?)
}

/// Reads a text file of moderate size.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::new("cannot_read", name.clone(), error.to_string(), "check the path"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new("not_utf8", name, format!("byte {at} is not UTF-8"), "write the file as UTF-8")
    })
}

/// A policy file in this folder or above, up to the root of the repository.
fn project_policy(from: &Path) -> Option<PathBuf> {
    for folder in from.ancestors() {
        if let Some(found) = NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            return Some(found);
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The policy file that is found from a folder.
pub(crate) fn policy_file(from: &Path) -> Option<PathBuf> {
    project_policy(from)
}
