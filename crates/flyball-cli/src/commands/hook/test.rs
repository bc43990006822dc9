//! `flyball hook HOST test`: sends a known loop through the installed hook, as the host would run it, and looks
//! whether the host would have stopped.

use super::files;
use super::setting::{Setting, project};
use super::view::{self, Found};
use crate::args::Place;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use flyball::Fingerprint;
use flyball_adapt::hook::settings::{self, Handler, Line, Obstacle, Variable, shell_words};
use flyball_adapt::hook::{Host, Step, Understood, known_bad, understood};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a host waits for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether an installed hook works.
pub(crate) enum Installed {
    /// It stops the known loop.
    Armed(String),
    /// It is not installed there at all.
    Absent(String),
    /// It is installed, and does not work; what to do, if that is more than installing it again.
    Broken(String, Option<String>),
}

impl From<Obstacle> for Installed {
    fn from(obstacle: Obstacle) -> Self {
        Installed::Broken(obstacle.told(), Some(obstacle.help))
    }
}

/// Runs the command.
pub(super) fn run(host: Host, place: &Place) -> Result<Exit, Failure> {
    let setting = Setting::of(host, place)?;
    let (path, finding) = probe(&setting)?;
    let install = format!("flyball hook {} install {}", host.as_str(), setting.flag());
    let (armed, what, next) = match finding {
        Installed::Armed(what) => (true, what, "flyball status".to_owned()),
        Installed::Absent(what) => (false, what, install),
        Installed::Broken(what, help) => (false, what, help.unwrap_or(install)),
    };
    let warnings: Vec<String> = redirected(host, &setting.folder).iter().map(told).collect();
    let mut out = crate::terminal::stdout();
    if place.json {
        let told = json!({"host": host.as_str(), "armed": armed, "what": what, "settings": path, "next": next,
            "warnings": warnings});
        writeln!(out, "{told}")?;
    } else {
        let word = if armed { paint_out(Style::Good, "armed") } else { paint_out(Style::Bad, "NOT ARMED") };
        writeln!(out, "{word}  {}: {what}", host.shown())?;
        for warning in warnings {
            writeln!(out, "Warning: {warning}")?;
        }
        writeln!(out, "Next: {next}")?;
    }
    Ok(if armed { Exit::Done } else { Exit::Error })
}

/// The variables by which the host's settings lead the hook to another store or policy.
pub(crate) fn redirected(host: Host, folder: &Path) -> Vec<Variable> {
    let settings = [Some(folder), None].map(|folder| located(host, folder).ok());
    let mut found = Vec::new();
    for setting in settings.into_iter().flatten() {
        if let (path, Found::Handlers(handlers)) = view::find(&setting) {
            found.extend(view::redirects(host, folder, &path, &handlers));
        }
    }
    found.dedup();
    found
}

/// A redirection in one line.
pub(crate) fn told(variable: &Variable) -> String {
    let line = variable.line.map(|line| format!(":{line}")).unwrap_or_default();
    let Variable { name, value, path, .. } = variable;
    let value =
        if name == "FLYBALL_STORE" { format!("={}", crate::words::line(value, 200)) } else { String::new() };
    format!("{}{line} sets {name}{value} for the hook", path.display())
}

/// The flags with which a host's hook is installed in a project or for the user.
pub(crate) fn installed_flags(host: Host, folder: &Path) -> Vec<String> {
    let settings = [Some(folder), None].into_iter().filter_map(|folder| located(host, folder).ok());
    let texts =
        settings.flat_map(|setting| setting.hook_files()).filter_map(|path| files::read(&path).ok()?);
    texts
        .filter_map(|text| settings::installed_command(host, &text))
        .flat_map(|command| command.flags)
        .collect()
}

/// The settings of a project, or those of the user, for the project that this process is in.
fn located(host: Host, folder: Option<&Path>) -> Result<Setting, Failure> {
    let root = match folder {
        Some(folder) => folder.to_path_buf(),
        None => project(&std::env::current_dir()?),
    };
    Setting::at(host, folder.is_none(), root)
}

/// Whether a host's hook is installed in the project's settings or the user's, and works. For `flyball doctor`.
pub(crate) fn check(host: Host, user: bool) -> Result<Installed, Failure> {
    Ok(probe(&Setting::of(host, &Place { project: !user, user, json: false })?)?.1)
}

/// What a host's settings call, without calling it: where they are, and a print of the calls and of the program behind
/// them, or why there is none. For whoever watches that it stays so.
pub(crate) fn glance(
    host: Host,
    folder: Option<&Path>,
) -> Result<(PathBuf, Result<String, Failure>), Failure> {
    let setting = located(host, folder)?;
    let path = setting.main().to_path_buf();
    let print = print(&setting);
    Ok((path, print))
}

