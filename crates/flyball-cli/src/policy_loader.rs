//! Policy discovery: turns files, environment variables and command-line flags into policy layers.
//!
//! Lowest first: the organization's file, the user's file, the project's file or the one named by the caller, the
//! environment, the command line. A project's file is discovered, not named, so it may only tighten until the user
//! trusts it.

use crate::args::PolicyArgs;
use crate::color::{TextStyle, style_stderr};
use crate::error::CliError;
use crate::trust_list::{self, Caller};
use flyball::policy::{
    IgnoredValue, PolicyFormat, PolicyLayer, ResolvedPolicy, ValueOrigin, from_environment, from_set, parse,
    resolve,
};
use flyball::{PolicySource, Preset};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The names under which a policy of the project or the user is looked for.
pub(crate) const POLICY_FILE_NAMES: [&str; 4] =
    ["flyball.yaml", "flyball.yml", "flyball.toml", "flyball.json"];
/// The organization's policy.
const ORGANIZATION_POLICY: &str = "/etc/flyball/policy.yaml";
/// Overrides the path of the organization's policy, but only for a person's command.
const ORGANIZATION_VARIABLE: &str = "FLYBALL_ORG_POLICY";
/// Maximum number of ignored values listed on stderr.
const MAX_IGNORED_LISTED: usize = 5;

/// All layers, lowest first, and the preset they start from.
pub(crate) fn layers(args: &PolicyArgs, default: Preset) -> Result<(Vec<PolicyLayer>, Preset), CliError> {
    let layers = layers_from(std::env::current_dir().ok().as_deref(), args, Caller::Person)?;
    Ok((layers, default))
}

/// The policy source for sessions whose agent works in another folder.
pub(crate) fn source_from(
    folder: &Path,
    args: &PolicyArgs,
    default: Preset,
) -> Result<PolicySource, CliError> {
    source_for(folder, args, default, Caller::Person)
}

/// The policy source for a hook of the project with this root.
pub(crate) fn source_for_hook(
    root: &Path,
    args: &PolicyArgs,
    default: Preset,
) -> Result<PolicySource, CliError> {
    source_for(root, args, default, Caller::HookEntry(root))
}

fn source_for(
    folder: &Path,
    args: &PolicyArgs,
    default: Preset,
    caller: Caller<'_>,
) -> Result<PolicySource, CliError> {
    let layers = layers_from(Some(folder), args, caller)?;
    if layers.is_empty() {
        return Ok(PolicySource::preset(default));
    }
    Ok(PolicySource::new(layers, default)?)
}

fn layers_from(
    folder: Option<&Path>,
    args: &PolicyArgs,
    caller: Caller<'_>,
) -> Result<Vec<PolicyLayer>, CliError> {
    let mut layers = organization_and_user_layers(caller)?;
    let flags = args.policy.is_some() || args.preset.is_some() || !args.set.is_empty();
    let flags_trusted = match caller {
        Caller::Person => true,
        Caller::HookEntry(root) => flags && trust_list::own_command_is_trusted(root),
    };
    match (&args.policy, folder) {
        (Some(path), _) => {
            let (layer, text) = read_layer(path)?;
            // A trusted command line names the file, but does not vouch for its content.
            let trusted = caller.is_person()
                || (flags_trusted && trust_list::is_trusted(path, text.as_bytes(), caller));
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

/// The organization's and the user's layers. A world-writable file may only tighten.
fn organization_and_user_layers(caller: Caller<'_>) -> Result<Vec<PolicyLayer>, CliError> {
    let named = std::env::var_os(ORGANIZATION_VARIABLE).filter(|name| caller.is_person() && !name.is_empty());
    let organization = named.map_or_else(|| PathBuf::from(ORGANIZATION_POLICY), PathBuf::from);
    let user =
        config_folder().map(|folder| folder.join("flyball")).filter(|folder| caller.is_user_owned(folder));
    let user = user.and_then(|folder| {
        POLICY_FILE_NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
    });
    let mut layers = Vec::new();
    for path in [Some(organization).filter(|path| path.is_file()), user].into_iter().flatten() {
        let (layer, _) = read_layer(&path)?;
        layers.push(if is_private(&path) { layer } else { layer.tighten_only() });
    }
    Ok(layers)
}

/// Whether a file belongs to root or this user and is not world-writable.
fn is_private(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o002 == 0 && [0, me].contains(&meta.uid()))
}

/// This user's configuration folder.
fn config_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))
}

