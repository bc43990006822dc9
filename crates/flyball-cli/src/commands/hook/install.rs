//! `flyball hook HOST install` and `uninstall`: add Flyball's entries to the host's settings and remove them.

use super::hook_settings::{HookSettings, HookSettingsFile, program_command};
use super::host_view::{self, HookMatch};
use super::settings_file;
use crate::args::{HookInstallArgs, HookRunArgs, PolicyArgs};
use crate::caller_check;
use crate::error::{CliError, Exit};
use crate::hook_runs::{self, InstallRecord};
use crate::trust_list;
use crate::{clock, policy_loader, store};
use flyball::Preset;
use flyball::policy::OnErrorAction;
use flyball_integrations::hook::Host;
use flyball_integrations::hook::settings::{
    self, HookCommand, HookReadiness, SettingsError, SettingsFileKind,
};
use flyball_store::StoreAddress;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Time every host waits for its hook; a longer deadline would never be reached.
const HOST_HOOK_TIMEOUT: Duration = Duration::from_secs(10);

impl From<(&Path, SettingsError)> for CliError {
    fn from((path, broken): (&Path, SettingsError)) -> Self {
        let mut place = path.display().to_string();
        if let (Some(line), Some(column)) = (broken.line, broken.column) {
            place.push_str(&format!(":{line}:{column}"));
        }
        let what = format!("{}; nothing was written", broken.message);
        CliError::new(SettingsError::CODE, place, what, "repair the file, then try again")
    }
}

/// A change to one settings file.
enum SettingsChange {
    Unchanged,
    Write { text: String, backup: Option<String> },
    Remove,
}

/// `install`.
pub(super) fn install(host: Host, answer: &HookRunArgs, args: &HookInstallArgs) -> Result<Exit, CliError> {
    let hook_settings = HookSettings::from_args(host, &args.scope)?;
    let command = HookCommand { program: program_command()?, flags: hook_flags(answer)? };
    let strict = blocks_when_unavailable(&hook_settings, &answer.policy)?;
    let mut changes = Vec::new();
    // Compute all changes before writing any.
    for file in &hook_settings.files {
        changes.push(install_change(host, file, &command, strict)?);
    }
    let before = installed_flags(&hook_settings);
    let mut lines = Vec::new();
    for (file, change) in hook_settings.files.iter().zip(&changes) {
        lines.extend(apply_change(file, change, args.dry_run)?);
    }
    let changed = !lines.is_empty();
    if !args.dry_run {
        record_installed(&hook_settings, &command);
    }
    if !changed {
        lines.push(format!("The hook is already in {}.", hook_settings.hook_file().display()));
    }
    if let Some(before) = before.filter(|before| !before.is_empty() && *before != command.flags) {
        lines.push(format!("These flags of the hook were replaced: {}", before.join(" ")));
    }
    if host == Host::Codex && changed {
        lines.push("Codex asks you to trust new or changed hooks: start it and open /hooks.".to_owned());
    }
    if !args.dry_run {
        trust_command_lines(&hook_settings)?;
    }
    if let (false, (_, HookMatch::Blocked(obstacle))) = (args.dry_run, host_view::find_hook(&hook_settings)) {
        lines.push(format!("NOT ARMED yet: {}. To do: {}.", obstacle.one_line(), obstacle.help));
    }
    let next = format!("flyball hook {} test {}", host.as_str(), hook_settings.scope_name());
    print_result(&hook_settings, args, changed, lines, &next)
}

/// Trusts the command lines a person installs, so that their flags may also loosen the policy.
fn trust_command_lines(hook_settings: &HookSettings) -> Result<(), CliError> {
    let (host, path) = (hook_settings.host, hook_settings.hook_file());
    if caller_check::require_no_agent().is_err() {
        return Ok(());
    }
    let Some(text) = settings_file::read(path)? else { return Ok(()) };
    let ready = settings::check_armed(host, &text, host.shell_tool())
        .map_err(|broken| CliError::from((path, broken)))?;
    let HookReadiness::Armed(handlers) = ready else { return Ok(()) };
    trust_list::trust_commands((!hook_settings.user).then_some(hook_settings.folder.as_path()), &handlers)
}