fn print(setting: &Setting) -> Result<String, Failure> {
    let (host, path) = (setting.host, setting.main());
    let absent =
        |why: String| Failure::new("hook_absent", path.display().to_string(), why, "install it again");
    if !setting.hook_files().iter().any(|path| path.exists()) {
        return Err(absent("its settings are gone".to_owned()));
    }
    let (path, found) = view::find(setting);
    let handlers = match found {
        Found::Handlers(handlers) => handlers,
        Found::Absent(why) => return Err(absent(why)),
        Found::Blocked(obstacle) => {
            return Err(Failure::new("hook_not_armed", "", obstacle.told(), obstacle.help));
        }
    };
    let mut print = Fingerprint::of_text(&format!("{handlers:?}"));
    for program in handlers.iter().filter_map(|handler| program(&handler.line)) {
        let meta = std::fs::metadata(&program).map_err(|error| absent(format!("{program}: {error}")))?;
        print =
            print.with(Fingerprint::of_text(&format!("{program} {} {:?}", meta.len(), meta.modified().ok())));
    }
    for variable in view::redirects(host, &setting.folder, &path, &handlers) {
        print = print.with(Fingerprint::of_text(&format!("{}={}", variable.name, variable.value)));
    }
    Ok(print.to_string())
}

/// The program that a line runs, if it is named by its whole path.
fn program(line: &Line) -> Option<String> {
    let first = match line {
        Line::Exec(words) => words.first()?.clone(),
        Line::Shell(text) => match text.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?.0.to_owned(),
            None => text.split_whitespace().next()?.to_owned(),
        },
    };
    first.starts_with('/').then_some(first)
}

/// The file that the hook is in, and whether it works.
fn probe(setting: &Setting) -> Result<(PathBuf, Installed), Failure> {
    let (path, found) = view::find(setting);
    let installed = match found {
        Found::Handlers(handlers) => called(setting, &path, &handlers)?,
        Found::Absent(why) => Installed::Absent(why),
        Found::Blocked(obstacle) => obstacle.into(),
    };
    Ok((path, installed))
}

/// Runs the known loop through the handlers.
fn called(setting: &Setting, path: &Path, handlers: &[Handler]) -> Result<Installed, Failure> {
    let (host, shown) = (setting.host, path.display());
    let broken = |why: String| Ok(Installed::Broken(why, None));
    let store = Scratch::new()?;
    // The place of a session is remembered, so each test has a session of its own.
    let session = format!("flyball-test-{}", store.mark());
    let mut last = Understood::GoesOn;
    let steps = known_bad(host, &session, &setting.folder.to_string_lossy());
    let calls =
        steps.iter().filter(|step| Some(step.event) == steps.first().map(|first| first.event)).count();
    for step in &steps {
        let Some(handler) = handlers.iter().find(|handler| handler.event == step.event) else {
            return broken(format!("nothing calls Flyball on {} ({shown})", step.event));
        };
        let output = match answer(host, handler, step, &setting.folder, &store.url()) {
            Ok(output) => output,
            Err(why) => return broken(why),
        };
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        last = understood(host, step.event, &out, &err, output.status.code().unwrap_or(-1));
        if let Understood::Broken(why) = &last {
            let said = crate::words::line(err.trim(), 200);
            return broken(format!("the host would take its answer for broken: {why}; {said}"));
        }
    }
    Ok(match last {
        Understood::Refuses(reason) | Understood::Stops(reason) => Installed::Armed(format!(
            "call {calls} of {calls} identical ones was refused through {shown}: {}",
            crate::words::line(&reason, 120)
        )),
        _ => Installed::Broken(
            format!("{calls} identical calls were all let through; does the policy switch it off?"),
            None,
        ),
    })
}

/// Runs a handler as the host does: by the shell or without one, in the project, with what the host has on stdin.
fn answer(host: Host, handler: &Handler, step: &Step, folder: &Path, store: &str) -> Result<Output, String> {
    let line = with_store(&handler.line, store);
    let mut command = match &line {
        Line::Shell(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        }
        Line::Exec(words) => {
            let (program, args) = words.split_first().ok_or("the handler names no program")?;
            let mut command = Command::new(program);
            command.args(args);
            command
        }
    };
    for name in host.root_variables() {
        command.env(name, folder);
    }
    command.envs(view::environment(host, folder)).envs(handler.env.iter().map(|(key, value)| (key, value)));
    command.env("FLYBALL_STORE", store).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("the command cannot be started: {error}"))?;
    wait(child, step.input.to_string())
}

/// The line with the store of the test in place of the one that it names, so that the test leaves nothing there.
fn with_store(line: &Line, store: &str) -> Line {
    let words = match line {
        Line::Shell(text) => shell_words(text),
        Line::Exec(words) => Some(words.clone()),
    };
    let named = words.and_then(|mut words| {
        let at = words.iter().position(|word| word == "--store")?;
        store.clone_into(words.get_mut(at + 1)?);
        // A variable before the program needs a shell.
        words.first().is_some_and(|first| !first.contains('=')).then_some(words)
    });
    named.map_or_else(|| line.clone(), Line::Exec)
}

/// Waits as long as a host would.
fn wait(mut child: Child, input: String) -> Result<Output, String> {
    let stdin = child.stdin.take();
    let id = child.id();
    let (send, ended) = channel();
    std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A hook that does not read its input is broken; that is seen by its answer.
            let _ = stdin.write_all(input.as_bytes());
        }
        let _ = send.send(child.wait_with_output());
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(output) => output.map_err(|error| error.to_string()),
        Err(_) => {
            if let Some(pid) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            Err(format!("no answer after {} s", PATIENCE.as_secs()))
        }
    }
}

/// A store that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        use std::hash::{BuildHasher, RandomState};
        let mark = RandomState::new().hash_one(std::process::id());
        let folder = std::env::temp_dir().join(format!("flyball-hook-test-{mark:016x}"));
        std::fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }

    fn mark(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("test.db").display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
