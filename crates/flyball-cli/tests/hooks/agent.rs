//! A scripted host: it reads its settings, and runs what stands in them as it would, with real stdin.

use crate::kit;
use crate::voice::{Said, Voice};
use flyball_adapt::hook::settings::{Handler, Line, Ready, armed, places};
use flyball_adapt::hook::{Host, Understood, understood};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A host at work in a project.
pub(crate) struct Agent {
    pub(crate) voice: Voice,
    pub(crate) folder: PathBuf,
    pub(crate) stamp: u64,
    handlers: Vec<Handler>,
}

/// What a hook said, and what the host makes of it.
pub(crate) struct Heard {
    pub(crate) means: Understood,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Heard {
    /// Whether the host does not go on.
    pub(crate) fn stopped(&self) -> bool {
        matches!(self.means, Understood::Refuses(_) | Understood::Stops(_))
    }
}

/// Installs the hook in a folder of its own.
pub(crate) fn installed(host: Host, name: &str) -> PathBuf {
    let folder = kit::folder(&format!("hooks-{}-{name}", host.as_str()));
    let run = kit::flyball(&folder, &["hook", host.as_str(), "install"], b"", &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    folder
}

/// The file that the hooks stand in.
pub(crate) fn settings(host: Host, folder: &Path) -> PathBuf {
    folder.join(places(host)[0].project)
}

impl Agent {
    /// A host in a project whose settings have the hook.
    pub(crate) fn new(host: Host, folder: &Path) -> Self {
        let text = std::fs::read_to_string(settings(host, folder)).unwrap();
        let Ready::Yes(handlers) = armed(host, &text, host.shell()).unwrap() else { panic!("not armed") };
        let voice = Voice { host, session: "s1".to_owned(), folder: folder.to_str().unwrap().to_owned() };
        Agent { voice, folder: folder.to_path_buf(), stamp: 0, handlers }
    }

    /// The name of its session in the store.
    pub(crate) fn session(&self) -> String {
        format!("{}:{}", self.voice.host.as_str(), self.voice.session)
    }

    /// The next number for what must differ from call to call.
    pub(crate) fn tick(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// The command that the settings have for an event.
    pub(crate) fn command(&self, event: &str) -> Command {
        let handler = self.handlers.iter().find(|handler| handler.event == event);
        let handler = handler.unwrap_or_else(|| panic!("nothing is installed for {event}"));
        let mut command = match &handler.line {
            Line::Shell(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
            Line::Exec(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        };
        command.current_dir(&self.folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("XDG_STATE_HOME", kit::state(&self.folder));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Calls the hook for what is said.
    pub(crate) fn hear(&self, said: &Said) -> Heard {
        let (event, input) = said;
        self.hear_bytes(event, input.to_string().as_bytes())
    }

    /// Calls the hook with any bytes.
    pub(crate) fn hear_bytes(&self, event: &str, input: &[u8]) -> Heard {
        let output = fed(self.command(event), input);
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().expect("an exit code, not a signal");
        let means = understood(self.voice.host, event, &out, &err, code);
        assert!(!matches!(means, Understood::Broken(_)), "{event}: {means:?} {out} {err}");
        Heard { means, out, err }
    }
}

/// Runs a command with bytes on stdin, to its end.
pub(crate) fn fed(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let bytes = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&bytes);
    });
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer");
    output
}
