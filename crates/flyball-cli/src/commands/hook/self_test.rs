//! `flyball hook HOST test`: runs a known loop through the installed hook as the host would and checks that it is
//! stopped.

use super::hook_settings::{HookSettings, repository_root};
use super::host_view::{self, HookMatch};
use super::settings_file;
use crate::args::SettingsScopeArgs;
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use flyball::Fingerprint;
use flyball_integrations::hook::settings::{
    self, HandlerCommand, HookHandler, HookObstacle, HookVariable, shell_words,
};
use flyball_integrations::hook::{Host, HostReaction, SelfTestStep, host_reaction, self_test_steps};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time a host waits for one answer.
const HOST_TIMEOUT: Duration = Duration::from_secs(10);

/// Health of an installed hook.
pub(crate) enum HookHealth {
    /// It stops the known loop.
    Armed(String),
    /// It is not installed.
    Absent(String),
    /// It is installed but does not work; with help, unless reinstalling is enough.
    Broken(String, Option<String>),
}

impl From<HookObstacle> for HookHealth {
    fn from(obstacle: HookObstacle) -> Self {
        HookHealth::Broken(obstacle.one_line(), Some(obstacle.help))
    }
}

/// Runs the command.
pub(super) fn run(host: Host, place: &SettingsScopeArgs) -> Result<Exit, CliError> {
    let hook_settings = HookSettings::from_args(host, place)?;
    let (path, finding) = self_test(&hook_settings)?;
    let install = format!("flyball hook {} install {}", host.as_str(), hook_settings.scope_name());
    let (armed, what, next) = match finding {
        HookHealth::Armed(what) => (true, what, "flyball status".to_owned()),
        HookHealth::Absent(what) => (false, what, install),
        HookHealth::Broken(what, help) => (false, what, help.unwrap_or(install)),
    };
    let warnings: Vec<String> =
        redirecting_variables(host, &hook_settings.folder).iter().map(redirection_text).collect();
    let mut out = crate::terminal::stdout();
    if place.json {
        let object = json!({"host": host.as_str(), "armed": armed, "what": what, "settings": path, "next": next,
            "warnings": warnings});
        writeln!(out, "{object}")?;
    } else {
        let word = if armed {
            style_stdout(TextStyle::Success, "armed")
        } else {
            style_stdout(TextStyle::Error, "NOT ARMED")
        };
        writeln!(out, "{word}  {}: {what}", host.display_name())?;
        for warning in warnings {
            writeln!(out, "Warning: {warning}")?;
        }
        writeln!(out, "Next: {next}")?;
    }
    Ok(if armed { Exit::Success } else { Exit::Error })
}

/// Variables in the host's settings that redirect the hook to another store or policy.
pub(crate) fn redirecting_variables(host: Host, folder: &Path) -> Vec<HookVariable> {
    let settings = [Some(folder), None].map(|folder| settings_in(host, folder).ok());
    let mut found = Vec::new();
    for hook_settings in settings.into_iter().flatten() {
        if let (path, HookMatch::Handlers(handlers)) = host_view::find_hook(&hook_settings) {
            found.extend(host_view::redirecting_variables(host, folder, &path, &handlers));
        }
    }
    found.dedup();
    found
}

/// A redirection in one line.
pub(crate) fn redirection_text(variable: &HookVariable) -> String {
    let line = variable.line.map(|line| format!(":{line}")).unwrap_or_default();
    let HookVariable { name, value, path, .. } = variable;
    let value = if name == "FLYBALL_STORE" {
        format!("={}", crate::formatting::single_line(value, 200))
    } else {
        String::new()
    };
    format!("{}{line} sets {name}{value} for the hook", path.display())
}

/// The flags of a host's installed hook, in a project or for the user.
pub(crate) fn installed_flags(host: Host, folder: &Path) -> Vec<String> {
    let settings = [Some(folder), None].into_iter().filter_map(|folder| settings_in(host, folder).ok());
    let texts = settings
        .flat_map(|hook_settings| hook_settings.hook_files())
        .filter_map(|path| settings_file::read(&path).ok()?);
    texts
        .filter_map(|text| settings::installed_command(host, &text))
        .flat_map(|command| command.flags)
        .collect()
}

