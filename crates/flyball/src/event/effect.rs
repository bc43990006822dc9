//! What a tool does to the world, guessed from its name and arguments when the policy does not say.
//!
//! A new write is progress, so the guess matters: a read taken for a write would hide a loop, a write taken for a
//! read would call honest work a loop. Names are split into words and looked up; shell commands are looked at word
//! by word. What cannot be told is taken as a read, because reads are what loops are made of.

use crate::policy::Effect;
use serde_json::Value;

/// Verbs of tools that change something.
const WRITES: [&str; 52] = [
    "add", "append", "apply", "assign", "book", "buy", "cancel", "commit", "copy", "create", "delete",
    "deploy", "drop", "edit", "enable", "disable", "exchange", "grant", "insert", "install", "kill", "merge",
    "modify", "move", "patch", "pay", "post", "publish", "purchase", "push", "put", "refund", "refuel",
    "remove", "rename", "replace", "reset", "reboot", "return", "revoke", "save", "send", "set", "submit",
    "toggle", "turn", "undo", "update", "upload", "upsert", "write", "todo",
];

/// Words of tools that wait for something that goes on elsewhere.
const POLLS: [&str; 6] = ["poll", "wait", "sleep", "await", "bashoutput", "taskoutput"];

/// Tools whose argument is a shell command.
const SHELLS: [&str; 10] =
    ["bash", "shell", "sh", "terminal", "exec", "run", "command", "execute", "powershell", "zsh"];

/// Shell programs that change files or the system.
const SHELL_WRITES: [&str; 37] = [
    "rm",
    "mv",
    "cp",
    "mkdir",
    "rmdir",
    "touch",
    "tee",
    "patch",
    "ln",
    "chmod",
    "chown",
    "truncate",
    "dd",
    "install",
    "apt",
    "apt-get",
    "brew",
    "pip",
    "pip3",
    "npm",
    "yarn",
    "pnpm",
    "unzip",
    "tar",
    "wget",
    "kill",
    "pkill",
    "docker",
    "kubectl",
    "systemctl",
    "useradd",
    "git-apply",
    "ed",
    "rsync",
    "scp",
    "conda",
    "uv",
];

/// Subcommands of git that change the work tree or the history.
const GIT_WRITES: [&str; 18] = [
    "add",
    "commit",
    "checkout",
    "switch",
    "restore",
    "reset",
    "stash",
    "apply",
    "am",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "push",
    "pull",
    "clone",
    "rm",
    "mv",
];

/// Guesses what a call of a tool does to the world.
#[must_use]
pub fn effect_of(tool: &str, args: &Value) -> Effect {
    let mut words = Words::new(tool);
    let mut shell = false;
    let mut write = false;
    while let Some(word) = words.next() {
        let word = word.as_str();
        if POLLS.contains(&word) {
            return Effect::Poll;
        }
        write |= WRITES.contains(&word);
        shell |= SHELLS.contains(&word);
    }
    if POLLS.contains(&tool.to_ascii_lowercase().as_str()) {
        return Effect::Poll;
    }
    // An editor with a `command` of its own says there whether it looks or writes.
    if let Some(command) = args.get("command").and_then(Value::as_str) {
        if matches!(command, "view" | "open" | "read" | "list" | "search" | "goto" | "scroll") {
            return Effect::Read;
        }
        if matches!(command, "create" | "str_replace" | "insert" | "undo_edit" | "write" | "edit" | "append")
        {
            return Effect::Write;
        }
        if shell || !write {
            return shell_effect(command);
        }
    }
    if shell {
        let inside = || args.as_object().and_then(|map| map.values().find_map(Value::as_str));
        return args.as_str().or_else(inside).map_or(Effect::Read, shell_effect);
    }
    if write { Effect::Write } else { Effect::Read }
}

/// Looks at a shell command: does it write a file or change the system?
fn shell_effect(command: &str) -> Effect {
    if redirects(command) {
        return Effect::Write;
    }
    let mut start = true;
    let mut git = false;
    let mut sed = false;
    for word in command.split([' ', '\t', '\n', ';', '|', '&', '(', ')']) {
        if word.is_empty() {
            // A separator: what follows begins a command, or is just spaced out.
            start = true;
            continue;
        }
        if git && GIT_WRITES.contains(&word) || sed && (word.starts_with("-i") || word == "--in-place") {
            return Effect::Write;
        }
        if start || command_follows(word) {
            let program = word.rsplit('/').next().unwrap_or(word);
            if SHELL_WRITES.contains(&program) {
                return Effect::Write;
            }
        }
        git = word == "git" || git && word.starts_with('-');
        sed = word == "sed" || word == "perl" || sed && word.starts_with('-');
        start = word.contains('=')
            || matches!(word, "sudo" | "env" | "time" | "then" | "do" | "else" | "xargs" | "nohup");
    }
    Effect::Read
}

/// A word that looks like a program of ours even in the middle of a line, because the separator was cut away.
fn command_follows(word: &str) -> bool {
    SHELL_WRITES.contains(&word)
}

/// Whether output goes to a file: `>` or `>>` that is not `2>&1`, `>/dev/null`, `->`, `=>` or inside quotes.
fn redirects(command: &str) -> bool {
    let bytes = command.as_bytes();
    let mut quote = 0_u8;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'\\' => at += 1,
            b'\'' | b'"' if quote == 0 => quote = byte,
            _ if byte == quote => quote = 0,
            b'>' if quote == 0 => {
                let before = if at == 0 { b' ' } else { bytes[at - 1] };
                let rest = command.get(at + 1..).unwrap_or("").trim_start_matches('>').trim_start();
                let arrow = matches!(before, b'-' | b'=' | b'<');
                if !(arrow || rest.starts_with('&') || rest.starts_with("/dev/null") || rest.is_empty()) {
                    return true;
                }
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// The words of a tool's name: split at punctuation and where a capital letter follows a small one, in small letters.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn new(name: &'a str) -> Self {
        Words { rest: name }
    }

    fn next(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        if self.rest.is_empty() {
            return None;
        }
        let mut small = false;
        let end = self
            .rest
            .char_indices()
            .find(|(_, c)| {
                let border = !c.is_alphanumeric() || (small && c.is_uppercase());
                small = c.is_lowercase();
                border
            })
            .map_or(self.rest.len(), |(at, _)| at);
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word.to_ascii_lowercase())
    }
}

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
