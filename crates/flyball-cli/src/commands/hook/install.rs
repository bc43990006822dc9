//! `flyball hook HOST install` and `uninstall`: the host's settings with Flyball's entries in them, and without.

use super::files;
use super::setting::{File, Setting, program};
use super::view::{self, Found};
use crate::args::{AnswerArgs, Install, PolicyArgs};
use crate::fail::{Exit, Failure};
use crate::hook_runs::{self, Intent};
use crate::person;
use crate::trust;
use crate::{clock, load, store};
use flyball::Preset;
use flyball::policy::OnError;
use flyball_adapt::hook::Host;
use flyball_adapt::hook::settings::{self, Broken, HookCommand, Kind, Ready};
use flyball_journal::Address;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long every host waits for its hook. A longer deadline would never be reached.
const HOST_TIMEOUT: Duration = Duration::from_secs(10);

impl From<(&Path, Broken)> for Failure {
    fn from((path, broken): (&Path, Broken)) -> Self {
        let mut place = path.display().to_string();
        if let (Some(line), Some(column)) = (broken.line, broken.column) {
            place.push_str(&format!(":{line}:{column}"));
        }
        let what = format!("{}; nothing was written", broken.what);
        Failure::new(Broken::CODE, place, what, "repair the file, then try again")
    }
}

/// What is done with one file.
enum Change {
    Nothing,
    Write { text: String, backup: Option<String> },
    Remove,
}

/// `install`.
pub(super) fn install(host: Host, answer: &AnswerArgs, args: &Install) -> Result<Exit, Failure> {
    let setting = Setting::of(host, &args.place)?;
    let command = HookCommand { program: program()?, flags: flags(answer)? };
    let strict = strict(&setting, &answer.policy)?;
    let mut changes = Vec::new();
    // All is worked out before anything is written.
    for file in &setting.files {
        changes.push(wanted(host, file, &command, strict)?);
    }
    let before = before_flags(&setting);
    let mut lines = Vec::new();
    for (file, change) in setting.files.iter().zip(&changes) {
        lines.extend(carry_out(file, change, args.dry_run)?);
    }
    let changed = !lines.is_empty();
    if !args.dry_run {
        approved(&setting, &command);
    }
    if !changed {
        lines.push(format!("The hook is in {} already.", setting.main().display()));
    }
    if let Some(before) = before.filter(|before| !before.is_empty() && *before != command.flags) {
        lines.push(format!("These flags of the hook were replaced: {}", before.join(" ")));
    }
    if host == Host::Codex && changed {
        lines.push(
            "Codex asks you to trust hooks that are new or changed: start it, and look at /hooks.".to_owned(),
        );
    }
    if !args.dry_run {
        trust_lines(&setting)?;
    }
    if let (false, (_, Found::Blocked(obstacle))) = (args.dry_run, view::find(&setting)) {
        lines.push(format!("NOT ARMED yet: {}. To do: {}.", obstacle.told(), obstacle.help));
    }
    let next = format!("flyball hook {} test {}", host.as_str(), setting.flag());
    tell(&setting, args, changed, lines, &next)
}

/// The command lines that a person installs are theirs: their flags may also loosen the policy.
fn trust_lines(setting: &Setting) -> Result<(), Failure> {
    let (host, path) = (setting.host, setting.main());
    if person::speaks_at_all().is_err() {
        return Ok(());
    }
    let Some(text) = files::read(path)? else { return Ok(()) };
    let ready = settings::armed(host, &text, host.shell()).map_err(|broken| Failure::from((path, broken)))?;
    let Ready::Yes(handlers) = ready else { return Ok(()) };
    trust::trust_commands((!setting.user).then_some(setting.folder.as_path()), &handlers)
}

