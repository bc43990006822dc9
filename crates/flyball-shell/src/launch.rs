//! Programs that start other programs: `env`, `timeout`, `xargs`, `sh -c` and the like.

use crate::options::Allowed;
use crate::syntax::{Assignment, after_equals, is_identifier};
use crate::word::Word;

/// What a program starts.
#[derive(Debug, PartialEq, Eq)]
pub enum Launch {
    /// Another program with its arguments.
    Words(Vec<Word>),
    /// Another program, with variables set for it.
    WithVariables {
        /// The variables.
        assignments: Vec<Assignment>,
        /// The program with its arguments; empty if it only prints the variables.
        words: Vec<Word>,
    },
    /// A script that a shell interprets.
    Script(String),
    /// A script file that a shell interprets.
    File,
    /// Whatever a shell reads from its standard input.
    StandardInput,
    /// Nothing; the program only prints something.
    Nothing,
    /// Something that the command line does not show.
    Opaque(&'static str),
}

/// Variables that programs take into account only when they print.
const HARMLESS_VARIABLES: &str =
    "LANG LANGUAGE TZ NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR COLUMNS LINES";

const SHELLS: &str = "sh bash dash zsh ksh ash";
const UNSEEN: &str = "su ssh chroot nsenter unshare parallel expect at batch crontab script systemd-run flock strace \
                      ltrace gdb fish pwsh powershell cmd chrt runuser pkexec";

/// What a program starts; `None` if it is not known to start any other program.
#[must_use]
pub fn launch(name: &str, args: &[Word]) -> Option<Launch> {
    let is_among = |list: &str| crate::options::is_among(list, name);
    if is_among(SHELLS) {
        return Some(shell(args));
    }
    if name == "crontab" && matches!(args, [only] if only.known() == Some("-l")) {
        return None;
    }
    if is_among(UNSEEN) {
        return Some(Launch::Opaque("runs commands that cannot be seen from here"));
    }
    let allowed = leading_options(name)?;
    if name == "command" && args.first().is_some_and(|word| matches!(word.known(), Some("-v" | "-V"))) {
        return Some(Launch::Nothing);
    }
    let Some(matched) = allowed.matches(args, true) else {
        return Some(Launch::Opaque("has options that are not known"));
    };
    let rest = args.get(matched.leading..).unwrap_or_default();
    Some(match name {
        "timeout" => words(rest.get(1..).unwrap_or_default()),
        "env" => after_assignments(rest),
        "xargs" => from_input(args.get(..matched.leading).unwrap_or_default(), rest),
        "watch" => joined(rest).map_or(Launch::Opaque("runs a text that is not known"), Launch::Script),
        _ => words(rest),
    })
}

/// The options that a launcher may have before the program that it starts.
fn leading_options(name: &str) -> Option<Allowed> {
    let (flags, valued, long) = match name {
        "command" => ("p", "", ""),
        "builtin" | "busybox" | "nohup" => ("", "", ""),
        "exec" => ("cl", "a", ""),
        "setsid" => ("cfw", "", "--fork --wait --ctty"),
        // The options that write a report to a file are left out.
        "time" => ("pvlq", "f", "--portability --verbose --format="),
        "caffeinate" => ("dimsu", "tw", ""),
        "nice" => ("0123456789", "n", "--adjustment="),
        "ionice" => ("t", "cn", "--class= --classdata= --ignore"),
        "stdbuf" => ("", "ioe", "--input= --output= --error="),
        "timeout" => ("fpv", "ks", "--kill-after= --signal= --foreground --preserve-status --verbose"),
        "env" => ("i0v", "uC", "--ignore-environment --null --unset= --chdir= --debug"),
        "xargs" => (
            "0rtx",
            "nLPIdsEa",
            "--null --no-run-if-empty --verbose --max-args= --max-procs= --max-lines= --delimiter= --replace= \
             --arg-file=",
        ),
        "watch" => ("tdbegcw", "nq", "--interval= --no-title --color --exec --differences"),
        "sudo" | "doas" => (
            "nEHkSbP",
            "ughpCrtTUDR",
            "--user= --group= --host= --non-interactive --preserve-env --set-home --background",
        ),
        _ => return None,
    };
    Some(Allowed { flags, valued, long, operands: usize::MAX })
}

fn words(words: &[Word]) -> Launch {
    if words.is_empty() { Launch::Nothing } else { Launch::Words(words.to_vec()) }
}

/// `env`: variables may be set in front of the program. `-` alone clears the environment.
fn after_assignments(args: &[Word]) -> Launch {
    let args = match args.split_first() {
        Some((first, rest)) if first.known() == Some("-") => rest,
        _ => args,
    };
    let mut assignments = Vec::new();
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        let Some((name, _)) = first.head.split_once('=').filter(|(name, _)| is_identifier(name)) else {
            break;
        };
        assignments.push(Assignment { name: name.to_owned(), value: after_equals(first.clone()) });
        rest = after;
    }
    Launch::WithVariables { assignments, words: rest.to_vec() }
}

