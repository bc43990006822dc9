//! Guesses the side effect of a tool from its name and arguments, if the policy does not declare it.
//!
//! A new write counts as progress, so the guess matters: a read mistaken for a write would hide a loop, and a write
//! mistaken for a read would turn honest work into a loop. Names are split into words and looked up; shell commands are
//! examined word by word. Anything unclear counts as a read, because loops consist of reads.

use crate::policy::ToolEffect;
use serde_json::Value;

/// The hint in one word of a tool's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolNameHint {
    Unknown,
    Write,
    Poll,
    Shell,
}

/// Looks up a lower-case word. Byte strings, because matching them takes only a few comparisons.
fn hint_for_word(word: &[u8]) -> ToolNameHint {
    match word {
        b"add" | b"append" | b"apply" | b"assign" | b"book" | b"buy" | b"cancel" | b"commit" | b"copy"
        | b"create" | b"delete" | b"deploy" | b"drop" | b"edit" | b"enable" | b"disable" | b"exchange"
        | b"grant" | b"insert" | b"install" | b"kill" | b"merge" | b"modify" | b"move" | b"patch"
        | b"pay" | b"post" | b"publish" | b"purchase" | b"push" | b"put" | b"refund" | b"refuel"
        | b"remove" | b"rename" | b"replace" | b"reset" | b"reboot" | b"return" | b"revoke" | b"save"
        | b"send" | b"set" | b"submit" | b"toggle" | b"turn" | b"undo" | b"update" | b"upload"
        | b"upsert" | b"write" | b"todo" => ToolNameHint::Write,
        b"poll" | b"wait" | b"sleep" | b"await" | b"bashoutput" | b"taskoutput" => ToolNameHint::Poll,
        b"bash" | b"shell" | b"sh" | b"terminal" | b"exec" | b"run" | b"command" | b"execute"
        | b"powershell" | b"zsh" => ToolNameHint::Shell,
        _ => ToolNameHint::Unknown,
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

/// Git subcommands that change the work tree or the history.
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

/// Guesses the side effect of a tool call.
#[must_use]
pub fn guess_tool_effect(tool: &str, args: &Value) -> ToolEffect {
    let mut shell = false;
    let mut write = false;
    for found in hints_in_name(tool) {
        match found {
            ToolNameHint::Poll => return ToolEffect::Poll,
            ToolNameHint::Write => write = true,
            ToolNameHint::Shell => shell = true,
            ToolNameHint::Unknown => {}
        }
    }
    // The `command` of an editor tool says whether it reads or writes.
    if let Some(command) = args.get("command").and_then(Value::as_str) {
        match command {
            "view" | "open" | "read" | "list" | "search" | "goto" | "scroll" => return ToolEffect::Read,
            "create" | "str_replace" | "insert" | "undo_edit" | "write" | "edit" | "append" => {
                return ToolEffect::Write;
            }
            _ if shell || !write => return shell_effect(command),
            _ => {}
        }
    }
    if shell {
        let inside = || args.as_object().and_then(|map| map.values().find_map(Value::as_str));
        let text = args.as_str().or_else(inside).unwrap_or_default();
        // Truncated arguments are no longer valid JSON but still start like it.
        let command = text.split_once(r#""command":""#).map_or(text, |(_, command)| command);
        return shell_effect(command);
    }
    if write { ToolEffect::Write } else { ToolEffect::Read }
}

/// The hints of a tool's whole name and of its words, split at punctuation and at capital letters.
fn hints_in_name(name: &str) -> impl Iterator<Item = ToolNameHint> {
    const MAX_WORD_BYTES: usize = 16;
    let mut rest = name.as_bytes();
    let mut whole = [0_u8; MAX_WORD_BYTES];
    let whole_hint = whole.get_mut(..rest.len()).map_or(ToolNameHint::Unknown, |buffer| {
        buffer.copy_from_slice(rest);
        buffer.make_ascii_lowercase();
        hint_for_word(buffer)
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
        let mut small = [0_u8; MAX_WORD_BYTES];
        Some(small.get_mut(..length).map_or(ToolNameHint::Unknown, |buffer| {
            buffer.copy_from_slice(word);
            buffer.make_ascii_lowercase();
            hint_for_word(buffer)
        }))
    });
    std::iter::once(whole_hint).chain(words)
}

/// Whether a shell command writes a file or changes the system.
fn shell_effect(command: &str) -> ToolEffect {
    if command.contains('>') && redirects_to_file(command) {
        return ToolEffect::Write;
    }
    let mut start = true;
    let mut git = false;
    let mut sed = false;
    let mut rest = command.as_bytes();
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| is_separator(*byte)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let (separator, after) = after.split_first().map_or((b' ', after), |(first, after)| (*first, after));
        rest = after;
        if !word.is_empty() {
            if git && git_writes(word) || sed && (word.starts_with(b"-i") || word == b"--in-place") {
                return ToolEffect::Write;
            }
            if start {
                let program = word.rsplit(|byte| *byte == b'/').next().unwrap_or(word);
                if program_writes(program) {
                    return ToolEffect::Write;
                }
            }
            // The folder after `git -C` is not a subcommand.
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
    ToolEffect::Read
}

/// The bytes that end a word of a command, as a lookup table.
static IS_SEPARATOR: [bool; 256] = {
    let mut table = [false; 256];
    let separators = b" \t\n;|&()";
    let mut at = 0;
    while at < separators.len() {
        table[separators[at] as usize] = true;
        at += 1;
    }
    table
};

fn is_separator(byte: u8) -> bool {
    IS_SEPARATOR[usize::from(byte)]
}

/// Git subcommands that only read; no writing subcommand can follow one of them.
fn git_reads(word: &[u8]) -> bool {
    matches!(
        word,
        b"status" | b"log" | b"diff" | b"show" | b"branch" | b"blame" | b"grep" | b"ls-files" | b"rev-parse"
    )
}

/// Whether output is redirected to a file: `>` or `>>` that is not `2>&1`, `>/dev/null`, `->`, `=>` or inside quotes.
fn redirects_to_file(command: &str) -> bool {
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
#[path = "tool_effect_tests.rs"]
mod tests;