/// `uninstall`.
pub(super) fn uninstall(host: Host, args: &Install) -> Result<Exit, Failure> {
    person::speaks_at_all()?;
    let setting = Setting::of(host, &args.place)?;
    let mut changes = Vec::new();
    for file in &setting.files {
        changes.push(unwanted(host, file)?);
    }
    let mut lines = Vec::new();
    for (file, change) in setting.files.iter().zip(&changes) {
        lines.extend(carry_out(file, change, args.dry_run)?);
        if !args.dry_run && !matches!(change, Change::Nothing) {
            files::remove(&files::backup(&file.path)?)?;
            leave(host, &file.path);
        }
    }
    if let (false, Some(at)) = (args.dry_run, clock::now()) {
        hook_runs::intend(host, setting.project(), &Intent::Removed { at });
    }
    let changed = !lines.is_empty();
    if !changed {
        lines.push(format!("There is no hook in {}; nothing was changed.", setting.main().display()));
    }
    tell(&setting, args, changed, lines, &format!("flyball hook {} install", host.as_str()))
}

/// A person has installed this command. The command lines are final here: whatever has to know them (what the user
/// trusts, what `doctor` expects) is told at this place.
fn approved(setting: &Setting, _command: &HookCommand) {
    if let Some(at) = clock::now() {
        let settings = setting.main().to_path_buf();
        hook_runs::intend(setting.host, setting.project(), &Intent::Installed { at, settings });
    }
}

/// The flags that the hook has in the settings now.
fn before_flags(setting: &Setting) -> Option<Vec<String>> {
    let text = files::read(setting.main()).ok()??;
    Some(settings::installed_command(setting.host, &text)?.flags)
}