/// `xargs`: what it reads becomes arguments, or replaces a mark in them.
fn from_input(options: &[Word], command: &[Word]) -> Launch {
    if command.is_empty() {
        return Launch::Nothing;
    }
    let text = |at: usize| options.get(at).map(|word| word.text.as_str()).unwrap_or_default();
    let replaced = (0..options.len()).find_map(|at| match text(at) {
        "-I" | "--replace" => Some(text(at + 1)),
        option => option.strip_prefix("--replace=").or_else(|| {
            let attached = option.strip_prefix("-I")?;
            Some(attached)
        }),
    });
    let bundled = options.iter().any(|word| {
        let text = word.text.as_str();
        !text.starts_with("--") && text.starts_with('-') && !text.starts_with("-I") && text.contains('I')
    });
    if bundled {
        return Launch::Opaque("has options that are not known");
    }
    Launch::Words(match replaced {
        Some(mark) => command.iter().map(|word| word.with_placeholder(mark)).collect(),
        None => command.iter().cloned().chain([Word::unknown()]).collect(),
    })
}

/// A shell: the script after `-c`, a script file, or its standard input.
fn shell(args: &[Word]) -> Launch {
    let (mut script, mut standard_input) = (false, false);
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        let Some(text) = first.known() else {
            return Launch::Opaque("runs a script that is not known");
        };
        rest = after;
        match text {
            "--version" | "--help" => return Launch::Nothing,
            "--" | "-" => break,
            "--norc" | "--noprofile" | "--posix" | "--login" => {}
            "-o" | "+o" => rest = after.get(1..).unwrap_or_default(),
            // It changes the grammar.
            "-O" | "+O" => return Launch::Opaque("sets options of the shell"),
            _ if text.starts_with("--") => return Launch::Opaque("runs a file of its own choice"),
            _ if text.starts_with(['-', '+']) => {
                script |= text.contains('c');
                standard_input |= text.contains('s');
            }
            _ => {
                rest = args.get(args.len() - after.len() - 1..).unwrap_or_default();
                break;
            }
        }
    }
    match rest.first() {
        Some(text) if script => {
            text.known().map_or(Launch::Opaque("runs a script that is not known"), |text| {
                Launch::Script(text.to_owned())
            })
        }
        Some(_) if standard_input => Launch::StandardInput,
        Some(_) => Launch::File,
        None if script => Launch::Opaque("runs a script that is not known"),
        None => Launch::StandardInput,
    }
}

/// The words as a shell would see them, if all are known.
fn joined(words: &[Word]) -> Option<String> {
    let known = words.iter().map(Word::known).collect::<Option<Vec<_>>>()?;
    Some(known.join(" "))
}

/// Whether a variable changes only how programs print, with a value that names no program or file.
pub(crate) fn is_harmless_assignment(name: &str, value: &str) -> bool {
    let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:@+-".contains(&byte));
    match name {
        "PAGER" | "GIT_PAGER" | "MANPAGER" | "BAT_PAGER" | "GH_PAGER" => matches!(value, "" | "cat"),
        "GIT_OPTIONAL_LOCKS" | "GIT_TERMINAL_PROMPT" => matches!(value, "0" | "1"),
        "TERM" => value == "dumb",
        "TZ" => {
            plain
                || value
                    .split('/')
                    .all(|part| part.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_'))
        }
        _ => plain && (name.starts_with("LC_") || crate::options::is_among(HARMLESS_VARIABLES, name)),
    }
}
