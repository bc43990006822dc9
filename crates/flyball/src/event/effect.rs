//! What a tool does to the world, guessed from its name and arguments when the policy does not say.
//!
//! A new write is progress, so the guess matters: a read taken for a write would hide a loop, a write taken for a
//! read would call honest work a loop. Names are split into words and looked up; shell commands are looked at word
//! by word. What cannot be told is taken as a read, because reads are what loops are made of.

use crate::policy::Effect;
use serde_json::Value;

/// What a word of a tool's name says about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Nothing,
    Write,
    Poll,
    Shell,
}

/// Looks a word up, in small letters. Byte strings, because a match on them is a few comparisons.
fn hint(word: &[u8]) -> Hint {
    match word {
        b"add" | b"append" | b"apply" | b"assign" | b"book" | b"buy" | b"cancel" | b"commit" | b"copy"
        | b"create" | b"delete" | b"deploy" | b"drop" | b"edit" | b"enable" | b"disable" | b"exchange"
        | b"grant" | b"insert" | b"install" | b"kill" | b"merge" | b"modify" | b"move" | b"patch"
        | b"pay" | b"post" | b"publish" | b"purchase" | b"push" | b"put" | b"refund" | b"refuel"
        | b"remove" | b"rename" | b"replace" | b"reset" | b"reboot" | b"return" | b"revoke" | b"save"
        | b"send" | b"set" | b"submit" | b"toggle" | b"turn" | b"undo" | b"update" | b"upload"
        | b"upsert" | b"write" | b"todo" => Hint::Write,
        b"poll" | b"wait" | b"sleep" | b"await" | b"bashoutput" | b"taskoutput" => Hint::Poll,
        b"bash" | b"shell" | b"sh" | b"terminal" | b"exec" | b"run" | b"command" | b"execute"
        | b"powershell" | b"zsh" => Hint::Shell,
        _ => Hint::Nothing,
    }
}

/// Shell programs that change files or the system.
fn program_writes(word: &[u8]) -> bool {
    matches!(
        word,
        b"rm"
            | b"mv"
            | b"cp"
            | b"mkdir"
            | b"rmdir"
            | b"touch"
            | b"tee"
            | b"patch"
            | b"ln"
            | b"chmod"
            | b"chown"
            | b"truncate"
            | b"dd"
            | b"install"
            | b"apt"
            | b"apt-get"
            | b"brew"
            | b"pip"
            | b"pip3"
            | b"npm"
            | b"yarn"
            | b"pnpm"
            | b"unzip"
            | b"tar"
            | b"wget"
            | b"kill"
            | b"pkill"
            | b"docker"
            | b"kubectl"
            | b"systemctl"
            | b"useradd"
            | b"ed"
            | b"rsync"
            | b"scp"
            | b"conda"
            | b"uv"
    )
}

/// Subcommands of git that change the work tree or the history.
fn git_writes(word: &[u8]) -> bool {
    matches!(
        word,
        b"add"
            | b"commit"
            | b"checkout"
            | b"switch"
            | b"restore"
            | b"reset"
            | b"stash"
            | b"apply"
            | b"am"
            | b"merge"
            | b"rebase"
            | b"cherry-pick"
            | b"revert"
            | b"push"
            | b"pull"
            | b"clone"
            | b"rm"
            | b"mv"
    )
}