fn read_layer(path: &Path) -> Result<(PolicyLayer, String), CliError> {
    let text = read_text_file(path)?;
    let name = path.display().to_string();
    Ok((parse(&text, PolicyFormat::guess(&name, &text), &name)?, text))
}

fn project_layer(folder: &Path, caller: Caller<'_>) -> Result<Option<PolicyLayer>, CliError> {
    let Some(path) = project_policy(folder) else { return Ok(None) };
    let (layer, text) = read_layer(&path)?;
    let trusted = trust_list::is_trusted(&path, text.as_bytes(), caller);
    Ok(Some(if trusted { layer } else { layer.tighten_only() }))
}

/// The values a project's file would loosen if it were trusted, given the layers below it.
pub(crate) fn loosened_by(layer: &PolicyLayer, default: Preset) -> Result<Vec<IgnoredValue>, CliError> {
    let mut layers = organization_and_user_layers(Caller::Person)?;
    layers.push(layer.clone().tighten_only());
    Ok(resolve(&layers, default)?.ignored)
}

/// Whether a file has the name of a project policy.
pub(crate) fn is_project_policy(path: &Path) -> bool {
    path.file_name().is_some_and(|name| POLICY_FILE_NAMES.iter().any(|known| name == *known))
}

/// The layers of a run: the project's, then the workflow's own, then the environment and the command line.
pub(crate) fn layers_for_run(
    own: Option<&PolicyLayer>,
    args: &PolicyArgs,
) -> Result<(Vec<PolicyLayer>, Preset), CliError> {
    let (mut layers, preset) = layers(args, Preset::Workflow)?;
    if let Some(own) = own {
        let above = |origin: &ValueOrigin| {
            matches!(origin, ValueOrigin::Environment { .. } | ValueOrigin::CommandLine)
        };
        let at = layers.iter().position(|layer| above(&layer.origin)).unwrap_or(layers.len());
        layers.insert(at, own.clone());
    }
    Ok((layers, preset))
}

/// The policy source for sessions. Reports ignored values on stderr.
pub(crate) fn source(args: &PolicyArgs, default: Preset) -> Result<PolicySource, CliError> {
    let (layers, preset) = layers(args, default)?;
    let source = PolicySource::new(layers, preset)?;
    report_ignored(source.ignored());
    Ok(source)
}

/// The effective policy with the origin of each value.
pub(crate) fn resolve_policy(args: &PolicyArgs, default: Preset) -> Result<ResolvedPolicy, CliError> {
    let (layers, preset) = layers(args, default)?;
    Ok(resolve(&layers, preset)?)
}

/// Reports values that were ignored on stderr.
pub(crate) fn report_ignored(ignored: &[IgnoredValue]) {
    let mut err = std::io::stderr().lock();
    let head = style_stderr(TextStyle::Warning, &format!("warning[{}]", IgnoredValue::CODE));
    for one in ignored.iter().take(MAX_IGNORED_LISTED) {
        let line = one.written.position.map_or_else(String::new, |place| format!(":{}", place.line));
        let place = crate::formatting::single_line(&format!("{}{line}", one.written.origin), 300);
        // A closed stderr leaves nowhere to report to.
        let _ = writeln!(err, "{head}: {place}: {}", crate::formatting::single_line(&one.message(), 300));
    }
    if let Some(last) = ignored.get(..MAX_IGNORED_LISTED).unwrap_or(ignored).last() {
        if ignored.len() > MAX_IGNORED_LISTED {
            let _ = writeln!(
                err,
                "{head}: {} more; list them with: flyball config --origin",
                ignored.len() - MAX_IGNORED_LISTED
            );
        }
        let _ = writeln!(err, "  help: {}", crate::formatting::single_line(&last.help(), 300));
    }
}

/// Reads a UTF-8 text file.
pub(crate) fn read_text_file(path: &Path) -> Result<String, CliError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| CliError::new("cannot_read", name.clone(), error.to_string(), "check the path"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CliError::new("not_utf8", name, format!("byte {at} is not UTF-8"), "write the file as UTF-8")
    })
}

/// A policy file in this folder or above, up to the root of the repository.
pub(crate) fn project_policy(from: &Path) -> Option<PathBuf> {
    for folder in from.ancestors() {
        if let Some(found) =
            POLICY_FILE_NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
        {
            return Some(found);
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The policy file found from a folder upwards.
pub(crate) fn policy_file(from: &Path) -> Option<PathBuf> {
    project_policy(from)
}