/// The settings of a project, or the user's settings for the current project.
fn settings_in(host: Host, folder: Option<&Path>) -> Result<HookSettings, CliError> {
    let root = match folder {
        Some(folder) => folder.to_path_buf(),
        None => repository_root(&std::env::current_dir()?),
    };
    HookSettings::for_scope(host, folder.is_none(), root)
}

/// Whether a host's hook is installed and works, in the project's or the user's settings. For `flyball doctor`.
pub(crate) fn check_hook(host: Host, user: bool) -> Result<HookHealth, CliError> {
    Ok(self_test(&HookSettings::from_args(host, &SettingsScopeArgs { project: !user, user, json: false })?)?
        .1)
}

/// A fingerprint of the commands in a host's settings and of the program they call, without running it, and the path of
/// the settings; or why there is none. For the coverage probe.
pub(crate) fn hook_fingerprint(
    host: Host,
    folder: Option<&Path>,
) -> Result<(PathBuf, Result<String, CliError>), CliError> {
    let hook_settings = settings_in(host, folder)?;
    let path = hook_settings.hook_file().to_path_buf();
    let print = settings_fingerprint(&hook_settings);
    Ok((path, print))
}

fn settings_fingerprint(hook_settings: &HookSettings) -> Result<String, CliError> {
    let (host, path) = (hook_settings.host, hook_settings.hook_file());
    let absent = |why: String| {
        CliError::new("hook_not_installed", path.display().to_string(), why, "install it again")
    };
    if !hook_settings.hook_files().iter().any(|path| path.exists()) {
        return Err(absent("its settings file is missing".to_owned()));
    }
    let (path, found) = host_view::find_hook(hook_settings);
    let handlers = match found {
        HookMatch::Handlers(handlers) => handlers,
        HookMatch::Absent(why) => return Err(absent(why)),
        HookMatch::Blocked(obstacle) => {
            return Err(CliError::new("hook_not_armed", "", obstacle.one_line(), obstacle.help));
        }
    };
    let mut print = Fingerprint::of_text(&format!("{handlers:?}"));
    for program in handlers.iter().filter_map(|handler| absolute_program(&handler.command)) {
        let meta = std::fs::metadata(&program).map_err(|error| absent(format!("{program}: {error}")))?;
        print = print.combine(Fingerprint::of_text(&format!(
            "{program} {} {:?}",
            meta.len(),
            meta.modified().ok()
        )));
    }
    for variable in host_view::redirecting_variables(host, &hook_settings.folder, &path, &handlers) {
        print = print.combine(Fingerprint::of_text(&format!("{}={}", variable.name, variable.value)));
    }
    Ok(print.to_string())
}

/// The program of a command, if it is given by its full path.
fn absolute_program(line: &HandlerCommand) -> Option<String> {
    let first = match line {
        HandlerCommand::Exec(words) => words.first()?.clone(),
        HandlerCommand::Shell(text) => match text.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?.0.to_owned(),
            None => text.split_whitespace().next()?.to_owned(),
        },
    };
    first.starts_with('/').then_some(first)
}

/// The hook's file and its health.
fn self_test(hook_settings: &HookSettings) -> Result<(PathBuf, HookHealth), CliError> {
    let (path, found) = host_view::find_hook(hook_settings);
    let installed = match found {
        HookMatch::Handlers(handlers) => run_known_loop(hook_settings, &path, &handlers)?,
        HookMatch::Absent(why) => HookHealth::Absent(why),
        HookMatch::Blocked(obstacle) => obstacle.into(),
    };
    Ok((path, installed))
}

