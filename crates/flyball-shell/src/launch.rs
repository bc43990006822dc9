//! Programs that start other programs: `env`, `timeout`, `xargs`, `sh -c` and the like.

use crate::options::AllowedOptions;
use crate::syntax::{Assignment, after_equals, is_identifier};
use crate::word::ShellWord;

/// A program or script that another program starts.
#[derive(Debug, PartialEq, Eq)]
pub enum Launch {
    /// Another program with its arguments.
    Words(Vec<ShellWord>),
    /// Another program, with variables set for it.
    WithVariables {
        /// The variables.
        assignments: Vec<Assignment>,
        /// The program with its arguments; empty if it only prints the variables.
        words: Vec<ShellWord>,
    },
    /// A script for a shell.
    Script(String),
    /// A script file for a shell.
    File,
    /// A script that a shell reads from its standard input.
    StandardInput,
    /// Nothing; the program only prints.
    Nothing,
    /// Something that is not visible in the command line.
    Opaque(&'static str),
}

/// Variables that affect only how programs print.
const HARMLESS_VARIABLES: &str =
    "LANG LANGUAGE TZ NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR COLUMNS LINES";

const SHELLS: &str = "sh bash dash zsh ksh ash";
const OPAQUE_LAUNCHERS: &str = "su ssh chroot nsenter unshare parallel expect at batch crontab script systemd-run flock strace \
                      ltrace gdb fish pwsh powershell cmd chrt runuser pkexec";

/// Determines the program or script that a program starts; `None` if it is not known to start another program.
#[must_use]
pub fn launch(name: &str, args: &[ShellWord]) -> Option<Launch> {
    let is_among = |list: &str| crate::options::contains_word(list, name);
    if is_among(SHELLS) {
        return Some(shell_launch(args));
    }
    if name == "crontab" && matches!(args, [only] if only.known() == Some("-l")) {
        return None;
    }
    if is_among(OPAQUE_LAUNCHERS) {
        return Some(Launch::Opaque("runs commands that are not visible here"));
    }
    let allowed = leading_options(name)?;
    if name == "command" && args.first().is_some_and(|word| matches!(word.known(), Some("-v" | "-V"))) {
        return Some(Launch::Nothing);
    }
    let Some(matched) = allowed.matches(args, true) else {
        return Some(Launch::Opaque("has unknown options"));
    };
    let rest = args.get(matched.leading..).unwrap_or_default();
    Some(match name {
        "timeout" => launch_words(rest.get(1..).unwrap_or_default()),
        "env" => env_launch(rest),
        "xargs" => xargs_launch(args.get(..matched.leading).unwrap_or_default(), rest),
        "watch" => {
            join_known_words(rest).map_or(Launch::Opaque("runs text that is not known"), Launch::Script)
        }
        _ => launch_words(rest),
    })
}

/// The options that a launcher accepts before the program it starts.
fn leading_options(name: &str) -> Option<AllowedOptions> {
    let (flags, valued, long) = match name {
        "command" => ("p", "", ""),
        "builtin" | "busybox" | "nohup" => ("", "", ""),
        "exec" => ("cl", "a", ""),
        "setsid" => ("cfw", "", "--fork --wait --ctty"),
        // Options that write a report to a file are excluded.
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
    Some(AllowedOptions { flags, valued, long, operands: usize::MAX })
}

fn launch_words(words: &[ShellWord]) -> Launch {
    if words.is_empty() { Launch::Nothing } else { Launch::Words(words.to_vec()) }
}

/// `env`: variables may precede the program. A single `-` clears the environment.
fn env_launch(args: &[ShellWord]) -> Launch {
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

/// `xargs`: its input becomes arguments, or replaces a placeholder in them.
fn xargs_launch(options: &[ShellWord], command: &[ShellWord]) -> Launch {
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
        return Launch::Opaque("has unknown options");
    }
    Launch::Words(match replaced {
        Some(mark) => command.iter().map(|word| word.with_placeholder(mark)).collect(),
        None => command.iter().cloned().chain([ShellWord::unknown()]).collect(),
    })
}

/// A shell: the script after `-c`, a script file, or its standard input.
fn shell_launch(args: &[ShellWord]) -> Launch {
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
            // These options change the grammar.
            "-O" | "+O" => return Launch::Opaque("sets shell options"),
            _ if text.starts_with("--") => return Launch::Opaque("may run another file"),
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
fn join_known_words(words: &[ShellWord]) -> Option<String> {
    let known = words.iter().map(ShellWord::known).collect::<Option<Vec<_>>>()?;
    Some(known.join(" "))
}

/// Whether a variable affects only how programs print and its value names no program or file.
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
        _ => plain && (name.starts_with("LC_") || crate::options::contains_word(HARMLESS_VARIABLES, name)),
    }
}
