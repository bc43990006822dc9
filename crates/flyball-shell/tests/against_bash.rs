//! Compares the parser with bash: a command that passes the check never runs an unknown program and never creates a
//! file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use flyball_shell::check_read_only;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Number of generated commands; those that pass the check are run.
const MAX_TRIED_COMMANDS: usize = 25_000;
/// Parts of commands. `boom` is an unknown program that creates a file.
const PARTS: [&str; 63] = [
    "boom",
    "boom",
    "boom",
    "boom x",
    "ls",
    "echo",
    "cat",
    "echo a",
    "true",
    "test",
    "[",
    "]",
    " ",
    " ",
    " ",
    " ",
    " ",
    ";",
    "|",
    "&&",
    "||",
    "&",
    "\n",
    ">",
    ">>",
    "> out",
    "2>&1",
    ">/dev/null",
    "<",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<<",
    "$(",
    "`",
    ")",
    "(",
    "{ ",
    "; }",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "$'",
    "${x:-",
    "}",
    "${x",
    "$x",
    "x=",
    "[",
    "#",
    "*",
    "?",
    "~",
    "!",
    "=",
    "-",
    "env ",
    "for x in a; do ",
    "; done",
    "if ",
];

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("against-bash");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    std::fs::create_dir_all(folder.join("work")).unwrap();
    let boom = folder.join("bin/boom");
    std::fs::write(&boom, format!("#!/bin/sh\n: > {}/boomed\n", folder.display())).unwrap();
    std::fs::set_permissions(&boom, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn accepted_commands_run_nothing_unknown_and_create_no_file() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let folder = folder();
    let path = format!("{}:/usr/bin:/bin", folder.join("bin").display());
    let run = |command: &str| {
        let mut bash = Command::new("timeout");
        bash.args(["5", "/bin/bash", "-c", command]).current_dir(folder.join("work")).env_clear();
        bash.env("PATH", &path).env("HOME", folder.join("work"));
        bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bash.status().unwrap();
    };
    run("boom");
    assert!(folder.join("boomed").exists(), "running `boom` must create its file");
    std::fs::remove_file(folder.join("boomed")).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pick = |length: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % length
    };
    let mut accepted = 0;
    for _ in 0..MAX_TRIED_COMMANDS {
        let count = 2 + pick(10);
        let command: String = (0..count).map(|_| PARTS[pick(PARTS.len())]).collect();
        if !command.contains("boom") && !command.contains('>') || check_read_only(&command).is_err() {
            continue;
        }
        accepted += 1;
        run(&command);
        assert!(!folder.join("boomed").exists(), "ran an unknown program: {command:?}");
        let files = std::fs::read_dir(folder.join("work")).unwrap().count();
        assert_eq!(files, 0, "created a file: {command:?}");
    }
    assert!(accepted > 50, "only {accepted} commands passed the check: change the parts");
}
