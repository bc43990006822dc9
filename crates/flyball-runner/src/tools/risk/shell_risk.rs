//! Assesses a command line: every command in it, including those that other commands start.

use super::programs::{assess_program, contains_word};
use super::{Risk, RiskFinding};
use flyball_shell::{
    Launch, RedirectKind, ShellWord, SimpleCommand, fd_launch, find_use, is_system_program, launch, parse,
};

/// Maximum nesting of command lines.
const MAX_DEPTH: usize = 8;
/// Variables that change the behavior of later programs.
const SENSITIVE_VARS: &str = "\
    PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS4 CDPATH PAGER EDITOR VISUAL BROWSER SHELL \
    HOME PYTHONPATH PYTHONSTARTUP PYTHONHOME PERL5LIB PERL5OPT RUBYOPT RUBYLIB NODE_OPTIONS LESSOPEN \
    LESSCLOSE RUSTC_WRAPPER";
/// Prefixes of such variables.
const SENSITIVE_VAR_PREFIXES: [&str; 4] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC"];

/// Findings in a command line; never empty.
pub(super) fn assess_command_line(text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<RiskFinding> {
    let mut assessor =
        ShellRiskAssessor { command_line: text, exists, changed_dir: false, findings: Vec::new() };
    assessor.assess_script(text, 0);
    if assessor.findings.is_empty() {
        assessor.add_finding(Risk::Safe, "it does nothing");
    }
    assessor.findings
}

pub(super) struct ShellRiskAssessor<'a> {
    /// The whole command line, for programs that read the output of others.
    command_line: &'a str,
    exists: &'a dyn Fn(&str) -> bool,
    /// Whether an earlier command changed the directory; then the existing files are unknown.
    changed_dir: bool,
    findings: Vec<RiskFinding>,
}

