//! The check: is a command known to change nothing?

use crate::find::find_use;
use crate::launch::{Launch, launch};
use crate::programs::{is_system_program, program_is_read_only};
use crate::syntax::{Assignment, Redirect, RedirectKind, SimpleCommand, parse};
use crate::word::Word;
use std::fmt;

/// How deep commands may be nested in the arguments of others.
const MAX_DEPTH: usize = 8;

/// Why a command is not known to be read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReadOnly(pub &'static str);

impl fmt::Display for NotReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

type Check = Result<(), NotReadOnly>;

fn effect(why: &'static str) -> Check {
    Err(NotReadOnly(why))
}

/// Checks a command line of a POSIX shell.
///
/// # Errors
/// If it is not known to be read-only, with the reason.
pub fn check_read_only(command: &str) -> Result<(), NotReadOnly> {
    script(command, 0)
}

/// Checks a program with its arguments, as it is started without a shell.
///
/// # Errors
/// If it is not known to be read-only, with the reason.
pub fn check_argv_read_only(argv: &[&str]) -> Result<(), NotReadOnly> {
    let words: Vec<Word> = argv.iter().map(|text| Word::literal(text)).collect();
    if words.is_empty() {
        return effect("no program is named");
    }
    program(&words, 0)
}

fn script(text: &str, depth: usize) -> Check {
    if depth > MAX_DEPTH {
        return effect("commands are nested too deeply");
    }
    let script = parse(text).map_err(NotReadOnly)?;
    if let Some(unsupported) = script.unsupported {
        return effect(unsupported);
    }
    if script.commands.is_empty()
        && !text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
    {
        return effect("nothing was recognized in the command");
    }
    script.commands.iter().try_for_each(|command| simple(command, depth))
}

fn simple(command: &SimpleCommand, depth: usize) -> Check {
    command.redirects.iter().try_for_each(redirect)?;
    let reads_line = command.words.first().and_then(Word::known) == Some("read");
    for assignment in &command.assignments {
        let fits = if command.words.is_empty() {
            is_local_variable(&assignment.name)
        } else {
            assignment.is_harmless() || (reads_line && assignment.name == "IFS")
        };
        if !fits {
            return effect("it sets a variable that later programs may use");
        }
    }
    if command.words.is_empty() { Ok(()) } else { program(&command.words, depth) }
}

/// Whether a variable belongs to the script alone. By convention those of programs and shells are in capitals; zsh has
/// a few in small letters.
pub(crate) fn is_local_variable(name: &str) -> bool {
    let known =
        ["prompt", "histchars", "argv", "status", "options", "aliases", "functions", "commands", "watch"];
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name != "_"
        && !name.ends_with("path")
        && !name.ends_with("proxy")
        && !known.contains(&name)
}

fn redirect(redirect: &Redirect) -> Check {
    let target = &redirect.target;
    match (redirect.kind, target.known()) {
        (RedirectKind::Read, _)
            if target.head.starts_with("/dev/tcp") || target.head.starts_with("/dev/udp") =>
        {
            effect("it opens a network connection")
        }
        (RedirectKind::Read, Some(_)) => Ok(()),
        (RedirectKind::Read, None) if !target.may_be_option() && !target.head.starts_with("/dev") => Ok(()),
        (RedirectKind::Read, None) => effect("it reads from a place that is known only at run time"),
        (_, Some("/dev/null" | "/dev/stdout" | "/dev/stderr")) => Ok(()),
        _ => effect("it redirects output to a file"),
    }
}

/// Checks a program with its arguments.
fn program(words: &[Word], depth: usize) -> Check {
    if depth > MAX_DEPTH {
        return effect("commands are nested too deeply");
    }
    let Some((first, args)) = words.split_first() else { return Ok(()) };
    let Some(path) = first.known() else {
        return effect("the program is known only at run time");
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    if !is_system_program(path, name) {
        return effect("the program is not one of the system's own");
    }
    if matches!(name, "sudo" | "doas" | "nohup" | "exec" | "setsid") {
        return effect("it changes how a program runs");
    }
    if name == "find" {
        return find(args, depth);
    }
    match launch(name, args) {
        Some(Launch::Nothing) => Ok(()),
        Some(Launch::Words(words)) => program(&words, depth + 1),
        Some(Launch::WithVariables { assignments, words }) => {
            if !assignments.iter().all(Assignment::is_harmless) {
                return effect("it sets a variable that later programs may use");
            }
            program(&words, depth + 1)
        }
        Some(Launch::Script(text)) => script(&text, depth + 1),
        Some(Launch::File | Launch::StandardInput) => effect("a shell runs a script"),
        Some(Launch::Opaque(_)) => effect("it runs a command that is not known"),
        None if program_is_read_only(name, args) => Ok(()),
        None => effect("the program, or one of its options, is not known to be read-only"),
    }
}

fn find(args: &[Word], depth: usize) -> Check {
    let found = find_use(args);
    if found.deletes || found.writes || found.unclear {
        return effect("find deletes or writes files");
    }
    for words in &found.launches {
        if words.is_empty() {
            return effect("find runs a command that is not known");
        }
        program(words, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "read_only_tests.rs"]
mod tests;
