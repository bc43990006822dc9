//! The read-only check for commands.

use crate::find::find_use;
use crate::launch::{Launch, launch};
use crate::programs::{is_system_program, program_is_read_only};
use crate::syntax::{Assignment, Redirect, RedirectKind, SimpleCommand, parse};
use crate::word::ShellWord;
use std::fmt;

/// Maximum nesting depth of commands in arguments.
const MAX_DEPTH: usize = 8;

/// The reason why a command is not known to be read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReadOnly(pub &'static str);

impl fmt::Display for NotReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

type ReadOnlyCheck = Result<(), NotReadOnly>;

fn not_read_only(why: &'static str) -> ReadOnlyCheck {
    Err(NotReadOnly(why))
}

/// Checks a command line of a POSIX shell.
///
/// # Errors
/// If it is not known to be read-only, with the reason.
pub fn check_read_only(command: &str) -> Result<(), NotReadOnly> {
    check_script(command, 0)
}

/// Checks a program and its arguments, started without a shell.
///
/// # Errors
/// If it is not known to be read-only, with the reason.
pub fn check_argv_read_only(argv: &[&str]) -> Result<(), NotReadOnly> {
    let words: Vec<ShellWord> = argv.iter().map(|text| ShellWord::literal(text)).collect();
    if words.is_empty() {
        return not_read_only("no program is named");
    }
    check_program(&words, 0)
}

fn check_script(text: &str, depth: usize) -> ReadOnlyCheck {
    if depth > MAX_DEPTH {
        return not_read_only("commands are nested too deeply");
    }
    let script = parse(text).map_err(NotReadOnly)?;
    if let Some(unsupported) = script.unsupported {
        return not_read_only(unsupported);
    }
    if script.commands.is_empty()
        && !text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
    {
        return not_read_only("nothing was recognized in the command");
    }
    script.commands.iter().try_for_each(|command| check_command(command, depth))
}

fn check_command(command: &SimpleCommand, depth: usize) -> ReadOnlyCheck {
    command.redirects.iter().try_for_each(check_redirect)?;
    let reads_line = command.words.first().and_then(ShellWord::known) == Some("read");
    for assignment in &command.assignments {
        let fits = if command.words.is_empty() {
            is_local_variable(&assignment.name)
        } else {
            assignment.is_harmless() || (reads_line && assignment.name == "IFS")
        };
        if !fits {
            return not_read_only("it sets a variable that later programs may use");
        }
    }
    if command.words.is_empty() { Ok(()) } else { check_program(&command.words, depth) }
}

/// Whether a variable is local to the script. By convention, variables of programs and shells are uppercase; zsh has a
/// few lowercase ones.
pub(crate) fn is_local_variable(name: &str) -> bool {
    let known =
        ["prompt", "histchars", "argv", "status", "options", "aliases", "functions", "commands", "watch"];
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name != "_"
        && !name.ends_with("path")
        && !name.ends_with("proxy")
        && !known.contains(&name)
}

fn check_redirect(redirect: &Redirect) -> ReadOnlyCheck {
    let target = &redirect.target;
    match (redirect.kind, target.known()) {
        (RedirectKind::Read, _)
            if target.head.starts_with("/dev/tcp") || target.head.starts_with("/dev/udp") =>
        {
            not_read_only("it opens a network connection")
        }
        (RedirectKind::Read, Some(_)) => Ok(()),
        (RedirectKind::Read, None) if !target.may_be_option() && !target.head.starts_with("/dev") => Ok(()),
        (RedirectKind::Read, None) => not_read_only("it reads from a path that is known only at run time"),
        (_, Some("/dev/null" | "/dev/stdout" | "/dev/stderr")) => Ok(()),
        _ => not_read_only("it redirects output to a file"),
    }
}

/// Checks a program and its arguments.
fn check_program(words: &[ShellWord], depth: usize) -> ReadOnlyCheck {
    if depth > MAX_DEPTH {
        return not_read_only("commands are nested too deeply");
    }
    let Some((first, args)) = words.split_first() else { return Ok(()) };
    let Some(path) = first.known() else {
        return not_read_only("the program is known only at run time");
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    if !is_system_program(path, name) {
        return not_read_only("the program is not a system program");
    }
    if matches!(name, "sudo" | "doas" | "nohup" | "exec" | "setsid") {
        return not_read_only("it changes how a program runs");
    }
    if name == "find" {
        return check_find(args, depth);
    }
    match launch(name, args) {
        Some(Launch::Nothing) => Ok(()),
        Some(Launch::Words(words)) => check_program(&words, depth + 1),
        Some(Launch::WithVariables { assignments, words }) => {
            if !assignments.iter().all(Assignment::is_harmless) {
                return not_read_only("it sets a variable that later programs may use");
            }
            check_program(&words, depth + 1)
        }
        Some(Launch::Script(text)) => check_script(&text, depth + 1),
        Some(Launch::File | Launch::StandardInput) => not_read_only("a shell runs a script"),
        Some(Launch::Opaque(_)) => not_read_only("it runs an unknown command"),
        None if program_is_read_only(name, args) => Ok(()),
        None => not_read_only("the program, or one of its options, is not known to be read-only"),
    }
}

fn check_find(args: &[ShellWord], depth: usize) -> ReadOnlyCheck {
    let found = find_use(args);
    if found.deletes || found.writes || found.unclear {
        return not_read_only("find deletes or writes files");
    }
    for words in &found.launches {
        if words.is_empty() {
            return not_read_only("find runs an unknown command");
        }
        check_program(words, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "read_only_tests.rs"]
mod tests;
