//! The only place that looks for a policy: files, environment and command line become layers.
//!
//! Lowest first: the organization's file, the user's, the project's or the one that the caller names, the environment,
//! the command line. A project's file is found, not named, so it may only tighten until the user trusts it.

use crate::args::PolicyArgs;
use crate::fail::Failure;
use crate::paint::{Style, paint_err};
use crate::trust::{self, Caller};
use flyball::policy::{Format, Ignored, Layer, Origin, Resolved, from_environment, from_set, parse, resolve};
use flyball::{PolicySource, Preset};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The names under which a policy of the project or the user is looked for.
const NAMES: [&str; 4] = ["flyball.yaml", "flyball.yml", "flyball.toml", "flyball.json"];
/// The organization's policy.
const ORGANIZATION: &str = "/etc/flyball/policy.yaml";
/// Another place of the organization's policy, for a person's command.
const ORGANIZATION_VARIABLE: &str = "FLYBALL_ORG_POLICY";
/// How many ignored values are listed on stderr.
const LISTED: usize = 5;

/// All layers, lowest first, and the preset that they start from.
pub(crate) fn layers(args: &PolicyArgs, default: Preset) -> Result<(Vec<Layer>, Preset), Failure> {
    let layers = layers_from(std::env::current_dir().ok().as_deref(), args, Caller::Person)?;
    Ok((layers, default))
}

/// The source of policies for sessions whose agent works in another folder than this one.
pub(crate) fn source_from(
    folder: &Path,
    args: &PolicyArgs,
    default: Preset,
) -> Result<PolicySource, Failure> {
    source_for(folder, args, default, Caller::Person)
}

/// The source of policies for a hook of the project with this root.
pub(crate) fn source_of_hook(
    root: &Path,
    args: &PolicyArgs,
    default: Preset,
) -> Result<PolicySource, Failure> {
    source_for(root, args, default, Caller::HookEntry(root))
}

fn source_for(
    folder: &Path,
    args: &PolicyArgs,
    default: Preset,
    caller: Caller<'_>,
) -> Result<PolicySource, Failure> {
    let layers = layers_from(Some(folder), args, caller)?;
    if layers.is_empty() {
        return Ok(PolicySource::preset(default));
    }
    Ok(PolicySource::new(layers, default)?)
}

fn layers_from(folder: Option<&Path>, args: &PolicyArgs, caller: Caller<'_>) -> Result<Vec<Layer>, Failure> {
    let mut layers = own_layers(caller)?;
    let flags = args.policy.is_some() || args.preset.is_some() || !args.set.is_empty();
    let flags_trusted = match caller {
        Caller::Person => true,
        Caller::HookEntry(root) => flags && trust::own_command_is_trusted(root),
    };
    match (&args.policy, folder) {
        (Some(path), _) => {
            let (layer, text) = read_layer(path)?;
            // A trusted command line names the file, but not what is in it.
            let trusted =
                caller.is_person() || (flags_trusted && trust::is_trusted(path, text.as_bytes(), caller));
            layers.push(if trusted { layer } else { layer.tighten_only() });
        }
        (None, Some(folder)) => layers.extend(project_layer(folder, caller)?),
        (None, None) => {}
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = from_environment(variables)?;
    layers.extend(environment.map(|layer| if caller.is_person() { layer } else { layer.tighten_only() }));
    let mut set = args.set.clone();
    if let Some(preset) = &args.preset {
        set.insert(0, format!("preset={preset}"));
    }
    if !set.is_empty() {
        let layer = from_set(&set)?;
        layers.push(if flags_trusted { layer } else { layer.tighten_only() });
    }
    Ok(layers)
}

/// The layers of the organization and the user. A file that everybody can write to may only tighten.
fn own_layers(caller: Caller<'_>) -> Result<Vec<Layer>, Failure> {
    let named = std::env::var_os(ORGANIZATION_VARIABLE).filter(|name| caller.is_person() && !name.is_empty());
    let organization = named.map_or_else(|| PathBuf::from(ORGANIZATION), PathBuf::from);
    let user = config_folder().map(|folder| folder.join("flyball")).filter(|folder| caller.owns(folder));
    let user = user.and_then(|folder| NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file()));
    let mut layers = Vec::new();
    for path in [Some(organization).filter(|path| path.is_file()), user].into_iter().flatten() {
        let (layer, _) = read_layer(&path)?;
        layers.push(if is_private(&path) { layer } else { layer.tighten_only() });
    }
    Ok(layers)
}

/// Whether a file belongs to root or this user, and not everybody can write to it.
fn is_private(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o002 == 0 && [0, me].contains(&meta.uid()))
}

/// Where programs look for this user's configuration.
fn config_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))
}

fn read_layer(path: &Path) -> Result<(Layer, String), Failure> {
    let text = read(path)?;
    let name = path.display().to_string();
    Ok((parse(&text, Format::guess(&name, &text), &name)?, text))
}

fn project_layer(folder: &Path, caller: Caller<'_>) -> Result<Option<Layer>, Failure> {
    let Some(path) = project_policy(folder) else { return Ok(None) };
    let (layer, text) = read_layer(&path)?;
    let trusted = trust::is_trusted(&path, text.as_bytes(), caller);
    Ok(Some(if trusted { layer } else { layer.tighten_only() }))
}

/// The layers that a project's file stands on, and what it would loosen if it is not trusted. For whoever is about to
/// trust it, or checks it.
pub(crate) fn loosened_by(layer: &Layer, default: Preset) -> Result<Vec<Ignored>, Failure> {
    let mut layers = own_layers(Caller::Person)?;
    layers.push(layer.clone().tighten_only());
    Ok(resolve(&layers, default)?.ignored)
}

/// Whether a file would be found as a project's policy.
pub(crate) fn is_project_policy(path: &Path) -> bool {
    path.file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
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

/// The source of policies for sessions. Values that are ignored are reported on stderr.
pub(crate) fn source(args: &PolicyArgs, default: Preset) -> Result<PolicySource, Failure> {
    let (layers, preset) = layers(args, default)?;
    let source = PolicySource::new(layers, preset)?;
    report(source.ignored());
    Ok(source)
}

/// The effective policy with everything that is known about it.
pub(crate) fn resolved(args: &PolicyArgs, default: Preset) -> Result<Resolved, Failure> {
    let (layers, preset) = layers(args, default)?;
    Ok(resolve(&layers, preset)?)
}

/// Reports values that were ignored on stderr.
pub(crate) fn report(ignored: &[Ignored]) {
    let mut err = std::io::stderr().lock();
    let head = paint_err(Style::Warn, &format!("warning[{}]", Ignored::CODE));
    for one in ignored.iter().take(LISTED) {
        let line = one.written.place.map_or_else(String::new, |place| format!(":{}", place.line));
        let place = crate::words::line(&format!("{}{line}", one.written.origin), 300);
        // If stderr is gone there is nobody left to tell.
        let _ = writeln!(err, "{head}: {place}: {}", crate::words::line(&one.what(), 300));
    }
    if let Some(last) = ignored.get(..LISTED).unwrap_or(ignored).last() {
        if ignored.len() > LISTED {
            let _ = writeln!(
                err,
                "{head}: {} more; all of them: flyball config --origin",
                ignored.len() - LISTED
            );
        }
        let _ = writeln!(err, "  help: {}", crate::words::line(&last.help(), 300));
    }
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
pub(crate) fn project_policy(from: &Path) -> Option<PathBuf> {
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