/// Guesses what a call of a tool does to the world.
#[must_use]
pub fn effect_of(tool: &str, args: &Value) -> Effect {
    let mut shell = false;
    let mut write = false;
    for found in hints(tool) {
        match found {
            Hint::Poll => return Effect::Poll,
            Hint::Write => write = true,
            Hint::Shell => shell = true,
            Hint::Nothing => {}
        }
    }
    // An editor with a `command` of its own says there whether it looks or writes.
    if let Some(command) = args.get("command").and_then(Value::as_str) {
        match command {
            "view" | "open" | "read" | "list" | "search" | "goto" | "scroll" => return Effect::Read,
            "create" | "str_replace" | "insert" | "undo_edit" | "write" | "edit" | "append" => {
                return Effect::Write;
            }
            _ if shell || !write => return shell_effect(command),
            _ => {}
        }
    }
    if shell {
        let inside = || args.as_object().and_then(|map| map.values().find_map(Value::as_str));
        let text = args.as_str().or_else(inside).unwrap_or_default();
        // Arguments that were cut off somewhere are no JSON any more, but still begin like it.
        let command = text.split_once(r#""command":""#).map_or(text, |(_, command)| command);
        return shell_effect(command);
    }
    if write { Effect::Write } else { Effect::Read }
}

/// The hints of a tool's whole name and of its words: split at punctuation, and where a capital letter follows a
/// small one.
fn hints(name: &str) -> impl Iterator<Item = Hint> {
    const LONGEST: usize = 16;
    let mut rest = name.as_bytes();
    let mut whole = [0_u8; LONGEST];
    let whole_hint = whole.get_mut(..rest.len()).map_or(Hint::Nothing, |buffer| {
        buffer.copy_from_slice(rest);
        buffer.make_ascii_lowercase();
        hint(buffer)
    });
    let words = std::iter::from_fn(move || {
        let start = rest.iter().position(u8::is_ascii_alphanumeric)?;
        let word = rest.get(start..)?;
        let border = |at: usize| match (word.get(at - 1), word.get(at)) {
            (_, None) => true,
            (Some(before), Some(here)) => {
                !here.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && here.is_ascii_uppercase())
            }
            _ => false,
        };
        let length = (1..=word.len()).find(|at| border(*at)).unwrap_or(word.len());
        let (word, after) = word.split_at(length);
        rest = after;
        let mut small = [0_u8; LONGEST];
        Some(small.get_mut(..length).map_or(Hint::Nothing, |buffer| {
            buffer.copy_from_slice(word);
            buffer.make_ascii_lowercase();
            hint(buffer)
        }))
    });
    std::iter::once(whole_hint).chain(words)
}

/// Looks at a shell command: does it write a file or change the system?
fn shell_effect(command: &str) -> Effect {
    if command.contains('>') && redirects(command) {
        return Effect::Write;
    }
    let mut start = true;
    let mut git = false;
    let mut sed = false;
    let mut rest = command.as_bytes();
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| separates(*byte)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let (separator, after) = after.split_first().map_or((b' ', after), |(first, after)| (*first, after));
        rest = after;
        if !word.is_empty() {
            if git && git_writes(word) || sed && (word.starts_with(b"-i") || word == b"--in-place") {
                return Effect::Write;
            }
            if start {
                let program = word.rsplit(|byte| *byte == b'/').next().unwrap_or(word);
                if program_writes(program) {
                    return Effect::Write;
                }
            }
            // The folder after `git -C` is no subcommand.
            git = word == b"git" && start || git && (word.starts_with(b"-") || !git_reads(word));
            sed = matches!(word, b"sed" | b"perl") && start || sed && word.starts_with(b"-");
            start = start && word.contains(&b'=')
                || matches!(
                    word,
                    b"sudo" | b"env" | b"time" | b"then" | b"do" | b"else" | b"xargs" | b"nohup"
                );
        }
        start |= !matches!(separator, b' ' | b'\t');
    }
    Effect::Read
}

/// Which bytes end a word of a command: one look-up a byte.
static SEPARATES: [bool; 256] = {
    let mut table = [false; 256];
    let separators = b" \t\n;|&()";
    let mut at = 0;
    while at < separators.len() {
        table[separators[at] as usize] = true;
        at += 1;
    }
    table
};

fn separates(byte: u8) -> bool {
    SEPARATES[usize::from(byte)]
}

/// Subcommands of git that only look; after one of them no writing subcommand can follow.
fn git_reads(word: &[u8]) -> bool {
    matches!(
        word,
        b"status" | b"log" | b"diff" | b"show" | b"branch" | b"blame" | b"grep" | b"ls-files" | b"rev-parse"
    )
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

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
