//! A scripted host: reads its settings and runs the commands in them with real stdin.

use crate::command_harness;
use crate::host_payloads::{HostInput, HostPayloads};
use flyball_integrations::hook::settings::{
    HandlerCommand, HookHandler, HookReadiness, check_armed, settings_paths,
};
use flyball_integrations::hook::{Host, HostReaction, host_reaction};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A host that works in a project.
pub(crate) struct ScriptedHost {
    pub(crate) payloads: HostPayloads,
    pub(crate) folder: PathBuf,
    pub(crate) stamp: u64,
    handlers: Vec<HookHandler>,
}

/// The output of a hook, and the host's reaction.
pub(crate) struct HookResult {
    pub(crate) reaction: HostReaction,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl HookResult {
    /// Whether the host stops.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.reaction, HostReaction::Blocks(_) | HostReaction::Stops(_))
    }
}

/// Installs the hook in a new directory.
pub(crate) fn install_hook(host: Host, name: &str) -> PathBuf {
    let folder = command_harness::test_dir(&format!("hooks-{}-{name}", host.as_str()));
    let run = command_harness::run_flyball(&folder, &["hook", host.as_str(), "install"], b"", &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    folder
}

/// The settings file with the hooks.
pub(crate) fn settings_file(host: Host, folder: &Path) -> PathBuf {
    folder.join(settings_paths(host)[0].project)
}

impl ScriptedHost {
    /// A host in a project whose settings have the hook.
    pub(crate) fn new(host: Host, folder: &Path) -> Self {
        let text = std::fs::read_to_string(settings_file(host, folder)).unwrap();
        let HookReadiness::Armed(handlers) = check_armed(host, &text, host.shell_tool()).unwrap() else {
            panic!("not armed")
        };
        let payloads =
            HostPayloads { host, session: "s1".to_owned(), folder: folder.to_str().unwrap().to_owned() };
        ScriptedHost { payloads, folder: folder.to_path_buf(), stamp: 0, handlers }
    }

    /// Name of its session in the store.
    pub(crate) fn session(&self) -> String {
        format!("{}:{}", self.payloads.host.as_str(), self.payloads.session)
    }

    /// A unique number for each call.
    pub(crate) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// The command in the settings for an event.
    pub(crate) fn command(&self, event: &str) -> Command {
        let handler = self.handlers.iter().find(|handler| handler.event == event);
        let handler = handler.unwrap_or_else(|| panic!("nothing is installed for {event}"));
        let mut command = match &handler.command {
            HandlerCommand::Shell(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
            HandlerCommand::Exec(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        };
        command.current_dir(&self.folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("XDG_STATE_HOME", command_harness::state_dir(&self.folder));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Calls the hook with a payload.
    pub(crate) fn call_hook(&self, payload: &HostInput) -> HookResult {
        let (event, input) = payload;
        self.call_hook_with_bytes(event, input.to_string().as_bytes())
    }

    /// Calls the hook with arbitrary bytes.
    pub(crate) fn call_hook_with_bytes(&self, event: &str, input: &[u8]) -> HookResult {
        let output = run_with_stdin(self.command(event), input);
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().expect("an exit code, not a signal");
        let means = host_reaction(self.payloads.host, event, &out, &err, code);
        assert!(!matches!(means, HostReaction::HookFailed(_)), "{event}: {means:?} {out} {err}");
        HookResult { reaction: means, out, err }
    }
}

/// Runs a command to its end with bytes on stdin.
pub(crate) fn run_with_stdin(mut command: Command, input: &[u8]) -> Output {
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
