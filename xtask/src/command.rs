//! Runs commands: prints each command, streams its output and keeps it for counting.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Prints a line.
pub(crate) fn print_line(line: &str) {
    // A closed pipe is no reason to stop: the exit code still reports the result.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The root folder of the repository.
pub(crate) fn repo_root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    own.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repo_root().join("target"), PathBuf::from)
}

/// Result of a command.
pub(crate) struct CommandResult {
    pub(crate) ok: bool,
    /// Its output, stdout and stderr.
    pub(crate) output: String,
}

/// A command that runs in the repository's root folder.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(repo_root());
    command
}

/// `cargo` with arguments; the same cargo that started this task. Variables about this package are removed, because
/// build scripts would see them as changes and rebuild.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args);
    for (name, _) in std::env::vars_os() {
        let about_us = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
                .iter()
                .any(|start| name.starts_with(start))
        });
        if about_us {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The command as typed in a shell.
fn display_command(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut line = String::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            let value = value.to_string_lossy();
            let quote = if value.contains(' ') { "'" } else { "" };
            let _ = write!(line, "{}={quote}{value}{quote} ", key.to_string_lossy());
        }
    }
    line.push_str(&program.to_string_lossy());
    for arg in command.get_args() {
        let _ = write!(line, " {}", arg.to_string_lossy());
    }
    line
}

/// Prints the command, runs it and streams its output.
pub(crate) fn run(command: Command) -> Result<CommandResult, String> {
    run_with(command, |_| true)
}

/// Like [`run`], but prints only the lines selected by `wanted`; all are kept.
pub(crate) fn run_with(mut command: Command, wanted: fn(&str) -> bool) -> Result<CommandResult, String> {
    let line = display_command(&command);
    print_line(&format!("\n$ {line}"));
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start `{line}`: {error}"))?;
    let errors = child.stderr.take();
    let other = std::thread::spawn(move || errors.map(|pipe| copy_lines(pipe, wanted)).unwrap_or_default());
    let mut output = child.stdout.take().map(|pipe| copy_lines(pipe, wanted)).unwrap_or_default();
    output.push_str(&other.join().unwrap_or_default());
    let status = child.wait().map_err(|error| format!("cannot wait for `{line}`: {error}"))?;
    let took = start.elapsed().as_secs();
    print_line(&format!("  {} after {took} s", if status.success() { "ok" } else { "FAILED" }));
    Ok(CommandResult { ok: status.success(), output })
}

fn copy_lines(pipe: impl Read, wanted: fn(&str) -> bool) -> String {
    let mut all = String::new();
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        bytes.clear();
        if wanted(&line) {
            print_line(&line);
        }
        all.push_str(&line);
        all.push('\n');
    }
    all
}