impl ShellRiskAssessor<'_> {
    pub(super) fn add_finding(&mut self, risk: Risk, why: impl Into<String>) {
        self.findings.push(RiskFinding::new(risk, why));
    }

    /// The whole command line.
    pub(super) fn command_line(&self) -> &str {
        self.command_line
    }

    fn assess_script(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return self.add_finding(Risk::Unknown, "the command is nested too deeply to assess");
        }
        let script = match parse(text) {
            Ok(script) => script,
            Err(why) => {
                return self.add_finding(Risk::Unknown, format!("the command cannot be assessed: {why}"));
            }
        };
        if let Some(construct) = script.unsupported {
            self.add_finding(Risk::Unknown, format!("the command contains {construct}"));
        }
        if script.substitutes {
            self.add_finding(Risk::Unknown, "it uses command substitution");
        }
        for command in &script.commands {
            self.assess_command(command, depth);
        }
    }

    fn assess_command(&mut self, command: &SimpleCommand, depth: usize) {
        for redirect in &command.redirects {
            match redirect.kind {
                RedirectKind::Read => {}
                RedirectKind::Append => self.assess_write(&redirect.target, Risk::Moderate),
                RedirectKind::Overwrite => self.assess_write(&redirect.target, Risk::Destructive),
            }
        }
        for assignment in command.assignments.iter().filter(|assignment| !assignment.is_harmless()) {
            self.assess_assignment(&assignment.name);
        }
        if let Some(program) = command.words.first().filter(|_| !command.assignments.is_empty()) {
            self.add_finding(Risk::Moderate, format!("it changes the environment of '{}'", program.text));
        }
        self.assess_words(&command.words, command.here.as_deref(), depth);
    }

    /// Assesses a command by its words.
    fn assess_words(&mut self, words: &[ShellWord], here: Option<&str>, depth: usize) {
        if depth > MAX_DEPTH {
            return self.add_finding(Risk::Unknown, "the command is nested too deeply to assess");
        }
        let Some((program, args)) = words.split_first() else { return };
        if !program.literal {
            return self.add_finding(Risk::Unknown, "the program is known only at run time");
        }
        self.assess_program(&program.text, args, here, depth);
    }

    fn assess_program(&mut self, path: &str, args: &[ShellWord], here: Option<&str>, depth: usize) {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "eval" => {
                self.add_finding(Risk::Unknown, "eval runs text as a command");
                self.assess_script(&join_words(args), depth + 1);
            }
            "trap" | "alias" | "enable" | "hash" => {
                self.add_finding(Risk::Unknown, format!("'{name}' changes what later commands do"));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.add_finding(Risk::Safe, format!("'{name}' sets variables"));
                args.iter().filter_map(assigned_name).for_each(|name| self.assess_assignment(name));
            }
            "cd" | "pushd" | "popd" => {
                self.changed_dir = true;
                self.add_finding(Risk::Safe, "it changes the directory");
            }
            "tee" => self.assess_tee(args),
            "find" => self.assess_find(args, depth),
            _ => match launch(name, args) {
                Some(launched) => self.assess_launch(name, launched, here, depth),
                None => {
                    if let Some(words) = fd_launch(name, args) {
                        self.assess_words(&words, None, depth + 1);
                    }
                    let finding =
                        assess_program(name, args, self.command_line(), is_system_program(path, name));
                    self.findings.push(finding);
                }
            },
        }
    }

    /// Assesses a program that starts another one.
    fn assess_launch(&mut self, name: &str, launched: Launch, here: Option<&str>, depth: usize) {
        if matches!(name, "sudo" | "doas") {
            self.add_finding(Risk::Moderate, "it runs as another user");
        }
        match launched {
            Launch::Words(words) => self.assess_words(&words, here, depth + 1),
            Launch::WithVariables { assignments, words } => {
                for assignment in assignments.iter().filter(|assignment| !assignment.is_harmless()) {
                    self.assess_assignment(&assignment.name);
                }
                if let Some(program) = words.first().filter(|_| !assignments.is_empty()) {
                    self.add_finding(
                        Risk::Moderate,
                        format!("it changes the environment of '{}'", program.text),
                    );
                }
                self.add_finding(Risk::Safe, format!("'{name}' starts a program"));
                self.assess_words(&words, here, depth + 1);
            }
            Launch::Script(text) => self.assess_script(&text, depth + 1),
            Launch::File => self.add_finding(Risk::Moderate, format!("{name} runs a script")),
            Launch::StandardInput => {
                self.add_finding(Risk::Unknown, format!("{name} runs code from its standard input"));
                if let Some(here) = here {
                    self.assess_script(here, depth + 1);
                }
            }
            Launch::Nothing => self.add_finding(Risk::Safe, format!("'{name}' only prints")),
            Launch::Opaque(why) => self.add_finding(Risk::Unknown, format!("'{name}' {why}")),
        }
    }

    /// Assesses `find`, which may delete, write, or start programs.
    fn assess_find(&mut self, args: &[ShellWord], depth: usize) {
        self.add_finding(Risk::Safe, "it looks for files");
        let found = find_use(args);
        if found.deletes {
            self.add_finding(Risk::Destructive, "it deletes every file it finds");
        }
        if found.writes {
            self.add_finding(Risk::Destructive, "it overwrites a file with its results");
        }
        if found.unclear {
            self.add_finding(Risk::Unknown, "the action of find is known only at run time");
        }
        for words in &found.launches {
            self.assess_words(words, None, depth + 1);
        }
    }

    fn assess_tee(&mut self, args: &[ShellWord]) {
        self.add_finding(Risk::Safe, "it copies its input");
        let append = args.iter().any(|word| matches!(word.text.as_str(), "-a" | "--append"));
        let risk = if append { Risk::Moderate } else { Risk::Destructive };
        for target in args.iter().filter(|word| !word.text.starts_with('-')) {
            self.assess_write(target, risk);
        }
    }

    /// Assesses a write to a file; `over` is the risk if the file exists.
    fn assess_write(&mut self, target: &ShellWord, over: Risk) {
        let path = target.text.as_str();
        if !target.literal {
            return self.add_finding(Risk::Unknown, "the file it writes is known only at run time");
        }
        if matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty") {
            return;
        }
        let relative = !path.starts_with('/');
        // A path under `~` or after a directory change is assumed to exist.
        let there = path.starts_with('~') || (relative && self.changed_dir) || (self.exists)(path);
        if !there {
            self.add_finding(Risk::Moderate, format!("it creates the file '{path}'"));
        } else if over == Risk::Destructive {
            self.add_finding(over, format!("it overwrites the file '{path}'"));
        } else {
            self.add_finding(over, format!("it appends to the file '{path}'"));
        }
    }

    fn assess_assignment(&mut self, name: &str) {
        if contains_word(SENSITIVE_VARS, name)
            || SENSITIVE_VAR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            self.add_finding(
                Risk::Unknown,
                format!("it sets '{name}', which changes what later commands do"),
            );
        }
    }
}

/// Name of the variable that a word sets.
fn assigned_name(word: &ShellWord) -> Option<&str> {
    let (name, _) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let first = name.chars().next()?;
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !first.is_ascii_digit();
    fits.then_some(name)
}

fn join_words(words: &[ShellWord]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
