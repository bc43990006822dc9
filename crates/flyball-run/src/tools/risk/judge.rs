//! Judges a command line: every command in it, also those that other commands start.

use super::line::{Command, Redirect, Word, parse};
use super::programs::{is_among, is_known_place, rate};
use super::{Finding, Risk};

/// How deep command lines may be nested in each other.
const DEPTH: usize = 8;
/// How long a command line may be, in bytes.
const LENGTH: usize = 256 * 1024;
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
    if text.len() > LENGTH {
        judge.find(Risk::Unknown, "the command is too long to be judged");
    } else {
        judge.line(text, 0);
    }
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
        let line = match parse(text) {
            Ok(line) => line,
            Err(why) => return self.find(Risk::Unknown, format!("the command cannot be read: {why}")),
        };
        if let Some(odd) = line.odd {
            self.find(Risk::Unknown, format!("nobody can tell what the command does: {odd}"));
        }
        for command in &line.commands {
            self.command(command, depth);
        }
        for inner in &line.inner {
            self.line(inner, depth + 1);
        }
    }

    fn command(&mut self, command: &Command, depth: usize) {
        for (kind, target) in &command.redirects {
            match kind {
                Redirect::Read => {}
                Redirect::Append => self.write(target, Risk::Moderate),
                Redirect::Over => self.write(target, Risk::Destructive),
            }
        }
        self.words(&command.words, command.here.as_deref(), depth);
    }

    /// Judges a command by its words.
    fn words(&mut self, words: &[Word], here: Option<&str>, depth: usize) {
        if depth > DEPTH {
            return self.find(Risk::Unknown, "the command is nested too deeply to be judged");
        }
        let mut words = words;
        // Keywords of the shell, and assignments, before the program.
        let mut assigned = false;
        while let Some((first, rest)) = words.split_first() {
            match first.text.as_str() {
                "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "{" | "}" | "fi"
                | "done" | "esac"
                    if !first.quoted => {}
                "for" | "select" if !first.quoted => return,
                "case" | "function" | "coproc" if !first.quoted => {
                    return self
                        .find(Risk::Unknown, format!("nobody can tell what '{}' leads to", first.text));
                }
                _ if assignment(first).is_some() => {
                    assigned = true;
                    self.assign(first);
                }
                _ => break,
            }
            words = rest;
        }
        let Some((program, args)) = words.split_first() else { return };
        if assigned {
            self.find(Risk::Moderate, format!("it changes the environment of '{}'", program.text));
        }
        if !program.sure {
            return self.find(Risk::Unknown, "which program it runs is known only when it runs");
        }
        self.program(&program.text, args, here, depth);
    }

    fn program(&mut self, path: &str, args: &[Word], here: Option<&str>, depth: usize) {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" => self.shell(name, args, here, depth),
            "eval" => {
                self.find(Risk::Unknown, "eval runs a text as a command");
                self.line(&joined(args), depth + 1);
            }
            "watch" => {
                let rest = behind_options(args, &["-n", "-q", "--interval", "--equexit"]);
                self.line(&joined(rest), depth + 1);
            }
            "trap" | "alias" | "enable" | "hash" => {
                self.find(Risk::Unknown, format!("'{name}' changes what later commands do"));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.find(Risk::Safe, format!("'{name}' sets variables"));
                args.iter().for_each(|word| self.assign(word));
            }
            "cd" | "pushd" | "popd" => {
                self.moved = true;
                self.find(Risk::Safe, "it changes the folder");
            }
            "tee" => self.tee(args),
            "find" => self.search(args, &["-exec", "-execdir", "-ok", "-okdir"], depth),
            "fd" | "fdfind" => self.search(args, &["-x", "-X", "--exec", "--exec-batch"], depth),
            _ => match started(name, args) {
                Some(started) => self.wrapped(name, args, started, here, depth),
                None => {
                    let finding = rate(name, args, self.whole(), is_known_place(path, name));
                    self.findings.push(finding);
                }
            },
        }
    }

    /// A shell: the command line after `-c`, a script, or whatever it reads.
    fn shell(&mut self, name: &str, args: &[Word], here: Option<&str>, depth: usize) {
        let rest = behind_options(args, &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"]);
        let options = args.get(..args.len() - rest.len()).unwrap_or_default();
        // Short options may be written together: -lc, -ce.
        let is_short = |word: &Word| word.text.starts_with('-') && !word.text.starts_with("--");
        let takes_line = options.iter().any(|word| is_short(word) && word.text.contains('c'));
        match rest.first() {
            Some(script) if takes_line && script.sure => self.line(&script.text, depth + 1),
            _ if takes_line => {
                self.find(Risk::Unknown, format!("what {name} runs is known only when it runs"))
            }
            Some(_) => self.find(Risk::Moderate, format!("{name} runs a script")),
            None if options.iter().any(|word| matches!(word.text.as_str(), "--version" | "--help")) => {
                self.find(Risk::Safe, format!("{name} tells about itself"));
            }
            None => {
                self.find(Risk::Unknown, format!("{name} runs whatever it is given to read"));
                if let Some(here) = here {
                    self.line(here, depth + 1);
                }
            }
        }
    }

    /// A program that starts another one.
    fn wrapped(&mut self, name: &str, args: &[Word], started: Started, here: Option<&str>, depth: usize) {
        let rest = match started {
            Started::Nobody(risk, why) => return self.find(risk, format!("'{name}' {why}")),
            Started::From(at) => args.get(at..).unwrap_or_default(),
        };
        if matches!(name, "sudo" | "doas") {
            self.find(Risk::Moderate, "it runs with the rights of somebody else");
        }
        if rest.is_empty() {
            return self.find(Risk::Safe, format!("'{name}' starts nothing"));
        }
        self.words(rest, here, depth + 1);
    }

    /// `find` and `fd`: they delete, or start a program for what they find.
    fn search(&mut self, args: &[Word], starters: &[&str], depth: usize) {
        self.find(Risk::Safe, "it looks for files");
        let mut rest = args;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            match word.text.as_str() {
                "-delete" => self.find(Risk::Destructive, "it deletes every file that it finds"),
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    self.find(Risk::Destructive, "it writes what it finds over a file");
                }
                starter if starters.contains(&starter) => {
                    let end = after.iter().position(|word| matches!(word.text.as_str(), ";" | "+"));
                    let (started, behind) = after.split_at(end.unwrap_or(after.len()));
                    self.words(started, None, depth + 1);
                    rest = behind;
                }
                _ => {}
            }
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
        if !target.sure {
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

    fn assign(&mut self, word: &Word) {
        let name = assignment(word).unwrap_or_default();
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

/// What a program that starts other programs starts.
enum Started {
    /// The program that stands here among its arguments.
    From(usize),
    /// None that can be seen.
    Nobody(Risk, &'static str),
}

/// Where the program stands that this one starts; `None` if it is no such program.
fn started(name: &str, args: &[Word]) -> Option<Started> {
    let has = |options: &[&str]| leading_options(args).any(|word| options.contains(&word.text.as_str()));
    let behind = |with_value: &[&str]| args.len() - behind_options(args, with_value).len();
    let at = match name {
        "sudo" | "doas" => {
            if has(&["-s", "-i", "-e", "--shell", "--login", "--edit"]) {
                return Some(Started::Nobody(Risk::Unknown, "opens a shell or an editor for somebody else"));
            }
            behind(&[
                "-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group",
                "--host",
            ])
        }
        "env" => {
            if has(&["-S", "--split-string"]) {
                return Some(Started::Nobody(Risk::Unknown, "splits a text into a command"));
            }
            behind(&["-u", "-C", "--unset", "--chdir"])
        }
        "command" if has(&["-v", "-V"]) => {
            return Some(Started::Nobody(Risk::Safe, "tells where a program is"));
        }
        "command" | "builtin" | "exec" | "nohup" | "setsid" | "time" | "busybox" | "caffeinate" => {
            behind(&["-a", "-o", "-f", "-t"])
        }
        "nice" | "ionice" | "chrt" => behind(&["-n", "-c", "-p", "--adjustment", "--class", "--classdata"]),
        "stdbuf" => behind(&["-i", "-o", "-e", "--input", "--output", "--error"]),
        // Its first argument that is no option is the time.
        "timeout" => (behind(&["-k", "-s", "--kill-after", "--signal"]) + 1).min(args.len()),
        "xargs" => behind(&[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-s",
            "-E",
            "-a",
            "--max-args",
            "--max-procs",
            "--replace",
        ]),
        "su" | "ssh" | "chroot" | "nsenter" | "unshare" | "parallel" | "expect" | "at" | "batch"
        | "crontab" | "script" | "systemd-run" | "flock" | "strace" | "ltrace" | "gdb" => {
            return Some(Started::Nobody(Risk::Unknown, "runs commands that cannot be seen from here"));
        }
        _ => return None,
    };
    Some(Started::From(at))
}

/// The options at the beginning.
fn leading_options(args: &[Word]) -> impl Iterator<Item = &Word> {
    args.iter().take_while(|word| word.text.starts_with('-') && word.text != "--")
}

/// What comes after the options at the beginning; those named take the next word as their value.
fn behind_options<'w>(args: &'w [Word], with_value: &[&str]) -> &'w [Word] {
    let mut rest = args;
    while let Some((first, after)) = rest.split_first() {
        if !first.text.starts_with(['-', '+']) {
            break;
        }
        rest = if with_value.contains(&first.text.as_str()) {
            after.get(1..).unwrap_or_default()
        } else {
            after
        };
        if first.text == "--" {
            break;
        }
    }
    rest
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
