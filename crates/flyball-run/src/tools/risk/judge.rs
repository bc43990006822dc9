//! Judges a command line: every command in it, also those that other commands start.

use super::programs::{is_among, rate};
use super::{Finding, Risk};
use flyball_shell::{
    Launch, RedirectKind, SimpleCommand, Word, fd_launch, find_use, is_system_program, launch, parse,
};

/// How deep command lines may be nested in each other.
const DEPTH: usize = 8;
/// Variables that change what the programs after them do.
const POWERFUL: &str = "\
    PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS4 CDPATH PAGER EDITOR VISUAL BROWSER SHELL \
    HOME PYTHONPATH PYTHONSTARTUP PYTHONHOME PERL5LIB PERL5OPT RUBYOPT RUBYLIB NODE_OPTIONS LESSOPEN \
    LESSCLOSE RUSTC_WRAPPER";
/// Beginnings of such variables.
const POWERFUL_BEGINNINGS: [&str; 4] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC"];

/// What is found in a command line; never empty.
pub(super) fn judge(text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut judge = Judge { whole: text, exists, moved: false, findings: Vec::new() };
    judge.line(text, 0);
    if judge.findings.is_empty() {
        judge.find(Risk::Safe, "it does nothing");
    }
    judge.findings
}

pub(super) struct Judge<'a> {
    /// The whole command line, for programs that read what others write.
    whole: &'a str,
    exists: &'a dyn Fn(&str) -> bool,
    /// Whether a command before has changed the folder; then nobody knows which files there are.
    moved: bool,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    pub(super) fn find(&mut self, risk: Risk, why: impl Into<String>) {
        self.findings.push(Finding::new(risk, why));
    }

    /// The whole command line.
    pub(super) fn whole(&self) -> &str {
        self.whole
    }

    fn line(&mut self, text: &str, depth: usize) {
        if depth > DEPTH {
            return self.find(Risk::Unknown, "the command is nested too deeply to be judged");
        }
        let script = match parse(text) {
            Ok(script) => script,
            Err(why) => return self.find(Risk::Unknown, format!("the command cannot be judged: {why}")),
        };
        if let Some(construct) = script.unsupported {
            self.find(Risk::Unknown, format!("the command contains {construct}"));
        }
        if script.substitutes {
            self.find(Risk::Unknown, "it puts the output of one command into another");
        }
        for command in &script.commands {
            self.command(command, depth);
        }
    }

    fn command(&mut self, command: &SimpleCommand, depth: usize) {
        for redirect in &command.redirects {
            match redirect.kind {
                RedirectKind::Read => {}
                RedirectKind::Append => self.write(&redirect.target, Risk::Moderate),
                RedirectKind::Overwrite => self.write(&redirect.target, Risk::Destructive),
            }
        }
        for assignment in command.assignments.iter().filter(|assignment| !assignment.is_harmless()) {
            self.assign(&assignment.name);
        }
        if let Some(program) = command.words.first().filter(|_| !command.assignments.is_empty()) {
            self.find(Risk::Moderate, format!("it changes the environment of '{}'", program.text));
        }
        self.words(&command.words, command.here.as_deref(), depth);
    }

    /// Judges a command by its words.
    fn words(&mut self, words: &[Word], here: Option<&str>, depth: usize) {
        if depth > DEPTH {
            return self.find(Risk::Unknown, "the command is nested too deeply to be judged");
        }
        let Some((program, args)) = words.split_first() else { return };
        if !program.literal {
            return self.find(Risk::Unknown, "which program it runs is known only when it runs");
        }
        self.program(&program.text, args, here, depth);
    }

    fn program(&mut self, path: &str, args: &[Word], here: Option<&str>, depth: usize) {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "eval" => {
                self.find(Risk::Unknown, "eval runs a text as a command");
                self.line(&joined(args), depth + 1);
            }
            "trap" | "alias" | "enable" | "hash" => {
                self.find(Risk::Unknown, format!("'{name}' changes what later commands do"));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.find(Risk::Safe, format!("'{name}' sets variables"));
                args.iter().filter_map(assignment).for_each(|name| self.assign(name));
            }
            "cd" | "pushd" | "popd" => {
                self.moved = true;
                self.find(Risk::Safe, "it changes the folder");
            }
            "tee" => self.tee(args),
            "find" => self.search(args, depth),
            _ => match launch(name, args) {
                Some(launched) => self.launched(name, launched, here, depth),
                None => {
                    if let Some(words) = fd_launch(name, args) {
                        self.words(&words, None, depth + 1);
                    }
                    let finding = rate(name, args, self.whole(), is_system_program(path, name));
                    self.findings.push(finding);
                }
            },
        }
    }

    /// A program that starts another one.
    fn launched(&mut self, name: &str, launched: Launch, here: Option<&str>, depth: usize) {
        if matches!(name, "sudo" | "doas") {
            self.find(Risk::Moderate, "it runs with the rights of another user");
        }
        match launched {
            Launch::Words(words) => self.words(&words, here, depth + 1),
            Launch::WithVariables { assignments, words } => {
                for assignment in assignments.iter().filter(|assignment| !assignment.is_harmless()) {
                    self.assign(&assignment.name);
                }
                if let Some(program) = words.first().filter(|_| !assignments.is_empty()) {
                    self.find(Risk::Moderate, format!("it changes the environment of '{}'", program.text));
                }
                self.find(Risk::Safe, format!("'{name}' starts a program"));
                self.words(&words, here, depth + 1);
            }
            Launch::Script(text) => self.line(&text, depth + 1),
            Launch::File => self.find(Risk::Moderate, format!("{name} runs a script")),
            Launch::StandardInput => {
                self.find(Risk::Unknown, format!("{name} runs what it reads from its input"));
                if let Some(here) = here {
                    self.line(here, depth + 1);
                }
            }
            Launch::Nothing => self.find(Risk::Safe, format!("'{name}' only prints")),
            Launch::Opaque(why) => self.find(Risk::Unknown, format!("'{name}' {why}")),
        }
    }

    /// `find`: it deletes, writes, or starts a program for what it finds.
    fn search(&mut self, args: &[Word], depth: usize) {
        self.find(Risk::Safe, "it looks for files");
        let found = find_use(args);
        if found.deletes {
            self.find(Risk::Destructive, "it deletes every file that it finds");
        }
        if found.writes {
            self.find(Risk::Destructive, "it writes what it finds over a file");
        }
        if found.unclear {
            self.find(Risk::Unknown, "what find does is known only when it runs");
        }
        for words in &found.launches {
            self.words(words, None, depth + 1);
        }
    }

    fn tee(&mut self, args: &[Word]) {
        self.find(Risk::Safe, "it copies its input");
        let append = args.iter().any(|word| matches!(word.text.as_str(), "-a" | "--append"));
        let risk = if append { Risk::Moderate } else { Risk::Destructive };
        for target in args.iter().filter(|word| !word.text.starts_with('-')) {
            self.write(target, risk);
        }
    }

    /// A file that is written; `over` is the risk if it is there already.
    fn write(&mut self, target: &Word, over: Risk) {
        let path = target.text.as_str();
        if !target.literal {
            return self.find(Risk::Unknown, "which file it writes is known only when it runs");
        }
        if matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
            return;
        }
        let relative = !path.starts_with('/');
        // A device is always there.
        let there = path.starts_with('~') || (relative && self.moved) || (self.exists)(path);
        if !there {
            self.find(Risk::Moderate, format!("it writes the new file '{path}'"));
        } else if over == Risk::Destructive {
            self.find(over, format!("it writes over the file '{path}'"));
        } else {
            self.find(over, format!("it adds to the file '{path}'"));
        }
    }

    fn assign(&mut self, name: &str) {
        if is_among(POWERFUL, name) || POWERFUL_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        {
            self.find(Risk::Unknown, format!("it sets '{name}', which changes what later commands do"));
        }
    }
}

/// The name of the variable that a word sets.
fn assignment(word: &Word) -> Option<&str> {
    let (name, _) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let first = name.chars().next()?;
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !first.is_ascii_digit();
    fits.then_some(name)
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