/// `uninstall`.
pub(super) fn uninstall(host: Host, args: &HookInstallArgs) -> Result<Exit, CliError> {
    caller_check::require_no_agent()?;
    let hook_settings = HookSettings::from_args(host, &args.scope)?;
    let mut changes = Vec::new();
    for file in &hook_settings.files {
        changes.push(uninstall_change(host, file)?);
    }
    let mut lines = Vec::new();
    for (file, change) in hook_settings.files.iter().zip(&changes) {
        lines.extend(apply_change(file, change, args.dry_run)?);
        if !args.dry_run && !matches!(change, SettingsChange::Unchanged) {
            settings_file::remove(&settings_file::backup_path(&file.path)?)?;
            remove_empty_plugin_dirs(host, &file.path);
        }
    }
    if let (false, Some(at)) = (args.dry_run, clock::now()) {
        hook_runs::record_install(host, hook_settings.project_path(), &InstallRecord::Removed { at });
    }
    let changed = !lines.is_empty();
    if !changed {
        lines.push(format!("No hook in {}; nothing was changed.", hook_settings.hook_file().display()));
    }
    print_result(&hook_settings, args, changed, lines, &format!("flyball hook {} install", host.as_str()))
}

/// Records the installation for `flyball doctor`. The command lines are final here, so everything that depends on them
/// is recorded at this point.
fn record_installed(hook_settings: &HookSettings, _command: &HookCommand) {
    if let Some(at) = clock::now() {
        let settings = hook_settings.hook_file().to_path_buf();
        hook_runs::record_install(
            hook_settings.host,
            hook_settings.project_path(),
            &InstallRecord::Installed { at, settings },
        );
    }
}

/// The hook's flags in the current settings.
fn installed_flags(hook_settings: &HookSettings) -> Option<Vec<String>> {
    let text = settings_file::read(hook_settings.hook_file()).ok()??;
    Some(settings::installed_command(hook_settings.host, &text)?.flags)
}

/// The hook's flags for the settings. Paths are made absolute, because a host starts its hooks in the agent's current
/// folder.
fn hook_flags(answer: &HookRunArgs) -> Result<Vec<String>, CliError> {
    let refused = |flag: &str, what: String, help: &str| Err(CliError::new("hook_flags", flag, what, help));
    let mut flags = Vec::new();
    let mut push = |name: &str, value: String| flags.extend([name.to_owned(), value]);
    if let Some(deadline) = answer.deadline {
        if deadline >= HOST_HOOK_TIMEOUT {
            let what = format!("the host waits only {} s for its hook", HOST_HOOK_TIMEOUT.as_secs());
            return refused("--deadline", what, "give a shorter time, for example --deadline 5s");
        }
        push("--deadline", format!("{}ms", deadline.as_millis()));
    }
    if let Some(text) = &answer.store {
        match store::named_store(Some(text))? {
            Some(StoreAddress::Memory) => {
                let what = "an in-memory store is gone after each hook call".to_owned();
                return refused("--store", what, "name a persistent store: --store sqlite:PATH");
            }
            Some(StoreAddress::Postgres(url)) if has_password(&url) => {
                let what = "the address contains a password, and settings files are shared".to_owned();
                return refused(
                    "--store",
                    what,
                    "remove the password and set PGPASSWORD in the host's environment",
                );
            }
            Some(StoreAddress::File(path)) => match path.to_str() {
                Some(path) => push("--store", format!("sqlite:{path}")),
                None => return refused("--store", "the path is not UTF-8".to_owned(), "use another path"),
            },
            Some(StoreAddress::Project(_)) | None => push("--store", "sqlite:".to_owned()),
            Some(StoreAddress::Postgres(url)) => push("--store", url),
        }
    }
    let PolicyArgs { policy, preset, set } = &answer.policy;
    if let Some(policy) = policy {
        match std::env::current_dir()?.join(policy).to_str() {
            Some(path) => push("--policy", path.to_owned()),
            None => return refused("--policy", "the path is not UTF-8".to_owned(), "use another path"),
        }
    }
    if let Some(preset) = preset {
        push("--preset", preset.clone());
    }
    for pair in set {
        push("--set", pair.clone());
    }
    // The fast parser of hook command lines accepts no value that looks like a flag.
    match flags.iter().skip(1).step_by(2).find(|value| value.starts_with('-')) {
        Some(value) => refused(value, "a value must not begin with `-`".to_owned(), "rewrite the value"),
        None => Ok(flags),
    }
}

fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    let user = authority
        .split(['/', '?'])
        .next()
        .and_then(|part| part.rsplit_once('@'))
        .map_or("", |(user, _)| user);
    user.contains(':') || url.to_ascii_lowercase().contains("password=")
}

/// Whether the policy of this folder blocks the agent when the hook cannot run.
fn blocks_when_unavailable(hook_settings: &HookSettings, policy: &PolicyArgs) -> Result<bool, CliError> {
    let source = policy_loader::source_from(&hook_settings.folder, policy, Preset::Agent)?;
    Ok(source.base().on_error == OnErrorAction::Block)
}