/// The flags of the hook as they are written into the settings. Paths are made absolute: a host starts its hooks in
/// whatever folder its agent works in.
fn flags(answer: &AnswerArgs) -> Result<Vec<String>, Failure> {
    let refused = |flag: &str, what: String, help: &str| Err(Failure::new("hook_flags", flag, what, help));
    let mut flags = Vec::new();
    let mut push = |name: &str, value: String| flags.extend([name.to_owned(), value]);
    if let Some(deadline) = answer.deadline {
        if deadline >= HOST_TIMEOUT {
            let what = format!("the host waits {} s for its hook", HOST_TIMEOUT.as_secs());
            return refused("--deadline", what, "give a shorter time, for example --deadline 5s");
        }
        push("--deadline", format!("{}ms", deadline.as_millis()));
    }
    if let Some(text) = &answer.store {
        match store::named(Some(text))? {
            Some(Address::Memory) => {
                let what = "a store in memory is gone after each call of the hook".to_owned();
                return refused("--store", what, "name a store that stays: --store sqlite:PATH");
            }
            Some(Address::Server(url)) if has_password(&url) => {
                let what = "the address holds a password, and settings files are shared".to_owned();
                return refused(
                    "--store",
                    what,
                    "leave the password out, and give it to the host as PGPASSWORD",
                );
            }
            Some(Address::File(path)) => match path.to_str() {
                Some(path) => push("--store", format!("sqlite:{path}")),
                None => return refused("--store", "the path is not UTF-8".to_owned(), "use another path"),
            },
            Some(Address::Project(_)) | None => push("--store", "sqlite:".to_owned()),
            Some(Address::Server(url)) => push("--store", url),
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
    // The short way of parsing a hook's command line takes no value that looks like a flag.
    match flags.iter().skip(1).step_by(2).find(|value| value.starts_with('-')) {
        Some(value) => refused(value, "a value must not begin with `-`".to_owned(), "write it another way"),
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

/// Whether the policy of this folder wants a hook that cannot be run to stop the agent.
fn strict(setting: &Setting, policy: &PolicyArgs) -> Result<bool, Failure> {
    let source = load::source_from(&setting.folder, policy, Preset::Agent)?;
    Ok(source.base().on_error == OnError::Block)
}

fn wanted(host: Host, file: &File, command: &HookCommand, strict: bool) -> Result<Change, Failure> {
    let text = files::read(&file.path)?;
    let new = match file.kind {
        Kind::Own => {
            let own = settings::own_file(host, command, strict);
            (text.as_deref() != Some(&own)).then_some(own)
        }
        Kind::Settings => settings::install(host, text.as_deref(), command, strict)
            .map_err(|broken| Failure::from((file.path.as_path(), broken)))?,
    };
    Ok(match new {
        None => Change::Nothing,
        Some(new) => Change::Write { text: new, backup: before(host, file, text)? },
    })
}

/// What is to be kept: the file as it was before Flyball first touched it. An older version of our own entries is
/// nothing that anybody wants back.
fn before(host: Host, file: &File, text: Option<String>) -> Result<Option<String>, Failure> {
    let Some(text) = text.filter(|_| file.kind == Kind::Settings) else { return Ok(None) };
    let has_ours = settings::uninstall(host, &text)
        .map_err(|broken| Failure::from((file.path.as_path(), broken)))?
        .is_some();
    Ok((!has_ours).then_some(text))
}

/// If nobody has touched the file since, it becomes what it was, byte for byte; otherwise only our entries go.
fn unwanted(host: Host, file: &File) -> Result<Change, Failure> {
    let Some(text) = files::read(&file.path)? else { return Ok(Change::Nothing) };
    if file.kind == Kind::Own {
        return Ok(Change::Remove);
    }
    let broken = |broken: Broken| Failure::from((file.path.as_path(), broken));
    let Some(without) = settings::uninstall(host, &text).map_err(broken)? else { return Ok(Change::Nothing) };
    let command = settings::installed_command(host, &text);
    let same = |before: Option<&str>| {
        let again = |strict| settings::install(host, before, command.as_ref()?, strict).ok().flatten();
        again(false).as_deref() == Some(&text) || again(true).as_deref() == Some(&text)
    };
    if let Some(before) = files::read(&files::backup(&file.path)?)?
        && same(Some(&before))
    {
        return Ok(Change::Write { text: before, backup: None });
    }
    if same(None) {
        return Ok(Change::Remove);
    }
    Ok(Change::Write { text: without, backup: None })
}

/// Does it, or says that it would.
fn carry_out(file: &File, change: &Change, dry: bool) -> Result<Option<String>, Failure> {
    let shown = file.path.display();
    let would = if dry { "would be " } else { "" };
    match change {
        Change::Nothing => Ok(None),
        Change::Remove => {
            if !dry {
                files::remove(&files::target(&file.path)?)?;
            }
            Ok(Some(format!("{shown}: {would}removed; it was Flyball's own")))
        }
        Change::Write { text, backup } => {
            let mut line = format!("{shown}: {would}written");
            if let Some(before) = backup {
                let copy = files::backup(&file.path)?;
                line.push_str(&format!("; as it was before: {}", copy.display()));
                if !dry {
                    files::replace(&copy, before)?;
                }
            }
            if !dry {
                files::replace(&file.path, text)?;
            }
            Ok(Some(line))
        }
    }
}

/// Takes away the folders of a plugin of ours that are empty now.
fn leave(host: Host, path: &Path) {
    if host != Host::Goose {
        return;
    }
    let ours = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.ends_with("hooks") || folder.ends_with("flyball"));
    for folder in ours {
        // A folder that holds something is not ours to take.
        let _ = std::fs::remove_dir(folder);
    }
}

fn tell(
    setting: &Setting,
    args: &Install,
    changed: bool,
    lines: Vec<String>,
    next: &str,
) -> Result<Exit, Failure> {
    let mut out = crate::terminal::stdout();
    if args.place.json {
        let files: Vec<String> = setting.files.iter().map(|file| file.path.display().to_string()).collect();
        let told = json!({"host": setting.host.as_str(), "changed": changed && !args.dry_run, "dry_run": args.dry_run,
            "files": files, "told": lines, "next": next});
        writeln!(out, "{told}")?;
        return Ok(Exit::Done);
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "Next: {next}")?;
    Ok(Exit::Done)
}