/// Runs the known loop through the handlers.
fn run_known_loop(
    hook_settings: &HookSettings,
    path: &Path,
    handlers: &[HookHandler],
) -> Result<HookHealth, CliError> {
    let (host, shown) = (hook_settings.host, path.display());
    let broken = |why: String| Ok(HookHealth::Broken(why, None));
    let store = ScratchStore::new()?;
    // A session's root and store are remembered, so each test needs a new session.
    let session = format!("flyball-test-{}", store.unique_name());
    let mut last = HostReaction::Continues;
    let steps = self_test_steps(host, &session, &hook_settings.folder.to_string_lossy());
    let calls =
        steps.iter().filter(|step| Some(step.event) == steps.first().map(|first| first.event)).count();
    for step in &steps {
        let Some(handler) = handlers.iter().find(|handler| handler.event == step.event) else {
            return broken(format!("no handler calls Flyball on {} ({shown})", step.event));
        };
        let output = match run_handler(host, handler, step, &hook_settings.folder, &store.url()) {
            Ok(output) => output,
            Err(why) => return broken(why),
        };
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        last = host_reaction(host, step.event, &out, &err, output.status.code().unwrap_or(-1));
        if let HostReaction::HookFailed(why) = &last {
            let said = crate::formatting::single_line(err.trim(), 200);
            return broken(format!("the host would reject its answer: {why}; {said}"));
        }
    }
    Ok(match last {
        HostReaction::Blocks(reason) | HostReaction::Stops(reason) => HookHealth::Armed(format!(
            "identical call {calls} of {calls} was blocked through {shown}: {}",
            crate::formatting::single_line(&reason, 120)
        )),
        _ => HookHealth::Broken(
            format!("{calls} identical calls were all allowed; does the policy turn the guard off?"),
            None,
        ),
    })
}

/// Runs a handler as the host does: with or without a shell, in the project, with the host's input on stdin.
fn run_handler(
    host: Host,
    handler: &HookHandler,
    step: &SelfTestStep,
    folder: &Path,
    store: &str,
) -> Result<Output, String> {
    let line = with_store(&handler.command, store);
    let mut command = match &line {
        HandlerCommand::Shell(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        }
        HandlerCommand::Exec(words) => {
            let (program, args) = words.split_first().ok_or("the handler names no program")?;
            let mut command = Command::new(program);
            command.args(args);
            command
        }
    };
    for name in host.root_variables() {
        command.env(name, folder);
    }
    command
        .envs(host_view::hook_environment(host, folder))
        .envs(handler.env.iter().map(|(key, value)| (key, value)));
    command.env("FLYBALL_STORE", store).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("cannot start the command: {error}"))?;
    wait_with_timeout(child, step.input.to_string())
}

/// The command with its store replaced by the test's, so that the test leaves nothing behind.
fn with_store(line: &HandlerCommand, store: &str) -> HandlerCommand {
    let words = match line {
        HandlerCommand::Shell(text) => shell_words(text),
        HandlerCommand::Exec(words) => Some(words.clone()),
    };
    let named = words.and_then(|mut words| {
        let at = words.iter().position(|word| word == "--store")?;
        store.clone_into(words.get_mut(at + 1)?);
        // Variable assignments before the program need a shell.
        words.first().is_some_and(|first| !first.contains('=')).then_some(words)
    });
    named.map_or_else(|| line.clone(), HandlerCommand::Exec)
}

/// Waits as long as a host would.
fn wait_with_timeout(mut child: Child, input: String) -> Result<Output, String> {
    let stdin = child.stdin.take();
    let id = child.id();
    let (send, ended) = channel();
    std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A hook that does not read its input is broken, which its answer shows.
            let _ = stdin.write_all(input.as_bytes());
        }
        let _ = send.send(child.wait_with_output());
    });
    match ended.recv_timeout(HOST_TIMEOUT) {
        Ok(output) => output.map_err(|error| error.to_string()),
        Err(_) => {
            if let Some(pid) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            Err(format!("no answer after {} s", HOST_TIMEOUT.as_secs()))
        }
    }
}

/// A temporary store, deleted on drop.
struct ScratchStore(PathBuf);

impl ScratchStore {
    fn new() -> Result<Self, CliError> {
        use std::hash::{BuildHasher, RandomState};
        let mark = RandomState::new().hash_one(std::process::id());
        let folder = std::env::temp_dir().join(format!("flyball-hook-test-{mark:016x}"));
        std::fs::create_dir_all(&folder)?;
        Ok(ScratchStore(folder))
    }

    fn unique_name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("test.db").display())
    }
}

impl Drop for ScratchStore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