fn install_change(
    host: Host,
    file: &HookSettingsFile,
    command: &HookCommand,
    strict: bool,
) -> Result<SettingsChange, CliError> {
    let text = settings_file::read(&file.path)?;
    let new = match file.kind {
        SettingsFileKind::Owned => {
            let own = settings::owned_file_text(host, command, strict);
            (text.as_deref() != Some(&own)).then_some(own)
        }
        SettingsFileKind::Settings => settings::install(host, text.as_deref(), command, strict)
            .map_err(|broken| CliError::from((file.path.as_path(), broken)))?,
    };
    Ok(match new {
        None => SettingsChange::Unchanged,
        Some(new) => SettingsChange::Write { text: new, backup: text_to_back_up(host, file, text)? },
    })
}

/// The text to back up: the file as it was before Flyball first changed it. Our entries of an older version are
/// not backed up.
fn text_to_back_up(
    host: Host,
    file: &HookSettingsFile,
    text: Option<String>,
) -> Result<Option<String>, CliError> {
    let Some(text) = text.filter(|_| file.kind == SettingsFileKind::Settings) else { return Ok(None) };
    let has_ours = settings::uninstall(host, &text)
        .map_err(|broken| CliError::from((file.path.as_path(), broken)))?
        .is_some();
    Ok((!has_ours).then_some(text))
}

/// Restores the original file if it was not changed since; otherwise removes only our entries.
fn uninstall_change(host: Host, file: &HookSettingsFile) -> Result<SettingsChange, CliError> {
    let Some(text) = settings_file::read(&file.path)? else { return Ok(SettingsChange::Unchanged) };
    if file.kind == SettingsFileKind::Owned {
        return Ok(SettingsChange::Remove);
    }
    let broken = |broken: SettingsError| CliError::from((file.path.as_path(), broken));
    let Some(without) = settings::uninstall(host, &text).map_err(broken)? else {
        return Ok(SettingsChange::Unchanged);
    };
    let command = settings::installed_command(host, &text);
    let same = |before: Option<&str>| {
        let again = |strict| settings::install(host, before, command.as_ref()?, strict).ok().flatten();
        again(false).as_deref() == Some(&text) || again(true).as_deref() == Some(&text)
    };
    if let Some(before) = settings_file::read(&settings_file::backup_path(&file.path)?)?
        && same(Some(&before))
    {
        return Ok(SettingsChange::Write { text: before, backup: None });
    }
    if same(None) {
        return Ok(SettingsChange::Remove);
    }
    Ok(SettingsChange::Write { text: without, backup: None })
}

/// Applies a change, or reports it in a dry run.
fn apply_change(
    file: &HookSettingsFile,
    change: &SettingsChange,
    dry: bool,
) -> Result<Option<String>, CliError> {
    let shown = file.path.display();
    let would = if dry { "would be " } else { "" };
    match change {
        SettingsChange::Unchanged => Ok(None),
        SettingsChange::Remove => {
            if !dry {
                settings_file::remove(&settings_file::resolve_link(&file.path)?)?;
            }
            Ok(Some(format!("{shown}: {would}removed; Flyball had created it")))
        }
        SettingsChange::Write { text, backup } => {
            let mut line = format!("{shown}: {would}written");
            if let Some(before) = backup {
                let copy = settings_file::backup_path(&file.path)?;
                line.push_str(&format!("; backup: {}", copy.display()));
                if !dry {
                    settings_file::replace_atomically(&copy, before)?;
                }
            }
            if !dry {
                settings_file::replace_atomically(&file.path, text)?;
            }
            Ok(Some(line))
        }
    }
}

/// Removes empty folders of our plugin.
fn remove_empty_plugin_dirs(host: Host, path: &Path) {
    if host != Host::Goose {
        return;
    }
    let ours = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.ends_with("hooks") || folder.ends_with("flyball"));
    for folder in ours {
        // Fails for a folder that is not empty, which must stay.
        let _ = std::fs::remove_dir(folder);
    }
}

fn print_result(
    hook_settings: &HookSettings,
    args: &HookInstallArgs,
    changed: bool,
    lines: Vec<String>,
    next: &str,
) -> Result<Exit, CliError> {
    let mut out = crate::terminal::stdout();
    if args.scope.json {
        let files: Vec<String> =
            hook_settings.files.iter().map(|file| file.path.display().to_string()).collect();
        let object = json!({"host": hook_settings.host.as_str(), "changed": changed && !args.dry_run, "dry_run": args.dry_run,
            "files": files, "messages": lines, "next": next});
        writeln!(out, "{object}")?;
        return Ok(Exit::Success);
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "Next: {next}")?;
    Ok(Exit::Success)
}
